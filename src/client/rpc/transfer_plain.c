/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "api/limits.h"
#include "base/clock.h"
#include "client/rpc/transfer.h"
#include "wire/http1.h"

/*
 * HTTP/1.1 without TLS, on a Unix socket or by TCP: a call costs no more than its bytes. Sending
 * and receiving overlap, so that a daemon that refuses early is heard. The connection is kept.
 */

enum {
    READ_BYTES = 64 * 1024,
    STOP_LOOK_MS = 200, /* a signal may come right before a wait, which it then does not end */
};

struct plain {
    struct cay_transfer *transfer;
    int fd;
    int64_t deadline_ns; /* 0: none */
    bool is_reused;

    struct cay_buf out;
    size_t out_sent;
    bool is_source_over;

    struct cay_buf head;
    struct cay_http1_answer answer;
    struct cay_http1_chunks chunks;
    uint64_t body_left;
    char type[64];
    bool has_head;
    bool is_answered;
    bool must_close;
};

static bool interrupted(const struct cay_client *client, struct cay_error *err)
{
    return client->stop && *client->stop && !cay_fail(err, CAY_R_CANCELED, "interrupted");
}

/* False with *err when time is up or the caller is stopped. */
static bool wait_for(struct plain *self, short events, short *out_ready, struct cay_error *err)
{
    const struct cay_client *client = self->transfer->client;
    struct pollfd entry = {.fd = self->fd, .events = events};
    for (;;) {
        int64_t left_ms = -1;
        if (interrupted(client, err))
            return false;
        if (self->deadline_ns) {
            left_ms = (self->deadline_ns - cay_clock_ns()) / (int64_t)CAY_NS_PER_MS + 1;
            if (left_ms <= 0)
                return cay_transfer_timed_out(client, !self->head.len && !self->out_sent, err);
        }
        if (client->stop && (left_ms < 0 || left_ms > STOP_LOOK_MS))
            left_ms = STOP_LOOK_MS;
        int count = poll(&entry, 1, (int)CAY_MIN(left_ms, (int64_t)INT32_MAX));
        if (count > 0) {
            *out_ready = entry.revents;
            return true;
        }
    }
}

static bool finish_connect(struct plain *self, struct cay_error *err, int *out_status)
{
    short ready = 0;
    socklen_t len = sizeof(*out_status);
    int64_t deadline_ns = self->deadline_ns;
    int64_t most_ns = cay_clock_ns() + CAY_TRANSFER_CONNECT_MS * (int64_t)CAY_NS_PER_MS;
    self->deadline_ns = deadline_ns ? CAY_MIN(deadline_ns, most_ns) : most_ns;
    bool is_done = wait_for(self, POLLOUT, &ready, err);
    self->deadline_ns = deadline_ns;
    return is_done && getsockopt(self->fd, SOL_SOCKET, SO_ERROR, out_status, &len) == 0;
}

/* *out_errno: why nobody is there; 0 with false: *err says it. */
static bool connect_to(struct plain *self, const struct sockaddr *address, socklen_t len,
                       int *out_errno, struct cay_error *err)
{
    *out_errno = 0;
    self->fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (self->fd < 0)
        *out_errno = errno;
    else if (connect(self->fd, address, len) < 0)
        *out_errno = errno;
    /* A Unix socket whose queue is full says so at once: somebody is about to serve. */
    while (*out_errno == EAGAIN && address->sa_family == AF_UNIX) {
        struct pollfd nothing = {.fd = -1};
        (void)poll(&nothing, 1, 10);
        if (interrupted(self->transfer->client, err)) {
            *out_errno = 0;
            break;
        }
        *out_errno = connect(self->fd, address, len) < 0 ? errno : 0;
    }
    if (*out_errno == EINPROGRESS) {
        *out_errno = 0;
        (void)finish_connect(self, err, out_errno);
    }
    if (!*out_errno && !err->reason)
        return true;
    if (self->fd >= 0)
        close(cay_take_fd(self->fd));
    return false;
}

static void set_keepalive(int fd)
{
    static const int on = 1;
    static const int seconds = CAY_TRANSFER_KEEPALIVE_S;
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof(seconds));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof(seconds));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static bool connect_tcp(struct plain *self, struct cay_error *err)
{
    const struct cay_client *client = self->transfer->client;
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int status = 0;
    if (getaddrinfo(client->address.host, client->address.port, &hints, &found) != 0)
        return cay_transfer_unreachable(client, "there is no such host", "check CAY_URL", err);
    bool is_done = false;
    for (const struct addrinfo *to = found; to && !is_done && !err->reason; to = to->ai_next)
        is_done = connect_to(self, to->ai_addr, to->ai_addrlen, &status, err);
    freeaddrinfo(found);
    if (is_done)
        set_keepalive(self->fd);
    return is_done || (!err->reason && cay_transfer_not_connected(client, status, err));
}

static bool connect_unix(struct plain *self, struct cay_error *err)
{
    const struct cay_client *client = self->transfer->client;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int status = 0;
    memcpy(address.sun_path, client->address.unix_path, strlen(client->address.unix_path));
    return connect_to(self, (const struct sockaddr *)&address, sizeof(address), &status, err) ||
           (!err->reason && cay_transfer_not_connected(client, status, err));
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

static void write_head(struct plain *self)
{
    struct cay_transfer *transfer = self->transfer;
    const struct cay_address *address = &transfer->client->address;
    cay_buf_printf(&self->out, "POST %s%s HTTP/1.1\r\nHost: %s\r\n", address->path,
                   transfer->method->path, address->authority);
    cay_transfer_write_headers(transfer, &self->out);
    if (transfer->source)
        cay_buf_append_text(&self->out, "Transfer-Encoding: chunked\r\n\r\n");
    else
        cay_buf_printf(&self->out, "Content-Length: %zu\r\n\r\n", transfer->body.len);
    cay_buf_append_str(&self->out, transfer->body);
    self->is_source_over = !transfer->source;
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
    if (!self->head.len && !self->is_reused && !client->address.unix_path)
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

static bool take_body(struct plain *self, struct cay_str bytes, struct cay_error *err)
{
    return !bytes.len ||
           cay_transfer_take(self->transfer, self->answer.status, self->type, bytes, err);
}

static bool take_chunked(struct plain *self, struct cay_str bytes, struct cay_error *err)
{
    while (bytes.len && !self->is_answered) {
        struct cay_str data = {};
        ssize_t used =
            cay_http1_chunks_feed(&self->chunks, bytes.ptr, bytes.len, &data, &self->is_answered);
        if (used < 0)
            return cay_transfer_not_http(self->transfer->client, err);
        if (!take_body(self, data, err))
            return false;
        bytes.ptr += used;
        bytes.len -= (size_t)used;
    }
    self->must_close |= bytes.len > 0;
    return true;
}

static bool take_bytes(struct plain *self, struct cay_str bytes, struct cay_error *err)
{
    if (self->answer.is_chunked)
        return take_chunked(self, bytes, err);
    if (!self->answer.has_length)
        return take_body(self, bytes, err);
    self->must_close |= bytes.len > self->body_left;
    bytes.len = CAY_MIN(bytes.len, self->body_left);
    self->body_left -= bytes.len;
    self->is_answered = !self->body_left;
    return take_body(self, bytes, err);
}

static bool take_head(struct plain *self, struct cay_error *err)
{
    struct cay_http_header headers[CAY_LIMIT_HEADER_COUNT];
    struct cay_http1_fault fault = {};
    ssize_t len = 0;
    while (!self->has_head) {
        len = cay_http1_parse_answer(cay_buf_str(&self->head), headers, CAY_COUNT(headers),
                                     CAY_LIMIT_HEAD_BYTES, &self->answer, &fault);
        if (len < 0)
            return cay_transfer_not_http(self->transfer->client, err);
        if (!len)
            return true;
        self->has_head = self->answer.status >= 200;
        if (!self->has_head)
            cay_buf_consume(&self->head, (size_t)len);
    }
    struct cay_str type = cay_http_header(&self->answer.headers, "content-type");
    memcpy(self->type, type.ptr ? type.ptr : "", CAY_MIN(type.len, sizeof(self->type) - 1));
    self->must_close |=
        cay_http_list_has(cay_http_header(&self->answer.headers, "connection"), "close") ||
        (!self->answer.is_chunked && !self->answer.has_length);
    self->body_left = self->answer.content_length;
    self->is_answered = !self->answer.is_chunked && self->answer.has_length && !self->body_left;
    struct cay_str rest = cay_buf_str(&self->head);
    rest.ptr += len;
    rest.len -= (size_t)len;
    return self->is_answered || take_bytes(self, rest, err);
}

static bool receive_some(struct plain *self, struct cay_error *err)
{
    char data[READ_BYTES];
    ssize_t got = recv(self->fd, data, sizeof(data), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (got <= 0) {
        self->is_answered = self->has_head && !self->answer.is_chunked && !self->answer.has_length;
        return self->is_answered || broke(self, err);
    }
    if (self->has_head)
        return take_bytes(self, (struct cay_str){data, (size_t)got}, err);
    cay_buf_append(&self->head, data, (size_t)got);
    return self->head.failed ? cay_transfer_not_http(self->transfer->client, err)
                             : take_head(self, err);
}

static bool exchange(struct plain *self, struct cay_error *err)
{
    const struct cay_transfer *transfer = self->transfer;
    while (!self->is_answered && !transfer->is_over) {
        short ready = 0;
        /* A refusal ends what we wanted to say. */
        bool sends = has_more_to_send(self) && (!self->has_head || self->answer.status == 200);
        if (!wait_for(self, (short)(POLLIN | (sends ? POLLOUT : 0)), &ready, err))
            return false;
        if (ready & (POLLIN | POLLHUP | POLLERR) && !receive_some(self, err))
            return false;
        if (sends && ready & POLLOUT && !self->is_answered && !transfer->is_over &&
            !send_some(self, err))
            return false;
    }
    return true;
}

static bool attempt(struct plain *self, struct cay_error *err)
{
    self->is_reused = take_kept(self);
    if (!self->is_reused && !(self->transfer->client->address.unix_path ? connect_unix(self, err)
                                                                        : connect_tcp(self, err)))
        return false;
    write_head(self);
    bool is_done = exchange(self, err);
    bool is_kept = is_done && self->is_answered && !self->must_close && !has_more_to_send(self);
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
        cay_buf_init(&self.head, CAY_LIMIT_HEAD_BYTES + READ_BYTES);
        is_done = attempt(&self, err);
        /* A kept connection may be closed in the very moment we use it: nobody has read us then. */
        is_again = !is_done && self.is_reused && !self.head.len && !transfer->source &&
                   err->reason == CAY_R_UNAVAILABLE;
        if (is_again)
            *err = (struct cay_error){};
        *out_status = self.answer.status;
        snprintf(out_type, type_size, "%s", self.type);
        cay_wipe(self.out.data, self.out.len);
        cay_buf_finish(&self.out);
        cay_buf_finish(&self.head);
    } while (is_again);
    return is_done;
}
