/* SPDX-License-Identifier: Apache-2.0 */
#include "client/rpc/line.h"

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
#include "client/rpc/client_internal.h"
#include "wire/http1.h"

enum {
    CONNECT_MS_MAX = 10'000,
    REST_MS_MAX = 10'000, /* less than the idle timeouts of daemons and proxies */
    REST_MS_UNSEEN = 5,   /* nobody closes a line so soon that is to be used again */
    KEEPALIVE_S = 30,     /* a peer that vanished is noticed on a silent stream */
    KNOCK_AGAIN_MS = 10,  /* at a Unix socket whose queue is full: somebody is about to serve */
};

enum step {
    STEP_KNOCKING = 1, /* no connection is on its way: the next address, or the same again */
    STEP_CONNECTING,
    STEP_PROXY, /* it is asked for a tunnel */
    STEP_VEIL,
    STEP_OPEN,
};

struct cay_line {
    struct cay_client *client; /* borrowed; it outlives the line */
    struct cay_line *next;
    enum step step;
    int fd;
    int last_errno; /* of the address tried last */
    bool is_tunnel;
    bool has_asked;         /* the proxy */
    bool can_wait;          /* the socket blocks */
    struct addrinfo *found; /* NULL for a Unix socket */
    const struct addrinfo *to;
    int64_t rest_ns;     /* since when it rests */
    int64_t knock_ns;    /* not before */
    int64_t deadline_ns; /* of all that comes before STEP_OPEN */
    struct cay_veil *veil;
    struct cay_buf talk; /* with a proxy: what is not sent yet, then what it said */
};

static bool has_proxy(const struct cay_line *line)
{
    return line->client->proxy.host[0];
}

/* Requests name the whole address, and the proxy passes them on. */
static bool is_relayed(const struct cay_line *line)
{
    return has_proxy(line) && line->client->address.is_plain && !line->is_tunnel;
}

struct cay_line *cay_line_next(const struct cay_line *line)
{
    return line->next;
}

void cay_line_set_next(struct cay_line *line, struct cay_line *next)
{
    line->next = next;
}

static bool look_up(struct cay_line *line, struct cay_error *err)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    const struct cay_client *client = line->client;
    const char *host = has_proxy(line) ? client->proxy.host : client->address.host;
    const char *port = has_proxy(line) ? client->proxy.port : client->address.port;
    if (getaddrinfo(host, port, &hints, &line->found) != 0)
        return cay_blame_unreachable(
            &client->address, has_proxy(line) ? "there is no such proxy" : "there is no such host",
            "address", err);
    line->to = line->found;
    return true;
}

struct cay_line *cay_line_create(struct cay_client *client, bool is_tunnel, struct cay_error *err)
{
    struct cay_line *line = calloc(1, sizeof(*line));
    if (!line) {
        cay_fail(err, CAY_R_OUT_OF_MEMORY, NULL);
        return NULL;
    }
    line->client = client;
    line->is_tunnel = is_tunnel;
    line->fd = -1;
    line->step = STEP_KNOCKING;
    line->deadline_ns = cay_clock_ns() + CONNECT_MS_MAX * (int64_t)CAY_NS_PER_MS;
    cay_buf_init(&line->talk, CAY_LIMIT_HEAD_BYTES);
    if (!client->address.unix_path[0] && !look_up(line, err)) {
        cay_line_destroy(line);
        return NULL;
    }
    return line;
}

void cay_line_destroy(struct cay_line *line)
{
    if (!line)
        return;
    cay_veil_destroy(line->veil);
    if (line->fd >= 0)
        close(line->fd);
    if (line->found)
        freeaddrinfo(line->found);
    if (line->talk.data)
        cay_wipe(line->talk.data, line->talk.cap);
    cay_buf_finish(&line->talk);
    free(line);
}

static void set_options(int fd)
{
    static const int on = 1;
    static const int seconds = KEEPALIVE_S;
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof(seconds));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof(seconds));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

/* 0, or why it failed. */
static int knock(struct cay_line *line)
{
    struct sockaddr_un unix_address = {.sun_family = AF_UNIX};
    const struct sockaddr *address = line->to ? line->to->ai_addr : NULL;
    socklen_t len = line->to ? line->to->ai_addrlen : 0;
    if (!line->to) {
        memcpy(unix_address.sun_path, line->client->address.unix_path,
               sizeof(unix_address.sun_path));
        address = (const struct sockaddr *)&unix_address;
        len = sizeof(unix_address);
    }
    line->fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (line->fd < 0)
        return errno;
    if (line->to)
        set_options(line->fd);
    return connect(line->fd, address, len) < 0 ? errno : 0;
}

/* This address is no good: the next one, or the end. */
static int next_address(struct cay_line *line, int number, struct cay_error *err)
{
    if (line->fd >= 0)
        close(cay_take_fd(line->fd));
    line->last_errno = number;
    line->step = STEP_KNOCKING;
    if (!line->to && number == EAGAIN) {
        line->knock_ns = cay_clock_ns() + KNOCK_AGAIN_MS * (int64_t)CAY_NS_PER_MS;
        return 1;
    }
    if (line->to)
        line->to = line->to->ai_next;
    if (line->to)
        return 1;
    (void)cay_blame_not_connected(&line->client->address, number, err);
    return -1;
}

/* 1: this step is done, look at the next. 0: it must be waited for. -1: it failed. */
static int step_knock(struct cay_line *line, struct cay_error *err)
{
    if (line->knock_ns > cay_clock_ns())
        return 0;
    line->knock_ns = 0;
    int number = knock(line);
    if (number && number != EINPROGRESS)
        return next_address(line, number, err);
    line->step = STEP_CONNECTING;
    return 1;
}

/* The request for a tunnel; the daemon's host is named, nothing else of the call. */
static bool write_connect(struct cay_line *line, struct cay_error *err)
{
    const struct cay_client *client = line->client;
    bool is_ipv6 = strchr(client->address.host, ':');
    const char *open = is_ipv6 ? "[" : "";
    const char *shut = is_ipv6 ? "]" : "";
    cay_buf_printf(&line->talk, "CONNECT %s%s%s:%s HTTP/1.1\r\nHost: %s%s%s:%s\r\n", open,
                   client->address.host, shut, client->address.port, open, client->address.host,
                   shut, client->address.port);
    cay_client_write_proxy_rights(client, &line->talk);
    cay_buf_append_text(&line->talk, "\r\n");
    return !line->talk.failed || cay_fail(err, CAY_R_OUT_OF_MEMORY, NULL);
}

static bool begin_veil(struct cay_line *line, struct cay_error *err)
{
    struct cay_trust *trust = cay_client_trust(line->client, err);
    if (!trust)
        return false;
    line->veil = cay_veil_create(trust, line->fd, line->client->address.host);
    line->step = STEP_VEIL;
    return line->veil || cay_fail(err, CAY_R_OUT_OF_MEMORY, NULL);
}

/* The socket reaches whom it is to reach. */
static int arrive(struct cay_line *line, struct cay_error *err)
{
    if (!line->client->address.is_plain)
        return begin_veil(line, err) ? 1 : -1;
    /* From here on each call says whether it waits. */
    line->can_wait = fcntl(line->fd, F_SETFL, 0) == 0;
    line->step = STEP_OPEN;
    return 1;
}

static int step_connect(struct cay_line *line, struct cay_error *err)
{
    struct pollfd entry = {.fd = line->fd, .events = POLLOUT};
    int number = 0;
    socklen_t len = sizeof(number);
    if (poll(&entry, 1, 0) == 0)
        return 0;
    if (getsockopt(line->fd, SOL_SOCKET, SO_ERROR, &number, &len) < 0)
        number = errno;
    if (number)
        return next_address(line, number, err);
    if (!has_proxy(line) || is_relayed(line))
        return arrive(line, err);
    line->step = STEP_PROXY;
    return write_connect(line, err) ? 1 : -1;
}

static int refused_by_proxy(struct cay_line *line, const char *why, struct cay_error *err)
{
    (void)cay_blame_unreachable(&line->client->address, why, "address", err);
    return -1;
}

static int read_proxy(struct cay_line *line, struct cay_error *err)
{
    struct cay_http_header headers[CAY_LIMIT_HEADER_COUNT];
    struct cay_http1_answer answer = {};
    struct cay_http1_fault fault = {};
    char byte = 0;
    /* One by one: what follows the head is the daemon's. It is a few bytes, once. */
    for (;;) {
        ssize_t got = recv(line->fd, &byte, 1, 0);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return 0;
        if (got <= 0)
            return refused_by_proxy(line, "the proxy closed the connection", err);
        cay_buf_append_byte(&line->talk, (unsigned char)byte);
        if (byte != '\n')
            continue;
        ssize_t len =
            line->talk.failed
                ? -1
                : cay_http1_parse_answer(cay_buf_str(&line->talk), headers, CAY_COUNT(headers),
                                         CAY_LIMIT_HEAD_BYTES, &answer, &fault);
        if (len < 0)
            return refused_by_proxy(line, "the proxy does not speak HTTP", err);
        if (!len)
            continue;
        if (answer.status == 407)
            return refused_by_proxy(line, "the proxy wants other credentials", err);
        if (answer.status / 100 != 2)
            return refused_by_proxy(line, "the proxy refuses to connect to it", err);
        cay_buf_clear(&line->talk, 0);
        return arrive(line, err);
    }
}

static int step_proxy(struct cay_line *line, struct cay_error *err)
{
    while (!line->has_asked) {
        ssize_t sent = send(line->fd, line->talk.data, line->talk.len, MSG_NOSIGNAL);
        if (sent < 0 && (errno == EAGAIN || errno == EINTR))
            return 0;
        if (sent < 0)
            return refused_by_proxy(line, "the proxy closed the connection", err);
        cay_wipe(line->talk.data, (size_t)sent);
        cay_buf_consume(&line->talk, (size_t)sent);
        line->has_asked = !line->talk.len;
    }
    return read_proxy(line, err);
}

static int step_veil(struct cay_line *line, struct cay_error *err)
{
    const char *why = NULL;
    bool is_trust = false;
    int status = cay_veil_advance(line->veil, &why, &is_trust);
    if (status < 0) {
        (void)cay_blame_unreachable(&line->client->address, why, is_trust ? "certificate" : "plain",
                                    err);
        return -1;
    }
    if (status)
        line->step = STEP_OPEN;
    return status;
}

int cay_line_advance(struct cay_line *line, struct cay_error *err)
{
    int status = 1;
    while (status == 1 && line->step != STEP_OPEN) {
        switch (line->step) {
        case STEP_KNOCKING: status = step_knock(line, err); break;
        case STEP_CONNECTING: status = step_connect(line, err); break;
        case STEP_PROXY: status = step_proxy(line, err); break;
        case STEP_VEIL: status = step_veil(line, err); break;
        case STEP_OPEN: break;
        }
    }
    if (!status && cay_clock_ns() > line->deadline_ns) {
        (void)cay_blame_late(&line->client->address, true, 0, err);
        return -1;
    }
    return status;
}

ssize_t cay_line_send(struct cay_line *line, const void *data, size_t len)
{
    if (line->veil)
        return cay_veil_send(line->veil, data, len);
    ssize_t sent = send(line->fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0)
        return sent;
    return errno == EAGAIN || errno == EINTR ? -EAGAIN : -EPIPE;
}

ssize_t cay_line_receive(struct cay_line *line, void *out, size_t size, bool waits)
{
    if (line->veil)
        return cay_veil_receive(line->veil, out, size);
    ssize_t got = recv(line->fd, out, size, waits && line->can_wait ? 0 : MSG_DONTWAIT);
    if (got >= 0)
        return got;
    return errno == EAGAIN || errno == EINTR ? -EAGAIN : -EPIPE;
}

int cay_line_fd(const struct cay_line *line)
{
    return line->fd;
}

short cay_line_events(const struct cay_line *line, bool reads, bool writes)
{
    switch (line->step) {
    case STEP_KNOCKING: return 0;
    case STEP_CONNECTING: return POLLOUT;
    case STEP_PROXY: return line->has_asked ? POLLIN : POLLOUT;
    case STEP_VEIL: return (short)(POLLIN | (cay_veil_wants_write(line->veil) ? POLLOUT : 0));
    case STEP_OPEN: break;
    }
    writes = writes || (line->veil && cay_veil_wants_write(line->veil));
    return (short)((reads ? POLLIN : 0) | (writes ? POLLOUT : 0));
}

int64_t cay_line_deadline_ns(const struct cay_line *line)
{
    if (line->step == STEP_OPEN)
        return 0;
    return line->knock_ns ? line->knock_ns : line->deadline_ns;
}

void cay_line_rest(struct cay_line *line)
{
    line->rest_ns = cay_clock_ns();
}

bool cay_line_is_fresh(const struct cay_line *line)
{
    struct pollfd entry = {.fd = line->fd, .events = POLLIN};
    int64_t rested_ns = cay_clock_ns() - line->rest_ns;
    /* A Unix socket that was closed all the same takes no byte of the request, which then goes by
     * another one. Of TCP that is not known before it is too late. */
    if (!line->found && rested_ns < REST_MS_UNSEEN * (int64_t)CAY_NS_PER_MS)
        return line->step == STEP_OPEN;
    return line->step == STEP_OPEN && rested_ns < REST_MS_MAX * (int64_t)CAY_NS_PER_MS &&
           poll(&entry, 1, 0) == 0 && !(line->veil && cay_veil_has_more(line->veil));
}
