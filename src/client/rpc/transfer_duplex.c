/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/limits.h"
#include "client/rpc/transfer.h"

/*
 * A POST whose two bodies flow at the same time, each as fast as its reader takes it: neither waits
 * for the other. HTTP/1.1 on a connection of its own; the daemon answers before the request is over
 * and reads on. Through TLS and proxies libcurl carries the bytes.
 */

enum { PIECE_BYTES = 64 * 1024 };

struct duplex {
    struct cay_transfer *transfer;
    struct cay_client_duplex *other;
    struct cay_answer answer;
    struct cay_buf out;
    size_t out_sent;
    int fd;
    bool is_plain;
    bool is_source_over;
};

static ssize_t send_bytes(const struct duplex *self, const char *data, size_t len)
{
    if (!self->is_plain)
        return cay_curl_send(self->transfer->client, data, len);
    ssize_t sent = send(self->fd, data, len, MSG_NOSIGNAL);
    return sent < 0 ? -(ssize_t)errno : sent;
}

static ssize_t receive_bytes(const struct duplex *self, char *out, size_t size)
{
    if (!self->is_plain)
        return cay_curl_receive(self->transfer->client, out, size);
    ssize_t got = recv(self->fd, out, size, 0);
    return got < 0 ? -(ssize_t)errno : got;
}

static bool is_later(ssize_t status)
{
    return status == -EAGAIN || status == -EINTR;
}

static bool is_over(const struct duplex *self)
{
    return self->answer.is_complete || self->transfer->is_over;
}

/* The next piece of the request's body, if there is one. */
static bool fill(struct duplex *self, struct cay_error *err)
{
    struct cay_transfer *transfer = self->transfer;
    struct cay_client_duplex *other = self->other;
    if (self->is_source_over || other->is_waiting || other->is_held)
        return true;
    if (!transfer->source(transfer, &transfer->unsent, err)) {
        transfer->has_failed = true;
        return false;
    }
    if (!transfer->unsent.len && (other->is_waiting || other->is_held))
        return true;
    self->is_source_over = !transfer->unsent.len;
    cay_buf_printf(&self->out, "%zx\r\n", transfer->unsent.len);
    cay_buf_append_str(&self->out, cay_buf_str(&transfer->unsent));
    cay_buf_append_text(&self->out, "\r\n");
    cay_buf_clear(&transfer->unsent, 2 * PIECE_BYTES);
    return true;
}

/* *moved: something was done, and there may be more to do. */
static bool send_some(struct duplex *self, bool *moved, struct cay_error *err)
{
    if (self->out_sent == self->out.len) {
        cay_wipe(self->out.data, self->out.len); /* the first one holds the API key */
        cay_buf_clear(&self->out, 2 * PIECE_BYTES);
        self->out_sent = 0;
        if (!fill(self, err))
            return false;
    }
    if (!self->out.len)
        return true;
    ssize_t sent =
        send_bytes(self, self->out.data + self->out_sent, self->out.len - self->out_sent);
    if (is_later(sent))
        return true;
    *moved = true;
    if (sent > 0) {
        self->out_sent += (size_t)sent;
        return true;
    }
    /* The daemon takes no more; what it has to say about that may be there already. */
    self->is_source_over = true;
    self->out_sent = self->out.len;
    return true;
}

static bool receive_some(struct duplex *self, bool *moved, struct cay_error *err)
{
    char data[PIECE_BYTES];
    if (self->other->is_full)
        return true;
    ssize_t got = receive_bytes(self, data, sizeof(data));
    if (is_later(got))
        return true;
    *moved = true;
    if (got <= 0)
        return cay_answer_end(&self->answer) || cay_transfer_broke(self->transfer->client, err);
    return cay_answer_feed(&self->answer, self->transfer, (struct cay_str){data, (size_t)got}, err);
}

static void wait_for_any(struct duplex *self)
{
    struct cay_client_duplex *other = self->other;
    bool sends = self->out_sent < self->out.len;
    short ours = (short)((other->is_full || is_over(self) ? 0 : POLLIN) | (sends ? POLLOUT : 0));
    short theirs = (short)((other->is_waiting ? POLLIN : 0) | (other->is_full ? POLLOUT : 0));
    /* A hang-up is reported whether or not it is asked for: who waits for nothing is left out. */
    struct pollfd entries[] = {{.fd = ours ? self->fd : -1, .events = ours},
                               {.fd = theirs ? other->fd : -1, .events = theirs}};
    if (poll(entries, CAY_COUNT(entries), -1) > 0 && entries[1].revents & ~POLLOUT)
        other->is_waiting = false;
}

static bool exchange(struct duplex *self, struct cay_error *err)
{
    struct cay_transfer *transfer = self->transfer;
    struct cay_client_duplex *other = self->other;
    for (;;) {
        bool moved = false;
        /* A refusal, and the end, end what we wanted to say. */
        if (is_over(self) || (self->answer.has_head && self->answer.status != 200)) {
            self->is_source_over = other->is_held = true;
            other->is_waiting = false;
            self->out_sent = self->out.len;
        }
        if (!send_some(self, &moved, err))
            return false;
        if (!is_over(self) && !receive_some(self, &moved, err))
            return false;
        if (other->is_full && !other->flush(other->state, err)) {
            transfer->has_failed = true;
            return false;
        }
        if (is_over(self) && !other->is_full)
            return true;
        if (!moved)
            wait_for_any(self);
    }
}

bool cay_transfer_run_duplex(struct cay_transfer *transfer, struct cay_client_duplex *other,
                             int *out_status, char *out_type, size_t type_size,
                             struct cay_error *err)
{
    struct duplex self = {
        .transfer = transfer,
        .other = other,
        .fd = -1,
        .is_plain = cay_transfer_is_plain(transfer->client),
    };
    if (!(self.is_plain ? cay_transfer_connect(transfer->client, 0, &self.fd, err)
                        : cay_curl_connect(transfer->client, &self.fd, err)))
        return false;
    cay_answer_init(&self.answer);
    cay_buf_init(&self.out, 2 * CAY_LIMIT_MESSAGE_BYTES);
    cay_transfer_write_head(transfer, &self.out);
    bool is_done = exchange(&self, err);
    *out_status = self.answer.status;
    snprintf(out_type, type_size, "%s", self.answer.type);
    cay_wipe(self.out.data, self.out.len);
    cay_buf_finish(&self.out);
    cay_answer_finish(&self.answer);
    if (self.is_plain)
        close(self.fd);
    return is_done;
}
