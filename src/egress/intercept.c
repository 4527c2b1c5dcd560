/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/intercept.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * A connection that is looked into: TLS to the client ends here, and so does TLS to the server,
 * which is dialled when a request has come that may go on. Between them are four buffers of
 * bounded size; a side whose buffer is full is not read.
 *
 *     client -> heard -> (judge.c) -> to_server -> server
 *     client <- to_client <- (judge.c) <- said <- server
 */

enum { HTTPS = 443, ROUNDS_MAX = 64 };

/* --- what the daemon says --- */

bool egress_intercepts(void)
{
    return true;
}

int egress_interception_open(const char *trust_path, struct egress_interception **out)
{
    struct egress_interception *interception = cay_new(struct egress_interception);
    interception->tls = egress_tls_init(trust_path);
    *out = interception;
    return interception->tls ? 0 : -ENOMEM;
}

void egress_interception_close(struct egress *egress)
{
    struct egress_interception *interception = cay_take_ptr(egress->interception);
    if (interception)
        cay_egress_secrets_finish(&interception->secrets);
    free(interception);
}

/* All of a file, in memory that does not move, for it holds secrets. */
static bool read_file(int fd, size_t bytes_max, struct cay_buf *out)
{
    cay_buf_init(out, bytes_max);
    char *room = cay_buf_reserve(out, bytes_max);
    ssize_t len = room ? 1 : -1;
    while (len > 0 && out->len < bytes_max) {
        len = pread(fd, room + out->len, bytes_max - out->len, (off_t)out->len);
        if (len > 0)
            cay_buf_grew(out, (size_t)len);
    }
    return len >= 0;
}

static void wipe_file(struct cay_buf *file)
{
    if (file->data)
        cay_wipe(file->data, file->len);
    cay_buf_finish(file);
}

void egress_secrets_apply(struct egress *egress, int fd)
{
    struct cay_egress_secrets *secrets = &egress->interception->secrets;
    struct cay_egress_secret one;
    struct cay_buf file;
    cay_egress_secrets_finish(secrets);
    memset(egress->interception->used_told_ms, 0, sizeof(egress->interception->used_told_ms));
    struct cay_str rest = read_file(fd, CAY_EGRESS_SECRETS_BYTES_MAX, &file) ? cay_buf_str(&file)
                                                                             : (struct cay_str){};
    while (secrets->count < CAY_EGRESS_SECRETS_MAX && cay_egress_secret_next(&rest, &one))
        cay_egress_secrets_add(secrets, &one);
    wipe_file(&file);
    if (egress->policy)
        (void)egress_cut(egress);
}

static void begin_accept(struct egress_conn *conn);

void egress_leaf_apply(struct egress *egress, struct cay_str name, int fd)
{
    struct cay_buf file;
    bool is_good =
        read_file(fd, CAY_EGRESS_LEAF_BYTES_MAX, &file) &&
        egress_tls_add_leaf(egress->interception->tls, name, cay_buf_str(&file), egress->now_ms);
    wipe_file(&file);
    if (!is_good)
        return;
    cay_list_for_each (struct egress_conn, conn, &egress->conns, in_list) {
        if (conn->intercept && !conn->intercept->client.ssl && conn->phase == EGRESS_INTERCEPTS &&
            cay_str_equal(cay_str(conn->name), name))
            begin_accept(conn);
    }
}

bool egress_must_intercept(const struct egress_conn *conn)
{
    const struct egress *egress = conn->egress;
    const struct cay_egress_secrets *secrets = &egress->interception->secrets;
    if (!conn->name[0])
        return false;
    for (size_t i = 0; i < secrets->count && conn->port == HTTPS; i++) {
        if (cay_str_equal(secrets->items[i].host, cay_str(conn->name)))
            return true;
    }
    return egress->policy &&
           cay_policy_reads_requests(egress->policy, cay_str(conn->name), conn->port);
}

bool egress_intercept_is_allowed(const struct egress_conn *conn)
{
    const struct egress_request *request = &conn->intercept->request;
    struct cay_decision decision = {};
    if (!request->method)
        return true; /* the next is asked for when it comes */
    cay_policy_decide_request(conn->egress->policy, cay_str(conn->name), conn->port,
                              cay_str(request->method), cay_str(request->path), &decision);
    return decision.verdict == CAY_VERDICT_ALLOWED ||
           (decision.verdict == CAY_VERDICT_ASKED && conn->is_let_through);
}

/* --- the bytes --- */

static bool is_dead(const struct egress_conn *conn)
{
    return conn->client.watch.fd < 0;
}

static void count_bytes(struct egress_conn *conn, bool is_sent, size_t len)
{
    struct cay_egress_totals *totals = &conn->egress->receipts.totals;
    *(is_sent ? &conn->sent_bytes : &conn->received_bytes) += len;
    *(is_sent ? &totals->sent_bytes : &totals->received_bytes) += len;
}

/* Is there room for a record? */
static bool has_room(const struct cay_buf *buf)
{
    return buf->len + EGRESS_RECORD_BYTES <= EGRESS_HELD_BYTES;
}

/* > 0 when something came; -1 when it is broken. */
static ssize_t read_side(struct egress_tls_side *side, struct cay_buf *into)
{
    if (!side->is_up || side->is_read_over || !has_room(into))
        return 0;
    char *room = cay_buf_reserve(into, EGRESS_RECORD_BYTES);
    ssize_t len = room ? egress_tls_read(side, room, EGRESS_RECORD_BYTES) : -1;
    if (len > 0)
        cay_buf_grew(into, (size_t)len);
    if (len < 0)
        side->is_read_over = side->is_cut = true;
    return len;
}

/* The same of what was sent. */
static ssize_t write_side(struct egress_tls_side *side, struct cay_buf *from)
{
    if (!side->is_up || !from->len)
        return 0;
    ssize_t len = egress_tls_write(side, from->data, CAY_MIN(from->len, EGRESS_RECORD_BYTES));
    if (len > 0) {
        cay_wipe(from->data, (size_t)len);
        cay_buf_consume(from, (size_t)len);
    }
    return len;
}

static void broken(struct egress_conn *conn)
{
    egress_conn_end(conn, CAY_EGRESS_ALLOWED, CAY_EGRESS_UNREACHABLE);
}

/* --- one step each: 1 when something was done, 0 when nothing could be, -1 at the end --- */

static int shake_client(struct egress_conn *conn)
{
    struct egress_intercept *it = conn->intercept;
    if (it->client.is_up || !it->client.ssl)
        return 0;
    int status = egress_tls_shake(&it->client);
    if (status < 0) {
        egress_conn_end(conn, CAY_EGRESS_FAILED, CAY_EGRESS_HANDSHAKE);
    } else if (status > 0) {
        conn->deadline_ms = 0;
        if (!it->client.early_len)
            free(cay_take_ptr(it->early));
    }
    return status;
}

static int shake_server(struct egress_conn *conn)
{
    struct egress_intercept *it = conn->intercept;
    if (it->server.is_up || !it->server.ssl)
        return 0;
    int status = egress_tls_shake(&it->server);
    if (status > 0)
        conn->deadline_ms = 0;
    if (status >= 0)
        return status;
    const char *distrust = egress_tls_distrust(&it->server);
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, EGRESS_RECORD_BYTES);
    cay_buf_printf(&text, "the server's certificate is not good for the name: %s",
                   distrust ? distrust : "");
    enum cay_egress_verdict verdict = distrust ? CAY_EGRESS_REFUSED : CAY_EGRESS_FAILED;
    enum cay_egress_why why = distrust ? CAY_EGRESS_UNTRUSTED : CAY_EGRESS_UNREACHABLE;
    if (!egress_intercept_refuse(conn, verdict, why,
                                 distrust ? text.data
                                          : "the server does not speak TLS as it has to"))
        egress_conn_end(conn, verdict, why);
    return -1;
}

static int move_in(struct egress_conn *conn)
{
    struct egress_intercept *it = conn->intercept;
    ssize_t heard = it->is_ending ? 0 : read_side(&it->client, &it->heard);
    if (heard > 0)
        count_bytes(conn, true, (size_t)heard);
    ssize_t said = it->is_ending ? 0 : read_side(&it->server, &it->said);
    if (said > 0)
        count_bytes(conn, false, (size_t)said);
    if (heard < 0) { /* it left without a word */
        broken(conn);
        return -1;
    }
    return heard > 0 || said > 0;
}

static int move_out(struct egress_conn *conn)
{
    struct egress_intercept *it = conn->intercept;
    ssize_t to_server = it->is_ending ? 0 : write_side(&it->server, &it->to_server);
    ssize_t to_client = write_side(&it->client, &it->to_client);
    if (to_client < 0) {
        broken(conn);
        return -1;
    }
    /* A server may refuse a body and say so: its words are read before its end. The client's are
     * not, any more: what is left of a body must not be taken for a request. */
    if (to_server < 0) {
        it->to_server.len = it->heard.len = 0;
        it->pass.body_left = 0;
        it->pass.is_chunked = false;
        it->client.is_read_over = true;
    }
    return to_server > 0 || to_client > 0;
}

/* What can be dialled for, is. */
static int reach_server(struct egress_conn *conn)
{
    struct egress_intercept *it = conn->intercept;
    if (it->has_reached || !it->to_server.len || it->is_ending)
        return 0;
    it->has_reached = true;
    egress_conn_reach(conn);
    return is_dead(conn) || it->is_ending ? -1 : 1;
}

static int pass_ends(struct egress_conn *conn)
{
    struct egress_intercept *it = conn->intercept;
    bool is_quiet = !it->heard.len && !it->to_server.len;
    if (it->is_ending)
        return 0;
    if (it->server.is_read_over && !it->said.len) {
        egress_judge_end(conn);
        return -1;
    }
    if (!it->client.is_read_over || !is_quiet || it->is_shut)
        return 0;
    if (it->pass.phase == CAY_HTTP_PASS_THROUGH) {
        egress_tls_end(&it->server);
        (void)shutdown(conn->server.watch.fd, SHUT_WR);
        it->is_shut = true;
    } else if (it->pass.phase == CAY_HTTP_PASS_BETWEEN) {
        it->is_ending = true;
        conn->deadline_ms = conn->egress->now_ms + EGRESS_LINGER_MS;
        return 1;
    } else if (it->pass.body_left || it->pass.is_chunked) {
        broken(conn);
        return -1;
    }
    return 0;
}

/* A request of which the end is missing, and nothing comes any more. */
static bool is_half_a_request(const struct egress_conn *conn)
{
    const struct egress_intercept *it = conn->intercept;
    return it->client.is_read_over && it->heard.len && !it->is_ending &&
           it->pass.phase == CAY_HTTP_PASS_BETWEEN;
}

/* Our last words are out: the client is told that no more come, and has a while to read them. */
static void finish(struct egress_conn *conn)
{
    struct egress_intercept *it = conn->intercept;
    ssize_t len = 1;
    if (!it->is_silent) {
        it->is_silent = true;
        if (!it->server.is_cut || it->pass.phase == CAY_HTTP_PASS_BETWEEN)
            egress_tls_end(&it->client);
        (void)shutdown(conn->client.watch.fd, SHUT_WR);
        conn->deadline_ms = conn->egress->now_ms + EGRESS_LINGER_MS;
    }
    for (int i = 0; i < ROUNDS_MAX && len > 0; i++)
        len = recv(conn->client.watch.fd, conn->egress->scratch, EGRESS_PIECE_BYTES, MSG_DONTWAIT);
    if (len == 0 || (len < 0 && errno != EAGAIN && errno != EINTR))
        egress_conn_end(conn, CAY_EGRESS_ALLOWED, 0);
}

/* --- events --- */

static void give_back(struct cay_buf *buf)
{
    if (!buf->len)
        cay_buf_clear(buf, 0);
}

static uint32_t events_of(const struct egress_tls_side *side, bool may_read, bool has_more)
{
    if (!side->ssl)
        return 0;
    if (!side->is_up)
        return side->wants_write ? EPOLLOUT : EPOLLIN;
    return (may_read && !side->is_read_over ? EPOLLIN : 0u) | (has_more ? EPOLLOUT : 0u);
}

static void set_events(struct egress_conn *conn)
{
    struct egress_intercept *it = conn->intercept;
    uint32_t client = events_of(&it->client, has_room(&it->heard), it->to_client.len > 0);
    if (it->is_ending)
        client = it->is_silent ? EPOLLIN : EPOLLOUT;
    (void)egress_watch(conn->egress, &conn->client.watch, client);
    if (it->server.ssl)
        (void)egress_watch(
            conn->egress, &conn->server.watch,
            it->is_ending ? 0 : events_of(&it->server, has_room(&it->said), it->to_server.len > 0));
    give_back(&it->heard);
    if (!it->to_server.len && it->to_server.data)
        cay_wipe(it->to_server.data, it->to_server.cap);
    give_back(&it->to_server);
    give_back(&it->said);
    give_back(&it->to_client);
}

static void pump(struct egress_conn *conn)
{
    static int (*const steps[])(struct egress_conn *) = {
        shake_client, shake_server,      move_in,  egress_judge_heard,
        reach_server, egress_judge_said, move_out, pass_ends,
    };
    struct egress_intercept *it = conn->intercept;
    bool has_moved = true;
    it->client.turn_left = it->server.turn_left = EGRESS_TLS_TURN_BYTES;
    for (int round = 0; has_moved && round < ROUNDS_MAX; round++) {
        has_moved = false;
        for (size_t i = 0; i < CAY_COUNT(steps); i++) {
            int status = steps[i](conn);
            has_moved = has_moved || status != 0;
            if (is_dead(conn))
                return;
            if (status < 0)
                break;
        }
    }
    if (is_half_a_request(conn)) {
        egress_conn_end(conn, CAY_EGRESS_FAILED, CAY_EGRESS_MALFORMED);
        return;
    }
    if (it->is_ending && !it->to_client.len)
        finish(conn);
    if (!is_dead(conn))
        set_events(conn);
}

static void on_client(struct egress_watch *watch, uint32_t)
{
    struct egress_side *side = CAY_CONTAINER_OF(watch, struct egress_side, watch);
    pump(CAY_CONTAINER_OF(side, struct egress_conn, client));
}

static void on_server(struct egress_watch *watch, uint32_t)
{
    struct egress_side *side = CAY_CONTAINER_OF(watch, struct egress_side, watch);
    pump(CAY_CONTAINER_OF(side, struct egress_conn, server));
}

/* --- its life --- */

static void ask_for_leaf(struct egress_conn *conn)
{
    const struct cay_egress_frame frame = {.kind = CAY_EGRESS_LEAF_WANTED,
                                           .name = cay_str(conn->name)};
    conn->intercept->leaf_asked_ms = conn->egress->now_ms;
    (void)egress_send(conn->egress, &frame, NULL, 0);
}

static void begin_accept(struct egress_conn *conn)
{
    struct egress_intercept *it = conn->intercept;
    struct cay_str early = {it->early, conn->server.rest_len};
    conn->server.rest_len = 0;
    if (egress_tls_accept(conn->egress->interception->tls, conn->name, conn->client.watch.fd, early,
                          &it->client) < 0)
        egress_conn_end(conn, CAY_EGRESS_FAILED, CAY_EGRESS_HANDSHAKE);
    else
        pump(conn);
}

void egress_intercept_begin(struct egress_conn *conn)
{
    struct egress_interception *interception = conn->egress->interception;
    struct egress_intercept *it = cay_new(struct egress_intercept);
    conn->intercept = it;
    conn->phase = EGRESS_INTERCEPTS;
    conn->deadline_ms = conn->egress->now_ms + EGRESS_SHAKE_MS;
    conn->client.watch.ready = on_client;
    /* It is not for the server. */
    it->early = cay_take_ptr(conn->server.rest);
    conn->server.rest_allowed = conn->server.rest_sent = 0;
    cay_buf_init(&it->heard, EGRESS_HELD_BYTES + EGRESS_RECORD_BYTES);
    cay_buf_init(&it->to_server, EGRESS_TO_SERVER_BYTES);
    cay_buf_init(&it->said, EGRESS_HELD_BYTES + EGRESS_RECORD_BYTES);
    cay_buf_init(&it->to_client, EGRESS_TO_CLIENT_BYTES);
    if (++interception->conn_count > EGRESS_INTERCEPTS_MAX) {
        egress_conn_end(conn, CAY_EGRESS_REFUSED, CAY_EGRESS_TOO_MANY);
        return;
    }
    if (egress_tls_has_leaf(interception->tls, conn->name, conn->egress->now_ms)) {
        begin_accept(conn);
        return;
    }
    (void)egress_watch(conn->egress, &conn->client.watch, 0);
    ask_for_leaf(conn);
}

void egress_intercept_dialled(struct egress_conn *conn)
{
    struct egress_intercept *it = conn->intercept;
    conn->phase = EGRESS_INTERCEPTS;
    conn->deadline_ms = conn->egress->now_ms + EGRESS_SHAKE_MS;
    conn->server.watch.ready = on_server;
    if (egress_tls_connect(conn->egress->interception->tls, conn->name, conn->server.watch.fd,
                           &it->server) < 0)
        egress_conn_fail(conn, CAY_EGRESS_FAILED, CAY_EGRESS_UNREACHABLE);
    else
        pump(conn);
}

bool egress_intercept_refuse(struct egress_conn *conn, enum cay_egress_verdict verdict,
                             enum cay_egress_why why, const char *detail)
{
    struct egress_intercept *it = conn->intercept;
    struct egress *egress = conn->egress;
    bool can = it->client.is_up && !it->is_ending &&
               (it->pass.phase == CAY_HTTP_PASS_BETWEEN ||
                (it->pass.phase == CAY_HTTP_PASS_EXCHANGE && !it->pass.status));
    if (!can)
        return false;
    if (!it->request.method) {
        struct cay_egress_receipt receipt;
        egress_conn_describe(conn, &receipt);
        receipt.verdict = verdict;
        receipt.why = why;
        egress_note(egress, &receipt);
        it->has_told = true;
    }
    egress_judge_reply(conn, why, detail);
    egress_judge_tell(conn, verdict, why);
    it->is_ending = true;
    conn->phase = EGRESS_INTERCEPTS;
    conn->deadline_ms = egress->now_ms + EGRESS_SHAKE_MS;
    egress_tls_close(&it->server);
    egress_side_close(&conn->server, egress, true);
    egress_unwatch(egress, &conn->lookup);
    set_events(conn);
    return true;
}

void egress_intercept_tick(struct egress_conn *conn)
{
    struct egress_intercept *it = conn->intercept;
    uint64_t now_ms = conn->egress->now_ms;
    if (conn->deadline_ms && conn->deadline_ms <= now_ms) {
        if (it->is_ending)
            egress_conn_end(conn, CAY_EGRESS_ALLOWED, 0);
        else if (!it->client.is_up)
            egress_conn_end(conn, CAY_EGRESS_FAILED, CAY_EGRESS_HANDSHAKE);
        else
            egress_conn_fail(conn, CAY_EGRESS_FAILED, CAY_EGRESS_UNREACHABLE);
    } else if (!it->client.ssl && now_ms - it->leaf_asked_ms >= EGRESS_ASK_AGAIN_MS) {
        ask_for_leaf(conn);
    }
}

bool egress_intercept_close(struct egress_conn *conn, enum cay_egress_verdict verdict,
                            enum cay_egress_why why)
{
    struct egress_intercept *it = conn->intercept;
    egress_judge_tell(conn, verdict, why);
    egress_tls_close(&it->client);
    egress_tls_close(&it->server);
    conn->egress->interception->conn_count--;
    return it->has_told;
}

static void finish_buf(struct cay_buf *buf)
{
    if (buf->data)
        cay_wipe(buf->data, buf->cap);
    cay_buf_finish(buf);
}

void egress_intercept_free(struct egress_conn *conn)
{
    struct egress_intercept *it = cay_take_ptr(conn->intercept);
    if (!it)
        return;
    free(it->early);
    free(it->request.method);
    free(it->request.path);
    finish_buf(&it->heard);
    finish_buf(&it->to_server);
    finish_buf(&it->said);
    finish_buf(&it->to_client);
    free(it);
}
