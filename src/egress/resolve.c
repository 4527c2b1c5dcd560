/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "egress/conn.h"
#include "wire/dns.h"

/*
 * The addresses of a name, asked for when somebody connects to it: from the resolver on port 53 of
 * the loopback where we are, which is the daemon's. What it says is checked like everything
 * else: a name that is allowed may be somebody's who lies about its addresses.
 */

enum {
    TYPE_A = 1,
    TYPE_AAAA = 28,
    QUESTION_BYTES_MAX = CAY_DNS_HEADER_BYTES + 256 + 4,
    ANSWER_BYTES_MAX = 4096,
    POINTER = 0xC0,
};

static const unsigned types[] = {TYPE_A, TYPE_AAAA};

static size_t write_question(const char *name, uint16_t id, unsigned type, uint8_t *out)
{
    size_t at = CAY_DNS_HEADER_BYTES;
    memset(out, 0, at);
    out[0] = (uint8_t)(id >> 8);
    out[1] = (uint8_t)id;
    out[2] = 1; /* recursion, please */
    out[5] = 1;
    while (*name) {
        size_t label = strcspn(name, ".");
        out[at++] = (uint8_t)label;
        memcpy(out + at, name, label);
        at += label;
        name += label + (name[label] == '.');
    }
    out[at++] = 0;
    out[at++] = 0;
    out[at++] = (uint8_t)type;
    out[at++] = 0;
    out[at++] = 1;
    return at;
}

static unsigned number(const uint8_t *bytes)
{
    return (unsigned)bytes[0] << 8 | bytes[1];
}

/* Behind a name, which may end in a pointer; 0 when it does not end. */
static size_t skip_name(const uint8_t *bytes, size_t len, size_t at)
{
    while (at < len && bytes[at] && bytes[at] < POINTER)
        at += 1 + (size_t)bytes[at];
    if (at >= len)
        return 0;
    at += bytes[at] ? 2 : 1;
    return at <= len ? at : 0;
}

static void add_upstream(struct egress_conn *conn, const struct cay_ip *address)
{
    struct cay_decision decision;
    cay_policy_decide_upstream(conn->egress->policy, address, conn->port, &decision);
    if (decision.verdict != CAY_VERDICT_ALLOWED)
        conn->was_guarded = true;
    else if (conn->upstream_count < EGRESS_UPSTREAM_MAX)
        conn->upstream[conn->upstream_count++] = *address;
}

/* All addresses of the answer, whichever of the names on the way to them has them. */
static void read_answer(struct egress_conn *conn, const uint8_t *bytes, size_t len, unsigned type)
{
    enum { RECORD_BYTES = 10 };
    unsigned records = number(bytes + 6);
    size_t at = CAY_DNS_HEADER_BYTES;
    for (unsigned i = number(bytes + 4); i && at; i--) {
        at = skip_name(bytes, len, at);
        at = at && len - at >= 4 ? at + 4 : 0;
    }
    for (; records && at; records--) {
        at = skip_name(bytes, len, at);
        if (!at || len - at < RECORD_BYTES)
            return;
        unsigned kind = number(bytes + at);
        size_t size = number(bytes + at + 8);
        at += RECORD_BYTES;
        if (size > len - at)
            return;
        struct cay_ip address = {.family = kind == TYPE_A ? AF_INET : AF_INET6};
        if (kind == type && size == cay_ip_bytes(address.family)) {
            memcpy(address.bytes, bytes + at, size);
            add_upstream(conn, &address);
        }
        at += size;
    }
}

static void finish(struct egress_conn *conn)
{
    egress_unwatch(conn->egress, &conn->lookup);
    if (conn->upstream_count)
        egress_conn_found(conn);
    else
        egress_conn_end(conn, conn->was_guarded ? CAY_EGRESS_REFUSED : CAY_EGRESS_FAILED,
                        conn->was_guarded ? CAY_EGRESS_GUARDED : CAY_EGRESS_NOT_FOUND);
}

static void on_answer(struct egress_watch *watch, uint32_t)
{
    struct egress_conn *conn = CAY_CONTAINER_OF(watch, struct egress_conn, lookup);
    uint8_t bytes[ANSWER_BYTES_MAX];
    ssize_t len = recv(watch->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (len < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (len < 0) { /* nobody is there */
        finish(conn);
        return;
    }
    for (size_t i = 0; i < CAY_COUNT(types); i++) {
        const uint8_t id[2] = {(uint8_t)(conn->asked[i] >> 8), (uint8_t)conn->asked[i]};
        if (!conn->asked[i] || !cay_dns_is_answer(bytes, (size_t)len, id))
            continue;
        conn->asked[i] = 0;
        read_answer(conn, bytes, (size_t)len, types[i]);
    }
    if (!conn->asked[0] && !conn->asked[1])
        finish(conn);
}

static int ask(struct egress_conn *conn)
{
    const struct sockaddr_in resolver = {.sin_family = AF_INET,
                                         .sin_port = htons(conn->egress->resolver_port),
                                         .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    uint8_t question[QUESTION_BYTES_MAX];
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    conn->lookup =
        (struct egress_watch){.fd = fd, .events = 0, .egress = conn->egress, .ready = on_answer};
    if (connect(fd, (const struct sockaddr *)&resolver, sizeof(resolver)) < 0 ||
        getrandom(conn->asked, sizeof(conn->asked), 0) != sizeof(conn->asked))
        return -errno;
    for (size_t i = 0; i < CAY_COUNT(types); i++) {
        conn->asked[i] = (uint16_t)((conn->asked[i] & ~1u) | 1u << 8 | i); /* neither 0 nor equal */
        size_t len = write_question(conn->name, conn->asked[i], types[i], question);
        if (send(fd, question, len, MSG_NOSIGNAL) < 0)
            return -errno;
    }
    return egress_watch(conn->egress, &conn->lookup, EPOLLIN);
}

void egress_resolve(struct egress_conn *conn)
{
    conn->phase = EGRESS_RESOLVES;
    conn->deadline_ms = conn->egress->now_ms + EGRESS_DIAL_MS;
    if (ask(conn) < 0)
        egress_conn_end(conn, CAY_EGRESS_FAILED, CAY_EGRESS_NOT_FOUND);
}
