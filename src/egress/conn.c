/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/conn.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "egress/pool.h"

enum { ACCEPTS_PER_TURN = 32, QUESTION_HEAD = 2, PORT_HTTP = 80, PORT_HTTPS = 443 };

/* --- the end --- */

void egress_conn_describe(const struct egress_conn *conn, struct cay_egress_receipt *out)
{
    const struct cay_ip *address = &conn->to;
    if (conn->name[0])
        address = conn->upstream_next ? &conn->upstream[conn->upstream_next - 1] : NULL;
    *out = (struct cay_egress_receipt){
        .family = (uint8_t)(!address                     ? 0
                            : address->family == AF_INET ? 4
                                                         : 6),
        .port = conn->port,
        .count = 1,
        .duration_ms = (uint32_t)(conn->egress->now_ms - conn->began_ms),
        .sent_bytes = conn->sent_bytes,
        .received_bytes = conn->received_bytes,
        .name = cay_str(conn->name),
        .rule = cay_str(conn->rule),
    };
    if (address)
        memcpy(out->address, address->bytes, cay_ip_bytes(address->family));
}

static void note_end(struct egress_conn *conn, enum cay_egress_verdict verdict,
                     enum cay_egress_why why)
{
    struct cay_egress_receipt receipt;
    if (conn->phase == EGRESS_QUESTIONS ||
        (conn->intercept && egress_intercept_close(conn, verdict, why)))
        return;
    egress_conn_describe(conn, &receipt);
    receipt.verdict = verdict;
    receipt.why = why;
    egress_note(conn->egress, &receipt);
}

void egress_conn_fail(struct egress_conn *conn, enum cay_egress_verdict verdict,
                      enum cay_egress_why why)
{
    if (!conn->intercept || !egress_intercept_refuse(conn, verdict, why, NULL))
        egress_conn_end(conn, verdict, why);
}

void egress_conn_end(struct egress_conn *conn, enum cay_egress_verdict verdict,
                     enum cay_egress_why why)
{
    struct egress *egress = conn->egress;
    bool is_good = verdict == CAY_EGRESS_ALLOWED && why == 0;
    egress_ask_leave(conn);
    note_end(conn, verdict, why);
    egress_side_close(&conn->client, egress, !is_good);
    egress_side_close(&conn->server, egress, !is_good);
    egress_unwatch(egress, &conn->lookup);
    cay_list_remove(&conn->in_list);
    cay_list_push_back(&egress->dead, &conn->in_list);
    egress->conn_count--;
}

void egress_bury(struct egress *egress)
{
    cay_list_for_each (struct egress_conn, conn, &egress->dead, in_list) {
        cay_list_remove(&conn->in_list);
        egress_intercept_free(conn);
        free(conn);
    }
}

void egress_drop_all(struct egress *egress)
{
    cay_list_for_each (struct egress_conn, conn, &egress->conns, in_list)
        egress_conn_end(conn, CAY_EGRESS_FAILED, CAY_EGRESS_CUT);
    egress_bury(egress);
}

/* --- upstream --- */

static void set_sizes(int fd)
{
    const int bytes = EGRESS_SOCKET_BYTES;
    const int on = 1;
    /* Fixed: by itself the kernel would let a peer that never reads have megabytes. */
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
}

static socklen_t fill(const struct cay_ip *address, uint16_t port, struct sockaddr_storage *out)
{
    *out = (struct sockaddr_storage){};
    if (address->family == AF_INET) {
        struct sockaddr_in *four = (struct sockaddr_in *)out;
        four->sin_family = AF_INET;
        four->sin_port = htons(port);
        memcpy(&four->sin_addr, address->bytes, sizeof(four->sin_addr));
        return sizeof(*four);
    }
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)out;
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(port);
    memcpy(&six->sin6_addr, address->bytes, sizeof(six->sin6_addr));
    return sizeof(*six);
}

static void on_dialled(struct egress_watch *watch, uint32_t)
{
    struct egress_side *side = CAY_CONTAINER_OF(watch, struct egress_side, watch);
    struct egress_conn *conn = CAY_CONTAINER_OF(side, struct egress_conn, server);
    int status = 0;
    socklen_t len = sizeof(status);
    if (getsockopt(watch->fd, SOL_SOCKET, SO_ERROR, &status, &len) < 0 || status) {
        egress_unwatch(conn->egress, watch);
        egress_conn_dial(conn);
        return;
    }
    if (conn->intercept)
        egress_intercept_dialled(conn);
    else
        egress_relay_start(conn);
}

static int dial_one(struct egress_conn *conn, const struct cay_ip *address)
{
    struct sockaddr_storage to;
    socklen_t len = fill(address, conn->port, &to);
    int fd = socket(address->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    set_sizes(fd);
    conn->server.watch =
        (struct egress_watch){.fd = fd, .egress = conn->egress, .ready = on_dialled};
    if (connect(fd, (const struct sockaddr *)&to, len) < 0 && errno != EINPROGRESS)
        return -errno;
    return egress_watch(conn->egress, &conn->server.watch, EPOLLOUT);
}

void egress_conn_dial(struct egress_conn *conn)
{
    conn->phase = EGRESS_DIALS;
    while (conn->upstream_next < conn->upstream_count) {
        if (dial_one(conn, &conn->upstream[conn->upstream_next++]) == 0)
            return;
        egress_unwatch(conn->egress, &conn->server.watch);
    }
    egress_conn_fail(conn, CAY_EGRESS_FAILED, CAY_EGRESS_UNREACHABLE);
}

/* IPv4 first: where there is no IPv6 outside, nobody says so. */
void egress_conn_found(struct egress_conn *conn)
{
    struct cay_ip sorted[EGRESS_UPSTREAM_MAX];
    size_t count = 0;
    for (int turn = 0; turn < 2; turn++) {
        for (size_t i = 0; i < conn->upstream_count; i++) {
            if ((conn->upstream[i].family == AF_INET) == (turn == 0))
                sorted[count++] = conn->upstream[i];
        }
    }
    memcpy(conn->upstream, sorted, count * sizeof(*sorted));
    conn->deadline_ms = conn->egress->now_ms + EGRESS_DIAL_MS;
    egress_conn_dial(conn);
}

void egress_conn_reach(struct egress_conn *conn)
{
    conn->deadline_ms = conn->egress->now_ms + EGRESS_DIAL_MS;
    /* Whatever came between: nobody is reached unread who is to be read. */
    if (!conn->intercept && egress_must_intercept(conn)) {
        egress_conn_end(conn, CAY_EGRESS_REFUSED, CAY_EGRESS_MALFORMED);
        return;
    }
    if (conn->name[0]) {
        egress_resolve(conn);
        return;
    }
    conn->upstream[0] = conn->to;
    conn->upstream_count = 1;
    egress_conn_dial(conn);
}

/* --- what clients say before anybody is reached --- */

/* With what it has said so far. */
static void go_on(struct egress_conn *conn)
{
    if (conn->sniff.phase == EGRESS_SNIFF_INTERCEPT)
        egress_intercept_begin(conn);
    else if (conn->client.is_read_over && !conn->server.rest_allowed)
        egress_conn_end(conn, CAY_EGRESS_ALLOWED, 0);
    else if (conn->server.rest_allowed)
        egress_conn_reach(conn);
}

/* Before it is relayed: bytes are kept, and looked at. */
static void on_early(struct egress_watch *watch, uint32_t events)
{
    struct egress_side *side = CAY_CONTAINER_OF(watch, struct egress_side, watch);
    struct egress_conn *conn = CAY_CONTAINER_OF(side, struct egress_conn, client);
    if (events & EPOLLERR) {
        egress_conn_end(conn, CAY_EGRESS_FAILED, CAY_EGRESS_LEFT);
        return;
    }
    if (!egress_relay_hear(conn))
        return;
    if (conn->sniff.phase == EGRESS_SNIFF_INTERCEPT && conn->phase == EGRESS_WAITS) {
        egress_intercept_begin(conn);
        return;
    }
    bool wants = !conn->client.is_read_over && conn->server.rest_len < EGRESS_PIECE_BYTES;
    (void)egress_watch(conn->egress, watch, wants ? EPOLLIN : 0);
    if (conn->phase == EGRESS_WAITS)
        go_on(conn);
    else if (conn->phase == EGRESS_ASKS && conn->client.is_read_over && !conn->server.rest_len)
        egress_conn_end(conn, CAY_EGRESS_FAILED, CAY_EGRESS_LEFT);
}

/* --- questions by TCP: length, message, again and again --- */

static void on_tcp_question(struct egress_watch *watch, uint32_t)
{
    struct egress_side *side = CAY_CONTAINER_OF(watch, struct egress_side, watch);
    struct egress_conn *conn = CAY_CONTAINER_OF(side, struct egress_conn, client);
    uint8_t answer[QUESTION_HEAD + EGRESS_ANSWER_BYTES_MAX];
    enum { QUESTION_MAX = EGRESS_ANSWER_BYTES_MAX - 64 };
    if (!side->rest)
        side->rest = cay_alloc(QUESTION_HEAD + QUESTION_MAX);
    uint8_t *bytes = (uint8_t *)side->rest;
    size_t wanted = QUESTION_HEAD;
    if (side->rest_len >= QUESTION_HEAD)
        wanted += (size_t)bytes[0] << 8 | bytes[1];
    ssize_t len =
        wanted > QUESTION_HEAD + QUESTION_MAX
            ? 0
            : recv(watch->fd, bytes + side->rest_len, wanted - side->rest_len, MSG_DONTWAIT);
    if (len < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (len <= 0) {
        egress_conn_end(conn, CAY_EGRESS_ALLOWED, 0);
        return;
    }
    side->rest_len += (size_t)len;
    if (side->rest_len < QUESTION_HEAD || (side->rest_len == QUESTION_HEAD && wanted == 2))
        return;
    if (side->rest_len < wanted)
        return;
    size_t size = egress_answer(conn->egress, bytes + QUESTION_HEAD, side->rest_len - QUESTION_HEAD,
                                answer + QUESTION_HEAD);
    answer[0] = (uint8_t)(size >> 8);
    answer[1] = (uint8_t)size;
    side->rest_len = 0;
    conn->deadline_ms = conn->egress->now_ms + EGRESS_QUESTION_MS;
    /* Who does not read its answers gets no more of them. */
    if (!size || send(watch->fd, answer, size + QUESTION_HEAD, MSG_DONTWAIT | MSG_NOSIGNAL) !=
                     (ssize_t)(size + QUESTION_HEAD))
        egress_conn_end(conn, CAY_EGRESS_REFUSED, CAY_EGRESS_MALFORMED);
}

/* --- the beginning --- */

/* Where it was led here by packet filter tables, they know whom it was for. */
static int find_original(int fd, struct sockaddr_storage *name)
{
    enum { ORIGINAL_DESTINATION = 80 }; /* of both families */
    bool is_four = name->ss_family == AF_INET;
    socklen_t len = is_four ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    return getsockopt(fd, is_four ? IPPROTO_IP : IPPROTO_IPV6, ORIGINAL_DESTINATION, name, &len);
}

static bool find_destination(int fd, struct egress_conn *conn)
{
    struct sockaddr_storage name = {};
    socklen_t len = sizeof(name);
    if (getsockname(fd, (struct sockaddr *)&name, &len) < 0 ||
        (conn->egress->link_fd < 0 && find_original(fd, &name) < 0))
        return false;
    const struct sockaddr_in *four = (const struct sockaddr_in *)&name;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&name;
    bool is_four = name.ss_family == AF_INET;
    conn->to.family = name.ss_family;
    conn->port = ntohs(is_four ? four->sin_port : six->sin6_port);
    memcpy(conn->to.bytes, is_four ? (const void *)&four->sin_addr : (const void *)&six->sin6_addr,
           cay_ip_bytes(name.ss_family));
    return true;
}

/* 0 when it is allowed; CAY_EGRESS_UNANSWERED when somebody is to be asked. */
static enum cay_egress_why decide(struct egress_conn *conn)
{
    struct egress *egress = conn->egress;
    struct cay_decision decision = {};
    uint32_t slot = 0;
    if (!egress->policy)
        return CAY_EGRESS_NO_RULE;
    if (conn->name[0]) {
        cay_policy_decide_name(egress->policy, cay_str(conn->name), conn->port, &decision);
    } else if (egress_pool_slot(&conn->to, &slot)) {
        const char *name = egress_names_of(&egress->names, slot, (uint32_t)(egress->now_ms / 1000));
        if (!name)
            return CAY_EGRESS_NOT_GIVEN;
        memcpy(conn->name, name, strlen(name) + 1);
        cay_policy_decide_name(egress->policy, cay_str(conn->name), conn->port, &decision);
    } else {
        cay_policy_decide_address(egress->policy, &conn->to, conn->port, &decision);
    }
    /* Who cannot read requests lets none through that are to be judged. */
    if (decision.verdict == CAY_VERDICT_ALLOWED && !egress_intercepts() && conn->name[0] &&
        cay_policy_reads_requests(egress->policy, cay_str(conn->name), conn->port))
        decision = (struct cay_decision){.verdict = CAY_VERDICT_REFUSED, .why = CAY_WHY_NO_RULE};
    size_t len = CAY_MIN(decision.rule.len, sizeof(conn->rule) - 1);
    if (len)
        memcpy(conn->rule, decision.rule.ptr, len);
    conn->rule[len] = '\0';
    if (decision.verdict == CAY_VERDICT_ALLOWED)
        return 0;
    if (decision.verdict == CAY_VERDICT_ASKED)
        return CAY_EGRESS_UNANSWERED;
    return decision.why == CAY_WHY_GUARDED ? CAY_EGRESS_GUARDED
           : decision.why == CAY_WHY_RULE  ? CAY_EGRESS_BY_RULE
           : decision.why == CAY_WHY_PORT  ? CAY_EGRESS_OTHER_PORT
                                           : CAY_EGRESS_NO_RULE;
}

/* Where clients speak first, whom they mean is known before anything leaves. Elsewhere the server
 * may be the one that does. */
void egress_conn_admit(struct egress_conn *conn)
{
    egress_ask_leave(conn);
    conn->phase = EGRESS_WAITS;
    conn->deadline_ms = conn->egress->now_ms + EGRESS_HELLO_MS;
    if (!conn->has_shy_server)
        egress_conn_reach(conn);
    else
        go_on(conn);
}

static void begin_conn(struct egress_conn *conn)
{
    struct egress *egress = conn->egress;
    if (conn->port == EGRESS_DNS_PORT) {
        conn->phase = EGRESS_QUESTIONS;
        conn->deadline_ms = egress->now_ms + EGRESS_QUESTION_MS;
        conn->client.watch.ready = on_tcp_question;
        if (egress_watch(egress, &conn->client.watch, EPOLLIN) < 0)
            egress_conn_end(conn, CAY_EGRESS_FAILED, CAY_EGRESS_TOO_MANY);
        return;
    }
    enum cay_egress_why why = decide(conn);
    /* Who connects by number means nobody by name. */
    conn->has_shy_server = conn->name[0] && (conn->port == PORT_HTTP || conn->port == PORT_HTTPS ||
                                             egress_must_intercept(conn));
    if (why == CAY_EGRESS_UNANSWERED && !egress_ask(conn))
        why = CAY_EGRESS_TOO_MANY;
    if (why && conn->phase != EGRESS_ASKS)
        egress_conn_end(conn, CAY_EGRESS_REFUSED, why);
    else if (egress_watch(egress, &conn->client.watch, EPOLLIN) < 0)
        egress_conn_end(conn, CAY_EGRESS_FAILED, CAY_EGRESS_TOO_MANY);
    else if (!why)
        egress_conn_admit(conn);
}

static void accept_one(struct egress *egress, int fd)
{
    struct egress_conn *conn = cay_new(struct egress_conn);
    conn->egress = egress;
    conn->phase = EGRESS_WAITS;
    conn->began_ms = egress->now_ms;
    conn->client.watch = (struct egress_watch){.fd = fd, .egress = egress, .ready = on_early};
    conn->server.watch.fd = -1;
    conn->lookup.fd = -1;
    egress->conn_count++;
    cay_list_push_back(&egress->conns, &conn->in_list);
    set_sizes(fd);
    if (!find_destination(fd, conn))
        egress_conn_end(conn, CAY_EGRESS_FAILED, CAY_EGRESS_MALFORMED);
    else if (egress->conn_count > EGRESS_CONNECTIONS_MAX)
        egress_conn_end(conn, CAY_EGRESS_REFUSED, CAY_EGRESS_TOO_MANY);
    else
        begin_conn(conn);
}

void egress_on_listener(struct egress_watch *watch, uint32_t)
{
    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        int fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return;
        accept_one(watch->egress, fd);
    }
}

void egress_tick(struct egress *egress)
{
    cay_list_for_each (struct egress_conn, conn, &egress->conns, in_list) {
        if (conn->phase == EGRESS_INTERCEPTS) {
            egress_intercept_tick(conn);
            continue;
        }
        if (!conn->deadline_ms)
            continue;
        if (conn->deadline_ms > egress->now_ms) {
            if (conn->phase == EGRESS_RESOLVES)
                egress_resolve_tick(conn);
        } else if (conn->phase == EGRESS_WAITS) {
            egress_conn_reach(conn);
        } else if (conn->phase == EGRESS_QUESTIONS) {
            egress_conn_end(conn, CAY_EGRESS_ALLOWED, 0);
        } else if (conn->phase == EGRESS_ASKS) {
            egress_conn_end(conn, CAY_EGRESS_REFUSED, CAY_EGRESS_UNANSWERED);
        } else {
            egress_conn_fail(conn, CAY_EGRESS_FAILED,
                             conn->phase == EGRESS_RESOLVES ? CAY_EGRESS_NOT_FOUND
                                                            : CAY_EGRESS_UNREACHABLE);
        }
    }
}

size_t egress_cut(struct egress *egress)
{
    size_t count = 0;
    cay_list_for_each (struct egress_conn, conn, &egress->conns, in_list) {
        enum cay_egress_why why = conn->phase == EGRESS_QUESTIONS ? 0 : decide(conn);
        if (conn->phase == EGRESS_ASKS) {
            if (!why)
                egress_conn_admit(conn);
            else if (why != CAY_EGRESS_UNANSWERED)
                egress_conn_end(conn, CAY_EGRESS_REFUSED, why);
            continue;
        }
        bool is_allowed = !why || (why == CAY_EGRESS_UNANSWERED && conn->is_let_through);
        if (is_allowed && conn->intercept)
            is_allowed = egress_intercept_is_allowed(conn);
        else if (is_allowed && conn->phase > EGRESS_WAITS) /* it went on unread so far */
            is_allowed = !egress_must_intercept(conn);
        /* What it was led to may be closed now, though the name is not. */
        if (is_allowed && conn->name[0] && conn->upstream_next) {
            struct cay_decision decision = {};
            cay_policy_decide_upstream(egress->policy, &conn->upstream[conn->upstream_next - 1],
                                       conn->port, &decision);
            is_allowed = decision.verdict == CAY_VERDICT_ALLOWED;
        }
        if (!is_allowed) {
            egress_conn_end(conn, CAY_EGRESS_REFUSED, CAY_EGRESS_CUT);
            count++;
        }
    }
    return count;
}
