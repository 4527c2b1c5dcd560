/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/echo/echo_service.h"

#include <assert.h>

#include "sys/descriptors.h"
#include "sys/self.h"
#include "tests/echo/echo.h"

enum { PAYLOAD_BYTES_MAX = 64 * 1024 * 1024 };

/* A call that is not answered at once; in the call's arena. */
struct live_call {
    struct cay_call *call;
    struct echo_service *service;
    struct cay_list_node in_service;
    struct cay_timer timer;
    uint64_t started_ms;
    struct cay_str payload; /* of every message of a server stream */
    uint32_t next_index;
    uint64_t messages;
    uint64_t bytes;
};

static struct live_call *keep_alive(struct cay_service *base, struct cay_call *call)
{
    struct echo_service *service = (struct echo_service *)base;
    struct live_call *live = cay_arena_alloc(&call->arena, sizeof(*live));
    assert(live);
    live->call = call;
    live->service = service;
    live->started_ms = cay_loop_now_ms(service->loop);
    call->state = live;
    cay_list_push_back(&service->live, &live->in_service);
    service->live_count++;
    return live;
}

/* Before the answer, which may free the call. */
static struct cay_call *let_go(struct live_call *live)
{
    cay_timer_close(&live->timer);
    cay_list_remove(&live->in_service);
    live->service->live_count--;
    return live->call;
}

static void fail_by_name(struct cay_call *call, struct cay_str name, const char *text)
{
    struct cay_error err = {};
    enum cay_reason reason = cay_reason_by_name(name);
    if (reason == CAY_R_NONE)
        cay_fail(&err, CAY_R_INVALID_ARGUMENT, "there is no reason '%.*s'", (int)name.len,
                 name.ptr);
    else if (text)
        cay_fail(&err, reason, "%s", text);
    else
        cay_fail(&err, reason, NULL);
    cay_call_fail(call, &err);
}

static void on_cancel(struct cay_call *call)
{
    struct live_call *live = call->state;
    live->service->cancelled_count++;
    fail_by_name(let_go(live), CAY_STR("canceled"), NULL);
}

static void unary(struct cay_service *base, struct cay_call *call)
{
    const struct echo_service *service = (const struct echo_service *)base;
    const struct cay_test_v1_unary_request *request = call->request;
    struct cay_test_v1_unary_response response = {
        .payload = request->payload,
        .text = request->text,
        .number = request->number,
        .labels.count = request->labels.count,
        .values = request->values,
        .when = request->when,
        .flag = request->flag,
        .has_flag = request->has_flag,
        .method = cay_str(call->method->name),
        .owner = cay_str(call->caller.owner),
        .key_id = cay_str(call->caller.key_id),
        .has_deadline_ms = call->deadline_ms != 0,
    };
    uint64_t now_ms = cay_loop_now_ms(service->loop);
    if (call->deadline_ms > now_ms)
        response.deadline_ms = call->deadline_ms - now_ms;
    size_t count = request->labels.count;
    response.labels.items = cay_arena_array(&call->arena, count, sizeof(*response.labels.items));
    for (size_t i = 0; response.labels.items && i < count; i++) {
        response.labels.items[i].key = request->labels.items[i].key;
        response.labels.items[i].value = request->labels.items[i].value;
    }
    cay_call_done(call, &response);
}

static void end_stream(struct live_call *live)
{
    const struct cay_test_v1_server_stream_request *request = live->call->request;
    struct cay_call *call = let_go(live);
    if (request->fail_reason.len)
        fail_by_name(call, request->fail_reason, NULL);
    else
        cay_call_done(call, NULL);
}

/* True while there may be more now. After false the call may be gone. */
static bool send_next(struct live_call *live)
{
    struct cay_test_v1_server_stream_response response = {.index = live->next_index++,
                                                          .payload = live->payload};
    live->service->sent_count++;
    return cay_call_send(live->call, &response);
}

static void stream_on_room(struct cay_call *call)
{
    struct live_call *live = call->state;
    const struct cay_test_v1_server_stream_request *request = call->request;
    if (live->timer.handle)
        return; /* the timer sets the pace */
    do {
        if (live->next_index == request->count) {
            end_stream(live);
            return;
        }
    } while (send_next(live));
}

static void stream_on_timer(struct cay_timer *timer)
{
    struct live_call *live = CAY_CONTAINER_OF(timer, struct live_call, timer);
    const struct cay_test_v1_server_stream_request *request = live->call->request;
    if (live->next_index == request->count ||
        (send_next(live) && live->next_index == request->count))
        end_stream(live);
}

static void server_stream(struct cay_service *base, struct cay_call *call)
{
    const struct cay_test_v1_server_stream_request *request = call->request;
    char *payload = request->size_bytes <= PAYLOAD_BYTES_MAX
                        ? cay_arena_alloc(&call->arena, request->size_bytes + 1)
                        : NULL;
    if (!payload) {
        fail_by_name(call, CAY_STR("out_of_range"), "size_bytes is too large");
        return;
    }
    memset(payload, 'x', request->size_bytes);
    struct live_call *live = keep_alive(base, call);
    live->payload = (struct cay_str){payload, request->size_bytes};
    call->on_cancel = on_cancel;
    call->on_room = stream_on_room;
    if (request->delay_ms) {
        cay_timer_open(&live->timer, live->service->loop, stream_on_timer);
        cay_timer_start(&live->timer, request->delay_ms, request->delay_ms);
    } else {
        stream_on_room(call);
    }
}

static void client_stream_message(struct cay_call *call, const void *message)
{
    struct live_call *live = call->state;
    const struct cay_test_v1_client_stream_request *request = message;
    if (!request) {
        struct cay_test_v1_client_stream_response response = {.messages = live->messages,
                                                              .bytes = live->bytes};
        cay_call_done(let_go(live), &response);
        return;
    }
    live->messages++;
    live->bytes += request->payload.len;
    live->service->received_count++;
    cay_call_next(call);
}

static void client_stream(struct cay_service *base, struct cay_call *call)
{
    keep_alive(base, call);
    call->on_cancel = on_cancel;
    call->on_message = client_stream_message;
    cay_call_next(call);
}

static void sink(struct cay_service *base, struct cay_call *call)
{
    keep_alive(base, call);
    call->on_cancel = on_cancel;
    call->on_message = client_stream_message;
}

static void bidi_message(struct cay_call *call, const void *message)
{
    struct live_call *live = call->state;
    const struct cay_test_v1_bidi_request *request = message;
    if (!request) {
        cay_call_done(let_go(live), NULL);
        return;
    }
    live->service->received_count++;
    if (request->fail_reason.len) {
        fail_by_name(let_go(live), request->fail_reason, NULL);
        return;
    }
    struct cay_test_v1_bidi_response response = {.payload = request->payload};
    live->service->sent_count++;
    if (cay_call_send(call, &response))
        cay_call_next(call);
    else
        live->next_index = 1; /* on_room asks for the next one */
}

static void bidi_room(struct cay_call *call)
{
    struct live_call *live = call->state;
    if (!live->next_index)
        return;
    live->next_index = 0;
    cay_call_next(call);
}

static void bidi(struct cay_service *base, struct cay_call *call)
{
    keep_alive(base, call);
    call->on_cancel = on_cancel;
    call->on_message = bidi_message;
    call->on_room = bidi_room;
    cay_call_next(call);
}

static void fail(struct cay_service *, struct cay_call *call)
{
    const struct cay_test_v1_fail_request *request = call->request;
    char *text = cay_arena_copy(&call->arena, request->text);
    fail_by_name(call, request->reason, request->text.len ? text : NULL);
}

static void slow_on_timer(struct cay_timer *timer)
{
    struct live_call *live = CAY_CONTAINER_OF(timer, struct live_call, timer);
    struct cay_test_v1_slow_response response = {
        .waited_ms = cay_loop_now_ms(live->service->loop) - live->started_ms,
    };
    cay_call_done(let_go(live), &response);
}

static void slow_on_cancel(struct cay_call *call)
{
    struct live_call *live = call->state;
    const struct cay_test_v1_slow_request *request = call->request;
    if (request->ignores_cancel)
        live->service->cancelled_count++;
    else
        on_cancel(call);
}

static void slow(struct cay_service *base, struct cay_call *call)
{
    const struct cay_test_v1_slow_request *request = call->request;
    struct live_call *live = keep_alive(base, call);
    call->on_cancel = slow_on_cancel;
    cay_timer_open(&live->timer, live->service->loop, slow_on_timer);
    cay_timer_start(&live->timer, request->delay_ms, 0);
}

static uint64_t count_fds(void)
{
    uint64_t count = 0;
    int status = cay_descriptors_count(&count);
    assert(status == 0);
    (void)status;
    return count;
}

static void stats(struct cay_service *base, struct cay_call *call)
{
    const struct echo_service *service = (const struct echo_service *)base;
    const struct cay_server_stats *server = cay_server_stats(service->server);
    struct cay_test_v1_stats_response response = {
        .live_calls = service->live_count,
        .cancelled_calls = service->cancelled_count,
        .messages_received = service->received_count,
        .messages_sent = service->sent_count,
        .open_connections = server->connections_open,
        .open_exchanges = server->exchanges_open,
        .timeouts = server->timeouts,
        .fds = count_fds(),
        .rss_bytes = cay_self_resident_bytes(),
    };
    cay_call_done(call, &response);
}

static void authenticate(struct cay_service *base, struct cay_str secret, struct cay_whois *whois)
{
    static const struct cay_caller tester = {
        .role = CAY_ROLE_USER, .owner = "tester", .key_id = "key-1"};
    static const struct cay_caller gateway = {
        .role = CAY_ROLE_ADMIN, .owner = "gateway", .key_id = "key-2", .may_vouch = true};
    const struct echo_service *service = (const struct echo_service *)base;
    const char *key = service->key ? service->key : "";
    struct cay_error err = {};
    bool is_key = cay_equal_constant_time(secret.ptr, secret.len, key, strlen(key));
    bool is_known = is_key || cay_str_is(secret, ECHO_GATEWAY_KEY) ||
                    cay_fail(&err, CAY_R_UNAUTHENTICATED, "this is not the key");
    cay_whois_answer(whois, !is_known ? NULL : is_key ? &tester : &gateway, is_known ? NULL : &err);
}

static cay_verb *const verbs[ECHO_METHOD_COUNT] = {
    [CAY_TEST_V1_ECHO_SERVICE_UNARY] = unary,
    [CAY_TEST_V1_ECHO_SERVICE_IDEMPOTENT_UNARY] = unary,
    [CAY_TEST_V1_ECHO_SERVICE_SERVER_STREAM] = server_stream,
    [CAY_TEST_V1_ECHO_SERVICE_CLIENT_STREAM] = client_stream,
    [CAY_TEST_V1_ECHO_SERVICE_BIDI] = bidi,
    [CAY_TEST_V1_ECHO_SERVICE_FAIL] = fail,
    [CAY_TEST_V1_ECHO_SERVICE_SLOW] = slow,
    [CAY_TEST_V1_ECHO_SERVICE_SINK] = sink,
    [CAY_TEST_V1_ECHO_SERVICE_STATS] = stats,
};

static const struct cay_service_ops ops = {
    .name = "echo",
    .methods = echo_methods,
    .method_count = ECHO_METHOD_COUNT,
    .verbs = verbs,
    .authenticate = authenticate,
};

void echo_service_init(struct echo_service *service, struct cay_loop *loop, const char *key)
{
    *service = (struct echo_service){.base.ops = &ops, .loop = loop, .key = key};
    cay_list_init(&service->live);
}

void echo_service_end_calls(struct echo_service *service)
{
    cay_list_for_each (struct live_call, live, &service->live, in_service)
        fail_by_name(let_go(live), CAY_STR("canceled"), NULL);
}
