/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "init/init.h"

static void close_slot(const struct cay_cgroup_slot *slot)
{
    const int fds[CAY_FRAME_ROOM_FDS] = {
        slot->into_fd, slot->freeze_fd,        slot->procs_fd,        slot->tasks_fd,
        slot->oom_fd,  slot->more_tasks_fd[0], slot->more_tasks_fd[1]};
    for (int i = 0; i < CAY_FRAME_ROOM_FDS; i++)
        cay_cleanup_close(&fds[i]);
}

static void do_slot(struct init *init, struct link *link, const struct cay_frame *frame)
{
    struct cay_frame_slot slot;
    if (!cay_frame_get_slot(frame, &slot)) {
        link_refuse(init, 0, frame->type, -EINVAL);
        return;
    }
    int fds[CAY_FRAME_ROOM_FDS] = {-1, -1, -1, -1, -1, -1, -1};
    uint32_t used = 0;
    for (int i = 0; i < CAY_FRAME_ROOM_FDS; i++) {
        if (slot.fds & 1 << i && used < link->fd_count)
            fds[i] = link->fds[used++];
    }
    link->fd_count -= used;
    memmove(link->fds, link->fds + used, link->fd_count * sizeof(link->fds[0]));
    struct cay_cgroup_slot given = {fds[0], fds[1], fds[2], fds[3], fds[4], {fds[5], fds[6]}};
    struct slot *entry = &init->slots[slot.index + (slot.is_room ? CAY_FRAME_SLOTS_MAX : 0)];
    if (slot.is_room && entry->busy) { /* SPAWN finds none then */
        init->next_room = -1;
        close_slot(&given);
        return;
    }
    if (entry->present)
        close_slot(&entry->fds);
    entry->fds = given;
    entry->present = true;
    if (slot.is_room) { /* a new group, which has killed nobody yet */
        entry->oom_seen = 0;
        init->next_room = (int)(slot.index + CAY_FRAME_SLOTS_MAX);
        return;
    }
    init->slot_count = CAY_MAX(init->slot_count, slot.index + 1);
}

/* The answer to a valid EXEC is always EXIT sooner or later; an invalid one is REFUSED. */
static void do_exec(struct init *init, const struct cay_frame *frame)
{
    static const char *args[CAY_FRAME_ARGS_MAX + 1];
    static const char *env[CAY_FRAME_ENV_MAX + 1];
    struct cay_frame_exec exec = {.args = args, .env = env};
    int result = 0;
    init->link.execs++;
    if (!cay_frame_get_exec(frame, &exec)) {
        link_refuse(init, frame->call, frame->type, -EINVAL);
        return;
    }
    struct call *call = call_find(init, frame->call);
    if (exec.flags & CAY_EXEC_AGAIN)
        result = call ? call_renew(init, call) : -ESRCH;
    else if (call)
        result = -EEXIST;
    else if (!(call = call_take(init, frame->call)))
        result = -EAGAIN;
    if (result == 0) {
        result = spawn(init, call, &exec);
        if (result < 0)
            call_free(init, call);
    }
    if (result < 0)
        link_refuse(init, frame->call, frame->type, result);
}

/* Whoever dies of it was killed by the daemon's wish. */
static void note_signal(struct call *call, uint32_t signal)
{
    if (call->pid)
        call->signals |= UINT64_C(1) << (signal - 1);
}

static void do_signal(struct init *init, struct call *call, const struct cay_frame *frame)
{
    struct cay_frame_signal signal;
    int result = 0;
    if (!cay_frame_get_signal(frame, &signal)) {
        result = -EINVAL;
    } else if (signal.target == CAY_TARGET_TREE) {
        note_signal(call, signal.signal);
        if (signal.signal == SIGKILL) {
            if (call->pid && !call->kill_cause)
                call->kill_cause = CAY_CAUSE_KILLED;
            tree_kill(init, call);
        } else {
            tree_signal(init, call, (int)signal.signal);
        }
    } else if (!call->pid) {
        result = -ESRCH;
    } else {
        pid_t target = signal.target == CAY_TARGET_GROUP ? -call->pid : call->pid;
        note_signal(call, signal.signal);
        result = kill(target, (int)signal.signal) < 0 ? -errno : 0;
    }
    if (result < 0)
        link_refuse(init, frame->call, frame->type, result);
}

static void put_detail(struct init *init, const struct call *call)
{
    struct cay_frame_detail detail = {
        .flags = call->flags & CAY_EXEC_FLAGS,
        .size = call->size,
        .stdin_total = call->stdin_total,
        .stdin_queued = call->stdin_len,
        .stdin_open = call->stdin_fd >= 0 && !call->stdin_closing,
        .stdout_bytes = call->stdout_bytes,
    };
    (void)cay_frame_put_detail(&init->link.out, call->id, &detail);
}

static void do_list(struct init *init, bool is_detailed)
{
    uint32_t count = 0;
    int64_t now = now_usec();
    for (uint32_t i = 0; i < init->calls_used; i++) {
        const struct call *call = &init->calls[i];
        if (!call->id)
            continue;
        struct cay_frame_call entry = {
            .state = call->state,
            .pid = (uint32_t)call->pid,
            .slot = call->slot >= 0 ? (uint32_t)call->slot : UINT32_MAX,
            .leftovers = call->leftovers,
            .kept_offset = call->ring.start,
            .end_offset = call->ring.end,
            .age_ms = (uint64_t)(now - call->started_usec) / 1000,
        };
        count += cay_frame_put_call(&init->link.out, call->id, &entry);
        if (is_detailed)
            put_detail(init, call);
    }
    (void)cay_frame_put_u32(&init->link.out, CAY_FRAME_LISTED, 0, count);
}

static void do_procs(struct init *init, const struct call *call)
{
    static struct cay_frame_procs procs;
    procs.count = tree_list(init, call, procs.pids, CAY_FRAME_PROCS_MAX, &procs.total);
    (void)cay_frame_put_procs(&init->link.out, call->id, &procs);
}

static void do_who(struct init *init, const struct call *call)
{
    static char texts[CAY_FRAME_WHO_MAX][CAY_FRAME_WHO_TEXT_BYTES_MAX];
    static struct cay_frame_who who;
    who.count = tree_list(init, call, who.pids, CAY_FRAME_WHO_MAX, &who.total);
    for (uint32_t i = 0; i < who.count; i++)
        who.commands[i] = tree_command(who.pids[i], texts[i], sizeof(texts[i]));
    (void)cay_frame_put_who(&init->link.out, call->id, &who);
}

static bool do_attach(struct init *init, struct call *call, const struct cay_frame *frame)
{
    uint64_t offset = 0;
    uint32_t window_bytes = 0;
    if (!cay_frame_get_attach(frame, &offset, &window_bytes))
        return false;
    call->attached = window_bytes > 0;
    call->window_bytes = CAY_MIN(window_bytes, call->ring.size);
    call->sent = call->acked = CAY_MIN(offset, call->ring.end);
    if (call->state != CAY_CALL_RUNNING)
        call->tell_exit = true;
    stdio_resume(init, call);
    return true;
}

static bool do_ack(struct init *init, struct call *call, const struct cay_frame *frame)
{
    uint64_t offset = 0;
    if (!cay_frame_get_u64(frame, &offset))
        return false;
    if (call->flags & CAY_EXEC_FOLLOW)
        call->is_unread = offset == UINT64_MAX;
    /* More than was sent: of an attachment before this one. What is read piece by piece was not
     * sent. */
    uint64_t most = call->attached ? call->sent : call->ring.end;
    call->acked = CAY_MAX(call->acked, CAY_MIN(offset, most));
    stdio_resume(init, call);
    return true;
}

static bool do_read(struct call *call, const struct cay_frame *frame)
{
    call->wants_piece = cay_frame_get_read(frame, &call->piece_offset, &call->piece_bytes_max);
    return call->wants_piece;
}

static void do_resize(struct init *init, struct call *call, const struct cay_frame *frame)
{
    struct cay_frame_size size;
    int result = cay_frame_get_size(frame, &size) ? pty_resize(init, call, &size) : -EINVAL;
    if (result < 0)
        link_refuse(init, frame->call, frame->type, result);
}

static void do_release(struct init *init, struct call *call)
{
    if (call->state == CAY_CALL_RUNNING) {
        link_refuse(init, call->id, CAY_FRAME_RELEASE, -EBUSY);
        return;
    }
    call->released = true;
    call->attached = false;
    call->tell_exit = false;
    stdio_resume(init, call);
    call_settle(init, call);
}

static bool request_call(struct init *init, struct call *call, const struct cay_frame *frame)
{
    switch ((int)frame->type) {
    case CAY_FRAME_STDIN: return stdio_feed(init, call, frame->payload, frame->len);
    case CAY_FRAME_STDIN_CLOSE:
        call->stdin_closing = true;
        stdio_stdin_ready(init, call);
        return true;
    case CAY_FRAME_SIGNAL: do_signal(init, call, frame); return true;
    case CAY_FRAME_ACK: return do_ack(init, call, frame);
    case CAY_FRAME_ATTACH: return do_attach(init, call, frame);
    case CAY_FRAME_DETACH:
        call->attached = false;
        stdio_resume(init, call);
        return true;
    case CAY_FRAME_RELEASE: do_release(init, call); return true;
    case CAY_FRAME_PROCS: do_procs(init, call); return true;
    case CAY_FRAME_WHO: do_who(init, call); return true;
    case CAY_FRAME_READ: return do_read(call, frame);
    case CAY_FRAME_RESIZE: do_resize(init, call, frame); return true;
    default: return false;
    }
}

bool request(struct init *init, struct link *link, const struct cay_frame *frame)
{
    uint64_t value = 0;
    switch ((int)frame->type) {
    case CAY_FRAME_SLOT:
    case CAY_FRAME_ROOM: do_slot(init, link, frame); return true;
    case CAY_FRAME_EXEC:
    case CAY_FRAME_SPAWN: do_exec(init, frame); return true;
    case CAY_FRAME_LIST: do_list(init, false); return true;
    case CAY_FRAME_SURVEY: do_list(init, true); return true;
    case CAY_FRAME_PING:
        return cay_frame_get_u64(frame, &value) &&
               cay_frame_put_u64(&link->out, CAY_FRAME_PONG, frame->call, value);
    case CAY_FRAME_SKIP_CLOCK:
        if (!cay_frame_get_u64(frame, &value))
            return false;
        calls_skip_clock(init, value);
        return true;
    case CAY_FRAME_SHUTDOWN: init->leaving = true; return true;
    case CAY_FRAME_START:
    case CAY_FRAME_HELLO: return false;
    default: break;
    }
    struct call *call = call_find(init, frame->call);
    if (!call) {
        /* It may have ended and been forgotten while the frame was on its way. */
        link_refuse(init, frame->call, frame->type, -ESRCH);
        return true;
    }
    return request_call(init, call, frame);
}
