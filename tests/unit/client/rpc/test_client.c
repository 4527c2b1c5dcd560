/* SPDX-License-Identifier: Apache-2.0 */
/* The client against a server that reads one request and answers what the test has written. */
#include "tests/unit/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "api/cay_v1.h"
#include "base/buf.h"
#include "client/rpc/client.h"
#include "wire/gzip.h"
#include "wire/rpc.h"

enum { BYTES_MAX = 1 << 20 };

struct server {
    int fd;
    pthread_t thread;
    struct cay_buf request; /* of the last connection */
    struct cay_buf answer;
    bool answers_early; /* without reading the request's body */
    bool stays_silent;
    atomic_uint meetings;
    char url[64];
    struct cay_client *client;
    struct cay_arena arena;
};

/* What one side has written before, the other may read after it. Requests and answers order all
 * that happens here; those who watch threads do not see it in sockets. */
static void meet(struct server *server)
{
    atomic_fetch_add(&server->meetings, 1);
}

static bool has_whole_request(const struct cay_buf *request)
{
    const char *head_end = memmem(request->data, request->len, "\r\n\r\n", 4);
    if (!head_end)
        return false;
    size_t body_len = request->len - (size_t)(head_end + 4 - request->data);
    const char *length = strcasestr(request->data, "\r\ncontent-length: ");
    if (length && length < head_end)
        return body_len >= strtoul(length + strlen("\r\ncontent-length: "), NULL, 10);
    return body_len >= 5 && memcmp(request->data + request->len - 5, "0\r\n\r\n", 5) == 0;
}

static void serve_connection(struct server *server, int fd)
{
    char chunk[4096];
    meet(server);
    cay_buf_clear(&server->request, BYTES_MAX);
    for (;;) {
        ssize_t len = read(fd, chunk, sizeof(chunk) - 1);
        if (len <= 0)
            return;
        meet(server);
        cay_buf_append(&server->request, chunk, (size_t)len);
        cay_buf_append_byte(&server->request, '\0'); /* for strcasestr */
        server->request.len--;
        bool is_ready = server->answers_early ? memmem(server->request.data, server->request.len,
                                                       "\r\n\r\n", 4) != NULL
                                              : has_whole_request(&server->request);
        if (is_ready && !server->stays_silent)
            break;
    }
    size_t sent = 0;
    const size_t answer_len = server->answer.len;
    cay_autofree char *answer = cay_strndup(server->answer.data, answer_len);
    meet(server);
    while (sent < answer_len) {
        ssize_t len = send(fd, answer + sent, answer_len - sent, MSG_NOSIGNAL);
        if (len <= 0)
            return;
        sent += (size_t)len;
    }
    shutdown(fd, SHUT_WR);
    /* What the client still sends is taken, or closing would reset the connection. */
    while (read(fd, chunk, sizeof(chunk)) > 0)
        ;
}

static void *serve(void *state)
{
    struct server *server = state;
    for (;;) {
        int fd = accept4(server->fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            return NULL;
        serve_connection(server, fd);
        close(fd);
    }
}

static void open_client(struct server *server, const char *host, const char *key)
{
    struct sockaddr_in address = {};
    socklen_t len = sizeof(address);
    struct cay_error err = {};
    assert_int_equal(getsockname(server->fd, (struct sockaddr *)&address, &len), 0);
    snprintf(server->url, sizeof(server->url), "http://%s:%u", host, ntohs(address.sin_port));
    struct cay_client_options options = {
        .size = sizeof(options),
        .url = server->url,
        .key = key,
        .timeout_ms = 20'000,
    };
    cay_client_close(cay_take_ptr(server->client));
    assert_true(cay_client_open(&options, &server->client, &err));
}

static int setup(void **state)
{
    struct server *server = cay_new(struct server);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    server->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(server->fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(server->fd, 8), 0);
    cay_buf_init(&server->request, BYTES_MAX);
    cay_buf_init(&server->answer, BYTES_MAX);
    cay_arena_init(&server->arena, BYTES_MAX);
    assert_int_equal(pthread_create(&server->thread, NULL, serve, server), 0);
    open_client(server, "127.0.0.1", "cay_secret");
    *state = server;
    return 0;
}

static int teardown(void **state)
{
    struct server *server = *state;
    cay_client_close(server->client);
    shutdown(server->fd, SHUT_RDWR);
    pthread_join(server->thread, NULL);
    close(server->fd);
    cay_buf_finish(&server->request);
    cay_buf_finish(&server->answer);
    cay_arena_finish(&server->arena);
    free(server);
    return 0;
}

static void answer(struct server *server, const char *status, const char *type, struct cay_str body)
{
    meet(server);
    cay_buf_clear(&server->answer, BYTES_MAX);
    cay_buf_printf(&server->answer, "HTTP/1.1 %s\r\nContent-Type: %s\r\nConnection: close\r\n\r\n",
                   status, type);
    cay_buf_append_str(&server->answer, body);
    meet(server);
}

/* Bytes that need be no HTTP. */
static void answer_bytes(struct server *server, const char *text)
{
    meet(server);
    cay_buf_clear(&server->answer, BYTES_MAX);
    cay_buf_append_text(&server->answer, text);
    meet(server);
}

static void add_message(struct cay_buf *out, struct cay_str owner, bool is_packed)
{
    struct cay_v1_list_keys_request message = {.owner = owner};
    cay_auto(cay_buf_finish) struct cay_buf plain;
    cay_buf_init(&plain, BYTES_MAX);
    size_t begin = cay_envelope_begin(out);
    assert_int_equal(cay_pb_encode(&cay_v1_list_keys_request_desc, &message, &plain), 0);
    if (is_packed)
        assert_int_equal(cay_gzip(cay_buf_str(&plain), out), 0);
    else
        cay_buf_append_str(out, cay_buf_str(&plain));
    cay_envelope_end(out, begin, is_packed ? CAY_ENVELOPE_COMPRESSED : 0);
}

static void add_end(struct cay_buf *out, const char *json)
{
    size_t begin = cay_envelope_begin(out);
    cay_buf_append_text(out, json);
    cay_envelope_end(out, begin, CAY_ENVELOPE_CONNECT_END);
}

/* Of the same message both ways, so that the tests need one kind only. */
static const struct cay_pb_method stream_method = {
    .service = "t.T",
    .name = "Stream",
    .path = "/t.T/Stream",
    .input = &cay_v1_list_keys_request_desc,
    .output = &cay_v1_list_keys_request_desc,
    .server_streaming = true,
};
static const struct cay_pb_method upload_method = {
    .service = "t.T",
    .name = "Upload",
    .path = "/t.T/Upload",
    .input = &cay_v1_list_keys_request_desc,
    .output = &cay_v1_list_keys_request_desc,
    .client_streaming = true,
};

static bool call_revoke(struct server *server, struct cay_v1_revoke_key_response *response,
                        struct cay_error *err)
{
    struct cay_v1_revoke_key_request request = {.key_id = CAY_STR("key_1")};
    return cay_client_call(server->client, &cay_v1_methods[CAY_V1_KEY_SERVICE_REVOKE_KEY], &request,
                           &server->arena, response, err);
}

static void a_unary_call_sends_and_gets_a_message(void **state)
{
    struct server *server = *state;
    struct cay_v1_key key = {.id = CAY_STR("key_1"), .revoked = true};
    struct cay_v1_revoke_key_response sent = {.key = &key};
    struct cay_v1_revoke_key_response got = {};
    struct cay_error err = {};
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_buf_init(&body, BYTES_MAX);
    assert_int_equal(cay_pb_encode(&cay_v1_revoke_key_response_desc, &sent, &body), 0);
    answer(server, "200 OK", "application/proto", cay_buf_str(&body));
    assert_true(call_revoke(server, &got, &err));
    assert_non_null(got.key);
    assert_true(cay_str_is(got.key->id, "key_1"));
    assert_true(got.key->revoked);

    meet(server);
    const char *request = server->request.data;
    assert_non_null(strstr(request, "POST /cay.v1.KeyService/RevokeKey HTTP/1.1\r\n"));
    assert_non_null(strstr(request, "Content-Type: application/proto\r\n"));
    assert_non_null(strstr(request, "Connect-Protocol-Version: 1\r\n"));
    assert_non_null(strstr(request, "Connect-Timeout-Ms: 20000\r\n"));
    assert_non_null(strstr(request, "Authorization: Bearer cay_secret\r\n"));
    assert_non_null(strstr(request, "\r\n\r\n\n\005key_1"));
}

static void an_empty_answer_is_an_empty_message(void **state)
{
    struct server *server = *state;
    struct cay_v1_revoke_key_response got = {};
    struct cay_error err = {};
    answer(server, "200 OK", "application/proto", CAY_STR(""));
    assert_true(call_revoke(server, &got, &err));
    assert_null(got.key);
}

static void assert_refused(struct server *server, enum cay_reason reason, const char *text)
{
    struct cay_v1_revoke_key_response got = {};
    struct cay_error err = {};
    assert_false(call_revoke(server, &got, &err));
    if (err.reason != reason || !strstr(err.text, text))
        fail_msg("%s: %s", cay_reason_info(err.reason)->name, err.text);
}

static void a_refusal_keeps_its_reason_and_sentence(void **state)
{
    struct server *server = *state;
    answer(server, "404 Not Found", "application/json",
           CAY_STR("{\"code\":\"not_found\",\"message\":\"there is no key 'x'\",\"details\":[{"
                   "\"type\":\"cay.v1.ErrorInfo\",\"value\":\"Cg1rZXlfbm90X2ZvdW5k\"}]}"));
    assert_refused(server, CAY_R_KEY_NOT_FOUND, "there is no key 'x'");
}

static void what_is_no_cayd_is_told_so(void **state)
{
    struct server *server = *state;
    answer(server, "200 OK", "text/html", CAY_STR("<html>"));
    assert_refused(server, CAY_R_UNAVAILABLE, "is no cayd");
    answer(server, "200 OK", "text/html", CAY_STR(""));
    assert_refused(server, CAY_R_UNAVAILABLE, "is no cayd");
    answer(server, "502 Bad Gateway", "text/html", CAY_STR("<html>"));
    assert_refused(server, CAY_R_UNAVAILABLE, "502");
    answer(server, "302 Found\r\nLocation: http://127.0.0.1:1/", "text/html", CAY_STR(""));
    assert_refused(server, CAY_R_INTERNAL, "302");
    answer_bytes(server, "SSH-2.0-OpenSSH\r\n");
    assert_refused(server, CAY_R_UNAVAILABLE, "");
}

static void a_broken_answer_is_unavailable(void **state)
{
    struct server *server = *state;
    answer_bytes(server, "");
    assert_refused(server, CAY_R_UNAVAILABLE, "without an answer");
    answer_bytes(server, "HTTP/1.1 200 OK\r\nContent-Type: application/proto\r\n"
                         "Content-Length: 100\r\n\r\nabc");
    assert_refused(server, CAY_R_UNAVAILABLE, "broke before");
    answer(server, "200 OK", "application/proto", CAY_STR("\xff\xff"));
    assert_refused(server, CAY_R_INTERNAL, "could not be decoded");
}

static void a_silent_server_is_a_timeout(void **state)
{
    struct server *server = *state;
    server->stays_silent = true;
    meet(server);
    cay_client_set_timeout(server->client, 20);
    assert_refused(server, CAY_R_DEADLINE_EXCEEDED, "within 20ms");
}

static struct cay_cancel *cancel;

static void on_alarm(int)
{
    cay_cancel_fire(cancel);
}

static void a_signal_can_end_a_call(void **state)
{
    struct server *server = *state;
    /* The server's thread may get it as well and must not mind. */
    const struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    struct sigaction before;
    struct cay_call_options options = CAY_CALL_OPTIONS;
    struct cay_v1_revoke_key_request request = {.key_id = CAY_STR("key_1")};
    struct cay_v1_revoke_key_response got = {};
    struct cay_error err = {};
    server->stays_silent = true;
    meet(server);
    assert_true(cay_cancel_create(&cancel, &err));
    options.cancel = cancel;
    assert_return_code(sigaction(SIGALRM, &action, &before), errno);
    const struct itimerval soon = {.it_value = {.tv_usec = 50'000}};
    assert_return_code(setitimer(ITIMER_REAL, &soon, NULL), errno);
    for (int i = 0; i < 2; i++) { /* it stays fired */
        err = (struct cay_error){};
        assert_false(cay_client_call_with(server->client, &options,
                                          &cay_v1_methods[CAY_V1_KEY_SERVICE_REVOKE_KEY], &request,
                                          &server->arena, &got, &err));
        assert_int_equal(err.reason, CAY_R_CANCELED);
    }
    assert_return_code(sigaction(SIGALRM, &before, NULL), errno);
    cay_cancel_destroy(cancel);
}

static void a_daemon_that_is_not_there_is_told_with_advice(void **)
{
    struct cay_client *client = NULL;
    struct cay_error err = {};
    struct cay_arena arena = {.size_bytes_max = BYTES_MAX};
    struct cay_v1_health_check_request request = {};
    struct cay_v1_health_check_response response = {};
    struct cay_client_options options = {.size = sizeof(options),
                                         .url = "unix:/nonexistent/cayd.sock"};
    assert_true(cay_client_open(&options, &client, &err));
    assert_false(cay_client_call(client, &cay_v1_methods[CAY_V1_SANDBOX_SERVICE_HEALTH_CHECK],
                                 &request, &arena, &response, &err));
    assert_int_equal(err.reason, CAY_R_UNAVAILABLE);
    assert_int_equal(err.sys_errno, ENOENT);
    assert_string_equal(err.text,
                        "cannot reach cayd at unix:/nonexistent/cayd.sock: No such file or "
                        "directory; start it, or use another address");
    assert_string_equal(cay_error_get(&err, "remedy"), "start");
    cay_client_close(client);
    cay_arena_finish(&arena);
}

static void a_key_cannot_add_header_lines(void **)
{
    struct cay_client *client = NULL;
    struct cay_error err = {};
    struct cay_client_options options = {.size = sizeof(options), .key = "cay_1\r\nX-Evil: 1"};
    assert_false(cay_client_open(&options, &client, &err));
    assert_int_equal(err.reason, CAY_R_INVALID_ARGUMENT);
    assert_null(strstr(err.text, "cay_1"));
}

struct seen {
    char owners[8][32];
    size_t count;
    size_t stop_at; /* 0: never */
};

static bool see(void *state, const void *message, struct cay_error *err)
{
    struct seen *seen = state;
    const struct cay_v1_list_keys_request *request = message;
    snprintf(seen->owners[seen->count++], sizeof(seen->owners[0]), "%.*s",
             (int)CAY_MIN(request->owner.len, (size_t)20), request->owner.ptr);
    if (seen->count == seen->stop_at)
        return cay_fail(err, CAY_R_CANCELED, "enough");
    return true;
}

static bool call_stream(struct server *server, struct cay_str body, struct seen *seen,
                        struct cay_error *err)
{
    struct cay_v1_list_keys_request request = {.owner = CAY_STR("asker")};
    answer(server, "200 OK", "application/connect+proto", body);
    return cay_client_call_stream(server->client, &stream_method, &request, see, seen, err);
}

static void a_stream_gives_each_message_and_ends(void **state)
{
    struct server *server = *state;
    struct seen seen = {};
    struct cay_error err = {};
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_buf_init(&body, BYTES_MAX);
    add_message(&body, CAY_STR("one"), false);
    add_message(&body, CAY_STR(""), false);
    add_message(&body, CAY_STR("three"), false);
    add_end(&body, "{}");
    assert_true(call_stream(server, cay_buf_str(&body), &seen, &err));
    assert_int_equal(seen.count, 3);
    assert_string_equal(seen.owners[0], "one");
    assert_string_equal(seen.owners[1], "");
    assert_string_equal(seen.owners[2], "three");
    meet(server);
    const char *request = server->request.data;
    assert_non_null(strstr(request, "Content-Type: application/connect+proto\r\n"));
    const char *sent = strstr(request, "\r\n\r\n") + 4;
    assert_memory_equal(sent, "\0\0\0\0\7\n\5asker", 12);
}

static void a_stream_without_its_end_is_broken(void **state)
{
    struct server *server = *state;
    struct seen seen = {};
    struct cay_error err = {};
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_buf_init(&body, BYTES_MAX);
    add_message(&body, CAY_STR("one"), false);
    assert_false(call_stream(server, cay_buf_str(&body), &seen, &err));
    assert_int_equal(seen.count, 1);
    assert_int_equal(err.reason, CAY_R_UNAVAILABLE);
    assert_non_null(strstr(err.text, "broke before"));
}

static void a_stream_ends_with_its_error(void **state)
{
    struct server *server = *state;
    struct seen seen = {};
    struct cay_error err = {};
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_buf_init(&body, BYTES_MAX);
    add_message(&body, CAY_STR("one"), false);
    add_end(&body, "{\"error\":{\"code\":\"unavailable\",\"message\":\"shutting down\"}}");
    assert_false(call_stream(server, cay_buf_str(&body), &seen, &err));
    assert_int_equal(seen.count, 1);
    assert_int_equal(err.reason, CAY_R_UNAVAILABLE);
    assert_string_equal(err.text, "shutting down");
}

static void a_receiver_can_stop_a_stream(void **state)
{
    struct server *server = *state;
    struct seen seen = {.stop_at = 1};
    struct cay_error err = {};
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_buf_init(&body, BYTES_MAX);
    add_message(&body, CAY_STR("one"), false);
    add_message(&body, CAY_STR("two"), false);
    add_end(&body, "{}");
    assert_false(call_stream(server, cay_buf_str(&body), &seen, &err));
    assert_int_equal(seen.count, 1);
    assert_string_equal(err.text, "enough");
}

static void malformed_streams_are_refused(void **state)
{
    struct server *server = *state;
    static const struct cay_str bodies[] = {
        CAY_STR("\x04\0\0\0\0"),       /* unknown flag */
        CAY_STR("\0\xff\xff\xff\xff"), /* larger than any message */
        CAY_STR("\x01\0\0\0\1x"),      /* packed, though not asked for */
        CAY_STR("\0\0\0\0\2\xff\xff"), /* no such message */
        CAY_STR("\x02\0\0\0\2[]"),     /* no such end */
    };
    for (size_t i = 0; i < CAY_COUNT(bodies); i++) {
        struct seen seen = {};
        struct cay_error err = {};
        assert_false(call_stream(server, bodies[i], &seen, &err));
        assert_int_equal(seen.count, 0);
        assert_true(err.reason == CAY_R_INTERNAL || err.reason == CAY_R_MESSAGE_TOO_LARGE);
    }
}

static void over_a_network_messages_may_be_packed(void **state)
{
    struct server *server = *state;
    struct seen seen = {};
    struct cay_error err = {};
    char owner[3000];
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_buf_init(&body, BYTES_MAX);
    memset(owner, 'x', sizeof(owner));
    open_client(server, "0.0.0.0", ""); /* reaches this machine without being known as it */
    add_message(&body, (struct cay_str){owner, sizeof(owner)}, true);
    add_message(&body, CAY_STR("small"), false);
    add_end(&body, "{}");
    assert_true(call_stream(server, cay_buf_str(&body), &seen, &err));
    assert_int_equal(seen.count, 2);
    assert_string_equal(seen.owners[0], "xxxxxxxxxxxxxxxxxxxx");
    meet(server);
    assert_non_null(strstr(server->request.data, "Connect-Accept-Encoding: gzip\r\n"));
    assert_null(strstr(server->request.data, "Authorization:"));
}

struct source {
    size_t count;
    size_t given;
    bool fails;
};

static bool give(void *state, struct cay_arena *arena, const void **out_message,
                 struct cay_error *err)
{
    struct source *source = state;
    if (source->fails && source->given == source->count)
        return cay_fail(err, CAY_R_FILE_NOT_FOUND, "the file went away");
    if (source->given == source->count)
        return true;
    struct cay_v1_list_keys_request *request =
        cay_arena_new(arena, struct cay_v1_list_keys_request);
    assert_non_null(request);
    request->owner = cay_str(cay_arena_printf(arena, "part-%zu", source->given++));
    *out_message = request;
    return true;
}

static bool call_upload(struct server *server, struct source *source,
                        struct cay_v1_list_keys_request *response, struct cay_error *err)
{
    return cay_client_call_upload(server->client, &upload_method, give, source, &server->arena,
                                  response, err);
}

static void an_upload_sends_every_message_and_gets_one(void **state)
{
    struct server *server = *state;
    struct source source = {.count = 1000};
    struct cay_v1_list_keys_request got = {};
    struct cay_error err = {};
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_buf_init(&body, BYTES_MAX);
    add_message(&body, CAY_STR("thanks"), false);
    add_end(&body, "{}");
    answer(server, "200 OK", "application/connect+proto", cay_buf_str(&body));
    assert_true(call_upload(server, &source, &got, &err));
    assert_true(cay_str_is(got.owner, "thanks"));
    meet(server);
    const struct cay_buf *request = &server->request;
    assert_non_null(strstr(request->data, "Transfer-Encoding: chunked\r\n"));
    assert_non_null(memmem(request->data, request->len, "\0\0\0\0\x08\n\6part-0", 13));
    assert_non_null(memmem(request->data, request->len, "\0\0\0\0\n\n\x08part-999", 15));
}

static void an_upload_that_is_refused_early_stops(void **state)
{
    struct server *server = *state;
    struct source source = {.count = SIZE_MAX};
    struct cay_v1_list_keys_request got = {};
    struct cay_error err = {};
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_buf_init(&body, BYTES_MAX);
    server->answers_early = true;
    add_end(&body, "{\"error\":{\"code\":\"resource_exhausted\",\"message\":\"full\"}}");
    answer(server, "200 OK", "application/connect+proto", cay_buf_str(&body));
    assert_false(call_upload(server, &source, &got, &err));
    assert_int_equal(err.reason, CAY_R_RESOURCE_EXHAUSTED);
    assert_string_equal(err.text, "full");
    source.given = 0;
    answer(server, "401 Unauthorized", "application/json",
           CAY_STR("{\"code\":\"unauthenticated\",\"message\":\"who?\"}"));
    assert_false(call_upload(server, &source, &got, &err));
    assert_string_equal(err.text, "who?");
}

static void an_upload_whose_source_fails_fails_like_it(void **state)
{
    struct server *server = *state;
    struct source source = {.count = 2, .fails = true};
    struct cay_v1_list_keys_request got = {};
    struct cay_error err = {};
    assert_false(call_upload(server, &source, &got, &err));
    assert_int_equal(err.reason, CAY_R_FILE_NOT_FOUND);
}

static void an_upload_needs_exactly_one_answer(void **state)
{
    struct server *server = *state;
    struct cay_v1_list_keys_request got = {};
    for (int count = 0; count <= 2; count += 2) {
        struct source source = {.count = 1};
        struct cay_error err = {};
        cay_auto(cay_buf_finish) struct cay_buf body;
        cay_buf_init(&body, BYTES_MAX);
        for (int i = 0; i < count; i++)
            add_message(&body, CAY_STR("x"), false);
        add_end(&body, "{}");
        answer(server, "200 OK", "application/connect+proto", cay_buf_str(&body));
        assert_false(call_upload(server, &source, &got, &err));
        assert_int_equal(err.reason, CAY_R_INTERNAL);
    }
}

#define SERVED(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVED(a_unary_call_sends_and_gets_a_message),
        SERVED(an_empty_answer_is_an_empty_message),
        SERVED(a_refusal_keeps_its_reason_and_sentence),
        SERVED(what_is_no_cayd_is_told_so),
        SERVED(a_broken_answer_is_unavailable),
        SERVED(a_silent_server_is_a_timeout),
        SERVED(a_signal_can_end_a_call),
        cmocka_unit_test(a_daemon_that_is_not_there_is_told_with_advice),
        cmocka_unit_test(a_key_cannot_add_header_lines),
        SERVED(a_stream_gives_each_message_and_ends),
        SERVED(a_stream_without_its_end_is_broken),
        SERVED(a_stream_ends_with_its_error),
        SERVED(a_receiver_can_stop_a_stream),
        SERVED(malformed_streams_are_refused),
        SERVED(over_a_network_messages_may_be_packed),
        SERVED(an_upload_sends_every_message_and_gets_one),
        SERVED(an_upload_that_is_refused_early_stops),
        SERVED(an_upload_whose_source_fails_fails_like_it),
        SERVED(an_upload_needs_exactly_one_answer),
    };
    /* A proxy of the environment would stand between. */
    unsetenv("http_proxy");
    unsetenv("all_proxy");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
