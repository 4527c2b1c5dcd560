/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/limits.h"
#include "base/clock.h"
#include "client/rpc/transfer.h"

/*
 * HTTP/1.1 without TLS, on a Unix socket or by TCP: a call costs no more than its bytes. Sending
 * and receiving overlap, so that a daemon that refuses early is heard. The connection is kept.
 */

enum { READ_BYTES = 64 * 1024 };

struct plain {
    struct cay_transfer *transfer;
    int fd;
    int64_t deadline_ns; /* 0: none */
    bool is_reused;

    struct cay_buf out;
    size_t out_sent;
    bool is_source_over;

    struct cay_answer answer;
    bool must_close;
};

/* False with *err when time is up or the caller is stopped. */
static bool wait_for(const struct plain *self, short events, short *out_ready,
                     struct cay_error *err)
{
    return cay_transfer_wait(self->transfer->client, self->fd, events, self->deadline_ns,
                             !self->answer.head.len && !self->out_sent, out_ready, err);
}

/* A kept connection on which there is something to read has been closed, or is not in step. */
static bool take_kept(struct plain *self)
{
    struct cay_client *client = self->transfer->client;
    self->fd = cay_take_fd(client->kept_fd);
    struct pollfd entry = {.fd = self->fd, .events = POLLIN};
    if (self->fd >= 0 && poll(&entry, 1, 0) != 0)
        close(cay_take_fd(self->fd));
    return self->fd >= 0;
}

static bool fill(struct plain *self, struct cay_error *err)
{
    struct cay_transfer *transfer = self->transfer;
    cay_wipe(self->out.data, self->out.len); /* the first one holds the API key */
    cay_buf_clear(&self->out, READ_BYTES);
    self->out_sent = 0;
    if (self->is_source_over)
        return true;
    if (!transfer->source(transfer, &transfer->unsent, err)) {
        transfer->has_failed = true;
        return false;
    }
    self->is_source_over = !transfer->unsent.len;
    cay_buf_printf(&self->out, "%zx\r\n", transfer->unsent.len);
    cay_buf_append_str(&self->out, cay_buf_str(&transfer->unsent));
    cay_buf_append_text(&self->out, "\r\n");
    cay_buf_clear(&transfer->unsent, READ_BYTES);
    return true;
}

static bool broke(struct plain *self, struct cay_error *err)
{
    const struct cay_client *client = self->transfer->client;
    /* This is what most servers do whom plain text meets where they expect TLS. */
    if (!self->answer.head.len && !self->is_reused && !client->address.unix_path)
        return cay_fail(err, CAY_R_UNAVAILABLE,
                        "%.100s closed the connection without an answer; try again, or, if it uses "
                        "TLS, write https:// in CAY_URL",
                        client->address.text);
    return cay_transfer_broke(client, err);
}

static bool has_more_to_send(const struct plain *self)
{
    return self->out_sent < self->out.len || !self->is_source_over;
}

static bool send_some(struct plain *self, struct cay_error *err)
{
    if (self->out_sent == self->out.len && !fill(self, err))
        return false;
    ssize_t sent = send(self->fd, self->out.data + self->out_sent, self->out.len - self->out_sent,
                        MSG_NOSIGNAL);
    if (sent > 0)
        self->out_sent += (size_t)sent;
    if (sent >= 0 || errno == EAGAIN || errno == EINTR)
        return true;
    /* It takes no more; what it has to say about that may be there already. */
    self->is_source_over = true;
    self->out_sent = self->out.len;
    self->must_close = true;
    return true;
}

static bool receive_some(struct plain *self, struct cay_error *err)
{
    char data[READ_BYTES];
    ssize_t got = recv(self->fd, data, sizeof(data), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (got <= 0)
        return cay_answer_end(&self->answer) || broke(self, err);
    return cay_answer_feed(&self->answer, self->transfer, (struct cay_str){data, (size_t)got}, err);
}

static bool exchange(struct plain *self, struct cay_error *err)
{
    const struct cay_transfer *transfer = self->transfer;
    const struct cay_answer *answer = &self->answer;
    while (!answer->is_complete && !transfer->is_over) {
        short ready = 0;
        /* A refusal ends what we wanted to say. */
        bool sends = has_more_to_send(self) && (!answer->has_head || answer->status == 200);
        if (!wait_for(self, (short)(POLLIN | (sends ? POLLOUT : 0)), &ready, err))
            return false;
        if (ready & (POLLIN | POLLHUP | POLLERR) && !receive_some(self, err))
            return false;
        if (sends && ready & POLLOUT && !answer->is_complete && !transfer->is_over &&
            !send_some(self, err))
            return false;
    }
    return true;
}

static bool attempt(struct plain *self, struct cay_error *err)
{
    self->is_reused = take_kept(self);
    if (!self->is_reused &&
        !cay_transfer_connect(self->transfer->client, self->deadline_ns, &self->fd, err))
        return false;
    cay_transfer_write_head(self->transfer, &self->out);
    self->is_source_over = !self->transfer->source;
    bool is_done = exchange(self, err);
    bool is_kept = is_done && self->answer.is_complete && !self->answer.is_last &&
                   !self->must_close && !has_more_to_send(self);
    if (is_kept)
        self->transfer->client->kept_fd = cay_take_fd(self->fd);
    else
        close(cay_take_fd(self->fd));
    return is_done;
}

bool cay_transfer_run_plain(struct cay_transfer *transfer, int *out_status, char *out_type,
                            size_t type_size, struct cay_error *err)
{
    bool is_done = false;
    bool is_again = false;
    int64_t timeout_ms = transfer->client->timeout_ms;
    int64_t deadline_ns =
        timeout_ms ? cay_clock_ns() + (timeout_ms + CAY_TRANSFER_GRACE_MS) * (int64_t)CAY_NS_PER_MS
                   : 0;
    *err = (struct cay_error){}; /* whether it is set is how we know what happened */
    do {
        struct plain self = {.transfer = transfer, .fd = -1, .deadline_ns = deadline_ns};
        cay_buf_init(&self.out, 2 * CAY_LIMIT_MESSAGE_BYTES);
        cay_answer_init(&self.answer);
        is_done = attempt(&self, err);
        /* A kept connection may be closed in the very moment we use it: nobody has read us then. */
        is_again = !is_done && self.is_reused && !self.answer.head.len && !transfer->source &&
                   err->reason == CAY_R_UNAVAILABLE;
        if (is_again)
            *err = (struct cay_error){};
        *out_status = self.answer.status;
        snprintf(out_type, type_size, "%s", self.answer.type);
        cay_wipe(self.out.data, self.out.len);
        cay_buf_finish(&self.out);
        cay_answer_finish(&self.answer);
    } while (is_again);
    return is_done;
}
