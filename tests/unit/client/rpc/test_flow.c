/* SPDX-License-Identifier: Apache-2.0 */
/* Flows against a server that follows a script: what it reads and says on each of its connections.
 */
#include "tests/unit/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/cay_v1.h"
#include "api/limits.h"
#include "base/buf.h"
#include "cay/client.h"
#include "client/rpc/client.h"
#include "wire/rpc.h"

enum {
    BYTES_MAX = 1 << 20,
    SAID_BYTES = 4096,
    CONNECTIONS_MAX = 64,
    THREADS = 200,
    CALLS_EACH = 16,
    VISITS_MAX = THREADS * CALLS_EACH, /* connections of one test, at worst one per call */
};

/* What happens to one connection. */
enum act {
    ACT_ANSWER = 1, /* every request, until the client goes */
    ACT_DROP,       /* the first request is read, and the connection is closed */
    ACT_ANSWER_ONCE_AND_DROP,
    ACT_ANSWER_ONCE_AND_DIE, /* the second request is read, and the connection is closed */
    ACT_SILENCE,
    ACT_HINTS, /* heads that are no answer, without end */
};

struct server {
    int fd;
    pthread_t thread;
    pthread_t visits[VISITS_MAX]; /* the threads of connections, until the end */
    size_t visit_count;
    char url[64];
    enum act script[CONNECTIONS_MAX];
    atomic_uint accepted;
    atomic_uint requests;
    atomic_uint dropped; /* connections, after an answer */
    atomic_uint meetings;
    const char *body; /* of every answer */
    size_t body_len;
    const char *type;
    const char *status;
    struct cay_client *client;
};

/* What one side has written before, the other may read after it. Requests and answers order all
 * that happens here; those who watch threads do not see it in sockets. */
static void meet(struct server *server)
{
    atomic_fetch_add(&server->meetings, 1);
}

struct visit {
    struct server *server;
    int fd;
    enum act act;
};

/* Reads one request with a length; false when the client is gone. */
static bool read_request(int fd)
{
    char data[8192];
    size_t len = 0;
    for (;;) {
        ssize_t got = read(fd, data + len, sizeof(data) - 1 - len);
        if (got <= 0)
            return false;
        len += (size_t)got;
        data[len] = '\0';
        const char *end = strstr(data, "\r\n\r\n");
        const char *length = end ? strcasestr(data, "\r\ncontent-length: ") : NULL;
        if (length && len >= (size_t)(end + 4 - data) + strtoul(length + 18, NULL, 10))
            return true;
        if (end && !length && strstr(end, "\r\n0\r\n\r\n"))
            return true;
    }
}

static void hint(int fd)
{
    static const char hints[] = "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n";
    while (send(fd, hints, sizeof(hints) - 1, MSG_NOSIGNAL) > 0)
        ;
}

static void *serve_one(void *state)
{
    struct visit *visit = state;
    struct server *server = visit->server;
    unsigned answered = 0;
    while (visit->act != ACT_SILENCE && read_request(visit->fd)) {
        meet(server);
        atomic_fetch_add(&server->requests, 1);
        if (visit->act == ACT_HINTS)
            hint(visit->fd);
        if (visit->act == ACT_DROP || visit->act == ACT_HINTS ||
            (visit->act == ACT_ANSWER_ONCE_AND_DIE && answered++))
            break;
        char head[200];
        int len = snprintf(head, sizeof(head),
                           "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n\r\n",
                           server->status, server->type, server->body_len);
        if (send(visit->fd, head, (size_t)len, MSG_NOSIGNAL) < 0 ||
            send(visit->fd, server->body, server->body_len, MSG_NOSIGNAL) < 0)
            break;
        if (visit->act == ACT_ANSWER_ONCE_AND_DROP)
            break;
    }
    if (visit->act == ACT_SILENCE) {
        char byte = 0;
        while (read(visit->fd, &byte, 1) > 0)
            ;
    }
    close(visit->fd);
    if (visit->act == ACT_ANSWER_ONCE_AND_DROP)
        atomic_fetch_add(&server->dropped, 1);
    free(visit);
    return NULL;
}

static void *serve(void *state)
{
    struct server *server = state;
    for (;;) {
        int fd = accept4(server->fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            return NULL;
        meet(server);
        unsigned number = atomic_fetch_add(&server->accepted, 1);
        struct visit *visit = calloc(1, sizeof(*visit));
        assert_non_null(visit);
        enum act act = number < CONNECTIONS_MAX ? server->script[number] : 0;
        *visit = (struct visit){server, fd, act ? act : ACT_ANSWER};
        assert_true(server->visit_count < VISITS_MAX);
        assert_int_equal(
            pthread_create(&server->visits[server->visit_count++], NULL, serve_one, visit), 0);
    }
}

static int setup(void **state)
{
    struct server *server = calloc(1, sizeof(*server));
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    struct cay_error err = {};
    assert_non_null(server);
    server->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(server->fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(server->fd, 256), 0);
    assert_int_equal(getsockname(server->fd, (struct sockaddr *)&address, &len), 0);
    snprintf(server->url, sizeof(server->url), "http://127.0.0.1:%u", ntohs(address.sin_port));
    server->status = "200 OK";
    server->type = "application/json";
    server->body = "{\"status\":\"ok\"}";
    server->body_len = strlen(server->body);
    assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
    struct cay_client_options options = CAY_CLIENT_OPTIONS;
    options.url = server->url;
    options.timeout_ms = 20'000;
    assert_true(cay_client_open(&options, &server->client, &err));
    *state = server;
    return 0;
}

static int teardown(void **state)
{
    struct server *server = *state;
    cay_client_close(server->client);
    shutdown(server->fd, SHUT_RDWR);
    pthread_join(server->thread, NULL);
    for (size_t i = 0; i < server->visit_count; i++)
        pthread_join(server->visits[i], NULL);
    close(server->fd);
    free(server);
    return 0;
}

static bool ask(struct server *server, const char *verb, struct cay_error *err)
{
    struct cay_text text = {};
    *err = (struct cay_error){};
    meet(server);
    bool is_done = cay_client_ask(server->client, verb, NULL, NULL, &text, err);
    if (is_done)
        assert_string_equal(text.data, server->body);
    cay_text_free(&text);
    return is_done;
}

static void a_connection_is_kept_for_the_next_call(void **state)
{
    struct server *server = *state;
    struct cay_error err = {};
    for (int i = 0; i < 5; i++)
        assert_true(ask(server, "HealthCheck", &err));
    assert_int_equal(server->requests, 5);
    assert_int_equal(server->accepted, 1);
}

/* A message of the most bytes there may be, and one more. */
static void large_answers_come_whole_or_not_at_all(void **state)
{
    struct server *server = *state;
    struct cay_error err = {};
    static char body[CAY_LIMIT_MESSAGE_BYTES + 2]; /* the server may still look at it */
    const size_t most = CAY_LIMIT_MESSAGE_BYTES;
    memset(body, ' ', most + 1);
    memcpy(body, "{}", 2);
    body[most] = '\0';
    server->body = body;
    server->body_len = most;
    assert_true(ask(server, "HealthCheck", &err));
    body[most] = ' ';
    server->body_len = most + 1;
    assert_false(ask(server, "HealthCheck", &err));
    assert_true(cay_error_is(&err, "message_too_large"));
}

/* A daemon that is newer says more than is known here; one that is older does not know the verb. */
static void daemons_of_other_versions_are_understood(void **state)
{
    struct server *server = *state;
    struct cay_error err = {};
    struct cay_v1_health_check_response answer = {};
    const struct cay_v1_health_check_request request = {};
    struct cay_arena arena;
    cay_arena_init(&arena, BYTES_MAX);
    server->type = "application/proto";
    server->body = "\xfa\x7f\x03new\x30\x07"; /* field 2047, and session_count */
    server->body_len = 8;
    meet(server);
    assert_true(cay_client_call(server->client, &cay_v1_sandbox_service_health_check_method,
                                &request, &arena, &answer, &err));
    assert_int_equal(answer.session_count, 7);
    server->status = "404 Not Found";
    server->type = "text/plain";
    server->body = "no such page";
    server->body_len = strlen(server->body);
    assert_false(ask(server, "HealthCheck", &err));
    assert_int_equal(cay_error_code(&err), CAY_CODE_UNIMPLEMENTED);
    cay_arena_finish(&arena);
}

static void verbs_have_short_and_long_names(void **state)
{
    struct server *server = *state;
    struct cay_error err = {};
    assert_true(ask(server, "GetSession", &err));
    assert_true(ask(server, "SandboxService/GetSession", &err));
    assert_true(ask(server, "cay.v1.SandboxService/GetSession", &err));
    assert_true(ask(server, "/cay.v1.SandboxService/GetSession", &err));
    static const char *const wrong[] = {"",  "Session", "etSession", "/GetSession", "GetSessions",
                                        NULL};
    for (size_t i = 0; i < CAY_COUNT(wrong); i++) {
        if (ask(server, wrong[i], &err))
            fail_msg("'%s' is a verb", wrong[i]);
        assert_true(cay_error_is(&err, "invalid_argument"));
    }
    assert_string_equal(cay_error_get((ask(server, "GetSesion", &err), &err), "nearest"),
                        "GetSession");
    assert_false(ask(server, "WatchEvents", &err));
    assert_non_null(strstr(err.text, "cay_flow_open"));
}

static void a_connection_closed_while_it_rested_is_replaced(void **state)
{
    struct server *server = *state;
    struct cay_error err = {};
    server->script[0] = ACT_ANSWER_ONCE_AND_DROP;
    server->script[1] = ACT_ANSWER_ONCE_AND_DROP;
    for (unsigned i = 0; i < 3; i++) {
        assert_true(ask(server, "DestroySession", &err));
        for (int tries = 0; i < 2 && server->dropped <= i && tries < 20'000; tries++)
            usleep(1000);
    }
    assert_int_equal(server->requests, 3);
}

static void only_what_is_safe_is_sent_again(void **state)
{
    struct server *server = *state;
    struct cay_error err = {};
    server->script[0] = ACT_DROP;
    assert_false(ask(server, "CreateSession", &err));
    assert_true(cay_error_is(&err, "unavailable"));
    assert_int_equal(server->requests, 1);
    server->script[1] = ACT_DROP;
    server->script[2] = ACT_DROP;
    assert_true(ask(server, "GetSession", &err));
    assert_int_equal(server->requests, 4);
}

static void what_a_dying_daemon_may_have_read_is_not_sent_again(void **state)
{
    struct server *server = *state;
    struct cay_error err = {};
    server->script[0] = ACT_ANSWER_ONCE_AND_DIE;
    assert_true(ask(server, "CreateSession", &err));
    assert_false(ask(server, "CreateSession", &err));
    assert_true(cay_error_is(&err, "unavailable"));
    assert_int_equal(server->requests, 2);
    server->script[1] = ACT_ANSWER_ONCE_AND_DIE;
    assert_true(ask(server, "GetSession", &err));
    assert_true(ask(server, "GetSession", &err));
    assert_int_equal(server->requests, 5);
}

static void it_is_not_sent_again_for_ever(void **state)
{
    struct server *server = *state;
    struct cay_error err = {};
    for (int i = 0; i < CONNECTIONS_MAX; i++)
        server->script[i] = ACT_DROP;
    assert_false(ask(server, "GetSession", &err));
    assert_true(cay_error_is(&err, "unavailable"));
    assert_in_range(server->requests, 2, 5);
}

static void a_loop_of_the_callers_drives_a_flow(void **state)
{
    struct server *server = *state;
    struct cay_error err = {};
    struct cay_flow *flow = NULL;
    const char *message = NULL;
    size_t len = 0;
    unsigned messages = 0;
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_buf_init(&body, BYTES_MAX);
    for (int i = 0; i < 3; i++) {
        size_t begin = cay_envelope_begin(&body);
        cay_buf_printf(&body, "{\"n\":%d}", i);
        cay_envelope_end(&body, begin, 0);
    }
    size_t begin = cay_envelope_begin(&body);
    cay_buf_append_text(&body, "{}");
    cay_envelope_end(&body, begin, CAY_ENVELOPE_CONNECT_END);
    server->type = "application/connect+json";
    static char kept[SAID_BYTES]; /* the server may still look at it */
    assert_true(body.len <= sizeof(kept));
    memcpy(kept, body.data, body.len);
    server->body = kept;
    server->body_len = body.len;
    meet(server);
    assert_true(cay_flow_open(server->client, "WatchEvents", NULL, &flow, &err));
    assert_true(cay_flow_send(flow, "{}", 2, &err));
    for (bool is_over = false; !is_over;) {
        switch (cay_flow_step(flow, &message, &len, &err)) {
        case CAY_FLOW_MESSAGE:
            assert_int_equal(message[5], '0' + (int)messages);
            messages++;
            break;
        case CAY_FLOW_END: is_over = true; break;
        case CAY_FLOW_FAILED: fail_msg("%s", err.text); break;
        case CAY_FLOW_NOTHING: {
            struct pollfd entry = {cay_flow_fd(flow), cay_flow_events(flow), 0};
            int timeout_ms = cay_flow_timeout_ms(flow);
            assert_true(timeout_ms <= 21'000);
            assert_true(poll(&entry, 1, timeout_ms) >= 0);
        }
        }
    }
    assert_int_equal(messages, 3);
    assert_int_equal(cay_flow_step(flow, &message, &len, &err), CAY_FLOW_END);
    assert_false(cay_flow_send(flow, "{}", 2, &err));
    cay_flow_close(flow);
}

static void a_flow_that_is_left_ends_its_call(void **state)
{
    struct server *server = *state;
    struct cay_error err = {};
    struct cay_flow *flow = NULL;
    const char *message = NULL;
    size_t len = 0;
    server->script[0] = ACT_SILENCE;
    meet(server);
    assert_true(cay_flow_open(server->client, "WatchEvents", NULL, &flow, &err));
    assert_int_equal(cay_flow_receive(flow, &message, &len, &err), CAY_FLOW_FAILED);
    assert_true(cay_error_is(&err, "invalid_argument")); /* nothing was sent yet */
    cay_flow_close(flow);
    assert_true(cay_flow_open(server->client, "WatchEvents", NULL, &flow, &err));
    assert_true(cay_flow_send(flow, "{}", 2, &err));
    (void)cay_flow_step(flow, &message, &len, &err);
    cay_client_close(server->client); /* the flow holds it */
    server->client = NULL;
    (void)cay_flow_step(flow, &message, &len, &err);
    cay_flow_close(flow);
}

struct canceller {
    struct cay_cancel *cancel;
    struct server *server;
};

static void *fire_soon(void *state)
{
    struct canceller *self = state;
    while (!atomic_load(&self->server->accepted))
        sched_yield();
    cay_cancel_fire(self->cancel);
    return NULL;
}

static void another_thread_ends_a_call(void **state)
{
    struct server *server = *state;
    struct canceller self = {.server = server};
    struct cay_call_options options = CAY_CALL_OPTIONS;
    struct cay_error err = {};
    struct cay_text text = {};
    pthread_t thread;
    server->script[0] = ACT_SILENCE;
    meet(server);
    assert_true(cay_cancel_create(&self.cancel, &err));
    options.cancel = self.cancel;
    assert_int_equal(pthread_create(&thread, NULL, fire_soon, &self), 0);
    assert_false(cay_client_ask(server->client, "GetSession", NULL, &options, &text, &err));
    assert_true(cay_error_is(&err, "canceled"));
    pthread_join(thread, NULL);
    cay_cancel_reset(self.cancel);
    assert_true(cay_client_ask(server->client, "GetSession", NULL, &options, &text, &err));
    cay_text_free(&text);
    cay_cancel_destroy(self.cancel);
}

static void *ask_often(void *state)
{
    struct server *server = state;
    struct cay_error err = {};
    for (int i = 0; i < CALLS_EACH; i++) {
        if (!ask(server, "GetSession", &err))
            return strdup(err.text);
    }
    return NULL;
}

static void many_threads_use_one_client(void **state)
{
    struct server *server = *state;
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_often, server), 0);
    for (size_t i = 0; i < THREADS; i++) {
        void *why = NULL;
        pthread_join(threads[i], &why);
        if (why)
            fail_msg("%s", (char *)why);
    }
    assert_int_equal(server->requests, THREADS * CALLS_EACH);
}

static void options_without_a_size_are_refused(void **state)
{
    struct server *server = *state;
    struct cay_call_options options = {};
    struct cay_client_options none = {};
    struct cay_client *client = NULL;
    struct cay_text text = {};
    struct cay_error err = {};
    assert_false(cay_client_ask(server->client, "GetSession", NULL, &options, &text, &err));
    assert_non_null(strstr(err.text, "CAY_CALL_OPTIONS"));
    assert_false(cay_client_open(&none, &client, &err));
    assert_non_null(strstr(err.text, "CAY_CLIENT_OPTIONS"));
    assert_false(cay_client_open(&none, &client, NULL));
    /* Somebody's who knows the first two fields only. */
    struct {
        size_t size;
        int64_t timeout_ms;
        size_t other_things;
    } older = {.size = 16, .timeout_ms = 1000, .other_things = SIZE_MAX};
    assert_true(cay_client_ask(server->client, "GetSession", NULL,
                               (const struct cay_call_options *)(const void *)&older, &text, &err));
    cay_text_free(&text);
    /* And of somebody with a newer header, who sets what is not known here. */
    struct {
        struct cay_call_options known;
        void *unknown;
    } newer = {.known = {.size = sizeof(newer)}, .unknown = &newer};
    assert_false(cay_client_ask(server->client, "GetSession", NULL, &newer.known, &text, &err));
    assert_true(cay_error_is(&err, "not_supported"));
    newer.unknown = NULL;
    assert_true(cay_client_ask(server->client, "GetSession", NULL, &newer.known, &text, &err));
    cay_text_free(&text);
    cay_text_free(NULL);
    cay_client_close(NULL);
    cay_flow_close(NULL);
    cay_cancel_destroy(NULL);
}

/* Its caller's loop is not held up, either: a step ends, and a few of them end the call. */
static void hints_without_end_are_no_answer(void **state)
{
    struct server *server = *state;
    struct cay_error err = {};
    struct cay_flow *flow = NULL;
    const char *message = NULL;
    size_t len = 0;
    enum cay_flow_news news = CAY_FLOW_NOTHING;
    server->script[0] = server->script[1] = ACT_HINTS;
    assert_false(ask(server, "CreateSession", &err));
    assert_true(cay_error_is(&err, "unavailable"));
    assert_true(cay_flow_open(server->client, "WatchEvents", NULL, &flow, &err));
    assert_true(cay_flow_send(flow, "{}", 2, &err));
    while (news == CAY_FLOW_NOTHING) {
        news = cay_flow_step(flow, &message, &len, &err);
        struct pollfd entry = {cay_flow_fd(flow), cay_flow_events(flow), 0};
        (void)poll(&entry, 1, cay_flow_timeout_ms(flow));
    }
    assert_int_equal(news, CAY_FLOW_FAILED);
    assert_true(cay_error_is(&err, "unavailable"));
    cay_flow_close(flow);
}

static void an_answer_in_json_is_json(void **state)
{
    static const char *const wrong[] = {"", "ok", "[]", "{", "{}{}", "\"{}\"", "{\"a\":}"};
    struct server *server = *state;
    struct cay_error err = {};
    for (size_t i = 0; i < CAY_COUNT(wrong); i++) {
        server->body = wrong[i];
        server->body_len = strlen(wrong[i]);
        if (ask(server, "HealthCheck", &err))
            fail_msg("'%s' is an answer", wrong[i]);
        assert_true(cay_error_is(&err, "internal"));
    }
}

static void expect_misuse(bool is_done, struct cay_error *err)
{
    assert_false(is_done);
    assert_true(cay_error_is(err, "invalid_argument"));
    assert_true(err->text[0]);
    *err = (struct cay_error){};
}

static void nothing_in_the_place_of_something_is_refused(void **state)
{
    struct server *server = *state;
    struct cay_client *client = server->client;
    struct cay_call_options options = {.size = 9};
    struct cay_flow *flow = NULL;
    struct cay_text text = {};
    struct cay_error err = {};
    const char *message = NULL;
    size_t len = 0;
    expect_misuse(cay_client_open(NULL, NULL, &err), &err);
    expect_misuse(cay_cancel_create(NULL, &err), &err);
    expect_misuse(cay_client_ask(NULL, "GetSession", NULL, NULL, &text, &err), &err);
    expect_misuse(cay_client_ask(client, NULL, NULL, NULL, &text, &err), &err);
    expect_misuse(cay_client_ask(client, "GetSession", NULL, &options, &text, &err), &err);
    expect_misuse(cay_client_ask_bytes(client, "GetSession", NULL, 9, NULL, &text, &err), &err);
    options = (struct cay_call_options)CAY_CALL_OPTIONS;
    options.codec = CAY_CODEC_PROTO;
    expect_misuse(cay_client_ask(client, "GetSession", NULL, &options, &text, &err), &err);
    expect_misuse(cay_flow_open(NULL, "GetSession", NULL, &flow, &err), &err);
    expect_misuse(cay_flow_open(client, "GetSession", NULL, NULL, &err), &err);
    expect_misuse(cay_flow_send(NULL, "{}", 2, &err), &err);
    cay_cancel_fire(NULL);
    cay_cancel_reset(NULL);
    assert_false(cay_flow_is_full(NULL));
    assert_int_equal(cay_flow_fd(NULL), -1);
    assert_int_equal(cay_flow_events(NULL), 0);
    assert_int_equal(cay_flow_timeout_ms(NULL), 0);
    assert_true(cay_flow_open(client, "GetSession", NULL, &flow, &err));
    expect_misuse(cay_flow_send(flow, NULL, 9, &err), &err);
    assert_true(cay_flow_send(flow, "{}", 2, &err));
    expect_misuse(cay_flow_receive(NULL, &message, &len, &err) != CAY_FLOW_FAILED, &err);
    expect_misuse(cay_flow_receive(flow, NULL, &len, &err) != CAY_FLOW_FAILED, &err);
    expect_misuse(cay_flow_receive(flow, &message, NULL, &err) != CAY_FLOW_FAILED, &err);
    expect_misuse(cay_flow_step(flow, NULL, NULL, &err) != CAY_FLOW_FAILED, &err);
    assert_int_equal(cay_flow_step(flow, NULL, NULL, NULL), CAY_FLOW_FAILED);
    /* It goes on all the same. */
    assert_int_equal(cay_flow_receive(flow, &message, &len, &err), CAY_FLOW_MESSAGE);
    cay_flow_close(flow);
}

#define SERVED(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVED(a_connection_is_kept_for_the_next_call),
        SERVED(large_answers_come_whole_or_not_at_all),
        SERVED(daemons_of_other_versions_are_understood),
        SERVED(verbs_have_short_and_long_names),
        SERVED(a_connection_closed_while_it_rested_is_replaced),
        SERVED(only_what_is_safe_is_sent_again),
        SERVED(what_a_dying_daemon_may_have_read_is_not_sent_again),
        SERVED(it_is_not_sent_again_for_ever),
        SERVED(a_loop_of_the_callers_drives_a_flow),
        SERVED(a_flow_that_is_left_ends_its_call),
        SERVED(another_thread_ends_a_call),
        SERVED(many_threads_use_one_client),
        SERVED(options_without_a_size_are_refused),
        SERVED(hints_without_end_are_no_answer),
        SERVED(an_answer_in_json_is_json),
        SERVED(nothing_in_the_place_of_something_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
