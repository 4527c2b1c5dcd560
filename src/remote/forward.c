/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/behalf.h"
#include "api/limits.h"
#include "client/rpc/talk.h"
#include "io/stream.h"
#include "remote/remote_internal.h"

/*
 * One call, here and there. It has a connection of its own to the other daemon, so that to leave
 * the call is to close it. Messages are passed on one by one: what the caller does not take is not
 * read there, what the daemon does not take is not asked for here.
 */

enum {
    KNOCK_AGAIN_MS = 10, /* at a Unix socket whose queue is full */
    TIMEOUT_MS_MAX = 999'999'999,
    HEADERS_BYTES_MAX = 1024,
    READS_MAX = 16, /* in one turn of the loop: others have theirs */
};

struct forwarded {
    struct cay_remote *remote;
    struct cay_call *call;
    struct cay_list_node in_remote;
    struct cay_talk talk;
    struct cay_buf headers;
    struct cay_buf waiting; /* to be sent once there is a connection */
    struct cay_stream stream;
    struct cay_timer again;
    unsigned depth; /* functions at work on it */
    bool is_open;   /* the stream is */
    bool has_asked; /* for the caller's next message */
    bool is_full;   /* the caller has enough of the answer for now */
    bool is_over;   /* it ends with `err`, or well */
    const void *response;
    struct cay_error err;
};

static void enter(struct forwarded *self)
{
    self->depth++;
}

/* The verb answers here and nowhere else: not inside of anything the call may not end in. */
static void leave(struct forwarded *self)
{
    if (--self->depth || !self->is_over)
        return;
    struct cay_call *call = self->call;
    struct cay_error err = self->err;
    const void *response = self->response;
    cay_list_remove(&self->in_remote);
    cay_timer_close(&self->again);
    if (self->is_open)
        cay_stream_close(&self->stream);
    cay_talk_finish(&self->talk);
    cay_buf_finish(&self->headers);
    cay_buf_finish(&self->waiting);
    free(self);
    if (err.reason)
        cay_call_fail(call, &err);
    else if (response)
        cay_call_done_kept(call, response);
    else
        cay_call_done(call, NULL);
}

static void give_up(struct forwarded *self, const struct cay_error *err)
{
    if (!self->is_over)
        self->err = *err;
    self->is_over = true;
}

/* Passes on what came, as long as the caller takes it. */
static void pass_answers(struct forwarded *self)
{
    while (!self->is_over && !self->is_full) {
        struct cay_error err = {};
        const void *message = NULL;
        switch (cay_talk_next(&self->talk, &self->call->arena, &message, &err)) {
        case CAY_TALK_NOTHING: return;
        case CAY_TALK_END: self->is_over = true; return;
        case CAY_TALK_FAILED: give_up(self, &err); return;
        case CAY_TALK_MESSAGE:
            if (self->call->method->server_streaming)
                self->is_full = !cay_call_send(self->call, message);
            else
                self->response = message;
        }
    }
}

/* Also what stands in the socket of a connection that is broken otherwise. */
static ssize_t receive(struct forwarded *self, char *out, size_t size)
{
    if (!self->stream.is_broken)
        return cay_stream_read(&self->stream, out, size);
    ssize_t got = recv(self->stream.fd, out, size, MSG_DONTWAIT);
    return got < 0 ? 0 : got;
}

/* Reads until there is nothing, the caller has enough, or it is over. What is left of a connection
 * that is not broken is there in the loop's next turn. */
static void read_on(struct forwarded *self)
{
    pass_answers(self);
    for (unsigned reads = 0; !self->is_over && !self->is_full && self->is_open; reads++) {
        char *scratch = cay_loop_scratch(self->remote->loop);
        struct cay_error err = {};
        if (reads == READS_MAX && !self->stream.is_broken)
            break;
        ssize_t got = receive(self, scratch, CAY_LOOP_SCRATCH_BYTES);
        if (got == -EAGAIN)
            break;
        if (got <= 0)
            cay_talk_hang_up(&self->talk);
        else if (!cay_talk_feed(&self->talk, (struct cay_str){scratch, (size_t)got}, &err))
            give_up(self, &err);
        pass_answers(self);
    }
    if (self->is_open && !self->stream.is_broken)
        cay_stream_want_read(&self->stream, !self->is_full && !self->is_over);
}

static size_t unsent(const struct forwarded *self)
{
    return self->is_open ? cay_stream_queued(&self->stream) : self->waiting.len;
}

/* The caller's next message, if the daemon takes what was sent. */
static void ask_on(struct forwarded *self)
{
    if (self->call->method->client_streaming && !self->has_asked && !self->is_over &&
        self->call->on_message && unsent(self) < CAY_LIMIT_SEND_HIGH_BYTES) {
        self->has_asked = true;
        cay_call_next(self->call);
    }
}

static struct cay_buf *out_of(struct forwarded *self)
{
    return self->is_open ? cay_stream_out(&self->stream) : &self->waiting;
}

static void on_message(struct cay_call *call, const void *message)
{
    struct forwarded *self = call->state;
    struct cay_error err = {};
    enter(self);
    self->has_asked = false;
    if (!cay_talk_give(&self->talk, message, out_of(self), &err))
        give_up(self, &err);
    if (self->is_open)
        cay_stream_wrote(&self->stream);
    if (message)
        ask_on(self);
    else
        self->has_asked = true; /* there is none after the last */
    leave(self);
}

static void on_room(struct cay_call *call)
{
    struct forwarded *self = call->state;
    enter(self);
    self->is_full = false;
    read_on(self);
    leave(self);
}

static void on_cancel(struct cay_call *call)
{
    struct forwarded *self = call->state;
    struct cay_error err = {};
    cay_fail(&err, CAY_R_CANCELED, NULL);
    enter(self);
    give_up(self, &err);
    leave(self);
}

static struct forwarded *of(struct cay_stream *stream)
{
    return CAY_CONTAINER_OF(stream, struct forwarded, stream);
}

static void on_readable(struct cay_stream *stream)
{
    enter(of(stream));
    read_on(of(stream));
    leave(of(stream));
}

static void on_sent(struct cay_stream *stream)
{
    enter(of(stream));
    ask_on(of(stream));
    leave(of(stream));
}

/* What the daemon said before may still be there; it comes first. */
static void on_broken(struct cay_stream *stream, int)
{
    enter(of(stream));
    read_on(of(stream));
    leave(of(stream));
}

static void open_stream(struct forwarded *self, int fd)
{
    static const struct cay_stream_events events = {
        .readable = on_readable, .sent = on_sent, .broken = on_broken};
    int status = cay_stream_open(&self->stream, self->remote->loop, fd, NULL, &events,
                                 (size_t)4 * CAY_LIMIT_MESSAGE_BYTES);
    if (status < 0) {
        struct cay_error err = {};
        cay_blame_not_connected(&self->remote->client->address, -status, &err);
        give_up(self, &err);
        return;
    }
    self->is_open = true;
    cay_stream_write(&self->stream, self->waiting.data, self->waiting.len);
    cay_wipe(self->waiting.data, self->waiting.len); /* it holds the key */
    cay_buf_finish(&self->waiting);
}

static void knock(struct forwarded *self)
{
    const struct cay_remote *remote = self->remote;
    struct cay_error err = {};
    cay_autoclose int fd =
        socket(remote->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int status = fd < 0 ? errno : 0;
    if (!status && connect(fd, (const struct sockaddr *)&remote->address, remote->address_len) < 0)
        status = errno;
    if (!status || status == EINPROGRESS) {
        open_stream(self, cay_take_fd(fd));
    } else if (status == EAGAIN && remote->address.ss_family == AF_UNIX) {
        cay_timer_start(&self->again, KNOCK_AGAIN_MS, 0);
    } else {
        cay_blame_not_connected(&remote->client->address, status, &err);
        give_up(self, &err);
    }
}

static void on_again(struct cay_timer *timer)
{
    struct forwarded *self = CAY_CONTAINER_OF(timer, struct forwarded, again);
    enter(self);
    knock(self);
    leave(self);
}

/* For whom it is, and how long they wait. */
static void write_headers(struct forwarded *self)
{
    const struct cay_call *call = self->call;
    uint64_t now_ms = cay_loop_now_ms(self->remote->loop);
    cay_buf_append_text(&self->headers, CAY_BEHALF_HEADER ": ");
    cay_behalf_write(&call->caller, &self->headers);
    cay_buf_append_text(&self->headers, "\r\n");
    if (call->deadline_ms) {
        uint64_t left_ms = call->deadline_ms > now_ms ? call->deadline_ms - now_ms : 1;
        cay_buf_printf(&self->headers, "Connect-Timeout-Ms: %llu\r\n",
                       (unsigned long long)CAY_MIN(left_ms, (uint64_t)TIMEOUT_MS_MAX));
    }
}

void cay_remote_forward(struct cay_service *service, struct cay_call *call)
{
    struct cay_remote *remote = CAY_CONTAINER_OF(service, struct cay_remote, service);
    struct forwarded *self = cay_new(struct forwarded);
    struct cay_error err = {};
    self->remote = remote;
    self->call = call;
    cay_list_push_back(&remote->calls, &self->in_remote);
    cay_timer_open(&self->again, remote->loop, on_again);
    cay_buf_init(&self->headers, HEADERS_BYTES_MAX);
    cay_buf_init(&self->waiting, (size_t)4 * CAY_LIMIT_MESSAGE_BYTES);
    call->state = self;
    call->on_cancel = on_cancel;
    call->on_room = on_room;
    if (call->method->client_streaming)
        call->on_message = on_message;
    enter(self);
    write_headers(self);
    cay_talk_init(&self->talk, remote->client, call->method, cay_buf_str(&self->headers));
    if (cay_talk_begin(&self->talk, call->request, &self->waiting, &err))
        knock(self);
    else
        give_up(self, &err);
    ask_on(self);
    leave(self);
}

void cay_remote_stop(struct cay_remote *remote)
{
    cay_list_for_each (struct forwarded, self, &remote->calls, in_remote) {
        struct cay_call *call = self->call;
        bool is_stream = call->method->client_streaming || call->method->server_streaming;
        struct cay_error err = {};
        cay_fail(&err, CAY_R_DAEMON_RESTARTING, NULL);
        if (!is_stream)
            continue;
        call->is_restarting = true;
        if (call->ops->cut)
            call->ops->cut(call, &err);
    }
}
