/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "init/init.h"

struct call *call_find(struct init *init, uint64_t id)
{
    for (uint32_t i = 0; id && i < init->calls_used; i++) {
        if (init->calls[i].id == id)
            return &init->calls[i];
    }
    return NULL;
}

/* The one to give up when all entries are taken: ended, nobody asked for its end for longest. */
static struct call *oldest_ended(struct init *init)
{
    struct call *oldest = NULL;
    for (uint32_t i = 0; i < init->calls_used; i++) {
        struct call *call = &init->calls[i];
        if (call->state == CAY_CALL_EXITED && !call->leftovers &&
            (!oldest || call->started_usec < oldest->started_usec))
            oldest = call;
    }
    return oldest;
}

struct call *call_take(struct init *init, uint64_t id)
{
    struct call *call = NULL;
    for (uint32_t i = 0; i < init->calls_used && !call; i++) {
        if (!init->calls[i].id)
            call = &init->calls[i];
    }
    if (!call && init->calls_used < CALLS_MAX)
        call = &init->calls[init->calls_used++];
    if (!call) {
        call = oldest_ended(init);
        if (!call)
            return NULL;
        call_free(init, call);
    }
    *call = (struct call){
        .id = id,
        .generation = call->generation + 1,
        .state = CAY_CALL_RUNNING,
        .slot = -1,
        .output_fd = {-1, -1},
        .stdin_fd = -1,
        .started_usec = now_usec(),
    };
    init->call_max = CAY_MAX(init->call_max, id);
    return call;
}

void call_free(struct init *init, struct call *call)
{
    stdio_close_output(init, call, 0);
    stdio_close_output(init, call, 1);
    stdio_close_stdin(init, call);
    if (init->page && !init->spare_ring.data)
        init->spare_ring = call->ring;
    else
        cay_ring_close(&call->ring);
    if (call->slot >= 0)
        init->slots[call->slot].busy = false;
    *call = (struct call){.generation = call->generation};
}

int call_renew(struct init *init, struct call *call)
{
    if (call->state != CAY_CALL_EXITED || call->released || call->leftovers)
        return -EBUSY;
    stdio_close_output(init, call, 0);
    stdio_close_output(init, call, 1);
    stdio_close_stdin(init, call);
    struct call before = *call;
    *call = (struct call){
        .id = before.id,
        .generation = before.generation + 1,
        .state = CAY_CALL_RUNNING,
        .slot = -1,
        .output_fd = {-1, -1},
        .stdin_fd = -1,
        .ring = before.ring,
        .stdout_bytes = before.stdout_bytes,
        .acked = before.acked,
        .wants_piece = before.wants_piece,
        .piece_offset = before.piece_offset,
        .piece_bytes_max = before.piece_bytes_max,
        .started_usec = now_usec(),
    };
    return 0;
}

/* Who is left of an ended call is looked up again. A slot without processes can be used again even
 * while the call is remembered. */
static void count_leftovers(struct init *init, struct call *call)
{
    uint32_t total = 0;
    (void)tree_list(init, call, NULL, 0, &total);
    bool were_some = call->leftovers > 0;
    call->leftovers = total;
    if (total == 0 && call->slot >= 0) {
        init->slots[call->slot].busy = false;
        call->slot = -1;
    }
    if (total == 0 && were_some && !call->doomed)
        call->tell_gone = true;
}

/* Forgets a call that the daemon has released, once nothing of it is left. */
void call_settle(struct init *init, struct call *call)
{
    if (call->state == CAY_CALL_RUNNING || !call->released)
        return;
    if (call->leftovers > 0) {
        call->state = CAY_CALL_LEFT;
        return;
    }
    if (call->tell_gone && init->link.fd >= 0)
        return; /* after it was told */
    call_free(init, call);
}

static uint64_t usec_of(const struct timeval *time)
{
    return (uint64_t)time->tv_sec * 1000000 + (uint64_t)time->tv_usec;
}

/* The daemon ends a start that somebody in the sandbox holds up. */
static bool was_start_ended(const struct call *call, int status)
{
    enum { AT_ONCE_USEC = 500'000 };
    return call->held_up_usec && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL &&
           !call->kill_cause && !call->signals && !call->ring.end &&
           now_usec() - call->held_up_usec < AT_ONCE_USEC;
}

static void set_cause(struct init *init, struct call *call, int status)
{
    struct cay_frame_exit *exit = &call->exit;
    const struct spawn_cell *cell = &init->cells[call - init->calls];
    exit->oom_kills = tree_oom_kills(init, call);
    if (cell->stage != CAY_STAGE_NONE) {
        exit->cause = CAY_CAUSE_FAILED;
        exit->stage = (uint8_t)CAY_MIN(cell->stage, (uint32_t)CAY_STAGES - 1);
        exit->code = CAY_MIN(cell->error, (uint32_t)4095);
    } else if (was_start_ended(call, status)) {
        exit->cause = CAY_CAUSE_FAILED;
        exit->stage = CAY_STAGE_EXEC;
        exit->code = ETIMEDOUT;
    } else if (WIFSIGNALED(status)) {
        exit->signal = (uint8_t)WTERMSIG(status);
        exit->cause = CAY_CAUSE_SIGNALED;
        if (exit->signal == SIGKILL && call->kill_cause)
            exit->cause = call->kill_cause;
        else if (call->signals & UINT64_C(1) << (exit->signal - 1))
            exit->cause = CAY_CAUSE_KILLED;
        else if (exit->signal == SIGKILL && exit->oom_kills)
            exit->cause = CAY_CAUSE_OOM;
    } else {
        exit->cause = CAY_CAUSE_EXITED;
        exit->code = (uint32_t)WEXITSTATUS(status);
        /* Within limits of its own, the end of one of its processes for memory is its end. */
        if (call->slot >= CAY_FRAME_SLOTS_MAX && exit->oom_kills && exit->code) {
            exit->cause = CAY_CAUSE_OOM;
            exit->signal = SIGKILL;
            exit->code = 0;
            call->kill_cause = CAY_CAUSE_OOM;
        }
    }
}

static void ended(struct init *init, struct call *call, int status, const struct rusage *usage)
{
    call->pid = 0;
    call->state = CAY_CALL_EXITED;
    call->wall_deadline_ms = call->quiet_deadline_ms = 0;
    call->quiet_ms = 0;
    set_cause(init, call, status);
    call->exit.wall_usec = (uint64_t)(now_usec() - call->started_usec);
    call->exit.user_usec = usec_of(&usage->ru_utime);
    call->exit.system_usec = usec_of(&usage->ru_stime);
    call->exit.memory_peak_bytes = (uint64_t)usage->ru_maxrss * 1024;
    stdio_drain(init, call);
    stdio_close_stdin(init, call);
    call->doomed = call->kill_cause || call->flags & CAY_EXEC_KILL_LEFTOVERS;
    if (call->doomed && call->kill_cause != CAY_CAUSE_KILLED)
        tree_note_killed(init, call);
    if (call->doomed)
        tree_kill(init, call);
    count_leftovers(init, call);
    /* What was killed with the call may still be dying: it is not a leftover. */
    call->exit.leftovers = call->doomed ? 0 : call->leftovers;
    call->tell_exit = true;
}

void calls_reap(struct init *init)
{
    int status = 0;
    struct rusage usage;
    pid_t pid;
    while ((pid = wait4(-1, &status, WNOHANG | __WALL, &usage)) > 0) {
        for (uint32_t i = 0; i < init->calls_used; i++) {
            if (init->calls[i].id && init->calls[i].pid == pid) {
                ended(init, &init->calls[i], status, &usage);
                break;
            }
        }
    }
    gvisor_note_busy(init, pid == 0); /* every orphan of the sandbox is our child */
    for (uint32_t i = 0; i < init->calls_used; i++) {
        struct call *call = &init->calls[i];
        if (!call->id || !call->leftovers)
            continue;
        if (call->doomed)
            tree_kill(init, call);
        count_leftovers(init, call);
        call_settle(init, call);
    }
}

void calls_detach(struct init *init)
{
    for (uint32_t i = 0; i < init->calls_used; i++) {
        struct call *call = &init->calls[i];
        if (!call->id)
            continue;
        call->attached = call->wants_piece = false;
        call->tell_start = call->tell_gone = false;
        /* The next daemon hears of every end that was not released. */
        call->tell_exit = call->state == CAY_CALL_EXITED && !call->released;
        stdio_resume(init, call);
        call_settle(init, call);
    }
}

static int64_t next_deadline_ms(const struct call *call)
{
    if (!call->wall_deadline_ms || !call->quiet_deadline_ms)
        return CAY_MAX(call->wall_deadline_ms, call->quiet_deadline_ms);
    return CAY_MIN(call->wall_deadline_ms, call->quiet_deadline_ms);
}

uint32_t calls_running(const struct init *init)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < init->calls_used; i++) {
        const struct call *call = &init->calls[i];
        count += call->id && (call->pid || call->leftovers) ? 1 : 0;
    }
    return count;
}

int calls_timeout_ms(const struct init *init, int64_t now)
{
    int64_t first_ms = INT64_MAX;
    for (uint32_t i = 0; i < init->calls_used; i++) {
        int64_t deadline_ms = init->calls[i].id ? next_deadline_ms(&init->calls[i]) : 0;
        if (deadline_ms)
            first_ms = CAY_MIN(first_ms, deadline_ms);
    }
    if (first_ms == INT64_MAX)
        return -1;
    return (int)CAY_MAX(CAY_MIN(first_ms - now, (int64_t)INT_MAX), (int64_t)0);
}

void calls_check_deadlines(struct init *init, int64_t now)
{
    for (uint32_t i = 0; i < init->calls_used; i++) {
        struct call *call = &init->calls[i];
        int64_t deadline_ms = call->id ? next_deadline_ms(call) : 0;
        if (!deadline_ms || now < deadline_ms)
            continue;
        call->kill_cause = deadline_ms == call->wall_deadline_ms ? CAY_CAUSE_WALL : CAY_CAUSE_QUIET;
        call->wall_deadline_ms = call->quiet_deadline_ms = 0;
        call->quiet_ms = 0;
        tree_note_killed(init, call);
        tree_kill(init, call);
    }
}

void calls_skip_clock(struct init *init, uint64_t ms)
{
    int64_t skip_ms = (int64_t)CAY_MIN(ms, (uint64_t)INT64_MAX / 4);
    for (uint32_t i = 0; i < init->calls_used; i++) {
        struct call *call = &init->calls[i];
        if (call->wall_deadline_ms)
            call->wall_deadline_ms += skip_ms;
        if (call->quiet_deadline_ms)
            call->quiet_deadline_ms += skip_ms;
    }
}
