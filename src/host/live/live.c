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
#include "host/live/network.h"
#include "host/live/ports.h"
#include "host/live/watchdog.h"
#include "host/owner/account.h"
#include "host/process/events.h"
#include "host/process/result.h"
#include "host/session/host.h"
#include "host/session/op.h"
#include "host/session/tell.h"
#include "host/session/tidy.h"

struct cay_live {
    struct cay_session *session;
    struct cay_link *link; /* its owner is the session's table of processes */
    struct cay_watch link_watch;
    struct cay_watch death_watch;
    uint64_t next_call;
    struct cay_watchdog watchdog;
    unsigned depth; /* inside cay_link_step */
    bool is_broken;
    struct cay_error broken;
};

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
    int pidfd = cay_sandbox_pidfd(sandbox);
    bool is_open =
        cay_link_open(sandbox, &cay_processes_handlers, &session->processes, &live->link, &err) &&
        cay_watch_open(&live->link_watch, loop, cay_link_fd(live->link), on_link_ready) == 0 &&
        (pidfd < 0 || cay_watch_open(&live->death_watch, loop, pidfd, on_death) == 0);
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
    cay_watchdog_open(&live->watchdog, session, live->link, &watchdog_ops);
    if (pidfd >= 0)
        cay_watch_set(&live->death_watch, CAY_READY_READ);
    update_watch(live);
    cay_network_serve(session, sandbox);
    if (is_adopted)
        cay_hearing_poke(session);
}

static void free_live(struct cay_live *live)
{
    assert(live->depth == 0);
    cay_account_ended(live->session);
    cay_network_serve(live->session, NULL);
    cay_hearing_end(live->session);
    cay_watch_close(&live->link_watch);
    cay_watch_close(&live->death_watch);
    cay_watchdog_close(&live->watchdog);
    cay_link_close(live->link);
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
    cay_processes_detach(&session->processes, CAY_V1_END_CAUSE_KILLED, &err);
    free_live(live);
    return sandbox;
}

void cay_live_leave(struct cay_session *session)
{
    struct cay_live *live = cay_take_ptr(session->live);
    if (!live)
        return;
    cay_ports_leave(session);
    cay_processes_leave(&session->processes);
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
    cay_processes_detach(&session->processes, is_oom ? CAY_V1_END_CAUSE_OOM : CAY_V1_END_CAUSE_LOST,
                         err);
    free_live(live);
    cay_op_poke(session);
}

bool cay_live_is_quiet(const struct cay_live *live)
{
    return cay_processes_are_quiet(&live->session->processes);
}

bool cay_live_is_followed(const struct cay_live *live)
{
    return cay_processes_are_followed(&live->session->processes);
}

/* As short as it can be said: what a shell runs is its third word. */
static struct cay_str short_command(const struct cay_process *process, struct cay_arena *arena)
{
    enum { SHOWN_BYTES = 63 };
    const struct cay_pb_strs *argv = &process->noun->argv;
    if (!argv->count)
        return (struct cay_str){};
    struct cay_str word = argv->items[argv->count > 2 ? 2 : 0];
    word.len = CAY_MIN(word.len, (size_t)SHOWN_BYTES);
    return cay_arena_str(arena, cay_result_text(arena, word));
}

static struct cay_str whole_command(const struct cay_process *process, struct cay_arena *arena)
{
    const char *command = "";
    for (size_t i = 0; command && i < process->noun->argv.count; i++) {
        struct cay_str argument = process->noun->argv.items[i];
        command = cay_arena_printf(arena, "%s%s%.*s", command, i ? " " : "", (int)argument.len,
                                   argument.ptr);
    }
    return cay_str(command ? command : "");
}

static void add_killed(const struct cay_process *process, struct cay_arena *arena,
                       struct cay_v1_leftover_process_array *list)
{
    struct cay_v1_leftover_process *killed = &list->items[list->count++];
    *killed = (struct cay_v1_leftover_process){.killed = true};
    if (process->is_followed) {
        killed->command = short_command(process, arena);
        return;
    }
    killed->process_id = cay_arena_str(arena, cay_str(process->id));
    killed->pid = process->pid;
    killed->command = whole_command(process, arena);
}

void cay_live_list(const struct cay_live *live, struct cay_arena *arena,
                   struct cay_v1_leftover_process_array *out_list)
{
    const struct cay_processes *table = &live->session->processes;
    size_t count = 0;
    cay_list_for_each (struct cay_process, process, &table->hidden, in_table)
        count++;
    cay_list_for_each (struct cay_process, process, &table->list, in_table)
        count++;
    *out_list = (struct cay_v1_leftover_process_array){
        .items = cay_arena_array(arena, count, sizeof(struct cay_v1_leftover_process))};
    if (!out_list->items)
        return;
    cay_list_for_each (struct cay_process, process, &table->hidden, in_table)
        add_killed(process, arena, out_list);
    cay_list_for_each (struct cay_process, process, &table->list, in_table) {
        if (!cay_process_is_quiet(process))
            add_killed(process, arena, out_list);
    }
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
    cay_watchdog_expect(&live->watchdog);
    update_watch(live);
    return true;
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
    while (session->live == live && session->processes.is_adopting &&
           (uint64_t)cay_clock_ns() < until_ns) {
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

static bool part_is_quiet(const struct cay_session *session)
{
    return !session->live || cay_live_is_quiet(session->live);
}

static void part_kill(struct cay_session *session, enum cay_v1_end_cause cause)
{
    if (session->live)
        cay_processes_kill(&session->processes, cause);
}

const struct cay_session_part cay_live_part = {.is_quiet = part_is_quiet, .kill = part_kill};
