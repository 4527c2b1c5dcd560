/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/share.h"
#include "tests/unit/front/harness.h"
#include "wire/gzip.h"

struct fixture {
    struct harness harness;
    struct cay_buf body;
    struct cay_buf out;
    int fd;
};

static int setup(void **state)
{
    struct fixture *fixture = cay_new(struct fixture);
    harness_open(&fixture->harness);
    fixture->fd = harness_connect(&fixture->harness);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    if (fixture->fd >= 0)
        close(fixture->fd);
    harness_close(&fixture->harness);
    cay_buf_finish(&fixture->body);
    cay_buf_finish(&fixture->out);
    free(fixture);
    return 0;
}

static void post(struct fixture *self, const char *method, const char *type, struct cay_str body)
{
    cay_buf_clear(&self->out, 0);
    harness_post(&self->harness, self->fd, method, type, body);
    harness_receive(&self->harness, self->fd, &self->out);
}

static void get(struct fixture *self, const char *target, const char *rest)
{
    char request[2048];
    int len = snprintf(request, sizeof(request),
                       "GET %s HTTP/1.1\r\nHost: a\r\nX-API-Key: good\r\n%s", target, rest);
    cay_buf_clear(&self->out, 0);
    harness_ask(&self->harness, self->fd, (struct cay_str){request, (size_t)len}, &self->out);
}

static bool starts(const struct fixture *self, const char *text)
{
    return cay_str_starts(cay_buf_str(&self->out), text);
}

static void unary_calls_are_answered_in_their_codec(void **state)
{
    struct fixture *self = *state;
    post(self, "KeyService/ListKeys", "application/json", CAY_STR("{\"owner\":\"me\"}"));
    assert_true(starts(self, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"));
    assert_true(harness_has(&self->out, "\r\n\r\n{\"nextPageToken\":\"me\"}"));
    post(self, "KeyService/ListKeys", "application/proto", CAY_STR("\x0A\2me"));
    assert_true(starts(self, "HTTP/1.1 200 OK\r\ncontent-type: application/proto\r\n"));
    assert_true(harness_has(&self->out, "\r\n\r\n\x12\2me"));
    post(self, "KeyService/ListKeys", "application/json", CAY_STR(""));
    assert_true(harness_has(&self->out, "\r\n\r\n{}"));
    post(self, "KeyService/ListKeys", "application/grpc-web+proto", CAY_STR("\0\0\0\0\4\x0A\2me"));
    assert_true(starts(self, "HTTP/1.1 200 OK\r\ncontent-type: application/grpc-web\r\n"));
    assert_true(harness_has(&self->out, "\x12\2me"));
    assert_true(harness_has(&self->out, "grpc-status: 0\r\n"));
}

static void what_is_wrong_with_a_call_is_said(void **state)
{
    struct fixture *self = *state;
    static const struct {
        const char *method;
        const char *type;
        struct cay_str body;
        const char *status;
        const char *code;
    } cases[] = {
        {"KeyService/ListKeys", "application/json", CAY_STR("{"), "400", "invalid_argument"},
        {"KeyService/ListKeys", "application/json", CAY_STR("[]"), "400", "invalid_argument"},
        {"KeyService/ListKeys", "application/json", CAY_STR("{\"owner\":\"\xFF\"}"), "400",
         "invalid_argument"},
        {"KeyService/ListKeys", "application/json", CAY_STR("{\"pageSize\":\"x\"}"), "400",
         "invalid_argument"},
        {"KeyService/ListKeys", "application/proto", CAY_STR("\x0A\5me"), "400",
         "invalid_argument"},
        {"KeyService/ListKeys", "text/plain", CAY_STR("{}"), "415", "invalid_argument"},
        {"KeyService/ListKeys", "application/connect+json", CAY_STR("{}"), "415",
         "invalid_argument"},
        {"ProcessService/Terminal", "application/json", CAY_STR("{}"), "415", "invalid_argument"},
        {"KeyService/ListKeys", "application/grpc", CAY_STR(""), "505", "invalid_argument"},
        {"KeyService/Nothing", "application/json", CAY_STR("{}"), "404", "unimplemented"},
        {"KeyService/CreateKey", "application/json", CAY_STR("{}"), "501", "unimplemented"},
        {"KeyService/ListKeys", "application/json\r\nContent-Encoding: br", CAY_STR("{}"), "501",
         "unimplemented"},
        {"KeyService/ListKeys", "application/json\r\nContent-Encoding: gzip", CAY_STR("{}"), "400",
         "invalid_argument"},
        {"KeyService/ListKeys", "application/json\r\nConnect-Timeout-Ms: soon", CAY_STR("{}"),
         "400", "invalid_argument"},
        {"KeyService/ListKeys", "application/json\r\nConnect-Protocol-Version: 2", CAY_STR("{}"),
         "400", "invalid_argument"},
        {"KeyService/ListKeys", "application/json\r\nConnect-Timeout-Ms: 99999999999",
         CAY_STR("{}"), "400", "invalid_argument"},
    };
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        post(self, cases[i].method, cases[i].type, cases[i].body);
        char status[32];
        char code[64];
        snprintf(status, sizeof(status), "HTTP/1.1 %s ", cases[i].status);
        snprintf(code, sizeof(code), "{\"code\":\"%s\",\"message\":\"", cases[i].code);
        if (!starts(self, status) || !harness_has(&self->out, code))
            print_error("case %zu: %.*s\n", i, (int)self->out.len, self->out.data);
        assert_true(starts(self, status));
        assert_true(harness_has(&self->out, code));
    }
}

static void envelopes_that_make_no_sense_are_refused(void **state)
{
    struct fixture *self = *state;
    static const struct {
        struct cay_str body;
        const char *code;
    } cases[] = {
        {CAY_STR(""), "unimplemented"},
        {CAY_STR("\0\0\0"), "invalid_argument"},
        {CAY_STR("\0\0\0\0\5{}"), "invalid_argument"},
        {CAY_STR("\0\0\0\0\2{}\0\0\0\0\2{}"), "unimplemented"},
        {CAY_STR("\4\0\0\0\2{}"), "invalid_argument"},
        {CAY_STR("\1\0\0\0\2{}"), "invalid_argument"},
        {CAY_STR("\2\0\0\0\2{}"), "invalid_argument"},
        {CAY_STR("\0\xFF\xFF\xFF\xFF{}"), "resource_exhausted"},
        {CAY_STR("\0\0\0\0\2[]"), "invalid_argument"},
    };
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        post(self, "FileService/ReadFile", "application/connect+json", cases[i].body);
        char code[64];
        snprintf(code, sizeof(code), "{\"error\":{\"code\":\"%s\"", cases[i].code);
        assert_true(starts(self, "HTTP/1.1 200 OK\r\n"));
        if (!harness_has(&self->out, code))
            print_error("case %zu: %.*s\n", i, (int)self->out.len, self->out.data);
        assert_true(harness_has(&self->out, code));
    }
}

static void keys_are_asked_for(void **state)
{
    struct fixture *self = *state;
    static const char *const headers[] = {"",
                                          "Authorization: Bearer bad\r\n",
                                          "Authorization: Basic good\r\n",
                                          "Authorization: Bearergood\r\n",
                                          "Authorization: Bearer\r\n",
                                          "X-API-Key: goo\r\n",
                                          "X-API-Key: goodd\r\n"};
    for (size_t i = 0; i < CAY_COUNT(headers); i++) {
        char request[512];
        int len = snprintf(request, sizeof(request),
                           "POST /cay.v1.KeyService/ListKeys HTTP/1.1\r\nHost: a\r\n%s"
                           "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
                           headers[i]);
        cay_buf_clear(&self->out, 0);
        harness_ask(&self->harness, self->fd, (struct cay_str){request, (size_t)len}, &self->out);
        assert_true(starts(self, "HTTP/1.1 401 Unauthorized\r\n"));
        assert_true(harness_has(&self->out, "\"code\":\"unauthenticated\""));
    }
}

#define MESSAGE "message=%7B%22owner%22%3A%22a+b%22%7D"

static void calls_without_side_effects_come_by_get(void **state)
{
    struct fixture *self = *state;
    get(self, "/cay.v1.KeyService/ListKeys?connect=v1&encoding=json&" MESSAGE, "\r\n");
    assert_true(starts(self, "HTTP/1.1 200 OK\r\n"));
    assert_true(harness_has(&self->out, "{\"nextPageToken\":\"a b\"}"));
    get(self, "/cay.v1.KeyService/ListKeys?connect=v1&encoding=proto&base64=1&message=CgJtZQ",
        "\r\n");
    assert_true(harness_has(&self->out, "\x12\2me"));
    static const char *const bad[] = {
        "/cay.v1.KeyService/ListKeys",
        "/cay.v1.KeyService/ListKeys?connect=v1&encoding=json",
        "/cay.v1.KeyService/ListKeys?connect=v1&encoding=xml&message=%7B%7D",
        "/cay.v1.KeyService/ListKeys?connect=v2&encoding=json&message=%7B%7D",
        "/cay.v1.KeyService/ListKeys?connect=v1&encoding=json&message=%7",
        "/cay.v1.KeyService/ListKeys?connect=v1&encoding=json&base64=1&message=!!",
        "/cay.v1.KeyService/ListKeys?connect=v1&encoding=json&compression=br&message=%7B%7D",
        "/cay.v1.KeyService/ListKeys?connect=v1&encoding=json&compression=gzip&message=%7B%7D",
        "/cay.v1.KeyService/CreateKey?connect=v1&encoding=json&message=%7B%7D",
        "/cay.v1.FileService/ReadFile?connect=v1&encoding=json&message=%7B%7D",
    };
    for (size_t i = 0; i < CAY_COUNT(bad); i++) {
        get(self, bad[i], "\r\n");
        assert_true(starts(self, "HTTP/1.1 4") || starts(self, "HTTP/1.1 501"));
    }
}

/* The decoded message borrows from the query's bytes: a body must not move them. */
static void a_get_with_a_body_is_not_confused_by_it(void **state)
{
    struct fixture *self = *state;
    cay_autofree char *junk = cay_alloc(100000);
    memset(junk, 'x', 100000);
    cay_buf_clear(&self->out, 0);
    harness_send(&self->harness, self->fd,
                 CAY_STR("GET /cay.v1.KeyService/ListKeys?connect=v1&encoding=json&" MESSAGE
                         " HTTP/1.1\r\nHost: a\r\nX-API-Key: good\r\n"
                         "Content-Length: 100000\r\n\r\n"));
    harness_send(&self->harness, self->fd, (struct cay_str){junk, 100000});
    harness_receive(&self->harness, self->fd, &self->out);
    assert_true(harness_has(&self->out, "{\"nextPageToken\":\"a b\"}"));
}

static void a_streamed_answer_waits_for_its_reader(void **state)
{
    struct fixture *self = *state;
    harness_envelope(&self->body, 0, CAY_STR("{\"length\":\"20000000\"}"));
    harness_post(&self->harness, self->fd, "FileService/ReadFile", "application/connect+proto",
                 CAY_STR("\0\0\0\0\5\x30\x80\xDA\xC4\x09"));
    struct cay_conn *conn = harness_conn(&self->harness);
    assert_true(cay_stream_queued(&conn->stream) <
                CAY_LIMIT_SEND_HIGH_BYTES + CAY_LIMIT_SEND_HIGH_BYTES / 4);
    assert_int_equal(self->harness.echo.open_count, 1);
    harness_receive(&self->harness, self->fd, &self->out);
    assert_true(self->out.len > 20000000);
    assert_int_equal(self->harness.echo.open_count, 0);
}

static void a_client_stream_is_counted(void **state)
{
    struct fixture *self = *state;
    for (int i = 0; i < 1000; i++)
        harness_envelope(&self->body, 0, CAY_STR("\x12\3abc"));
    post(self, "FileService/WriteFile", "application/connect+proto", cay_buf_str(&self->body));
    assert_true(harness_has(&self->out, "\x10\xB8\x17\x18\xE8\x07"));
    cay_buf_clear(&self->body, 0);
    harness_envelope(&self->body, 0, CAY_STR("{\"data\":\"YWJj\"}"));
    cay_buf_append(&self->body, "\0\0", 2);
    post(self, "FileService/WriteFile", "application/connect+json", cay_buf_str(&self->body));
    assert_true(harness_has(&self->out, "the request ends in the middle of a message"));
}

/* Each message costs its own bytes and not those of all that wait behind it. */
static void many_small_messages_cost_little(void **state)
{
    struct fixture *self = *state;
    for (int i = 0; i < 400000; i++)
        harness_envelope(&self->body, 0, CAY_STR(""));
    post(self, "FileService/WriteFile", "application/connect+proto", cay_buf_str(&self->body));
    assert_true(harness_has(&self->out, "\x18\x80\xB5\x18"));
}

static void what_is_typed_comes_back_even_to_a_slow_reader(void **state)
{
    struct fixture *self = *state;
    cay_autofree char *typed = cay_alloc(60000);
    memset(typed, 'x', 60000);
    memcpy(typed, "\x12\xDC\xD4\x03", 4);
    /* More than is ever unsent at once: the verb has to stop and to be woken. */
    for (int i = 0; i < 40; i++)
        harness_envelope(&self->body, 0, (struct cay_str){typed, 60000});
    char head[512];
    int head_len = snprintf(head, sizeof(head),
                            "POST /cay.v1.ProcessService/Terminal HTTP/1.1\r\nHost: a\r\n"
                            "X-API-Key: good\r\nContent-Type: application/connect+proto\r\n"
                            "Content-Length: %zu\r\n\r\n",
                            self->body.len);
    harness_send(&self->harness, self->fd, (struct cay_str){head, (size_t)head_len});
    /* Writes as much as it can before it reads: both directions fill up. */
    size_t sent = 0;
    for (int stalls = 0; stalls < 20 && self->harness.echo.open_count;) {
        ssize_t put = send(self->fd, self->body.data + sent, self->body.len - sent, MSG_NOSIGNAL);
        sent += put > 0 ? (size_t)put : 0;
        stalls = put > 0 ? 0 : stalls + 1;
        harness_turn(&self->harness);
        if (stalls > 10 || sent == self->body.len)
            harness_receive(&self->harness, self->fd, &self->out);
    }
    assert_int_equal(sent, self->body.len);
    assert_int_equal(self->harness.echo.open_count, 0);
    assert_true(self->out.len > 40 * 59990);
}

/* A large message that does not pack must arrive, not turn into an empty one. */
static void the_largest_message_survives_packing(void **state)
{
    struct fixture *self = *state;
    size_t len = CAY_LIMIT_MESSAGE_BYTES - 64;
    char *filler = cay_alloc(len);
    uint64_t seed = 88172645463325252u;
    for (size_t i = 0; i < len; i++) {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        filler[i] = (char)seed;
    }
    struct echo *echo = &self->harness.echo;
    const char *before = echo->filler;
    echo->filler = filler;
    echo->filler_len = len;
    struct cay_buf proto = {};
    cay_buf_init(&proto, 64);
    for (int field = 0; field < 2; field++) {
        cay_buf_append_byte(&proto, field ? 6 << 3 : 5 << 3);
        for (size_t value = len; value; value >>= 7)
            cay_buf_append_byte(&proto, (unsigned char)((value & 127) | (value > 127 ? 128 : 0)));
    }
    harness_envelope(&self->body, 0, cay_buf_str(&proto));
    cay_buf_finish(&proto);
    post(self, "FileService/ReadFile", "application/connect+proto\r\nConnect-Accept-Encoding: gzip",
         cay_buf_str(&self->body));
    echo->filler = before;
    assert_true(starts(self, "HTTP/1.1 200 OK\r\n"));
    assert_true(self->out.len > len);
    assert_non_null(memmem(self->out.data, self->out.len, filler, 100));
    free(filler);
}

static void packed_requests_are_unpacked_within_bounds(void **state)
{
    struct fixture *self = *state;
    cay_buf_init(&self->body, 1 << 20);
    assert_int_equal(cay_gzip(CAY_STR("{\"owner\":\"me\"}"), &self->body), 0);
    post(self, "KeyService/ListKeys", "application/json\r\nContent-Encoding: gzip",
         cay_buf_str(&self->body));
    assert_true(harness_has(&self->out, "{\"nextPageToken\":\"me\"}"));
    size_t len = CAY_LIMIT_MESSAGE_BYTES + 1;
    cay_autofree char *blanks = cay_alloc(len);
    memset(blanks, ' ', len);
    cay_buf_finish(&self->body);
    cay_buf_init(&self->body, 32 << 20);
    assert_int_equal(cay_gzip((struct cay_str){blanks, len}, &self->body), 0);
    post(self, "KeyService/ListKeys", "application/json\r\nContent-Encoding: gzip",
         cay_buf_str(&self->body));
    assert_true(starts(self, "HTTP/1.1 429 "));
    assert_true(harness_has(&self->out, "\"code\":\"resource_exhausted\""));
}

/* Holds up the workers that an owner may have for its messages. */
struct hold {
    struct cay_job jobs[CAY_OWNER_DOOR_THREADS];
    struct cay_shares *shares;
};
static sem_t held;

static void hold_work(struct cay_job *)
{
    sem_wait(&held);
}

static void hold_done(struct cay_job *)
{
}

static void hold_up(struct fixture *self, struct hold *hold)
{
    sem_init(&held, 0, 0);
    self->harness.is_held_up = true;
    hold->shares = cay_shares_ref(self->harness.loop, "tester");
    for (size_t i = 0; i < CAY_COUNT(hold->jobs); i++) {
        hold->jobs[i] = (struct cay_job){
            .work = hold_work, .done = hold_done, .lane = &hold->shares->door_lane};
        cay_loop_submit(self->harness.loop, &hold->jobs[i]);
    }
}

static void let_go(struct fixture *self, struct hold *hold)
{
    for (size_t i = 0; i < CAY_COUNT(hold->jobs); i++)
        sem_post(&held);
    self->harness.is_held_up = false;
    harness_turn(&self->harness);
    cay_shares_unref(hold->shares);
    sem_destroy(&held);
}

/* Message and stream, by JSON and packed: while one's message waits for a worker, others are
 * answered by the loop. */
static void large_messages_are_not_decoded_on_the_loop(void **state)
{
    struct fixture *self = *state;
    static const char *const types[] = {
        "application/json", "application/json\r\nContent-Encoding: gzip",
        "application/connect+json", "application/connect+json\r\nConnect-Content-Encoding: gzip"};
    size_t len = 100000;
    cay_autofree char *text = cay_alloc(len);
    memset(text, ' ', len);
    for (size_t i = 0; i < CAY_COUNT(types); i++) {
        bool is_stream = i >= 2;
        struct cay_buf plain = {};
        struct cay_buf packed = {};
        cay_buf_init(&plain, 1 << 20);
        cay_buf_init(&packed, 1 << 20);
        cay_buf_append(&plain, text, len);
        cay_buf_append_str(&plain, is_stream ? CAY_STR("{\"data\":\"aGk=\"}")
                                             : CAY_STR("{\"owner\":\"me\"}"));
        assert_int_equal(cay_gzip(cay_buf_str(&plain), &packed), 0);
        struct cay_str bytes = i % 2 ? cay_buf_str(&packed) : cay_buf_str(&plain);
        cay_buf_clear(&self->body, 0);
        cay_buf_init(&self->body, 1 << 20);
        if (is_stream)
            harness_envelope(&self->body, i % 2, bytes);
        else
            cay_buf_append_str(&self->body, bytes);
        struct hold hold;
        hold_up(self, &hold);
        post(self, is_stream ? "FileService/WriteFile" : "KeyService/ListKeys", types[i],
             cay_buf_str(&self->body));
        assert_false(harness_has(&self->out, "}"));
        struct cay_buf other = {};
        int fd = harness_connect(&self->harness);
        harness_post(&self->harness, fd, "KeyService/ListKeys", "application/json",
                     CAY_STR("{\"owner\":\"you\"}"));
        harness_receive(&self->harness, fd, &other);
        assert_true(harness_has(&other, "{\"nextPageToken\":\"you\"}"));
        close(fd);
        cay_buf_finish(&other);
        let_go(self, &hold);
        harness_receive(&self->harness, self->fd, &self->out);
        assert_true(harness_has(&self->out, is_stream ? "\"bytesWritten\":\"2\""
                                                      : "{\"nextPageToken\":\"me\"}"));
        cay_buf_finish(&plain);
        cay_buf_finish(&packed);
    }
}

static void a_caller_may_go_while_its_message_is_decoded(void **state)
{
    struct fixture *self = *state;
    size_t len = 100000;
    cay_autofree char *text = cay_alloc(len);
    struct hold hold;
    memset(text, ' ', len);
    hold_up(self, &hold);
    post(self, "KeyService/ListKeys", "application/json", (struct cay_str){text, len});
    close(cay_take_fd(self->fd));
    harness_turn(&self->harness);
    assert_int_equal(self->harness.server->stats.exchanges_open, 0);
    let_go(self, &hold);
}

static void large_answers_are_packed_by_a_worker(void **state)
{
    struct fixture *self = *state;
    size_t len = 100000;
    cay_autofree char *text = cay_alloc(len);
    memset(text, 'a', len);
    cay_buf_init(&self->body, 1 << 20);
    cay_buf_append_str(&self->body, CAY_STR("{\"owner\":\""));
    cay_buf_append(&self->body, text, len);
    cay_buf_append_str(&self->body, CAY_STR("\"}"));
    post(self, "KeyService/ListKeys", "application/json\r\nAccept-Encoding: gzip",
         cay_buf_str(&self->body));
    assert_true(starts(self, "HTTP/1.1 200 OK\r\n"));
    assert_true(harness_has(&self->out, "content-encoding: gzip\r\n"));
    assert_true(self->out.len < 2000);
    post(self, "KeyService/ListKeys", "application/json", cay_buf_str(&self->body));
    assert_true(self->out.len > len);
}

static void a_body_over_the_limit_is_refused(void **state)
{
    struct fixture *self = *state;
    size_t len = CAY_LIMIT_MESSAGE_BYTES + 100000;
    cay_autofree char *blanks = cay_alloc(len);
    memset(blanks, ' ', len);
    post(self, "KeyService/ListKeys", "application/json", (struct cay_str){blanks, len});
    assert_true(starts(self, "HTTP/1.1 429 "));
    assert_true(harness_has(&self->out, "\"code\":\"resource_exhausted\""));
}

static void a_caller_that_leaves_a_stream_cancels_it(void **state)
{
    struct fixture *self = *state;
    harness_envelope(&self->body, 0, CAY_STR("{\"length\":\"20000000\"}"));
    harness_post(&self->harness, self->fd, "FileService/ReadFile", "application/connect+json",
                 cay_buf_str(&self->body));
    assert_int_equal(self->harness.echo.open_count, 1);
    close(cay_take_fd(self->fd));
    harness_turn(&self->harness);
    assert_int_equal(self->harness.echo.cancelled_count, 1);
    assert_int_equal(self->harness.echo.open_count, 0);
    assert_int_equal(self->harness.server->stats.connections_open, 0);
}

static void a_deadline_ends_a_stream_in_the_middle(void **state)
{
    struct fixture *self = *state;
    harness_send(&self->harness, self->fd,
                 CAY_STR("POST /cay.v1.ProcessService/Terminal HTTP/1.1\r\nHost: a\r\n"
                         "Authorization: Bearer good\r\nConnect-Timeout-Ms: 20\r\n"
                         "Content-Type: application/connect+json\r\n"
                         "Transfer-Encoding: chunked\r\n\r\n"
                         "15\r\n\0\0\0\0\x10{\"input\":\"aGk=\"}\r\n"));
    while (!harness_has(&self->out, "0\r\n\r\n"))
        harness_receive(&self->harness, self->fd, &self->out);
    assert_true(harness_has(&self->out, "{\"output\":{\"data\":\"aGk=\"}}"));
    assert_true(harness_has(&self->out, "{\"error\":{\"code\":\"deadline_exceeded\""));
    assert_int_equal(self->harness.echo.open_count, 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(unary_calls_are_answered_in_their_codec),
        CASE(what_is_wrong_with_a_call_is_said),
        CASE(envelopes_that_make_no_sense_are_refused),
        CASE(keys_are_asked_for),
        CASE(calls_without_side_effects_come_by_get),
        CASE(a_get_with_a_body_is_not_confused_by_it),
        CASE(a_streamed_answer_waits_for_its_reader),
        CASE(a_client_stream_is_counted),
        CASE(many_small_messages_cost_little),
        CASE(what_is_typed_comes_back_even_to_a_slow_reader),
        CASE(the_largest_message_survives_packing),
        CASE(packed_requests_are_unpacked_within_bounds),
        CASE(large_messages_are_not_decoded_on_the_loop),
        CASE(a_caller_may_go_while_its_message_is_decoded),
        CASE(large_answers_are_packed_by_a_worker),
        CASE(a_body_over_the_limit_is_refused),
        CASE(a_caller_that_leaves_a_stream_cancels_it),
        CASE(a_deadline_ends_a_stream_in_the_middle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
