/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/events.h"

#include <errno.h>
#include <signal.h>

#include "api/noun.h"
#include "base/clock.h"
#include "host/process/orphan.h"
#include "host/process/reader.h"
#include "host/process/record.h"
#include "host/process/release.h"
#include "host/process/result.h"

static void set_result(struct cay_process *process, const struct cay_v1_exec_result *result)
{
    process->result = cay_arena_new(&process->result_arena, struct cay_v1_exec_result);
    if (process->result)
        *process->result = *result;
}

static void be_over(struct cay_process *process)
{
    process->state = CAY_V1_PROCESS_STATE_EXITED;
    process->ended_ns = cay_clock_wall_ns();
    process->stdin_open = false;
    process->table->ended_count += !process->is_hidden;
    if (process->kill_timer.handle)
        cay_timer_stop(&process->kill_timer);
    if (process->is_plain) {
        process->has_output = process->has_output && process->is_followed;
        process->releases = process->is_recorded;
    }
}

void cay_process_end(struct cay_process *process, enum cay_v1_end_cause cause,
                     const struct cay_error *err)
{
    int64_t now_ns = cay_clock_wall_ns();
    cay_arena_finish(&process->result_arena);
    const struct cay_v1_exec_result result = {
        .cause = cause,
        .signal = cause == CAY_V1_END_CAUSE_LOST ? 0 : SIGKILL,
        .started_at = cay_noun_time(&process->result_arena, process->started_ns),
        .duration = cay_noun_duration(&process->result_arena,
                                      CAY_MAX(now_ns - process->started_ns, (int64_t)0)),
        .stdout_bytes = (int64_t)process->output_end,
        .dropped_bytes = (int64_t)process->output_start,
        .message = cay_arena_str(&process->result_arena, cay_str(err ? err->text : "")),
    };
    set_result(process, &result);
    process->end_reason = err ? err->reason : CAY_R_NONE;
    process->is_exiting = false;
    if (process->restart_timer.handle)
        cay_timer_stop(&process->restart_timer);
    be_over(process);
    if (!process->is_hidden)
        cay_process_write(process);
    cay_process_changed(process);
}

static void name_leftover(struct cay_process *process, const struct cay_process *parent,
                          const struct cay_frame_who *who)
{
    if (!who || !who->count || process->pid)
        return;
    struct cay_str command = cay_result_text(&process->arena, who->commands[0]);
    const struct cay_v1_process_spec spec = {.argv = {&command, command.len ? 1 : 0}};
    process->pid = (int32_t)who->pids[0];
    cay_process_describe(process, &spec, parent ? parent->noun->cwd : CAY_STR(""),
                         parent ? parent->noun->user : CAY_STR(""), CAY_STR(""));
    cay_process_write(process);
}

/* The process that they are known as. `who` is NULL until init has said it. */
static struct cay_process *make_leftover(struct cay_processes *table, uint64_t call,
                                         const struct cay_frame_who *who)
{
    const struct cay_process *parent = cay_processes_of_call(table, call, false);
    struct cay_process *process = cay_processes_of_call(table, call, true);
    if (!process || cay_process_is_over(process)) {
        process = cay_process_new(table, CAY_V1_PROCESS_ORIGIN_LEFTOVER);
        process->call = call;
        process->is_leftover = true;
        process->state = CAY_V1_PROCESS_STATE_RUNNING;
        process->has_output = true;
        process->output_start = parent ? parent->output_start : 0;
        process->output_end = parent ? parent->output_end : 0;
        cay_process_write(process);
    }
    name_leftover(process, parent, who);
    return process;
}

/* Of a command that nobody waits for here. */
static struct cay_process *find_leftover(struct cay_processes *table, uint64_t call)
{
    struct cay_error ignored = {};
    (void)cay_link_who(table->link, call, &ignored);
    return make_leftover(table, call, NULL);
}

/* A run has ended and its leftovers are known. */
static void finish_run(struct cay_process *process, const struct cay_frame_who *who)
{
    const struct cay_frame_exit *exit = &process->exit;
    struct cay_processes *table = process->table;
    struct cay_leftovers leftovers = {
        .killed = table->link ? cay_link_killed(table->link, process->call) : NULL};
    if (who && who->total) {
        leftovers.who = who;
        leftovers.process_id = make_leftover(table, process->call, who)->id;
    }
    struct cay_v1_exec_result result = {};
    cay_arena_finish(&process->result_arena);
    process->is_exiting = false;
    process->output_start = exit->kept_offset;
    process->output_end = exit->end_offset;
    cay_result_fill(exit, &leftovers, process->started_ns, (int64_t)exit->kept_offset,
                    &process->result_arena, &result);
    if (table->ops->add_to_result)
        table->ops->add_to_result(table->owner, process, &process->result_arena, &result);
    if (process->kill_cause)
        result.cause = process->kill_cause;
    cay_result_say(&result, &process->result_arena);
    set_result(process, &result);
    if (!cay_process_restarts(process))
        be_over(process);
    if (process->is_recorded)
        cay_process_write(process);
    cay_process_changed(process);
    cay_processes_trim(table);
}

bool cay_processes_attach(struct cay_processes *table, struct cay_link *link, bool is_adopted,
                          struct cay_error *err)
{
    table->link = link;
    table->is_adopting = is_adopted;
    cay_list_for_each (struct cay_process, process, &table->list, in_table)
        process->is_listed = false;
    return !is_adopted || cay_link_list(link, err);
}

void cay_processes_detach(struct cay_processes *table, enum cay_v1_end_cause cause,
                          const struct cay_error *err)
{
    table->link = NULL;
    table->is_adopting = false;
    cay_list_for_each (struct cay_process, process, &table->list, in_table) {
        process->has_output = false;
        process->is_reading = process->releases = false;
    }
    cay_list_for_each (struct cay_process, process, &table->hidden, in_table) {
        process->has_output = false;
        cay_process_end(process, cause, err);
    }
    cay_list_for_each (struct cay_process, process, &table->list, in_table) {
        if (cay_process_is_over(process))
            cay_readers_pump(process);
        else
            cay_process_end(process, cause, err);
    }
    cay_processes_surveyed(table);
    cay_processes_trim(table);
}

void cay_processes_rest(struct cay_processes *table)
{
    cay_list_for_each (struct cay_process, process, &table->list, in_table) {
        if (process->state == CAY_V1_PROCESS_STATE_STARTING)
            process->state = CAY_V1_PROCESS_STATE_RUNNING;
    }
}

void cay_processes_leave(struct cay_processes *table)
{
    table->link = NULL;
    table->is_closing = true;
    /* Whoever waits for a command is told that we go; what is written down stays so. */
    cay_list_for_each (struct cay_process, process, &table->hidden, in_table)
        cay_process_forget(process);
    cay_list_for_each (struct cay_process, process, &table->list, in_table) {
        if (process->is_followed)
            cay_process_forget(process);
    }
}

static void on_started(void *owner, uint64_t call, uint32_t pid)
{
    struct cay_processes *table = owner;
    struct cay_process *process = cay_processes_of_call(table, call, false);
    if (!process || cay_process_is_over(process))
        return;
    process->pid = (int32_t)pid;
    process->state = CAY_V1_PROCESS_STATE_RUNNING;
    cay_process_changed(process);
    process = cay_processes_of_call(table, call, false);
    if (process)
        cay_readers_pump(process); /* it may be that nobody reads */
}

void cay_processes_settled(struct cay_processes *table, uint64_t call)
{
    struct cay_process *process = cay_processes_of_call(table, call, false);
    struct cay_error ignored = {};
    if (!process || !process->is_exiting)
        return;
    if (!process->exit.leftovers || !table->link || !cay_link_who(table->link, call, &ignored))
        finish_run(process, NULL);
}

static void on_exited(void *owner, uint64_t call, const struct cay_frame_exit *exit)
{
    struct cay_processes *table = owner;
    struct cay_process *process = cay_processes_of_call(table, call, false);
    struct cay_error ignored = {};
    if (!process && exit->leftovers)
        (void)find_leftover(table, call);
    else if (!process) /* of an earlier daemon's caller */
        (void)cay_link_release(table->link, call, &ignored);
    if (!process)
        return;
    /* One that waited for its restart under the daemon before us does so anew. */
    bool is_waiting =
        process->state == CAY_V1_PROCESS_STATE_RESTARTING && process->restart_timer.handle;
    if (cay_process_is_over(process) || process->is_exiting || is_waiting)
        return; /* told again */
    process->exit = *exit;
    process->is_exiting = true;
    if (!table->ops->settle || table->ops->settle(table->owner, process))
        cay_processes_settled(table, call);
}

static void on_who(void *owner, uint64_t call, const struct cay_frame_who *who)
{
    struct cay_processes *table = owner;
    struct cay_process *process = cay_processes_of_call(table, call, false);
    if (process && process->is_exiting)
        finish_run(process, who);
    else if (who->total)
        (void)make_leftover(table, call, who);
}

static void on_gone(void *owner, uint64_t call)
{
    struct cay_processes *table = owner;
    struct cay_process *process = cay_processes_of_call(table, call, true);
    if (!process || cay_process_is_over(process))
        return;
    struct cay_error err = {};
    process->has_output = false;
    cay_fail(&err, CAY_R_UNAVAILABLE, "a command left it behind; how it ended is not known");
    if (process->is_killed)
        cay_process_end(process, CAY_V1_END_CAUSE_KILLED, NULL);
    else
        cay_process_end(process, CAY_V1_END_CAUSE_LOST, &err);
    cay_process_release_call(table, call);
    cay_processes_trim(table);
}

static void on_start_refused(struct cay_process *process, int error)
{
    struct cay_error err = {};
    bool is_starting = process->state == CAY_V1_PROCESS_STATE_STARTING ||
                       (process->is_plain && process->state == CAY_V1_PROCESS_STATE_RUNNING);
    if (!is_starting)
        return;
    cay_fail_errno(&err, CAY_R_RESOURCE_EXHAUSTED, -error,
                   process->is_plain ? "the sandbox cannot start another command"
                                     : "the sandbox cannot start it");
    if (process->result && error == EBUSY)
        cay_process_again_soon(process);
    else if (process->result)
        cay_process_not_again(process, &err);
    else
        cay_process_end(process, CAY_V1_END_CAUSE_LOST, &err);
}

static void on_refused(void *owner, uint64_t call, enum cay_frame_type request, int error)
{
    struct cay_processes *table = owner;
    struct cay_process *process = cay_processes_of_call(table, call, false);
    bool is_who = request == CAY_FRAME_WHO || request == CAY_FRAME_PROCS;
    if (request == CAY_FRAME_READ || request == CAY_FRAME_ATTACH) {
        /* Init has forgotten it. */
        process =
            process && process->has_output ? process : cay_processes_of_call(table, call, true);
        if (!process)
            return;
        process->has_output = process->is_reading = false;
        cay_readers_pump(process);
    } else if (process && is_who && process->is_exiting) {
        finish_run(process, NULL);
    } else if (process && (request == CAY_FRAME_EXEC || request == CAY_FRAME_SPAWN)) {
        on_start_refused(process, error);
    }
}

static void give_piece(struct cay_processes *table, uint64_t call,
                       const struct cay_frame_piece *piece)
{
    for (int is_leftover = 0; is_leftover < 2; is_leftover++) {
        struct cay_process *process = cay_processes_of_call(table, call, is_leftover);
        if (process)
            cay_readers_piece(process, piece);
    }
}

static void on_piece(void *owner, uint64_t call, const struct cay_frame_piece *piece)
{
    struct cay_processes *table = owner;
    for (int is_leftover = 0; is_leftover < 2; is_leftover++) {
        struct cay_process *process = cay_processes_of_call(table, call, is_leftover);
        if (process)
            process->is_reading = false;
    }
    give_piece(table, call, piece);
}

/* What init sends by itself: to the caller of a command, or because it is too old for reads. */
static void on_output(void *owner, uint64_t call, const struct cay_frame_output *output)
{
    struct cay_processes *table = owner;
    struct cay_process *process = cay_processes_of_call(table, call, false);
    if (!process)
        process = cay_processes_of_call(table, call, true);
    if (!process)
        return;
    /* It does not say what it dropped: what is not where it goes on. */
    uint64_t wanted = process->is_pushed ? process->pushed_offset : process->read_offset;
    const struct cay_frame_piece piece = {
        .output = *output,
        .kept_offset = output->offset > wanted ? output->offset : process->output_start};
    process->is_reading = process->is_reading && process->is_pushed;
    process->pushed_offset = output->offset + output->data.len;
    give_piece(table, call, &piece);
}

static void on_stdin_room(void *owner, uint64_t call, uint64_t taken_bytes)
{
    struct cay_process *process = cay_processes_of_call(owner, call, false);
    if (!process)
        return;
    process->stdin_taken = taken_bytes;
    cay_process_changed(process);
}

static void adopt(struct cay_process *process, const struct cay_frame_call *entry,
                  const struct cay_frame_detail *detail)
{
    if (cay_process_is_over(process)) {
        process->has_output = !process->is_plain;
        return;
    }
    process->has_output = true;
    if (!process->is_leftover && entry->state == CAY_CALL_RUNNING)
        process->state = CAY_V1_PROCESS_STATE_RUNNING;
    else if (!process->is_leftover && !process->restart_timer.handle)
        process->state = CAY_V1_PROCESS_STATE_STARTING; /* its exit comes, and then what follows */
    if (!detail)
        return;
    process->flags = detail->flags;
    process->is_unread = false;
    process->size = detail->size;
    process->stdin_open = detail->stdin_open;
    process->stdin_taken = detail->stdin_total;
    process->stdin_sent = detail->stdin_total + detail->stdin_queued;
    process->has_stdin_counts = true;
}

static void on_listed(void *owner, uint64_t call, const struct cay_frame_call *entry,
                      const struct cay_frame_detail *detail)
{
    struct cay_processes *table = owner;
    struct cay_process *process = cay_processes_of_call(table, call, false);
    struct cay_process *leftover = cay_processes_of_call(table, call, true);
    struct cay_process *both[] = {process, entry->leftovers ? leftover : NULL};
    if (table->is_adopting && !process && entry->state == CAY_CALL_RUNNING) {
        /* A command of a call that the daemon before us did not come to write down. */
        process = cay_process_new(table, CAY_V1_PROCESS_ORIGIN_LEFTOVER);
        process->call = call;
        process->started_ns -= (int64_t)CAY_MIN(entry->age_ms, (uint64_t)INT32_MAX) * CAY_NS_PER_MS;
        both[0] = process;
        cay_process_write(process);
    }
    if (table->is_adopting && !leftover && entry->leftovers && entry->state != CAY_CALL_RUNNING &&
        (!process || cay_process_is_over(process)))
        find_leftover(table, call)->is_listed = true;
    for (size_t i = 0; i < CAY_COUNT(both); i++) {
        if (!both[i])
            continue;
        both[i]->is_listed = true;
        if (!cay_process_is_over(both[i])) {
            both[i]->pid = entry->pid ? (int32_t)entry->pid : both[i]->pid;
            both[i]->output_start = entry->kept_offset;
            both[i]->output_end = entry->end_offset;
        }
        if (table->is_adopting)
            adopt(both[i], entry, detail);
    }
}

static void on_list_ended(void *owner, uint32_t)
{
    struct cay_processes *table = owner;
    struct cay_error ignored = {};
    struct cay_error lost = {};
    bool was_adopting = table->is_adopting;
    table->is_adopting = false;
    cay_fail(&lost, CAY_R_UNAVAILABLE, "it ended, or was never started, while no daemon ran");
    cay_list_for_each (struct cay_process, process, &table->list, in_table) {
        if (!was_adopting || cay_process_is_over(process))
            continue;
        if (!process->is_listed) {
            /* Init forgets none whose end is not written down: this one never came to it. */
            process->noun->request_id = (struct cay_str){};
            cay_process_end(process, CAY_V1_END_CAUSE_LOST, &lost);
        } else if (process->kills_on_disconnect && process->is_plain)
            (void)cay_process_signal(process, SIGKILL, true, -1, &ignored);
        else if (process->kills_on_disconnect || process->flags & CAY_EXEC_FOLLOW)
            cay_process_await_return(process);
        else
            cay_readers_pump(process);
    }
    cay_processes_surveyed(table);
}

const struct cay_link_handlers cay_processes_handlers = {
    .listed = on_listed,
    .list_ended = on_list_ended,
    .started = on_started,
    .output = on_output,
    .piece = on_piece,
    .stdin_room = on_stdin_room,
    .exited = on_exited,
    .gone = on_gone,
    .who = on_who,
    .refused = on_refused,
};
