/* SPDX-License-Identifier: Apache-2.0 */
#include "host/live/live.h"

#include <assert.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "host/live/hearing.h"
#include "host/live/live_internal.h"
#include "host/live/network.h"
#include "host/live/ports.h"
#include "host/live/watchdog.h"
#include "host/owner/account.h"
#include "host/process/events.h"
#include "host/session/host.h"
#include "host/session/op.h"
#include "host/session/tell.h"
#include "host/session/tidy.h"

/* A command that runs longer is written down. */
enum { LINGER_MS = 200 };

static void update_watch(struct cay_live *live)
{
    if (!live->link_watch.handle)
        return;
    short wants = cay_link_wants(live->link);
    cay_watch_set(&live->link_watch, (wants & POLLIN ? CAY_READY_READ : 0u) |
                                         (wants & POLLOUT ? CAY_READY_WRITE : 0u));
}

static void on_link_ready(struct cay_watch *watch, unsigned)
{
    struct cay_live *live = CAY_CONTAINER_OF(watch, struct cay_live, link_watch);
    struct cay_error err = {};
    live->depth++;
    bool is_alive = cay_link_step(live->link, &err);
    live->depth--;
    if (is_alive && !live->is_broken) {
        update_watch(live);
        cay_op_poke(live->session);
    } else {
        cay_live_lost(live->session, is_alive ? &live->broken : &err);
    }
}

static void on_linger(struct cay_timer *timer)
{
    struct cay_live *live = CAY_CONTAINER_OF(timer, struct cay_live, linger);
    uint64_t now_ms = cay_loop_now_ms(live->session->host->loop);
    bool is_some = false;
    live->is_lingering = false;
    cay_list_for_each (struct cay_exec, exec, &live->execs, in_live) {
        bool is_due = now_ms - exec->started_ms >= LINGER_MS && !exec->is_exited;
        if (is_due && !exec->has_lingered && exec->lingers) {
            exec->has_lingered = true;
            exec->lingers(exec);
        }
        is_some = is_some || !exec->has_lingered;
    }
    if (is_some) {
        live->is_lingering = true;
        cay_timer_start(&live->linger, LINGER_MS, 0);
    }
}

static void on_death(struct cay_watch *watch, unsigned)
{
    struct cay_live *live = CAY_CONTAINER_OF(watch, struct cay_live, death_watch);
    struct cay_error err = {};
    cay_fail(&err, CAY_R_UNAVAILABLE, "the sandbox's first process was killed");
    cay_live_lost(live->session, &err);
}

static void on_asked(struct cay_session *session)
{
    update_watch(session->live);
}

static const struct cay_watchdog_ops watchdog_ops = {.asked = on_asked, .lost = cay_live_lost};

void cay_live_open(struct cay_session *session, bool is_adopted)
{
    assert(session->sandbox && !session->live);
    struct cay_sandbox *sandbox = session->sandbox;
    struct cay_live *live = cay_new(struct cay_live);
    struct cay_loop *loop = session->host->loop;
    struct cay_error err = {};
    live->session = session;
    cay_list_init(&live->execs);
    cay_list_init(&live->others);
    int pidfd = cay_sandbox_pidfd(sandbox);
    bool is_open =
        cay_link_open(sandbox, &cay_live_handlers, live, &live->link, &err) &&
        cay_watch_open(&live->link_watch, loop, cay_link_fd(live->link), on_link_ready) == 0 &&
        (pidfd < 0 || cay_watch_open(&live->death_watch, loop, pidfd, on_death) == 0);
    live->is_listing = is_adopted;
    /* Later than any number of an earlier sandbox, also of one we know nothing of. */
    live->next_call = (uint64_t)cay_clock_wall_ns();
    is_open = is_open && cay_processes_attach(&session->processes, live->link, is_adopted, &err);
    if (!is_open) {
        cay_log(CAY_ERROR, "sandbox.link_failed", CAY_S("session", session->id), CAY_ERR(&err));
        cay_watch_close(&live->link_watch);
        cay_watch_close(&live->death_watch);
        cay_processes_detach(&session->processes, CAY_V1_END_CAUSE_LOST, &err);
        cay_link_close(live->link);
        cay_host_bury(session->host, cay_take_ptr(session->sandbox));
        free(live);
        return;
    }
    session->live = live;
    cay_account_started(session, sandbox);
    cay_timer_open(&live->linger, loop, on_linger);
    cay_watchdog_open(&live->watchdog, session, live->link, &watchdog_ops);
    if (pidfd >= 0)
        cay_watch_set(&live->death_watch, CAY_READY_READ);
    update_watch(live);
    cay_network_serve(session, sandbox);
    if (is_adopted)
        cay_hearing_poke(session);
}

static void end_all(struct cay_live *live, const struct cay_error *err)
{
    const struct cay_exec_end end = {.err = err};
    cay_list_for_each (struct cay_exec, exec, &live->execs, in_live)
        cay_live_end_exec(exec, &end);
}

static void free_live(struct cay_live *live)
{
    assert(live->depth == 0);
    cay_account_ended(live->session);
    cay_network_serve(live->session, NULL);
    cay_hearing_end(live->session);
    cay_watch_close(&live->link_watch);
    cay_watch_close(&live->death_watch);
    cay_timer_close(&live->linger);
    cay_watchdog_close(&live->watchdog);
    cay_link_close(live->link);
    cay_list_for_each (struct cay_live_other, other, &live->others, in_live)
        free(other);
    free(live);
}

struct cay_sandbox *cay_live_close(struct cay_session *session, enum cay_reason reason)
{
    struct cay_error err = {};
    struct cay_sandbox *sandbox = cay_take_ptr(session->sandbox);
    struct cay_live *live = cay_take_ptr(session->live);
    if (!live)
        return sandbox;
    cay_fail(&err, reason, NULL);
    cay_unexpose_all(session, "sandbox_ended");
    end_all(live, &err);
    cay_processes_detach(&session->processes, CAY_V1_END_CAUSE_KILLED, &err);
    free_live(live);
    return sandbox;
}

void cay_live_leave(struct cay_session *session)
{
    struct cay_error err = {};
    struct cay_live *live = cay_take_ptr(session->live);
    if (!live)
        return;
    cay_fail(&err, CAY_R_UNAVAILABLE, NULL);
    cay_ports_leave(session);
    cay_processes_leave(&session->processes);
    end_all(live, &err);
    free_live(live);
    cay_sandbox_leave(cay_take_ptr(session->sandbox));
}

/* Alone in the gate: a worker may still hold the sandbox, and the next one must not be there yet.
 */
struct burial {
    struct cay_op op;
    struct cay_sandbox *sandbox;
};

static bool bury(struct cay_op *op, struct cay_error *err)
{
    struct burial *burial = CAY_CONTAINER_OF(op, struct burial, op);
    return cay_sandbox_destroy(cay_take_ptr(burial->sandbox), err);
}

static void buried(struct cay_op *op)
{
    struct burial *burial = CAY_CONTAINER_OF(op, struct burial, op);
    if (!op->is_done)
        cay_log(CAY_WARN, "sandbox.burial_failed", CAY_ERR(&op->err));
    cay_op_leave(op);
    free(burial);
}

static void start_burial(struct cay_session *session, struct cay_sandbox *sandbox)
{
    static const struct cay_op_steps steps = {.work = bury, .end = buried};
    struct burial *burial = cay_new(struct burial);
    burial->sandbox = sandbox;
    cay_op_start_on(&burial->op, session, NULL, CAY_VERB_LOOK, true, &steps);
}

/* The link breaks when init dies; what it died of is worth more to whoever reads it. */
static bool was_out_of_memory(const struct cay_live *live, struct cay_error *out_err)
{
    struct cay_sandbox_stats stats = {};
    cay_sandbox_stats(live->session->sandbox, &stats);
    if (!stats.usage.init_oom_kills)
        return false;
    cay_fail(out_err, CAY_R_RESOURCE_EXHAUSTED, "it ran out of memory");
    return true;
}

void cay_live_lost(struct cay_session *session, const struct cay_error *err)
{
    struct cay_live *live = session->live;
    if (!live)
        return;
    if (live->depth) { /* a handler of the link found out; the step ends first */
        live->is_broken = true;
        live->broken = *err;
        return;
    }
    struct cay_error told = *err;
    bool is_oom = was_out_of_memory(live, &told);
    struct cay_sandbox *sandbox = cay_take_ptr(session->sandbox);
    session->live = NULL;
    const char *why = is_oom ? "out_of_memory" : "init_died";
    err = &told;
    snprintf(session->state_text, sizeof(session->state_text),
             "its sandbox was lost (%.80s); the next call makes a new one", err->text);
    snprintf(session->state_reason, sizeof(session->state_reason), "%s", why);
    cay_tell(session->host,
             &(struct cay_happening){
                 .type = "session.lost", .session = session, .reason = why, .is_nobodys = true});
    cay_log(CAY_WARN, "sandbox.lost", CAY_S("session", session->id), CAY_ERR(err));
    cay_watch_close(&live->death_watch); /* its descriptor goes with the sandbox */
    start_burial(session, sandbox);
    cay_unexpose_all(session, "sandbox_lost");
    end_all(live, err);
    cay_processes_detach(&session->processes, is_oom ? CAY_V1_END_CAUSE_OOM : CAY_V1_END_CAUSE_LOST,
                         err);
    free_live(live);
    cay_op_poke(session);
}

bool cay_live_is_quiet(const struct cay_live *live)
{
    return cay_list_empty(&live->execs) && cay_list_empty(&live->others) && !live->is_listing;
}

bool cay_live_is_followed(const struct cay_live *live)
{
    return !cay_list_empty(&live->execs);
}

/* What the table of processes knows of a call that nobody follows. */
static struct cay_v1_leftover_process killed_process(const struct cay_live *live, uint64_t call,
                                                     struct cay_arena *arena)
{
    struct cay_v1_leftover_process killed = {.killed = true};
    const struct cay_processes *table = &live->session->processes;
    const struct cay_process *process = cay_processes_of_call(table, call, false);
    if (!process)
        process = cay_processes_of_call(table, call, true);
    if (!process)
        return killed;
    const char *command = "";
    for (size_t i = 0; command && i < process->noun->argv.count; i++) {
        struct cay_str argument = process->noun->argv.items[i];
        command = cay_arena_printf(arena, "%s%s%.*s", command, i ? " " : "", (int)argument.len,
                                   argument.ptr);
    }
    killed.process_id = cay_arena_str(arena, cay_str(process->id));
    killed.pid = process->pid;
    killed.command = cay_str(command ? command : "");
    return killed;
}

void cay_live_list(const struct cay_live *live, struct cay_arena *arena,
                   struct cay_v1_leftover_process_array *out_list)
{
    size_t count = 0;
    cay_list_for_each (struct cay_exec, exec, &live->execs, in_live)
        count++;
    cay_list_for_each (struct cay_live_other, other, &live->others, in_live)
        count++;
    *out_list = (struct cay_v1_leftover_process_array){
        .items = cay_arena_array(arena, count, sizeof(struct cay_v1_leftover_process))};
    if (!out_list->items)
        return;
    cay_list_for_each (struct cay_exec, exec, &live->execs, in_live)
        out_list->items[out_list->count++] = (struct cay_v1_leftover_process){
            .command = cay_arena_str(arena, cay_str(exec->label)), .killed = true};
    cay_list_for_each (struct cay_live_other, other, &live->others, in_live)
        out_list->items[out_list->count++] = killed_process(live, other->call, arena);
}

void cay_live_skip_clock(struct cay_live *live, int64_t frozen_ns)
{
    struct cay_error ignored = {};
    (void)cay_link_skip_clock(live->link, (uint64_t)(frozen_ns / CAY_NS_PER_MS), &ignored);
    update_watch(live);
}

uint64_t cay_live_next_call(struct cay_live *live)
{
    uint64_t used = cay_link_call_max(live->link);
    live->next_call = CAY_MAX(live->next_call, used) + 1;
    return live->next_call;
}

bool cay_live_spawn(struct cay_live *live, const struct cay_process *process,
                    const struct cay_frame_exec *frame, struct cay_error *err)
{
    if (!cay_link_exec(live->link, process->call, frame, err))
        return false;
    cay_live_note_other(live, process->call);
    cay_watchdog_expect(&live->watchdog);
    update_watch(live);
    return true;
}

void cay_exec_leave(struct cay_exec *exec)
{
    struct cay_live *live = cay_take_ptr(exec->live);
    struct cay_error ignored = {};
    if (!live)
        return;
    cay_list_remove(&exec->in_live);
    cay_live_note_other(live, exec->call);
    (void)cay_link_detach(live->link, exec->call, &ignored);
    update_watch(live);
}

void cay_live_touched(struct cay_live *live)
{
    update_watch(live);
}

void cay_live_settle(struct cay_live *live, int timeout_ms)
{
    struct cay_error err = {};
    struct cay_session *session = live->session;
    uint64_t until_ns = (uint64_t)cay_clock_ns() + (uint64_t)timeout_ms * CAY_NS_PER_MS;
    while (session->live == live && live->is_listing && (uint64_t)cay_clock_ns() < until_ns) {
        struct pollfd entry = {.fd = cay_link_fd(live->link), .events = cay_link_wants(live->link)};
        if (poll(&entry, 1, timeout_ms) <= 0)
            return;
        live->depth++;
        bool is_alive = cay_link_step(live->link, &err);
        live->depth--;
        if (!is_alive || live->is_broken)
            cay_live_lost(session, is_alive ? &live->broken : &err);
        else
            update_watch(live);
    }
}

bool cay_live_exec(struct cay_live *live, struct cay_exec *exec, const struct cay_frame_exec *frame,
                   struct cay_error *err)
{
    exec->call = cay_live_next_call(live);
    exec->is_exited = false;
    exec->has_lingered = false;
    exec->started_ms = cay_loop_now_ms(live->session->host->loop);
    exec->is_told = false;
    exec->seen_offset = 0;
    snprintf(exec->label, sizeof(exec->label), "%s", frame->args[frame->arg_count > 2 ? 2 : 0]);
    if (!cay_link_exec(live->link, exec->call, frame, err))
        return false;
    exec->live = live;
    cay_list_push_back(&live->execs, &exec->in_live);
    cay_watchdog_expect(&live->watchdog);
    update_watch(live);
    if (!live->is_lingering) {
        live->is_lingering = true;
        cay_timer_start(&live->linger, LINGER_MS, 0);
    }
    return true;
}

void cay_exec_ack(struct cay_exec *exec, uint64_t offset)
{
    struct cay_error ignored = {};
    if (!exec->live)
        return;
    (void)cay_link_ack(exec->live->link, exec->call, offset, &ignored);
    update_watch(exec->live);
}

void cay_exec_stdin(struct cay_exec *exec, struct cay_str data, bool is_last)
{
    struct cay_error ignored = {};
    if (!exec->live)
        return;
    if (data.len)
        (void)cay_link_stdin(exec->live->link, exec->call, data, &ignored);
    if (is_last)
        (void)cay_link_close_stdin(exec->live->link, exec->call, &ignored);
    update_watch(exec->live);
}

void cay_exec_kill(struct cay_exec *exec)
{
    struct cay_error ignored = {};
    if (!exec->live)
        return;
    (void)cay_link_signal(exec->live->link, exec->call, SIGKILL, CAY_TARGET_TREE, &ignored);
    update_watch(exec->live);
}

void cay_live_kill_all(struct cay_live *live, enum cay_v1_end_cause cause)
{
    cay_list_for_each (struct cay_exec, exec, &live->execs, in_live) {
        if (exec->is_exited)
            continue;
        exec->kill_cause = cause;
        cay_exec_kill(exec);
    }
    cay_list_for_each (struct cay_process, process, &live->session->processes.list, in_table) {
        struct cay_error ignored = {};
        if (process->state != CAY_V1_PROCESS_STATE_RUNNING)
            continue;
        process->kill_cause = cause;
        (void)cay_process_signal(process, SIGKILL, true, -1, &ignored);
    }
}

static bool part_is_quiet(const struct cay_session *session)
{
    return !session->live || cay_live_is_quiet(session->live);
}

static void part_kill(struct cay_session *session, enum cay_v1_end_cause cause)
{
    if (session->live)
        cay_live_kill_all(session->live, cause);
}

const struct cay_session_part cay_live_part = {.is_quiet = part_is_quiet, .kill = part_kill};
