/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "host/net/dns_internal.h"
#include "host/net/relay.h"
#include "wire/dns.h"

/*
 * Questions by TCP, one after the other: a question is read whole, and looked at, before anybody is
 * asked; its answer is read whole before it is passed on. So nothing reaches a server but questions
 * that may, and no more is held than one of each.
 */

enum {
    LENGTH_BYTES = 2,           /* before every message */
    CONNECTION_MS_MAX = 30'000, /* in all */
};

struct connection {
    struct cay_list_node in_dns;
    struct cay_dns *dns;
    struct cay_timer limit;
    int fd;
    struct cay_watch watch;
    int server_fd; /* -1: nobody is asked now */
    struct cay_watch server_watch;
    size_t server; /* asked now */
    struct cay_buf question;
    struct cay_buf answer;
    size_t sent; /* of the question to the server, then of the answer to who asked */
};

static void drop_server(struct connection *self)
{
    cay_watch_close(&self->server_watch);
    if (self->server_fd >= 0)
        close(cay_take_fd(self->server_fd));
}

static void free_connection(struct connection *self)
{
    drop_server(self);
    cay_watch_close(&self->watch);
    close(self->fd);
    cay_timer_close(&self->limit);
    cay_buf_finish(&self->question);
    cay_buf_finish(&self->answer);
    cay_list_remove(&self->in_dns);
    self->dns->connection_count--;
    free(self);
}

static void on_limit(struct cay_timer *timer)
{
    free_connection(CAY_CONTAINER_OF(timer, struct connection, limit));
}

static size_t length_of(const struct cay_buf *message)
{
    const uint8_t *bytes = (const uint8_t *)message->data;
    return (size_t)bytes[0] << 8 | bytes[1];
}

static bool is_whole(const struct cay_buf *message)
{
    return message->len >= LENGTH_BYTES && message->len == LENGTH_BYTES + length_of(message);
}

/* Reads what the message still lacks, and nothing behind it. 1 when it is whole, 0 when more is to
 * come, -errno when it is none or cannot be. */
static int read_message(int fd, struct cay_buf *message, size_t bytes_max)
{
    char piece[4096];
    for (;;) {
        size_t wanted = LENGTH_BYTES;
        if (message->len >= LENGTH_BYTES)
            wanted += length_of(message);
        if (wanted - LENGTH_BYTES > bytes_max)
            return -EMSGSIZE;
        if (is_whole(message))
            return 1;
        ssize_t len = recv(fd, piece, CAY_MIN(sizeof(piece), wanted - message->len), 0);
        if (len <= 0)
            return len == 0 ? -ECONNRESET : errno == EAGAIN || errno == EINTR ? 0 : -errno;
        cay_buf_append(message, piece, (size_t)len);
    }
}

/* The same for writing. */
static int write_message(int fd, const struct cay_buf *message, size_t *in_out_sent)
{
    while (*in_out_sent < message->len) {
        ssize_t len = send(fd, message->data + *in_out_sent, message->len - *in_out_sent,
                           MSG_NOSIGNAL | MSG_DONTWAIT);
        if (len < 0)
            return errno == EAGAIN || errno == EINTR ? 0 : -errno;
        *in_out_sent += (size_t)len;
    }
    return 1;
}

static void tell(struct connection *self)
{
    drop_server(self);
    self->sent = 0;
    cay_watch_set(&self->watch, CAY_READY_WRITE);
}

static void refuse(struct connection *self, enum cay_dns_code code)
{
    uint8_t answer[LENGTH_BYTES + CAY_DNS_HEADER_BYTES] = {0, CAY_DNS_HEADER_BYTES};
    cay_dns_refuse((const uint8_t *)self->question.data + LENGTH_BYTES, code,
                   answer + LENGTH_BYTES);
    cay_buf_clear(&self->answer, 0);
    cay_buf_append(&self->answer, answer, sizeof(answer));
    tell(self);
}

static void on_server(struct cay_watch *watch, unsigned);

/* The server at hand, or the first after it that can be dialled. */
static void ask_on(struct connection *self)
{
    const struct cay_dns_servers *servers = &self->dns->servers;
    for (; self->server < servers->count; self->server++) {
        const struct cay_dns_server *server = &servers->list[self->server];
        const struct sockaddr *address = (const void *)&server->address;
        drop_server(self);
        self->sent = 0;
        cay_buf_clear(&self->answer, 0);
        self->server_fd =
            socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
        if (self->server_fd >= 0 &&
            (connect(self->server_fd, address, server->len) == 0 || errno == EINPROGRESS) &&
            cay_watch_open(&self->server_watch, self->dns->loop, self->server_fd, on_server) == 0) {
            cay_watch_set(&self->server_watch, CAY_READY_WRITE);
            return;
        }
    }
    refuse(self, CAY_DNS_FAILED);
}

static void on_server(struct cay_watch *watch, unsigned)
{
    struct connection *self = CAY_CONTAINER_OF(watch, struct connection, server_watch);
    const uint8_t *question = (const uint8_t *)self->question.data + LENGTH_BYTES;
    bool is_sent = self->sent == self->question.len;
    int status = is_sent ? read_message(self->server_fd, &self->answer, CAY_DNS_MESSAGE_BYTES_MAX)
                         : write_message(self->server_fd, &self->question, &self->sent);
    if (status == 0)
        return;
    if (status > 0 && !is_sent) {
        cay_watch_set(&self->server_watch, CAY_READY_READ);
    } else if (status > 0 && cay_dns_is_answer((const uint8_t *)self->answer.data + LENGTH_BYTES,
                                               length_of(&self->answer), question)) {
        tell(self);
    } else {
        self->server++;
        ask_on(self);
    }
}

static void take_question(struct connection *self)
{
    const uint8_t *bytes = (const uint8_t *)self->question.data + LENGTH_BYTES;
    size_t len = length_of(&self->question);
    if (!cay_dns_is_question(bytes, len)) {
        free_connection(self);
        return;
    }
    enum cay_dns_code code = cay_dns_check(bytes, len);
    cay_watch_set(&self->watch, 0);
    self->server = 0;
    cay_dns_servers_refresh(&self->dns->servers, "/etc/resolv.conf");
    if (code == CAY_DNS_GOOD)
        ask_on(self);
    else
        refuse(self, code);
}

static void on_ready(struct cay_watch *watch, unsigned)
{
    struct connection *self = CAY_CONTAINER_OF(watch, struct connection, watch);
    bool is_telling = self->answer.len > 0;
    int status = is_telling ? write_message(self->fd, &self->answer, &self->sent)
                            : read_message(self->fd, &self->question, CAY_DNS_QUESTION_BYTES);
    if (status == 0)
        return;
    if (status < 0) {
        free_connection(self);
    } else if (is_telling) {
        cay_buf_clear(&self->question, 0);
        cay_buf_clear(&self->answer, 0);
        cay_watch_set(&self->watch, CAY_READY_READ);
    } else {
        take_question(self);
    }
}

void cay_dns_take_connection(struct cay_dns *dns, int fd)
{
    if (dns->connection_count >= CAY_DNS_CONNECTIONS) {
        cay_relay_reset(fd);
        return;
    }
    struct connection *self = cay_new(struct connection);
    self->dns = dns;
    self->fd = fd;
    self->server_fd = -1;
    cay_buf_init(&self->question, LENGTH_BYTES + CAY_DNS_QUESTION_BYTES);
    cay_buf_init(&self->answer, LENGTH_BYTES + CAY_DNS_MESSAGE_BYTES_MAX);
    cay_timer_open(&self->limit, dns->loop, on_limit);
    cay_timer_start(&self->limit, CONNECTION_MS_MAX, 0);
    cay_list_push_back(&dns->connections, &self->in_dns);
    dns->connection_count++;
    if (cay_watch_open(&self->watch, dns->loop, fd, on_ready) == 0)
        cay_watch_set(&self->watch, CAY_READY_READ);
    else
        free_connection(self);
}

void cay_dns_drop_connections(struct cay_dns *dns)
{
    cay_list_for_each (struct connection, connection, &dns->connections, in_dns)
        free_connection(connection);
}
