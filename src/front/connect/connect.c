/* SPDX-License-Identifier: Apache-2.0 */
#include "front/connect/connect.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/base64.h"
#include "base/clock.h"
#include "base/stop.h"
#include "front/connect/rpc.h"

const uint32_t cay_rpc_bucket_us[CAY_RPC_BUCKETS - 1] = {100,    300,     1000,    10000,
                                                         100000, 1000000, 10000000};

/* What is small may have been a key or a secret; large ones there are none. */
static void drop_bytes(struct cay_buf *buf)
{
    enum { WIPED_BYTES_MAX = 16 * 1024 };
    cay_wipe(buf->data, CAY_MIN(buf->len, (size_t)WIPED_BYTES_MAX));
    cay_buf_finish(buf);
}

static void free_rpc(struct cay_rpc *rpc)
{
    cay_timer_close(&rpc->deadline);
    cay_body_release(&rpc->charge);
    drop_bytes(&rpc->body);
    drop_bytes(&rpc->unpacked);
    cay_buf_finish(&rpc->answer);
    cay_buf_finish(&rpc->packed);
    cay_envelope_reader_finish(&rpc->reader);
    cay_arena_finish(&rpc->message_arena);
    cay_arena_finish(&rpc->call.arena);
    free(rpc);
}

void cay_rpc_enter(struct cay_rpc *rpc)
{
    rpc->depth++;
}

void cay_rpc_leave(struct cay_rpc *rpc)
{
    if (--rpc->depth == 0 && !rpc->exchange && !rpc->away.is_away &&
        (rpc->is_answered || !rpc->is_started))
        free_rpc(rpc);
}

/* The verb may answer at once, so this comes last in whatever calls it. */
static void take_back(struct cay_rpc *rpc)
{
    if (!rpc->is_started || rpc->is_answered || rpc->call.is_cancelled)
        return;
    cay_stop_ask(&rpc->call.is_cancelled);
    if (rpc->call.on_cancel)
        rpc->call.on_cancel(&rpc->call);
}

/* What came of it before it was known who calls. */
static void refuse_body(struct cay_rpc *rpc)
{
    if (rpc->exchange && !rpc->is_get)
        cay_exchange_taken(rpc->exchange, rpc->body.len);
    drop_bytes(&rpc->body);
}

void cay_rpc_give_up(struct cay_rpc *rpc, const struct cay_error *err)
{
    cay_rpc_enter(rpc);
    cay_auth_cancel(&rpc->auth);
    if (!rpc->is_known)
        refuse_body(rpc);
    if (rpc->exchange && !rpc->is_over)
        cay_rpc_send_end(rpc, err);
    take_back(rpc);
    cay_rpc_leave(rpc);
}

static void on_deadline(struct cay_timer *timer)
{
    struct cay_rpc *rpc = CAY_CONTAINER_OF(timer, struct cay_rpc, deadline);
    struct cay_error err = {};
    cay_fail(&err, CAY_R_DEADLINE_EXCEEDED, NULL);
    cay_rpc_give_up(rpc, &err);
}

static void call_done(struct cay_call *call, const void *response)
{
    struct cay_rpc *rpc = cay_rpc_of(call);
    assert(!rpc->is_answered);
    cay_rpc_enter(rpc);
    rpc->is_answered = true;
    if (rpc->exchange && !rpc->is_over) {
        if (response)
            cay_rpc_send_response(rpc, response);
        else
            cay_rpc_send_end(rpc, NULL);
    }
    cay_rpc_leave(rpc);
}

static void call_fail(struct cay_call *call, const struct cay_error *err)
{
    struct cay_rpc *rpc = cay_rpc_of(call);
    assert(!rpc->is_answered);
    cay_rpc_enter(rpc);
    rpc->is_answered = true;
    if (rpc->exchange && !rpc->is_over)
        cay_rpc_send_end(rpc, err);
    cay_rpc_leave(rpc);
}

static bool call_send(struct cay_call *call, const void *message)
{
    struct cay_rpc *rpc = cay_rpc_of(call);
    assert(!rpc->is_answered);
    /* Nobody listens: the verb has been told, and may as well go on to its end. */
    if (!rpc->exchange || rpc->is_over)
        return true;
    struct cay_error err = {};
    if (!cay_rpc_send_message(rpc, message, &err)) {
        cay_rpc_give_up(rpc, &err);
        return false;
    }
    return rpc->exchange && cay_exchange_has_room(rpc->exchange);
}

static bool call_send_kept(struct cay_call *call, const void *message)
{
    struct cay_rpc *rpc = cay_rpc_of(call);
    bool is_heard = rpc->exchange && !rpc->is_over;
    return is_heard && cay_rpc_send_later(rpc, message) ? false : call_send(call, message);
}

static void call_next(struct cay_call *call)
{
    struct cay_rpc *rpc = cay_rpc_of(call);
    bool is_asked_again = rpc->wants_message; /* for the one that is decoded just now */
    cay_rpc_enter(rpc);
    rpc->wants_message = true;
    if (rpc->has_message && !is_asked_again) {
        rpc->has_message = false;
        cay_envelope_reader_next(&rpc->reader);
        cay_arena_finish(&rpc->message_arena);
    }
    cay_rpc_pump(rpc);
    cay_rpc_leave(rpc);
}

static void call_cut(struct cay_call *call, const struct cay_error *err)
{
    struct cay_rpc *rpc = cay_rpc_of(call);
    if (rpc->exchange)
        rpc->exchange->is_cut = true;
    cay_rpc_give_up(rpc, err);
}

/* Packed bytes say nothing about what they hold: all or nothing. */
static size_t call_unsent(const struct cay_call *call)
{
    const struct cay_rpc *rpc = (const struct cay_rpc *)call; /* its first member */
    size_t len = rpc->exchange ? cay_exchange_unsent(rpc->exchange) : 0;
    return len && rpc->accepts_gzip ? SIZE_MAX : len;
}

static const struct cay_call_ops call_ops = {
    .done = call_done,
    .fail = call_fail,
    .send = call_send,
    .next = call_next,
    .cut = call_cut,
    .unsent = call_unsent,
    .send_kept = call_send_kept,
};

/* What the request holds of the budget: what came, `more` that comes, and what was made of it, for
 * the peer chooses both. */
static bool charge(struct cay_rpc *rpc, size_t more, struct cay_error *err)
{
    const struct cay_arena *arena =
        rpc->call.method->client_streaming ? &rpc->message_arena : &rpc->call.arena;
    size_t held = rpc->body.len + rpc->reader.message.len + more;
    if (!rpc->away.is_away)
        held += rpc->unpacked.len + arena->used_bytes;
    return cay_body_charge_to(&rpc->charge, &rpc->door->porch->bodies, rpc->call.caller.owner, held,
                              err);
}

static void start_verb(struct cay_rpc *rpc)
{
    rpc->is_started = true;
    cay_service_call(rpc->door->porch->service, &rpc->call);
}

bool cay_rpc_has_decoded(struct cay_rpc *rpc, const struct cay_error *err)
{
    struct cay_error own = {};
    if (!err && !charge(rpc, 0, &own))
        err = &own;
    if (err)
        cay_rpc_give_up(rpc, err);
    return !err;
}

static void start_decoded(struct cay_rpc *rpc, const struct cay_error *err)
{
    if (cay_rpc_has_decoded(rpc, err))
        start_verb(rpc);
}

static void decode_and_start(struct cay_rpc *rpc)
{
    struct cay_error err = {};
    if (cay_is_dear(rpc->body.len, rpc->request_compression == CAY_RPC_GZIP))
        cay_rpc_send_away(rpc, cay_rpc_decode_single, start_decoded);
    else
        start_decoded(rpc, cay_rpc_decode_single(rpc, &err) ? NULL : &err);
}

/* A body that was refused is not kept while the rest of it arrives. */
static void drop_body(struct cay_rpc *rpc)
{
    if (rpc->is_started)
        return;
    drop_bytes(&rpc->body);
    cay_body_release(&rpc->charge);
}

static void on_body(struct cay_exchange *exchange, const char *data, size_t len)
{
    struct cay_rpc *rpc = exchange->state;
    cay_rpc_enter(rpc);
    /* The message of a GET is there already. */
    if (rpc->is_over || rpc->is_get) {
        cay_exchange_taken(exchange, len);
        cay_rpc_leave(rpc);
        return;
    }
    struct cay_error err = {};
    if (rpc->is_known && !charge(rpc, len, &err)) {
        cay_rpc_give_up(rpc, &err);
        drop_body(rpc);
        cay_rpc_leave(rpc);
        return;
    }
    cay_buf_append(&rpc->body, data, len);
    if (rpc->body.failed) {
        cay_fail(&err, CAY_R_MESSAGE_TOO_LARGE, "a message may have %d bytes at most",
                 CAY_LIMIT_MESSAGE_BYTES);
        cay_rpc_give_up(rpc, &err);
        drop_body(rpc);
    } else if (rpc->call.method->client_streaming) {
        cay_rpc_pump(rpc);
    } else if (rpc->is_known) {
        cay_exchange_taken(exchange, len);
    }
    cay_rpc_leave(rpc);
}

static void on_body_end(struct cay_exchange *exchange)
{
    struct cay_rpc *rpc = exchange->state;
    cay_rpc_enter(rpc);
    rpc->is_body_over = true;
    if (rpc->is_over || !rpc->is_known)
        ;
    else if (rpc->call.method->client_streaming)
        cay_rpc_pump(rpc);
    else
        decode_and_start(rpc);
    cay_rpc_leave(rpc);
}

void cay_rpc_tell_room(struct cay_rpc *rpc)
{
    /* Behind a message that a worker is at, nothing is sent before it is. */
    if (rpc->is_started && !rpc->is_answered && !rpc->is_over && rpc->call.on_room &&
        !rpc->is_sending && cay_exchange_has_room(rpc->exchange)) {
        rpc->call.on_room(&rpc->call);
        /* With room to answer, the verb may have asked for the next message. */
        cay_rpc_pump(rpc);
    }
}

static void on_room(struct cay_exchange *exchange)
{
    struct cay_rpc *rpc = exchange->state;
    cay_rpc_enter(rpc);
    cay_rpc_tell_room(rpc);
    cay_rpc_leave(rpc);
}

static void on_closed(struct cay_exchange *exchange)
{
    struct cay_rpc *rpc = exchange->state;
    cay_rpc_enter(rpc);
    rpc->exchange = NULL;
    cay_auth_cancel(&rpc->auth);
    cay_away_leave(&rpc->away);
    cay_timer_close(&rpc->deadline);
    if (!rpc->is_over) {
        rpc->is_over = true;
        exchange->log_code = "canceled";
        rpc->door->stats[rpc->call.method->index].by_code[CAY_CODE_CANCELED]++;
    }
    take_back(rpc);
    cay_rpc_leave(rpc);
}

static const struct cay_handler handler = {
    .body = on_body,
    .body_end = on_body_end,
    .room = on_room,
    .closed = on_closed,
};

static bool read_encodings(struct cay_rpc *rpc, struct cay_error *err)
{
    const struct cay_rpc_names *names = cay_rpc_names(rpc->kind.protocol);
    const struct cay_http_headers *headers = &rpc->exchange->headers;
    struct cay_str encoding = cay_http_header(headers, names->encoding);
    if (rpc->is_get)
        (void)cay_http_query(rpc->exchange->query, "compression", &rpc->exchange->arena, &encoding);
    rpc->accepts_gzip = cay_http_list_has(cay_http_header(headers, names->accept_encoding), "gzip");
    if (cay_rpc_compression_parse(encoding, &rpc->request_compression))
        return true;
    return cay_fail(err, CAY_R_UNSUPPORTED_ENCODING,
                    "compression '%.*s' is not supported; gzip and identity are",
                    (int)CAY_MIN(encoding.len, (size_t)32), encoding.ptr);
}

/* A misspelt field would be a wish that nobody hears. Who speaks a newer contract than this daemon
 * asks to be heard all the same. */
static bool read_leniency(struct cay_rpc *rpc, struct cay_error *err)
{
    struct cay_str value = cay_http_header(&rpc->exchange->headers, "cay-unknown-fields");
    rpc->ignores_unknown_fields = cay_str_is(value, "ignore");
    if (!value.ptr || rpc->ignores_unknown_fields || cay_str_is(value, "refuse"))
        return true;
    return cay_fail(err, CAY_R_INVALID_ARGUMENT, "cay-unknown-fields must be ignore or refuse");
}

/* -ENOENT when there is none, -EINVAL when it is malformed. */
static int find_timeout(const struct cay_rpc *rpc, struct cay_str *out_text, uint64_t *out_ms)
{
    enum cay_rpc_protocol protocol = rpc->kind.protocol;
    *out_text = cay_http_header(&rpc->exchange->headers, cay_rpc_names(protocol)->timeout);
    return out_text->ptr ? cay_rpc_timeout_parse(protocol, *out_text, out_ms) : -ENOENT;
}

/* It runs while it is not known who calls; whoever may call is told what is wrong with it. */
static void start_deadline(struct cay_rpc *rpc)
{
    struct cay_str text = {};
    uint64_t timeout_ms = 0;
    if (find_timeout(rpc, &text, &timeout_ms) < 0)
        return;
    rpc->call.deadline_ms = cay_loop_now_ms(rpc->exchange->loop) + timeout_ms;
    cay_timer_open(&rpc->deadline, rpc->exchange->loop, on_deadline);
    cay_timer_start(&rpc->deadline, timeout_ms, 0);
}

static bool check_timeout(const struct cay_rpc *rpc, struct cay_error *err)
{
    struct cay_str text = {};
    uint64_t timeout_ms = 0;
    return find_timeout(rpc, &text, &timeout_ms) != -EINVAL ||
           cay_fail(err, CAY_R_INVALID_ARGUMENT, "%s '%.*s' is not a timeout",
                    cay_rpc_names(rpc->kind.protocol)->timeout, (int)CAY_MIN(text.len, (size_t)32),
                    text.ptr);
}

static bool check_protocol_version(const struct cay_rpc *rpc, struct cay_error *err)
{
    struct cay_str version = cay_http_header(&rpc->exchange->headers, "connect-protocol-version");
    if (rpc->is_get &&
        (!cay_http_query(rpc->exchange->query, "connect", &rpc->exchange->arena, &version) ||
         !cay_str_is(version, "v1")))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "the query parameter connect must be v1");
    if (!rpc->is_get && version.ptr && !cay_str_is(version, "1"))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "connect-protocol-version must be 1");
    return true;
}

/* A GET carries its message in the query. */
static bool read_query_message(struct cay_rpc *rpc, struct cay_error *err)
{
    struct cay_exchange *exchange = rpc->exchange;
    struct cay_str text = {};
    struct cay_str is_base64 = {};
    if (!cay_http_query(exchange->query, "message", &exchange->arena, &text))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "the query parameter message is missing or badly escaped");
    if (cay_http_query(exchange->query, "base64", &exchange->arena, &is_base64) &&
        cay_str_is(is_base64, "1")) {
        size_t len = 0;
        char *room = cay_buf_reserve(&rpc->body, cay_base64_decoded_len_max(text.len) + 1);
        if (!room || cay_base64_decode(text, room, &len) < 0)
            return cay_fail(err, CAY_R_MALFORMED_REQUEST,
                            "the query parameter message is not base64");
        cay_buf_grew(&rpc->body, len);
    } else {
        cay_buf_append_str(&rpc->body, text);
    }
    return true;
}

static bool prepare(struct cay_rpc *rpc, struct cay_error *err)
{
    const bool *pieces = rpc->door->porch->service->ops->piece_methods;
    rpc->exchange->is_piece = pieces && pieces[rpc->call.method->index];
    return check_protocol_version(rpc, err) && read_encodings(rpc, err) &&
           check_timeout(rpc, err) && read_leniency(rpc, err) &&
           (!rpc->is_get || read_query_message(rpc, err)) && charge(rpc, 0, err);
}

/* What came of the body meanwhile is no more than HTTP reads ahead. */
static void go(struct cay_rpc *rpc)
{
    rpc->is_known = true;
    if (rpc->call.method->client_streaming) {
        start_verb(rpc);
    } else {
        if (!rpc->is_get)
            cay_exchange_taken(rpc->exchange, rpc->body.len);
        if (rpc->is_body_over)
            decode_and_start(rpc);
    }
}

static void known(struct cay_auth *auth, const struct cay_error *err)
{
    struct cay_rpc *rpc = CAY_CONTAINER_OF(auth, struct cay_rpc, auth);
    struct cay_error own = {};
    cay_rpc_enter(rpc);
    rpc->call.caller = auth->caller;
    if (!err && !prepare(rpc, &own))
        err = &own;
    if (err)
        cay_rpc_give_up(rpc, err);
    else
        go(rpc);
    cay_rpc_pump(rpc);
    cay_rpc_leave(rpc);
}

/* What opened the door to the caller does so no longer. */
static void lapsed(struct cay_auth *auth, const struct cay_error *err)
{
    struct cay_rpc *rpc = CAY_CONTAINER_OF(auth, struct cay_rpc, auth);
    if (!rpc->is_over)
        call_cut(&rpc->call, err);
}

static void start(struct cay_connect *door, struct cay_exchange *exchange,
                  const struct cay_pb_method *method, struct cay_rpc_kind kind, bool is_get)
{
    static const struct cay_auth_asker asker = {.done = known, .lapsed = lapsed};
    struct cay_rpc *rpc = cay_new(struct cay_rpc);
    rpc->door = door;
    rpc->exchange = exchange;
    rpc->kind = kind;
    rpc->is_get = is_get;
    rpc->started_ns = exchange->started_ns;
    rpc->call.ops = &call_ops;
    rpc->call.request_id = exchange->id;
    rpc->call.method = method;
    cay_arena_init(&rpc->call.arena, CAY_LIMIT_CALL_ARENA_BYTES);
    cay_arena_init(&rpc->message_arena, CAY_LIMIT_CALL_ARENA_BYTES);
    cay_buf_init(&rpc->body, CAY_LIMIT_MESSAGE_BYTES + CAY_ENVELOPE_HEAD_BYTES);
    cay_buf_init(&rpc->unpacked, CAY_LIMIT_MESSAGE_BYTES);
    cay_buf_init(&rpc->answer, CAY_LIMIT_MESSAGE_BYTES);
    cay_buf_init(&rpc->packed, CAY_LIMIT_MESSAGE_BYTES + CAY_LIMIT_GZIP_MIN_BYTES);
    cay_buf_init(&rpc->reader.message, CAY_LIMIT_MESSAGE_BYTES);
    exchange->state = rpc;
    exchange->handler = &handler;
    exchange->is_long_lived = method->client_streaming;
    /* A terminal or a connection, whose other end may look away. */
    exchange->is_patient = method->client_streaming && method->server_streaming;

    cay_rpc_enter(rpc);
    start_deadline(rpc);
    cay_auth_start(&rpc->auth, exchange, door->porch->service, door->porch->allow_anonymous,
                   &asker);
    cay_rpc_pump(rpc);
    cay_rpc_leave(rpc);
}

static void refuse(struct cay_exchange *exchange, int status, const char *name, const char *value,
                   const char *text)
{
    struct cay_http_header headers[] = {
        {CAY_STR("content-type"), CAY_STR("application/json")},
        {cay_str(name), cay_str(value)},
    };
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_buf_init(&body, 1024);
    cay_buf_printf(&body, "{\"code\":\"%s\",\"message\":\"%s\"}",
                   status == 404 ? "unimplemented" : "invalid_argument", text);
    cay_exchange_respond(exchange, status, headers, name ? 2 : 1, (int64_t)body.len);
    cay_exchange_write(exchange, body.data, body.len);
    cay_exchange_finish(exchange, NULL, 0);
}

/* gRPC clients read trailers only, never a body: they are told in their own way. */
static void refuse_unknown(struct cay_exchange *exchange, bool is_grpc)
{
    if (!is_grpc) {
        refuse(exchange, 404, NULL, NULL,
               "there is no such method or page; 'cay api --list' lists the methods");
        return;
    }
    struct cay_http_header headers[] = {
        {CAY_STR("content-type"), CAY_STR("application/grpc")},
        {CAY_STR("grpc-status"), CAY_STR("12")},
        {CAY_STR("grpc-message"), CAY_STR("there is no such method")},
    };
    cay_exchange_respond(exchange, 200, headers, 1, -1);
    cay_exchange_finish(exchange, headers + 1, 2);
}

/* The codec of a GET stands in its query. */
static bool kind_of_get(struct cay_exchange *exchange, struct cay_rpc_kind *out_kind)
{
    struct cay_str encoding = {};
    *out_kind = (struct cay_rpc_kind){CAY_RPC_CONNECT_UNARY, CAY_RPC_JSON};
    if (!cay_http_query(exchange->query, "encoding", &exchange->arena, &encoding))
        return false;
    if (cay_str_is(encoding, "proto"))
        out_kind->codec = CAY_RPC_PROTO;
    return cay_str_is(encoding, "proto") || cay_str_is(encoding, "json");
}

static void open_rpc(void *self, struct cay_exchange *exchange)
{
    struct cay_connect *door = self;
    static const char unary_types[] = "application/json, application/proto, application/grpc, "
                                      "application/grpc-web";
    static const char stream_types[] = "application/connect+json, application/connect+proto, "
                                       "application/grpc, application/grpc-web";
    const struct cay_pb_method *method = cay_service_method(door->porch->service, exchange->path);
    struct cay_rpc_kind kind = {};
    bool is_known = cay_rpc_kind_parse(cay_http_header(&exchange->headers, "content-type"), &kind);
    if (!method) {
        refuse_unknown(exchange, is_known && kind.protocol == CAY_RPC_GRPC);
        return;
    }
    bool is_stream = method->client_streaming || method->server_streaming;
    bool is_get = cay_str_is(exchange->method, "GET");
    bool may_get = method->no_side_effects && !is_stream;
    if (is_get && may_get) {
        if (kind_of_get(exchange, &kind))
            start(door, exchange, method, kind, true);
        else
            refuse(exchange, 415, NULL, NULL, "the query parameter encoding must be json or proto");
        return;
    }
    if (!cay_str_is(exchange->method, "POST")) {
        refuse(exchange, 405, "allow", may_get ? "GET, POST" : "POST",
               "this method is called by POST");
        return;
    }
    enum cay_rpc_protocol wrong = is_stream ? CAY_RPC_CONNECT_UNARY : CAY_RPC_CONNECT_STREAM;
    if (!is_known || kind.protocol == wrong)
        refuse(exchange, 415, "accept-post", is_stream ? stream_types : unary_types,
               "the content type does not fit this method; the header accept-post names those that "
               "do");
    else if (kind.protocol == CAY_RPC_GRPC && !exchange->is_http2)
        refuse(exchange, 505, NULL, NULL, "gRPC needs HTTP/2; gRPC-Web and Connect do not");
    else
        start(door, exchange, method, kind, false);
}

/* Also what is no method: it is the last door. */
static bool owns(const void *, const struct cay_exchange *)
{
    return true;
}

static void *create(struct cay_porch *porch)
{
    struct cay_connect *door = cay_new(struct cay_connect);
    door->porch = porch;
    door->stats = cay_alloc(porch->service->ops->method_count * sizeof(*door->stats));
    return door;
}

static void destroy(void *self)
{
    struct cay_connect *door = self;
    free(door->stats);
    free(door);
}

const struct cay_door cay_connect_door = {
    .name = "connect",
    .create = create,
    .destroy = destroy,
    .owns = owns,
    .open = open_rpc,
    .metrics = cay_connect_metrics,
};
