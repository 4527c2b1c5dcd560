/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "init/init.h"

enum {
    STDIN_REPORT_BYTES = CAY_FRAME_STDIN_WINDOW_BYTES_1 / 4,
    PIPE_BYTES = 65536, /* what a pipe keeps (pipe(7)) */
    PIPE_WIDE_BYTES = 1 << 20,
    PTY_DRAIN_BYTES = 131072, /* more than drivers/tty/pty.c lets a terminal keep */
};

static const enum event_kind output_kinds[2] = {EVENT_STDOUT, EVENT_STDERR};

void stdio_watch(struct init *init, struct call *call, int which)
{
    if (call->output_fd[which] < 0 || call->output_waits[which])
        return;
    watch(init, call->output_fd[which], EPOLLIN, output_kinds[which], call);
    call->output_waits[which] = true;
}

static void pause_output(struct init *init, struct call *call, int which)
{
    if (!call->output_waits[which])
        return;
    unwatch(init, call->output_fd[which]);
    call->output_waits[which] = false;
}

void stdio_close_output(struct init *init, struct call *call, int which)
{
    if (call->output_fd[which] < 0)
        return;
    /* The last descriptor of a file takes it out of epoll (epoll(7)); that of a terminal has one
     * more. */
    if (call->flags & CAY_EXEC_PTY)
        pause_output(init, call, which);
    call->output_waits[which] = false;
    close(call->output_fd[which]);
    call->output_fd[which] = -1;
}

/* How much may be read now. Somebody attached is waited for; nobody attached loses the oldest; a
 * released call loses everything. */
static uint32_t readable_bytes(const struct call *call)
{
    bool holds = call->flags & CAY_EXEC_BLOCK && !call->is_unread;
    if (call->released || (!call->attached && !holds))
        return READ_BYTES;
    return CAY_MIN(cay_ring_room(&call->ring, call->acked), (uint32_t)READ_BYTES);
}

/* In gVisor every turn of reader and writer is dear. Most commands write little, and are spared the
 * call. */
static void widen(const struct init *init, struct call *call, int which, ssize_t got)
{
    if (!init->page || got < PIPE_BYTES || call->is_output_wide[which])
        return;
    call->is_output_wide[which] = true;
    (void)fcntl(call->output_fd[which], F_SETPIPE_SZ, PIPE_WIDE_BYTES);
}

/* Reads at most len bytes of one pipe. 0 when the pipe is empty or closed (and then is no more). */
static uint32_t read_output(struct init *init, struct call *call, int which, uint32_t len)
{
    static uint8_t discard[READ_BYTES];
    uint8_t *at = discard;
    if (!call->released) {
        if (cay_ring_room(&call->ring, 0) < len) {
            /* Old output is given up for what is there, not for what could be. */
            int waiting = 0;
            (void)ioctl(call->output_fd[which], FIONREAD, &waiting);
            len = CAY_MIN(len, (uint32_t)CAY_MAX(waiting, 0));
        }
        /* Nothing there is most likely the end; it needs no room. */
        if (len)
            len = cay_ring_reserve(&call->ring, len, &at);
        else
            len = 1;
    }
    ssize_t got = read(call->output_fd[which], at, len);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        stdio_close_output(init, call, which);
    if (got <= 0)
        return 0;
    widen(init, call, which, got);
    if (!call->released && at == discard) {
        /* A byte after all. */
        uint8_t byte = *at;
        (void)cay_ring_reserve(&call->ring, 1, &at);
        *at = byte;
    }
    if (!call->released) {
        uint8_t stream = which ? CAY_STREAM_STDERR : CAY_STREAM_STDOUT;
        if (call->flags & CAY_EXEC_PTY)
            stream = CAY_STREAM_PTY;
        cay_ring_claim(&call->ring, stream, (uint32_t)got);
        call->stdout_bytes += which ? 0 : (uint64_t)got;
    }
    return (uint32_t)got;
}

void stdio_output_ready(struct init *init, struct call *call, int which)
{
    if (call->output_fd[which] < 0)
        return;
    uint32_t len = readable_bytes(call);
    if (len == 0) {
        pause_output(init, call, which);
        return;
    }
    if (read_output(init, call, which, len) && call->quiet_ms)
        call->quiet_deadline_ms = now_ms() + (int64_t)call->quiet_ms;
    if (call->output_fd[0] < 0 && call->output_fd[1] < 0)
        call_settle(init, call);
}

/* What the command wrote until its end is what lies in the pipes now: no more is read, so that
 * somebody who goes on writing cannot hold us. Where a reader is behind, it stays in the pipe and
 * counts as written. */
void stdio_drain(struct init *init, struct call *call)
{
    uint64_t unread[2] = {};
    for (int which = 0; which < 2; which++) {
        int waiting = 0;
        bool is_pty = call->flags & CAY_EXEC_PTY;
        if (call->output_fd[which] < 0 || ioctl(call->output_fd[which], FIONREAD, &waiting) < 0)
            continue;
        /* What is on its way through a terminal is not counted, but read. */
        uint32_t left = is_pty ? (uint32_t)PTY_DRAIN_BYTES : (uint32_t)waiting;
        while (left > 0 && call->output_fd[which] >= 0) {
            uint32_t len = CAY_MIN(left, readable_bytes(call));
            uint32_t got = len ? read_output(init, call, which, len) : 0;
            if (!got)
                break;
            left -= got;
        }
        unread[which] = call->output_fd[which] >= 0 && !is_pty ? left : 0;
    }
    call->exit.end_offset = call->ring.end + unread[0] + unread[1];
    call->exit.stdout_bytes = call->stdout_bytes + unread[0];
    call->exit.kept_offset = call->ring.start;
}

void stdio_resume(struct init *init, struct call *call)
{
    if (readable_bytes(call) == 0)
        return;
    stdio_watch(init, call, 0);
    stdio_watch(init, call, 1);
}

/* Nothing waits any more: its memory goes. */
static void drop_input(struct call *call)
{
    if (call->stdin_data)
        munmap(call->stdin_data, CAY_FRAME_STDIN_WINDOW_BYTES);
    call->stdin_data = NULL;
    call->stdin_at = call->stdin_len = 0;
}

void stdio_close_stdin(struct init *init, struct call *call)
{
    if (call->stdin_fd < 0)
        return;
    if (call->stdin_waits)
        unwatch(init, call->stdin_fd);
    call->stdin_waits = false;
    close(call->stdin_fd);
    call->stdin_fd = -1;
    call->stdin_total += call->stdin_len;
    drop_input(call);
}

void stdio_stdin_ready(struct init *init, struct call *call)
{
    while (call->stdin_fd >= 0 && call->stdin_len) {
        ssize_t sent = write(call->stdin_fd, call->stdin_data + call->stdin_at, call->stdin_len);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno == EAGAIN)
            break;
        if (sent < 0) {
            stdio_close_stdin(init, call); /* the command reads no more */
            return;
        }
        call->stdin_at += (uint32_t)sent;
        call->stdin_len -= (uint32_t)sent;
        call->stdin_total += (uint64_t)sent;
    }
    if (call->stdin_fd < 0)
        return;
    if (!call->stdin_len)
        drop_input(call);
    if (!call->stdin_len && call->stdin_closing) {
        stdio_close_stdin(init, call);
    } else if (call->stdin_len && !call->stdin_waits) {
        watch(init, call->stdin_fd, EPOLLOUT, EVENT_STDIN, call);
        call->stdin_waits = true;
    } else if (!call->stdin_len && call->stdin_waits) {
        unwatch(init, call->stdin_fd);
        call->stdin_waits = false;
    }
}

static bool feed(struct init *init, struct call *call, const uint8_t *data, uint32_t len)
{
    if (call->stdin_closing || !(call->flags & (CAY_EXEC_STDIN | CAY_EXEC_PTY)) ||
        len > CAY_FRAME_STDIN_WINDOW_BYTES - call->stdin_len)
        return false;
    if (call->stdin_fd >= 0 && !call->stdin_len) {
        ssize_t sent = write(call->stdin_fd, data, len);
        sent = CAY_MAX(sent, (ssize_t)0); /* what is wrong shows at the next attempt */
        call->stdin_total += (uint64_t)sent;
        data += sent;
        len -= (uint32_t)sent;
    }
    if (call->stdin_fd < 0 || !len) {
        call->stdin_total += len; /* refused, but not owed */
        return true;
    }
    if (!call->stdin_data) {
        void *memory = mmap(NULL, CAY_FRAME_STDIN_WINDOW_BYTES, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) {
            stdio_close_stdin(init, call);
            call->stdin_total += len;
            return true;
        }
        call->stdin_data = memory;
    }
    if (call->stdin_at && call->stdin_at + call->stdin_len + len > CAY_FRAME_STDIN_WINDOW_BYTES) {
        memmove(call->stdin_data, call->stdin_data + call->stdin_at, call->stdin_len);
        call->stdin_at = 0;
    }
    memcpy(call->stdin_data + call->stdin_at + call->stdin_len, data, len);
    call->stdin_len += len;
    stdio_stdin_ready(init, call);
    return true;
}

bool stdio_feed(struct init *init, struct call *call, const uint8_t *data, uint32_t len)
{
    bool has_keys = init->page && call->flags & CAY_EXEC_PTY && call->output_fd[0] >= 0;
    while (has_keys && len) {
        uint32_t before = pty_keys_before_signal(call, data, len);
        if (before == len)
            break;
        if (before && !feed(init, call, data, before))
            return false;
        pty_press(call, data[before]);
        call->stdin_total++;
        data += before + 1;
        len -= before + 1;
    }
    return !len || feed(init, call, data, len);
}

/* Output within the window, in order. False when the buffer has no room for more. */
static bool pump_output(struct call *call, struct cay_frame_writer *out)
{
    enum { OVERHEAD_BYTES = CAY_FRAME_HEADER_BYTES + 9 };
    while (call->attached && call->sent < call->ring.end) {
        uint64_t limit = call->acked + call->window_bytes;
        uint64_t offset = CAY_MAX(call->sent, call->ring.start);
        /* What was dropped needs no acknowledgement. */
        limit = CAY_MAX(limit, call->ring.start + 1);
        if (offset >= limit)
            return true;
        size_t room = cay_frame_room(out);
        if (room < OUT_RESERVE_BYTES + OVERHEAD_BYTES + 1)
            return false;
        uint64_t most = CAY_MIN(limit - offset, (uint64_t)CAY_FRAME_DATA_BYTES_MAX);
        most = CAY_MIN(most, (uint64_t)(room - OUT_RESERVE_BYTES - OVERHEAD_BYTES));
        struct cay_frame_output output = {};
        const uint8_t *at = NULL;
        uint32_t len = cay_ring_peek(&call->ring, &offset, (uint32_t)most, &output.stream, &at);
        output.offset = offset;
        output.data = (struct cay_str){(const char *)at, len};
        if (!len || !cay_frame_put_output(out, call->id, &output))
            return false;
        call->sent = offset + len;
    }
    return true;
}

/* The answer to READ, once there is something to answer with. False as above. */
static bool pump_piece(struct call *call, struct cay_frame_writer *out)
{
    enum { OVERHEAD_BYTES = CAY_FRAME_HEADER_BYTES + 17 };
    if (!call->wants_piece || call->piece_offset >= call->ring.end)
        return true;
    size_t room = cay_frame_room(out);
    if (room < OUT_RESERVE_BYTES + OVERHEAD_BYTES + 1)
        return false;
    size_t most = CAY_MIN(room - OUT_RESERVE_BYTES - OVERHEAD_BYTES, (size_t)call->piece_bytes_max);
    struct cay_frame_piece piece = {.output.offset = call->piece_offset,
                                    .kept_offset = call->ring.start};
    struct cay_frame_output *output = &piece.output;
    const uint8_t *at = NULL;
    uint32_t len =
        cay_ring_peek(&call->ring, &output->offset, (uint32_t)most, &output->stream, &at);
    output->data = (struct cay_str){(const char *)at, len};
    call->wants_piece = !cay_frame_put_piece(out, call->id, &piece);
    return !call->wants_piece;
}

static bool pump_call(struct init *init, struct call *call, struct cay_frame_writer *out)
{
    enum { NOTES_BYTES = 256 };
    if (call->tell_start && cay_frame_room(out) > NOTES_BYTES) {
        struct cay_frame_started started = {
            .pid = (uint32_t)call->group,
            .slot = call->slot >= 0 ? (uint32_t)call->slot : UINT32_MAX,
            .slots = slots_report(init),
        };
        call->tell_start = !cay_frame_put_started(out, call->id, &started);
    }
    bool all = pump_output(call, out) && pump_piece(call, out);
    if (call->stdin_total > call->stdin_told && cay_frame_room(out) > NOTES_BYTES &&
        (!call->stdin_len || call->stdin_total - call->stdin_told >= STDIN_REPORT_BYTES) &&
        cay_frame_put_u64(out, CAY_FRAME_STDIN_ROOM, call->id, call->stdin_total))
        call->stdin_told = call->stdin_total;
    if (call->tell_exit && tree_tell_killed(init, call) && cay_frame_room(out) > NOTES_BYTES) {
        call->exit.slots = slots_report(init);
        call->tell_exit = !cay_frame_put_exit(out, call->id, &call->exit);
    }
    if (call->tell_gone && !call->tell_exit && cay_frame_room(out) > NOTES_BYTES)
        call->tell_gone = !cay_frame_put_u64(out, CAY_FRAME_GONE, call->id, call->ring.end);
    return all;
}

void stdio_pump(struct init *init)
{
    for (uint32_t i = 0; i < init->calls_used; i++) {
        struct call *call = &init->calls[(init->pump_next + i) % init->calls_used];
        if (!call->id)
            continue;
        if (!pump_call(init, call, &init->link.out)) {
            init->pump_next = (init->pump_next + i + 1) % init->calls_used;
            break;
        }
        if (call->released)
            call_settle(init, call);
    }
}
