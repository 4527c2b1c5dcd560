/* SPDX-License-Identifier: Apache-2.0 */
#include "front/e2b/proxy/proxy.h"

#include <stdlib.h>

#include "api/limits.h"
#include "front/e2b/gate.h"
#include "front/e2b/proxy/head.h"
#include "front/e2b/ref.h"
#include "front/e2b/token.h"
#include "front/rest/call.h"
#include "wire/http1.h"

/*
 * One request, one connection to the program: the head is written anew, bodies pass in pieces as
 * fast as the slower side takes them. After a 101 the pieces are whatever the two agreed on.
 */

struct proxy {
    struct cay_rest_request *request;
    struct cay_rest_call *call; /* NULL once it has ended */

    /* To the program: what waits for it, and what it is just given. */
    struct cay_buf waiting;
    struct cay_buf given;
    size_t waiting_taken; /* bytes of the client's body in `waiting`, not acknowledged yet */
    size_t given_taken;
    bool is_chunked;

    /* From the program. */
    struct cay_buf head;
    struct cay_http1_chunks chunks;
    uint64_t left; /* of a body whose length is known */
    unsigned hint_count;
    bool has_head;
    bool has_length;
    bool has_chunks;
    bool is_raw;
};

/* Behind it is the host's own resolver, if the sandbox's network is open. */
enum { DNS_PORT = 53 };

static bool is_loopback(struct cay_str address)
{
    return cay_str_starts(address, "127.") || cay_str_starts(address, "::1") ||
           cay_str_starts(address, "[::1]");
}

/* The port is on an address of the host, on purpose. Whoever reaches that reaches it here, too,
 * unless the sandbox asks for its token. */
static bool is_exposed(const struct cay_rest_request *request)
{
    const struct cay_v1_exposed_port_array ports = cay_e2b_visit(request)->session->ports;
    const struct cay_v1_network_policy *network = cay_e2b_visit(request)->session->network;
    const struct cay_peer *peer = request->exchange->peer;
    bool is_local = peer->is_unix || is_loopback(cay_str(peer->text));
    for (size_t i = 0; i < ports.count; i++) {
        const struct cay_v1_exposed_port *port = &ports.items[i];
        if (port->port == cay_e2b_visit(request)->port)
            return (is_local || !is_loopback(port->bind_address)) &&
                   !(network && network->private_ports);
    }
    return false;
}

static bool admit(struct cay_rest_request *request)
{
    static const struct cay_rest_route stream = {.body = CAY_REST_BODY_STREAM};
    request->route = &stream; /* a body that comes early waits */
    bool is_public = cay_e2b_has_public_ports(request);
    if (cay_e2b_visit(request)->is_trusted ||
        (is_public && cay_e2b_visit(request)->port != DNS_PORT) || is_exposed(request))
        return true;
    struct cay_str sent = cay_http_header(&request->exchange->headers, "e2b-traffic-access-token");
    if (!cay_e2b_may_know(request))
        cay_e2b_reply_unknown(request);
    else if (is_public)
        cay_e2b_reply_port_closed(request);
    else
        cay_e2b_reply_sandbox(request, 403,
                              sent.len ? "The traffic access token is not valid"
                                       : "The sandbox is secured with a traffic access token",
                              cay_e2b_visit(request)->port, NULL);
    return false;
}

static void free_proxy(struct cay_rest_request *request)
{
    struct proxy *proxy = cay_take_ptr(request->state);
    cay_buf_finish(&proxy->waiting);
    cay_buf_finish(&proxy->given);
    cay_buf_finish(&proxy->head);
    free(proxy);
}

/* Gives what waits, if it is wanted. */
static void push(struct proxy *proxy)
{
    struct cay_rest_call *call = proxy->call;
    if (!call || !call->errand.wants || call->errand.is_giving || !proxy->waiting.len)
        return;
    struct cay_buf done = proxy->given;
    proxy->given = proxy->waiting;
    proxy->waiting = done;
    cay_buf_clear(&proxy->waiting, CAY_LIMIT_BODY_QUEUE_BYTES);
    proxy->given_taken = proxy->waiting_taken;
    proxy->waiting_taken = 0;
    const struct cay_v1_connect_port_request message = {
        .which_frame = CAY_V1_CONNECT_PORT_REQUEST_FRAME_DATA,
        .frame.data = cay_buf_str(&proxy->given),
    };
    cay_rest_call_give(call, &message);
}

static void wanted(struct cay_rest_request *request, struct cay_rest_call *)
{
    struct proxy *proxy = request->state;
    size_t taken = proxy->given_taken;
    proxy->given_taken = 0;
    if (taken)
        cay_exchange_taken(request->exchange, taken);
    push(proxy);
}

static void on_body(struct cay_rest_request *request, const char *data, size_t len)
{
    struct proxy *proxy = request->state;
    if (!len)
        return;
    if (proxy->is_chunked)
        cay_buf_printf(&proxy->waiting, "%zx\r\n", len);
    cay_buf_append(&proxy->waiting, data, len);
    if (proxy->is_chunked)
        cay_buf_append(&proxy->waiting, "\r\n", 2);
    proxy->waiting_taken += len;
    push(proxy);
}

static void on_body_end(struct cay_rest_request *request)
{
    struct proxy *proxy = request->state;
    if (!proxy->is_chunked)
        return;
    cay_buf_append_text(&proxy->waiting, "0\r\n\r\n");
    push(proxy);
}

static void on_room(struct cay_rest_request *request)
{
    struct proxy *proxy = request->state;
    if (proxy->call)
        cay_rest_call_room(proxy->call);
}

/* The program's answer cannot be understood or came to a bad end. */
static void give_up(struct cay_rest_request *request, const char *why)
{
    struct proxy *proxy = request->state;
    if (proxy->has_head)
        cay_exchange_reset(request->exchange);
    else
        cay_e2b_reply_sandbox(request, 502, "The port did not answer as HTTP",
                              cay_e2b_visit(request)->port, why);
}

static void finish(struct cay_rest_request *request)
{
    cay_exchange_finish(request->exchange, NULL, 0);
}

static void begin_answer(struct cay_rest_request *request, const struct cay_http1_answer *answer)
{
    struct proxy *proxy = request->state;
    struct cay_http_header kept[CAY_LIMIT_HEADER_COUNT];
    size_t count = cay_e2b_proxy_answer_headers(answer, kept);
    bool is_head = cay_str_is(request->exchange->method, "HEAD");
    bool has_body =
        !is_head && answer->status >= 200 && answer->status != 204 && answer->status != 304;
    proxy->has_head = true;
    proxy->is_raw = answer->status == 101;
    proxy->has_length = !proxy->is_raw && (answer->has_length || !has_body);
    proxy->has_chunks = answer->is_chunked && has_body;
    proxy->left = has_body ? answer->content_length : 0;
    if (proxy->is_raw)
        proxy->is_chunked = false;
    cay_exchange_respond(request->exchange, answer->status, kept, count,
                         answer->has_length ? (int64_t)answer->content_length : -1);
}

/* Passes a piece of the body on. False when the answer is complete, or cannot be. */
static bool pass_body(struct cay_rest_request *request, struct cay_str bytes)
{
    struct proxy *proxy = request->state;
    struct cay_exchange *exchange = request->exchange;
    if (proxy->is_raw || (!proxy->has_length && !proxy->has_chunks)) {
        cay_exchange_write(exchange, bytes.ptr, bytes.len);
        return true;
    }
    if (proxy->has_length) {
        size_t len = (size_t)CAY_MIN((uint64_t)bytes.len, proxy->left);
        proxy->left -= len;
        bool goes_on = proxy->left > 0;
        cay_exchange_write(exchange, bytes.ptr, len);
        if (!goes_on)
            finish(request); /* the proxy is gone with it */
        return goes_on;
    }
    while (bytes.len) {
        struct cay_str data;
        bool is_end = false;
        ssize_t used = cay_http1_chunks_feed(&proxy->chunks, bytes.ptr, bytes.len, &data, &is_end);
        if (used < 0) {
            give_up(request, NULL);
            return false;
        }
        cay_exchange_write(exchange, data.ptr, data.len);
        if (is_end) {
            finish(request);
            return false;
        }
        bytes.ptr += used;
        bytes.len -= (size_t)used;
    }
    return true;
}

/* Looks for the head in what has come. True when the body may follow. */
static bool read_head(struct cay_rest_request *request)
{
    struct proxy *proxy = request->state;
    struct cay_http_header headers[CAY_LIMIT_HEADER_COUNT];
    struct cay_http1_answer answer;
    struct cay_http1_fault fault;
    for (;;) {
        ssize_t len = cay_http1_parse_answer(cay_buf_str(&proxy->head), headers, CAY_COUNT(headers),
                                             CAY_LIMIT_HEAD_BYTES, &answer, &fault);
        if (len < 0)
            give_up(request, fault.text);
        if (len <= 0)
            return false;
        /* 100 and 103 are hints on the way. */
        bool is_final = answer.status >= 200 || answer.status == 101;
        if (answer.status == 101 && !cay_e2b_proxy_is_upgrade(request)) {
            give_up(request, "the program switched to a protocol that nobody asked for");
            return false;
        }
        if (!is_final && ++proxy->hint_count > CAY_LIMIT_HINTS) {
            give_up(request, "the program sent hints and no answer");
            return false;
        }
        if (is_final)
            begin_answer(request, &answer);
        cay_buf_consume(&proxy->head, (size_t)len);
        if (is_final)
            return true;
    }
}

static bool received(struct cay_rest_request *request, struct cay_rest_call *, const void *message)
{
    const struct cay_v1_connect_port_response *response = message;
    struct proxy *proxy = request->state;
    if (response->which_frame != CAY_V1_CONNECT_PORT_RESPONSE_FRAME_DATA)
        return true;
    struct cay_str bytes = response->frame.data;
    struct cay_buf first = {};
    bool goes_on = true;
    if (!proxy->has_head) {
        cay_buf_append_str(&proxy->head, bytes);
        if (!read_head(request))
            return true;
        first = proxy->head; /* what came behind the head */
        cay_buf_init(&proxy->head, 0);
        bytes = cay_buf_str(&first);
        if (proxy->has_length && !proxy->left) {
            finish(request);
            goes_on = false;
        }
    }
    /* The request may be closed inside, and the proxy gone. */
    goes_on = goes_on && (!bytes.len || pass_body(request, bytes));
    cay_buf_finish(&first);
    return !goes_on || !request->exchange || cay_exchange_has_room(request->exchange);
}

static void ended(struct cay_rest_request *request, struct cay_rest_call *, const void *,
                  const struct cay_error *err)
{
    struct proxy *proxy = request->state;
    proxy->call = NULL;
    if (proxy->has_head) {
        bool ends_so = !err && !proxy->has_length && !proxy->has_chunks;
        if (ends_so)
            finish(request);
        else
            cay_exchange_reset(request->exchange);
    } else if (!err) {
        give_up(request, "the program hung up without an answer");
    } else if (err->reason == CAY_R_PORT_NOT_OPEN) {
        cay_e2b_reply_port_closed(request);
    } else if (err->reason == CAY_R_PERMISSION_DENIED || err->reason == CAY_R_UNAUTHENTICATED) {
        cay_rest_reply_error(request, err);
    } else {
        cay_e2b_reply_sandbox(request, 502, "The sandbox did not answer",
                              cay_e2b_visit(request)->port, err->text);
    }
}

static void open_connection(struct cay_rest_request *request, struct cay_rest_call *call)
{
    struct proxy *proxy = request->state;
    call->on_want = wanted;
    struct cay_v1_port_open open = {.session_id = cay_e2b_visit(request)->sandbox_id,
                                    .port = cay_e2b_visit(request)->port};
    const struct cay_v1_connect_port_request message = {
        .which_frame = CAY_V1_CONNECT_PORT_REQUEST_FRAME_OPEN, .frame.open = &open};
    proxy->call = call;
    cay_rest_call_give(call, &message);
}

static void handle(struct cay_rest_request *request)
{
    struct proxy *proxy = cay_new(struct proxy);
    struct cay_exchange *exchange = request->exchange;
    proxy->request = request;
    cay_buf_init(&proxy->waiting, CAY_LIMIT_HEAD_BYTES * 2 + CAY_LIMIT_MESSAGE_BYTES);
    cay_buf_init(&proxy->given, CAY_LIMIT_HEAD_BYTES * 2 + CAY_LIMIT_MESSAGE_BYTES);
    cay_buf_init(&proxy->head, CAY_LIMIT_HEAD_BYTES + 2 * CAY_LOOP_SCRATCH_BYTES);
    proxy->is_chunked = cay_e2b_proxy_write_head(request, &proxy->waiting);
    request->state = proxy;
    request->on_body = on_body;
    request->on_body_end = on_body_end;
    request->on_room = on_room;
    request->on_closed = free_proxy;
    exchange->is_long_lived = true;
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_PROCESS_SERVICE_CONNECT_PORT);
    call->on_want = open_connection;
    call->on_message = received;
    cay_rest_call_start(call, ended);
}

static void pass(struct cay_rest_request *request)
{
    static const struct cay_rest_route route = {.handle = handle, .body = CAY_REST_BODY_STREAM};
    cay_rest_go(request, &route);
}

static bool owns(const void *self, const struct cay_exchange *exchange)
{
    return cay_e2b_target_of(self, exchange).place != CAY_E2B_NOWHERE;
}

static void open_proxy(void *self, struct cay_exchange *exchange)
{
    static const struct cay_rest_dialect dialect = {CAY_E2B_DIALECT};
    static const struct cay_e2b_inside inside = {.admit = admit, .pass = pass};
    const struct cay_e2b_target target = cay_e2b_target_of(self, exchange);
    struct cay_rest_request *request = cay_e2b_request_to(self, &target, exchange, &dialect);
    cay_rest_enter(request);
    if (target.place == CAY_E2B_SANDBOX)
        cay_e2b_gate(request, &inside);
    else
        cay_rest_reply_fault(request, 400, target.fault);
    cay_rest_leave(request);
}

const struct cay_door cay_e2b_proxy_door = {
    .name = "e2b-proxy",
    .create = cay_e2b_ref,
    .destroy = cay_e2b_unref,
    .owns = owns,
    .open = open_proxy,
};
