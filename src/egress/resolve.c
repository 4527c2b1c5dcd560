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
 * else: a name that is allowed may be somebody's who lies about its addresses. While there is no
 * daemon, a name has the addresses that it had; one without any waits for the next daemon.
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

/* --- what is known --- */

static struct egress_known *find_known(struct egress *egress, const char *name)
{
    for (size_t i = 0; egress->known && i < EGRESS_KNOWN_MAX; i++) {
        if (strcmp(egress->known[i].name, name) == 0)
            return &egress->known[i];
    }
    return NULL;
}

static void keep_known(struct egress_conn *conn)
{
    struct egress *egress = conn->egress;
    if (!egress->known)
        egress->known = cay_alloc(EGRESS_KNOWN_MAX * sizeof(*egress->known));
    struct egress_known *known = find_known(egress, conn->name);
    for (size_t i = 0; !known && i < EGRESS_KNOWN_MAX; i++) {
        if (!egress->known[i].name[0])
            known = &egress->known[i];
    }
    if (!known) {
        known = egress->known;
        for (size_t i = 1; i < EGRESS_KNOWN_MAX; i++) {
            if (egress->known[i].at_ms < known->at_ms)
                known = &egress->known[i];
        }
    }
    memcpy(known->name, conn->name, sizeof(known->name));
    known->at_ms = egress->now_ms;
    known->count = CAY_MIN(conn->upstream_count, (size_t)EGRESS_KNOWN_ADDRESSES);
    memcpy(known->addresses, conn->upstream, known->count * sizeof(*known->addresses));
}

/* The daemon is away, and its resolver with it. What a name had is judged like what it has. */
static bool take_known(struct egress_conn *conn)
{
    const struct egress_known *known = find_known(conn->egress, conn->name);
    if (!known || conn->egress->now_ms - known->at_ms > EGRESS_KNOWN_MS)
        return false;
    conn->upstream_count = 0;
    for (size_t i = 0; i < known->count; i++)
        add_upstream(conn, &known->addresses[i]);
    return conn->upstream_count > 0;
}

/* --- questions --- */

static void finish(struct egress_conn *conn)
{
    egress_unwatch(conn->egress, &conn->lookup);
    if (conn->upstream_count)
        egress_conn_found(conn);
    else
        egress_conn_fail(conn, conn->was_guarded ? CAY_EGRESS_REFUSED : CAY_EGRESS_FAILED,
                         conn->was_guarded ? CAY_EGRESS_GUARDED : CAY_EGRESS_NOT_FOUND);
}

/* Nobody is there: if nothing is known either, the next daemon is waited for. */
static void find_nobody(struct egress_conn *conn)
{
    egress_unwatch(conn->egress, &conn->lookup);
    if (take_known(conn))
        egress_conn_found(conn);
}

static void on_answer(struct egress_watch *watch, uint32_t)
{
    struct egress_conn *conn = CAY_CONTAINER_OF(watch, struct egress_conn, lookup);
    uint8_t bytes[ANSWER_BYTES_MAX];
    ssize_t len = recv(watch->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (len < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (len < 0) {
        find_nobody(conn);
        return;
    }
    for (size_t i = 0; i < CAY_COUNT(types); i++) {
        const uint8_t id[2] = {(uint8_t)(conn->asked[i] >> 8), (uint8_t)conn->asked[i]};
        if (!conn->asked[i] || !cay_dns_is_answer(bytes, (size_t)len, id))
            continue;
        conn->asked[i] = 0;
        read_answer(conn, bytes, (size_t)len, types[i]);
    }
    if (conn->asked[0] || conn->asked[1])
        return;
    if (conn->upstream_count)
        keep_known(conn);
    finish(conn);
}

static int open_lookup(struct egress_conn *conn)
{
    const struct sockaddr_in resolver = {.sin_family = AF_INET,
                                         .sin_port = htons(conn->egress->resolver_port),
                                         .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    conn->lookup =
        (struct egress_watch){.fd = fd, .events = 0, .egress = conn->egress, .ready = on_answer};
    if (connect(fd, (const struct sockaddr *)&resolver, sizeof(resolver)) < 0)
        return -errno;
    return egress_watch(conn->egress, &conn->lookup, EPOLLIN);
}

/* What is not answered yet. */
static int ask(struct egress_conn *conn)
{
    uint8_t question[QUESTION_BYTES_MAX];
    int status = conn->lookup.fd < 0 ? open_lookup(conn) : 0;
    conn->asked_ms = conn->egress->now_ms;
    for (size_t i = 0; i < CAY_COUNT(types) && status == 0; i++) {
        if (!conn->asked[i])
            continue;
        size_t len = write_question(conn->name, conn->asked[i], types[i], question);
        status = send(conn->lookup.fd, question, len, MSG_NOSIGNAL) < 0 ? -errno : 0;
    }
    return status;
}

static void ask_or_end(struct egress_conn *conn)
{
    int status = ask(conn);
    if (status == -ECONNREFUSED)
        find_nobody(conn);
    else if (status < 0 && status != -EAGAIN)
        egress_conn_fail(conn, CAY_EGRESS_FAILED, CAY_EGRESS_NOT_FOUND);
}

void egress_resolve(struct egress_conn *conn)
{
    conn->phase = EGRESS_RESOLVES;
    conn->deadline_ms = conn->egress->now_ms + EGRESS_DIAL_MS;
    if (getrandom(conn->asked, sizeof(conn->asked), 0) != sizeof(conn->asked)) {
        egress_conn_fail(conn, CAY_EGRESS_FAILED, CAY_EGRESS_NOT_FOUND);
        return;
    }
    for (size_t i = 0; i < CAY_COUNT(types); i++) /* neither 0 nor equal */
        conn->asked[i] = (uint16_t)((conn->asked[i] & ~1u) | 1u << 8 | i);
    ask_or_end(conn);
}

void egress_resolve_tick(struct egress_conn *conn)
{
    if (conn->egress->now_ms - conn->asked_ms >= EGRESS_ASK_AGAIN_MS)
        ask_or_end(conn);
}
