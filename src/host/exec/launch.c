/* SPDX-License-Identifier: Apache-2.0 */
#include "host/exec/launch.h"

#include <signal.h>
#include <stdlib.h>

#include "api/limits.h"
#include "api/noun.h"
#include "base/crash.h"
#include "host/exec/process_tell.h"
#include "host/file/users.h"
#include "host/live/filtered.h"
#include "host/live/hearing.h"
#include "host/live/live.h"
#include "host/live/ports.h"
#include "host/live/receipts.h"
#include "host/live/settling.h"
#include "host/process/events.h"
#include "host/process/linger.h"
#include "host/process/result.h"
#include "host/session/host.h"

bool cay_launch_check(const struct cay_v1_process_spec *spec, struct cay_error *err)
{
    if (!spec)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "spec: what to run is missing");
    if (spec->expose_port && !cay_port_request_check(spec->expose_port, err))
        return cay_wrap(err, "expose_port");
    if (spec->stdin_data.len > CAY_LIMIT_INPUT_BYTES)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "stdin_data: %d bytes at most",
                        CAY_LIMIT_INPUT_BYTES);
    if (spec->tag.len > CAY_LIMIT_TAG_BYTES)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "tag: %d bytes at most", CAY_LIMIT_TAG_BYTES);
    if (spec->restart &&
        (spec->restart->max_restarts < 0 || cay_noun_duration_ms(spec->restart->delay) < 0))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "restart: the number and the delay must not be negative");
    struct cay_frame_size ignored;
    return !spec->pty || cay_process_size(spec->pty, &ignored, err);
}

static bool prepare(const struct cay_v1_process_spec *spec, bool is_terminal,
                    struct cay_command_line *command, struct cay_error *err)
{
    *command = (struct cay_command_line){
        .argv = spec->argv,
        .env = spec->env,
        .cwd = spec->cwd,
        .user = spec->user,
        .has_stdin = spec->stdin_open || spec->stdin_data.len,
        .has_terminal = is_terminal || spec->pty,
        .kills_leftovers = spec->restart && spec->restart->mode > CAY_V1_RESTART_MODE_NEVER,
        .policy = spec->policy,
    };
    return cay_process_size(spec->pty, &command->size, err) && cay_command_check(command, err);
}

/* What is known of input that is given with the start. */
static bool feed(struct cay_process *process, const struct cay_v1_process_spec *spec,
                 struct cay_error *err)
{
    process->flags = process->flags & ~(uint32_t)CAY_EXEC_AGAIN;
    process->stdin_open = process->flags & (CAY_EXEC_STDIN | CAY_EXEC_PTY);
    process->has_stdin_counts = true;
    process->stdin_sent = process->stdin_taken = 0;
    if (!spec->stdin_data.len && !(process->flags & CAY_EXEC_STDIN))
        return true;
    /* Not yet running, but init takes frames in order. */
    struct cay_link *link = process->table->link;
    if (spec->stdin_data.len && !cay_link_stdin(link, process->call, spec->stdin_data, err))
        return false;
    process->stdin_sent = spec->stdin_data.len;
    bool closes = !spec->stdin_open && !(process->flags & CAY_EXEC_PTY);
    if (closes)
        process->stdin_open = false;
    return !closes || cay_link_close_stdin(link, process->call, err);
}

static bool spawn(struct cay_session *session, struct cay_process *process,
                  const struct cay_frame_exec *frame, const struct cay_v1_process_spec *spec,
                  struct cay_error *err)
{
    if (!session->live)
        return cay_fail(err, CAY_R_UNAVAILABLE, "the sandbox of session '%s' is gone; try again",
                        session->id);
    if (spec->stdin_data.len > cay_link_stdin_window(process->table->link))
        return cay_fail(err, CAY_R_NOT_SUPPORTED,
                        "the sandbox was started by an older cayd and takes less input");
    process->flags = frame->flags;
    process->size = frame->size;
    process->has_output = true;
    process->is_pushed = frame->window_bytes > 0;
    process->window_bytes = frame->window_bytes;
    if (!cay_live_spawn(session->live, process, frame, err) || !feed(process, spec, err))
        return false;
    cay_live_touched(session->live);
    if (!process->is_recorded)
        cay_process_may_linger(process);
    return true;
}

static void finish(struct cay_launch *launch, struct cay_process *process,
                   const struct cay_error *err)
{
    cay_process_unwatch(&launch->watcher);
    cay_survey_cancel(&launch->survey);
    cay_port_waiter_remove(&launch->port);
    cay_timer_close(&launch->port_limit);
    cay_process_record_finish(&launch->record);
    launch->done(launch, process, err);
}

/* --- its port --- */

static void on_changed_later(struct cay_process_watcher *watcher)
{
    struct cay_launch *launch = CAY_CONTAINER_OF(watcher, struct cay_launch, watcher);
    launch->process = watcher->process; /* NULL: it is forgotten */
}

static void port_looked(struct cay_port_waiter *waiter, bool is_open)
{
    struct cay_launch *launch = CAY_CONTAINER_OF(waiter, struct cay_launch, port);
    bool waits = launch->spec->expose_port->wait_listening;
    struct cay_error err = {};
    if (is_open && (!waits || waiter->exposed->is_listening)) {
        finish(launch, launch->process, NULL);
    } else if (!is_open && !waits && launch->process) {
        finish(launch, launch->process, NULL); /* it ended soon: that is its own affair */
    } else if (!is_open) {
        cay_fail(&err, CAY_R_FAILED_PRECONDITION, "the process ended before it listened on port %u",
                 launch->spec->expose_port->port);
        finish(launch, NULL, &err);
    }
}

static void port_too_late(struct cay_timer *timer)
{
    struct cay_launch *launch = CAY_CONTAINER_OF(timer, struct cay_launch, port_limit);
    struct cay_error err = {};
    cay_fail(&err, CAY_R_DEADLINE_EXCEEDED,
             "process '%s' does not listen on port %u yet; it runs on, and the port stays exposed",
             launch->process ? launch->process->id : "", launch->spec->expose_port->port);
    finish(launch, NULL, &err);
}

/* All or nothing: a process whose port cannot be exposed does not stay, and may be asked for again.
 */
static void expose(struct cay_launch *launch, struct cay_process *process)
{
    const struct cay_v1_port_request *request = launch->spec->expose_port;
    struct cay_exposed *exposed = NULL;
    struct cay_error err = {};
    struct cay_error ignored = {};
    if (!cay_expose(launch->session, launch->call, request, process, &exposed, &err)) {
        if (!launch->is_repeated) {
            process->noun->request_id = (struct cay_str){};
            cay_process_write(process);
            (void)cay_process_signal(process, SIGKILL, true, -1, &ignored);
        }
        finish(launch, NULL, &err);
        return;
    }
    launch->process = process;
    launch->watcher.changed = on_changed_later;
    cay_timer_open(&launch->port_limit, launch->session->host->loop, port_too_late);
    if (request->wait_listening)
        cay_timer_start(&launch->port_limit,
                        (uint64_t)cay_noun_duration_ms(request->wait_listening), 0);
    cay_exposed_wait(exposed, &launch->port, port_looked);
}

/* --- its start --- */

static void on_changed(struct cay_process_watcher *watcher)
{
    struct cay_launch *launch = CAY_CONTAINER_OF(watcher, struct cay_launch, watcher);
    struct cay_process *process = watcher->process;
    struct cay_error err = {};
    if (!process) {
        cay_fail(&err, CAY_R_UNAVAILABLE, "the process ended with its session");
        finish(launch, NULL, &err);
        return;
    }
    if (process->state == CAY_V1_PROCESS_STATE_STARTING)
        return;
    bool is_lost = cay_process_is_over(process) && !process->exit.cause;
    if (is_lost)
        cay_fail(&err, CAY_R_UNAVAILABLE, "%.*s", (int)process->result->message.len,
                 process->result->message.ptr);
    bool is_good = launch->shows_failure ? cay_result_began(&process->exit, &err)
                                         : cay_result_started(&process->exit, &err);
    if (is_lost || !is_good) {
        finish(launch, NULL, &err);
        cay_process_forget(process); /* it never was */
        return;
    }
    if (launch->spec->expose_port && !cay_process_is_over(process))
        expose(launch, process);
    else
        finish(launch, process, NULL);
}

static bool is_unwritten(const struct cay_launch *launch)
{
    return launch->is_plain || launch->is_for_call;
}

/* The process of an earlier launch, which may still be on its way. */
static bool repeat(struct cay_launch *launch, struct cay_process *process, struct cay_error *err)
{
    if (!cay_process_has_argv(process, launch->spec->argv))
        return cay_fail(err, CAY_R_ALREADY_EXISTS,
                        "request_id: '%.*s' started another program; every launch has its own id",
                        (int)launch->request_id.len, launch->request_id.ptr);
    launch->is_repeated = true;
    launch->process = process;
    process->busy++; /* stays while the worker is at it */
    return true;
}

static bool launch_begin(struct cay_op *op, struct cay_error *err)
{
    struct cay_launch *launch = CAY_CONTAINER_OF(op, struct cay_launch, op);
    struct cay_session *session = op->session;
    struct cay_process *known = cay_processes_of_request(&session->processes, launch->request_id);
    if (known)
        return repeat(launch, known, err);
    if (!session->live)
        return cay_fail(err, CAY_R_UNAVAILABLE, "the sandbox of session '%s' is gone; try again",
                        session->id);
    bool kills = launch->spec->policy && launch->spec->policy->kill_on_disconnect;
    if (is_unwritten(launch) && kills && launch->call->is_cancelled)
        return cay_fail(err, CAY_R_CANCELED, NULL);
    struct cay_process *process = cay_process_new(&session->processes, launch->origin);
    launch->process = process;
    if (launch->is_for_call)
        cay_process_hide(process);
    process->call = cay_live_next_call(session->live);
    process->flags = launch->frame.flags;
    process->size = launch->frame.size;
    process->kills_on_disconnect = kills;
    cay_process_describe(process, launch->spec, cay_str(launch->frame.cwd),
                         cay_str(launch->user.name), launch->tool_call_id);
    if (is_unwritten(launch))
        return true;
    process->noun->request_id = cay_arena_str(&process->arena, launch->request_id);
    cay_process_record_take(&launch->record, process);
    process->is_recorded = true;
    process->busy++; /* stays while the worker is at it */
    return true;
}

static bool launch_work(struct cay_op *op, struct cay_error *err)
{
    struct cay_launch *launch = CAY_CONTAINER_OF(op, struct cay_launch, op);
    if (launch->is_repeated)
        return true;
    if (!cay_process_record_put(op->host->db, &launch->record, err))
        return false;
    CAY_CRASH_POINT("launch.recorded");
    return true;
}

/* Whoever asks again hears what the first one hears, or how it went on. */
static void repeat_looked(struct cay_survey *survey)
{
    struct cay_launch *launch = CAY_CONTAINER_OF(survey, struct cay_launch, survey);
    struct cay_process *process = launch->process;
    struct cay_error err = {};
    if (!process || !process->noun->request_id.len) {
        cay_fail(&err, CAY_R_UNAVAILABLE, "the process was not started; try again");
        finish(launch, NULL, &err);
    } else if (process->state == CAY_V1_PROCESS_STATE_STARTING) {
        launch->watcher.changed = on_changed;
    } else if (launch->spec->expose_port && !cay_process_is_over(process)) {
        expose(launch, process);
    } else {
        finish(launch, process, NULL);
    }
}

static void repeat_end(struct cay_launch *launch)
{
    struct cay_process *process = launch->process;
    struct cay_processes *table = &launch->op.session->processes;
    struct cay_error err = launch->op.err;
    bool is_good = launch->op.is_done;
    process->busy--;
    if (process->is_gone) {
        cay_process_forget(process); /* now it can go */
        launch->process = NULL;
    } else if (is_good) {
        cay_process_watch(process, &launch->watcher, on_changed_later);
    }
    cay_op_leave(&launch->op);
    if (!is_good)
        finish(launch, NULL, &err);
    else if (launch->process && table->is_adopting)
        cay_processes_survey(table, &launch->survey, repeat_looked);
    else
        repeat_looked(&launch->survey);
}

static void launch_end(struct cay_op *op)
{
    struct cay_launch *launch = CAY_CONTAINER_OF(op, struct cay_launch, op);
    struct cay_process *process = launch->process;
    struct cay_session *session = op->session;
    struct cay_error err = op->err;
    bool is_good = op->is_done;
    if (launch->is_repeated) {
        repeat_end(launch);
        return;
    }
    if (process && process->is_recorded)
        process->busy--;
    if (is_good && (process->is_gone || cay_process_is_over(process)))
        is_good = cay_fail(&err, CAY_R_UNAVAILABLE, "the sandbox went away; try again");
    if (is_good)
        is_good = spawn(session, process, &launch->frame, launch->spec, &err);
    if (is_good && launch->is_for_call)
        process->state = CAY_V1_PROCESS_STATE_RUNNING; /* its start is not told */
    if (is_good && launch->is_tool) {
        session->tools_in_flight++;
        launch->is_counted = true;
    }
    if (is_good)
        cay_process_watch(process, &launch->watcher,
                          launch->is_for_call ? on_changed_later : on_changed);
    else if (process)
        cay_process_forget(process);
    /* Whoever comes next through the gate may end the process, and with it a launch that waits for
     * its start: it is done then. */
    bool waits = is_good && !launch->is_for_call;
    cay_op_leave(op);
    if (waits)
        return;
    if (is_good && !launch->process)
        is_good = cay_fail(&err, CAY_R_UNAVAILABLE, NULL); /* it went with its session */
    finish(launch, is_good ? launch->process : NULL, is_good ? NULL : &err);
}

static const struct cay_op_steps launch_steps = {
    .begin = launch_begin, .work = launch_work, .end = launch_end};
static const struct cay_op_steps unwritten_steps = {.begin = launch_begin, .end = launch_end};

static void awake(struct cay_call *call, struct cay_session *session, void *context,
                  const struct cay_error *err)
{
    struct cay_launch *launch = context;
    struct cay_error refused = {};
    if (!err && !cay_command_build(&launch->command, session, &launch->user, &call->arena,
                                   &launch->frame, &refused))
        err = &refused;
    if (err)
        finish(launch, NULL, err);
    else
        cay_op_start_on(&launch->op, session, call, CAY_VERB_EXEC, false,
                        is_unwritten(launch) ? &unwritten_steps : &launch_steps);
}

void cay_launch_start(struct cay_launch *launch, struct cay_host *host, struct cay_str session_id)
{
    struct cay_error err = {};
    if (!cay_session_check(host, launch->call, session_id, CAY_VERB_EXEC, &launch->session, &err) ||
        !prepare(launch->spec, launch->is_terminal, &launch->command, &err)) {
        finish(launch, NULL, &err);
        return;
    }
    launch->command.timeout_ms = launch->timeout_ms;
    launch->command.quiet_ms = launch->quiet_ms;
    launch->command.is_for_call = launch->is_for_call;
    launch->command.has_reader = launch->has_reader;
    cay_wake_as(launch->session, launch->call, launch->command.user, true, &launch->user, awake,
                launch);
}

/* --- once more --- */

struct again {
    struct cay_op op;
    char id[CAY_PROCESS_ID_SIZE];
    struct cay_user_search search;
    bool is_known; /* the user: nothing to look up */
};

static bool again_begin(struct cay_op *op, struct cay_error *err)
{
    struct again *self = CAY_CONTAINER_OF(op, struct again, op);
    const struct cay_process *process =
        cay_processes_find(&op->session->processes, cay_str(self->id));
    return !process || cay_user_search_begin(&self->search, op->session, process->spec->user,
                                             &self->is_known, err);
}

static bool again_work(struct cay_op *op, struct cay_error *err)
{
    struct again *self = CAY_CONTAINER_OF(op, struct again, op);
    bool is_wanted = self->search.who[0] && !self->is_known;
    return !is_wanted || cay_user_search_work(&self->search, err);
}

static void again_end(struct cay_op *op)
{
    struct again *self = CAY_CONTAINER_OF(op, struct again, op);
    struct cay_session *session = op->session;
    struct cay_process *process = cay_processes_find(&session->processes, cay_str(self->id));
    struct cay_error err = op->err;
    bool is_paused = err.reason == CAY_R_SESSION_PAUSED;
    if (process && process->state == CAY_V1_PROCESS_STATE_RESTARTING && is_paused) {
        cay_process_again_soon(process);
    } else if (process && process->state == CAY_V1_PROCESS_STATE_RESTARTING) {
        cay_auto(cay_arena_finish) struct cay_arena arena;
        struct cay_command_line command;
        struct cay_frame_exec frame;
        cay_arena_init(&arena, CAY_LIMIT_CALL_ARENA_BYTES);
        bool is_good = op->is_done && prepare(process->spec, process->noun->pty, &command, &err);
        command.has_reader = process->flags & CAY_EXEC_FOLLOW;
        is_good = is_good &&
                  cay_command_build(&command, session, &self->search.user, &arena, &frame, &err);
        frame.flags |= CAY_EXEC_AGAIN;
        process->state = CAY_V1_PROCESS_STATE_STARTING;
        process->started_ns = cay_clock_wall_ns();
        process->restart_count++;
        if (!is_good || !spawn(session, process, &frame, process->spec, &err))
            cay_process_not_again(process, &err);
        else
            cay_process_write(process);
    }
    cay_op_leave(op);
    free(self);
}

static const struct cay_op_steps again_steps = {
    .begin = again_begin, .work = again_work, .end = again_end};

static void run_again(void *owner, struct cay_process *process)
{
    struct again *self = cay_new(struct again);
    memcpy(self->id, process->id, sizeof(self->id));
    cay_op_start_on(&self->op, owner, NULL, CAY_VERB_EXEC, false, &again_steps);
}

static void link_used(void *owner)
{
    struct cay_session *session = owner;
    if (session->live)
        cay_live_touched(session->live);
}

static bool is_frozen(const void *owner)
{
    const struct cay_session *session = owner;
    return session->state == CAY_SESSION_PAUSED && session->sandbox;
}

static void hold(void *owner)
{
    struct cay_session *session = owner;
    cay_session_ref(session);
}

static void let_go(void *owner)
{
    struct cay_session *session = owner;
    cay_session_unref(session);
}

static void changed(void *owner, const struct cay_process *process)
{
    cay_hearing_poke(owner);
    cay_process_tell(owner, process);
}

static void describe(void *owner, const struct cay_process *process, struct cay_arena *arena,
                     struct cay_v1_process *message)
{
    cay_exposed_list(owner, process->id, arena, &message->ports);
    cay_hearing_list(owner, process->id, arena, message);
}

/* Somebody waits for the helper to tell what it refused while a command ran. */
struct settling {
    struct cay_settle settle;
    struct cay_session *session; /* held */
    uint64_t call;
};

static void on_settled(struct cay_settle *settle)
{
    struct settling *self = CAY_CONTAINER_OF(settle, struct settling, settle);
    struct cay_session *session = self->session;
    cay_processes_settled(&session->processes, self->call);
    free(self);
    cay_session_unref(session);
}

static bool settle_process(void *owner, struct cay_process *process)
{
    struct cay_session *session = owner;
    if (!session->filtered)
        return true;
    cay_receipts_process_ended(session, process);
    struct settling *self = cay_new(struct settling);
    self->session = session;
    self->call = process->call;
    cay_session_ref(session);
    if (!cay_filtered_has_told(session->filtered, &self->settle, on_settled))
        return false;
    free(self);
    cay_session_unref(session);
    return true;
}

static void add_to_result(void *owner, const struct cay_process *process, struct cay_arena *arena,
                          struct cay_v1_exec_result *result)
{
    cay_receipts_add_to_result(owner, process, arena, result);
}

static void init_table(struct cay_session *session)
{
    static const struct cay_process_ops ops = {.link_used = link_used,
                                               .changed = changed,
                                               .describe = describe,
                                               .run_again = run_again,
                                               .settle = settle_process,
                                               .add_to_result = add_to_result,
                                               .is_frozen = is_frozen,
                                               .hold = hold,
                                               .let_go = let_go};
    cay_processes_init(&session->processes, &ops, session, session->id, session->host->loop,
                       session->host->db);
}

static void tell_table(const struct cay_session *session, struct cay_arena *,
                       struct cay_v1_session *message)
{
    message->process_count = cay_processes_alive(&session->processes);
}

static void free_table(struct cay_session *session)
{
    cay_processes_finish(&session->processes);
}

const struct cay_session_part cay_processes_part = {
    .init = init_table, .tell = tell_table, .free = free_table};
