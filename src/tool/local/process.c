/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/limits.h"
#include "api/noun.h"
#include "base/clock.h"
#include "tool/local/local_internal.h"

enum { THREAD_STACK_BYTES = 256 * 1024 };

/* --- the table --- */

static void forget(struct cay_local_process *process)
{
    if (process->has_thread)
        pthread_join(process->thread, NULL);
    cay_local_command_finish(&process->command);
    cay_capture_finish(&process->out);
    cay_capture_finish(&process->err_out);
    cay_arena_finish(&process->arena);
    pthread_mutex_destroy(&process->output_lock);
    free(process);
}

/* Under the lock: those who have gone by themselves, and the oldest of too many that have ended.
 * They are freed by the caller, who may have to wait for a thread that is on its way out. */
static void sweep(struct cay_local *local, struct cay_list *out_gone)
{
    cay_list_for_each (struct cay_local_process, process, &local->processes, in_local) {
        bool is_gone =
            process->state == CAY_LOCAL_LEFT && !cay_local_command_has_left(&process->command);
        if (is_gone && process->is_background) {
            process->state = CAY_LOCAL_ENDED;
            local->ended_count++;
            local->alive_count--;
            is_gone = false;
        }
        bool is_old = process->state == CAY_LOCAL_ENDED && local->ended_count > CAY_LOCAL_ENDED_MAX;
        if (!is_gone && !is_old)
            continue;
        local->alive_count -= is_gone;
        local->ended_count -= is_old;
        cay_list_remove(&process->in_local);
        cay_list_push_back(out_gone, &process->in_local);
    }
}

static void forget_all(struct cay_list *gone)
{
    struct cay_list_node *node;
    while ((node = cay_list_pop_front(gone)))
        forget(CAY_CONTAINER_OF(node, struct cay_local_process, in_local));
}

static struct cay_local_process *find(struct cay_local *local, struct cay_str id)
{
    cay_list_for_each (struct cay_local_process, process, &local->processes, in_local) {
        if (cay_str_is(id, process->id))
            return process;
    }
    return NULL;
}

/* --- in the background --- */

static void keep_output(void *context, bool is_stderr, uint64_t, struct cay_str data)
{
    struct cay_local_process *process = context;
    pthread_mutex_lock(&process->output_lock);
    cay_capture_add(is_stderr ? &process->err_out : &process->out, data);
    pthread_mutex_unlock(&process->output_lock);
}

/* How it ended is kept in its own arena. */
static void *background_thread(void *data)
{
    struct cay_local_process *process = data;
    struct cay_error ignored = {};
    cay_local_command_follow(&process->command);
    pthread_mutex_lock(&process->local->lock);
    struct cay_v1_exec_result *result = cay_arena_new(&process->arena, struct cay_v1_exec_result);
    if (result &&
        cay_local_command_result(&process->command, process->id, &process->arena, result, &ignored))
        process->noun.result = result;
    process->noun.state = CAY_V1_PROCESS_STATE_EXITED;
    process->noun.ended_at = cay_noun_time(&process->arena, cay_clock_wall_ns());
    process->state = CAY_LOCAL_ENDED;
    if (cay_local_command_has_left(&process->command)) {
        process->state = CAY_LOCAL_LEFT;
    } else {
        process->local->alive_count--;
        process->local->ended_count++;
    }
    pthread_cond_broadcast(&process->local->changed);
    pthread_mutex_unlock(&process->local->lock);
    return NULL;
}

/* No signal of the caller's is taken by a thread of ours. */
static int start_thread(struct cay_local_process *process)
{
    sigset_t all;
    sigset_t before;
    pthread_attr_t attributes;
    int result = pthread_attr_init(&attributes);
    if (result != 0)
        return -result;
    (void)pthread_attr_setstacksize(&attributes, THREAD_STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    result = pthread_create(&process->thread, &attributes, background_thread, process);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    process->has_thread = result == 0;
    return -result;
}

/* --- a process --- */

static bool describe(struct cay_local_process *process, const struct cay_v1_process *noun,
                     struct cay_error *err)
{
    struct cay_v1_process *copy = cay_noun_copy(&cay_v1_process_desc, noun, &process->arena);
    if (!copy)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, "out of memory");
    process->noun = *copy;
    return true;
}

/* What it is given is its own as long as a thread may look at it. */
static bool keep_input(struct cay_local_process *process, struct cay_local_spec *spec,
                       struct cay_error *err)
{
    struct cay_str *data = &spec->stdin_data;
    if (data->len) {
        *data = cay_arena_str(&process->arena, *data);
        if (!data->len)
            return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, "out of memory");
    }
    spec->output = keep_output;
    spec->context = process;
    spec->cancel_fd = -1;
    return true;
}

static struct cay_local_process *new_process(struct cay_local *local,
                                             const struct cay_v1_process *noun, bool is_background,
                                             struct cay_local_spec *spec, struct cay_error *err)
{
    struct cay_local_process *process = calloc(1, sizeof(*process));
    if (!process) {
        cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, "out of memory");
        return NULL;
    }
    process->local = local;
    process->is_background = is_background;
    process->state = CAY_LOCAL_RUNS;
    pthread_mutex_init(&process->output_lock, NULL);
    cay_arena_init(&process->arena, CAY_LOCAL_ARENA_BYTES);
    cay_capture_init(&process->out, CAY_LIMIT_RESULT_BYTES);
    cay_capture_init(&process->err_out, CAY_LIMIT_RESULT_BYTES);
    if (!describe(process, noun, err) || (is_background && !keep_input(process, spec, err))) {
        forget(process);
        return NULL;
    }
    return process;
}

/* Under the lock, so that nobody starts behind the back of who pauses or closes. */
static bool start_locked(struct cay_local *local, struct cay_local_process *process,
                         const struct cay_local_spec *spec, struct cay_error *err)
{
    if (local->is_closing)
        return cay_fail(err, CAY_R_SESSION_DESTROYING, NULL);
    if (local->is_paused)
        return cay_fail(err, CAY_R_SESSION_PAUSED, NULL);
    if (local->alive_count >= CAY_LOCAL_PROCESSES_MAX)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                        "%d processes run in this environment; end some of them",
                        CAY_LOCAL_PROCESSES_MAX);
    if (!cay_local_command_start(&process->command, spec, err))
        return false;
    if (process->is_background && process->command.failed_error)
        return cay_outcome_fail_start(process->command.failed_step, process->command.failed_error,
                                      err);
    snprintf(process->id, sizeof(process->id), "p-%llu", (unsigned long long)++local->last_id);
    process->noun.id = cay_str(process->id);
    process->noun.session_id = local->id;
    process->noun.pid = process->command.pid;
    process->noun.state = CAY_V1_PROCESS_STATE_RUNNING;
    process->noun.origin = CAY_V1_PROCESS_ORIGIN_TOOL;
    process->noun.started_at = cay_noun_time(&process->arena, process->command.started_ns);
    int started = process->is_background ? start_thread(process) : 0;
    if (started < 0)
        return cay_fail_errno(err, CAY_R_RESOURCE_EXHAUSTED, started, "follow a process");
    cay_list_push_back(&local->processes, &process->in_local);
    local->alive_count++;
    return true;
}

struct cay_local_process *
cay_local_process_start(struct cay_local *local, const struct cay_local_spec *given,
                        const struct cay_v1_process *noun, bool is_background,
                        char out_id[CAY_LOCAL_ID_SIZE], struct cay_error *err)
{
    struct cay_local_spec spec = *given;
    struct cay_local_process *process = new_process(local, noun, is_background, &spec, err);
    if (!process)
        return NULL;
    struct cay_list gone;
    cay_list_init(&gone);
    pthread_mutex_lock(&local->lock);
    sweep(local, &gone);
    bool is_started = start_locked(local, process, &spec, err);
    memcpy(out_id, process->id, sizeof(process->id));
    pthread_mutex_unlock(&local->lock);
    forget_all(&gone);
    if (is_started)
        return process;
    forget(process);
    return NULL;
}

void cay_local_process_end(struct cay_local_process *process)
{
    struct cay_local *local = process->local;
    pthread_mutex_lock(&local->lock);
    bool stays = cay_local_command_has_left(&process->command);
    if (stays) {
        process->state = CAY_LOCAL_LEFT;
        process->noun.origin = CAY_V1_PROCESS_ORIGIN_LEFTOVER;
    } else {
        cay_list_remove(&process->in_local);
        local->alive_count--;
    }
    pthread_cond_broadcast(&local->changed);
    pthread_mutex_unlock(&local->lock);
    if (!stays)
        forget(process);
}

/* --- all of them --- */

static bool set_paused(struct cay_local *local, bool is_paused, struct cay_error *err)
{
    int result = 0;
    pthread_mutex_lock(&local->lock);
    local->is_paused = is_paused;
    cay_list_for_each (struct cay_local_process, process, &local->processes, in_local) {
        if (process->state == CAY_LOCAL_ENDED)
            continue;
        int done = is_paused ? cay_local_command_pause(&process->command)
                             : cay_local_command_resume(&process->command);
        result = result < 0 ? result : done;
    }
    pthread_mutex_unlock(&local->lock);
    return result == 0 || cay_fail_errno(err, CAY_R_INTERNAL, result, "%s what runs",
                                         is_paused ? "stop" : "continue");
}

bool cay_local_pause(struct cay_local *local, struct cay_error *err)
{
    return set_paused(local, true, err);
}

bool cay_local_resume(struct cay_local *local, struct cay_error *err)
{
    return set_paused(local, false, err);
}

bool cay_local_list(struct cay_local *local, struct cay_arena *arena,
                    struct cay_local_processes *out_processes, struct cay_error *err)
{
    struct cay_list gone;
    cay_list_init(&gone);
    pthread_mutex_lock(&local->lock);
    sweep(local, &gone);
    size_t count = local->alive_count + local->ended_count;
    struct cay_local_processes list = {.items =
                                           cay_arena_array(arena, count + 1, sizeof(*list.items))};
    bool is_whole = list.items;
    cay_list_for_each (struct cay_local_process, process, &local->processes, in_local) {
        const struct cay_v1_process *copy =
            is_whole ? cay_noun_copy(&cay_v1_process_desc, &process->noun, arena) : NULL;
        is_whole = copy;
        if (copy)
            list.items[list.count++] = *copy;
    }
    pthread_mutex_unlock(&local->lock);
    forget_all(&gone);
    if (!is_whole)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, "out of memory");
    *out_processes = list;
    return true;
}

static bool not_found(struct cay_str id, struct cay_error *err)
{
    return cay_fail(err, CAY_R_PROCESS_NOT_FOUND, "there is no process '%.*s'",
                    (int)CAY_MIN(id.len, (size_t)64), id.ptr);
}

/* One that somebody follows is killed by who follows; leftovers are their keeper's. */
static void kill_process(struct cay_local_process *process)
{
    if (process->state == CAY_LOCAL_RUNS)
        cay_local_command_kill(&process->command, CAY_V1_END_CAUSE_KILLED);
    else if (process->state == CAY_LOCAL_LEFT)
        (void)cay_keeper_kill(&process->command.keeper);
}

bool cay_local_kill(struct cay_local *local, struct cay_str id, int signal, struct cay_error *err)
{
    if (signal < 1 || signal > SIGRTMAX)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "signal must be 1 to %d", SIGRTMAX);
    pthread_mutex_lock(&local->lock);
    struct cay_local_process *process = find(local, id);
    if (process && signal == SIGKILL)
        kill_process(process);
    else if (process && process->state == CAY_LOCAL_RUNS)
        cay_local_command_signal(&process->command, signal);
    pthread_mutex_unlock(&local->lock);
    return process || not_found(id, err);
}

bool cay_local_output(struct cay_local *local, struct cay_str id, struct cay_arena *arena,
                      struct cay_local_output *out_output, struct cay_error *err)
{
    cay_auto(cay_buf_finish) struct cay_buf out;
    cay_auto(cay_buf_finish) struct cay_buf err_out;
    cay_buf_init(&out, (size_t)2 * CAY_LIMIT_RESULT_BYTES);
    cay_buf_init(&err_out, (size_t)2 * CAY_LIMIT_RESULT_BYTES);
    pthread_mutex_lock(&local->lock);
    struct cay_local_process *process = find(local, id);
    if (process && process->is_background) {
        pthread_mutex_lock(&process->output_lock);
        cay_capture_write(&process->out, &out);
        cay_capture_write(&process->err_out, &err_out);
        out_output->out_bytes = process->out.total_bytes;
        out_output->err_bytes = process->err_out.total_bytes;
        pthread_mutex_unlock(&process->output_lock);
    }
    bool is_there = process && process->is_background;
    pthread_mutex_unlock(&local->lock);
    if (!is_there)
        return not_found(id, err);
    out_output->out = cay_arena_str(arena, cay_buf_str(&out));
    out_output->err_out = cay_arena_str(arena, cay_buf_str(&err_out));
    return (!out.failed && !err_out.failed && out_output->out.len == out.len &&
            out_output->err_out.len == err_out.len) ||
           cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, "out of memory");
}

void cay_local_kill_all(struct cay_local *local)
{
    pthread_mutex_lock(&local->lock);
    local->is_closing = true;
    cay_list_for_each (struct cay_local_process, process, &local->processes, in_local)
        kill_process(process);
    pthread_mutex_unlock(&local->lock);
}

static bool is_any_followed(struct cay_local *local)
{
    cay_list_for_each (struct cay_local_process, process, &local->processes, in_local) {
        if (process->state == CAY_LOCAL_RUNS)
            return true;
    }
    return false;
}

void cay_local_close(struct cay_local *local)
{
    if (!local)
        return;
    cay_local_kill_all(local);
    pthread_mutex_lock(&local->lock);
    while (is_any_followed(local))
        pthread_cond_wait(&local->changed, &local->lock);
    pthread_mutex_unlock(&local->lock);
    forget_all(&local->processes);
    pthread_cond_destroy(&local->changed);
    pthread_mutex_destroy(&local->lock);
    cay_arena_finish(&local->arena);
    if (local->dir_fd >= 0)
        close(local->dir_fd);
    free(local);
}
