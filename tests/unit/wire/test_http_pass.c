/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <errno.h>

#include "wire/http_pass.h"

static void begin(struct cay_http_pass *pass, const char *text)
{
    struct cay_http_header fields[CAY_HTTP_PASS_FIELDS_MAX];
    struct cay_http1_head head;
    struct cay_http1_fault fault;
    assert_int_equal(cay_http_pass_head(cay_str(text), fields, &head, &fault), strlen(text));
    cay_http_pass_begin(pass, &head);
}

static void expect_answer(struct cay_http_pass *pass, const char *text, ssize_t count)
{
    assert_int_equal(cay_http_pass_answer(pass, cay_str(text)), count);
}

#define HEAD(line) line " HTTP/1.1\r\nHost: a.test\r\n"

/* Each is over exactly where its answer is. */
static void test_answers(void **)
{
    static const struct {
        const char *request, *answer;
        int status;
    } cases[] = {
        {HEAD("GET /") "\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200},
        {HEAD("GET /") "\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200},
        {HEAD("HEAD /") "\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", 200},
        {HEAD("GET /") "\r\n", "HTTP/1.1 204 No\r\n\r\n", 204},
        {HEAD("GET /") "\r\n", "HTTP/1.1 304 No\r\nContent-Length: 7\r\n\r\n", 304},
        {HEAD("GET /") "\r\n",
         "HTTP/1.1 103 Early\r\nLink: a\r\n\r\nHTTP/1.1 404 No\r\nTransfer-Encoding: "
         "chunked\r\n\r\n"
         "1\r\nx\r\n0\r\n\r\n",
         404},
        {HEAD("GET /") "Upgrade: websocket\r\n\r\n",
         "HTTP/1.1 426 No\r\nContent-Length: 1\r\n\r\nx", 426},
    };
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        for (size_t step = 1; step < 200; step += 37) {
            struct cay_http_pass pass = {};
            struct cay_str rest = cay_str(cases[i].answer);
            size_t have = step;
            begin(&pass, cases[i].request);
            while (rest.len) {
                assert_int_equal(pass.phase, CAY_HTTP_PASS_EXCHANGE);
                const struct cay_str part = {rest.ptr, CAY_MIN(have, rest.len)};
                ssize_t used = cay_http_pass_answer(&pass, part);
                assert_true(used >= 0 && (used > 0 || part.len < rest.len));
                have = used ? step : have + step;
                rest = (struct cay_str){rest.ptr + used, rest.len - (size_t)used};
            }
            assert_int_equal(pass.phase, CAY_HTTP_PASS_BETWEEN);
            assert_int_equal(pass.status, cases[i].status);
            expect_answer(&pass, "HTTP/1.1 200 OK\r\n\r\n", -EBADMSG); /* to nothing */
        }
    }
}

static void test_bodies(void **)
{
    struct cay_http_pass pass = {};
    begin(&pass, HEAD("POST /") "Content-Length: 3\r\n\r\n");
    assert_int_equal(cay_http_pass_body(&pass, CAY_STR("ab")), 2);
    /* An answer that comes early is not the end before the body is. */
    expect_answer(&pass, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 38);
    assert_int_equal(pass.phase, CAY_HTTP_PASS_EXCHANGE);
    assert_int_equal(cay_http_pass_body(&pass, CAY_STR("cGET /")), 1);
    assert_int_equal(pass.phase, CAY_HTTP_PASS_BETWEEN);
    begin(&pass, HEAD("POST /") "Transfer-Encoding: chunked\r\n\r\n");
    assert_int_equal(cay_http_pass_body(&pass, CAY_STR("2\r\nab\r\n0\r\n\r\nGET")), 12);
    assert_int_equal(cay_http_pass_body(&pass, CAY_STR("GET")), 0);
    begin(&pass, HEAD("POST /") "Transfer-Encoding: chunked\r\n\r\n");
    assert_int_equal(cay_http_pass_body(&pass, CAY_STR("x")), -EBADMSG);
}

static void test_left(void **)
{
    struct cay_http_pass pass = {};
    begin(&pass, HEAD("GET /") "Upgrade: websocket\r\n\r\n");
    assert_int_equal(cay_http_pass_body(&pass, CAY_STR("early")), 0);
    expect_answer(&pass, "HTTP/1.1 101 Yes\r\n\r\nword", 20);
    assert_int_equal(pass.phase, CAY_HTTP_PASS_THROUGH);
    assert_int_equal(cay_http_pass_body(&pass, CAY_STR("early")), 5);
    expect_answer(&pass, "word", 4);
    assert_true(cay_http_pass_ended(&pass));
    begin(&pass, HEAD("GET /") "\r\n"); /* nobody has asked */
    expect_answer(&pass, "HTTP/1.1 101 Yes\r\n\r\n", -EBADMSG);
}

static void test_ends(void **)
{
    struct cay_http_pass pass = {};
    assert_true(cay_http_pass_ended(&pass));
    begin(&pass, HEAD("GET /") "\r\n");
    expect_answer(&pass, "HTTP/1.0 200 OK\r\n\r\n", 19);
    expect_answer(&pass, "any", 3);
    assert_true(cay_http_pass_ended(&pass));
    begin(&pass, HEAD("GET /") "\r\n");
    assert_false(cay_http_pass_ended(&pass));
    begin(&pass, HEAD("GET /") "\r\n");
    expect_answer(&pass, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", 38);
    assert_false(cay_http_pass_ended(&pass));
}

static void test_targets(void **)
{
    static const char *const bad[] = {HEAD("GET http://a.test/") "\r\n", HEAD("OPTIONS *") "\r\n",
                                      HEAD("CONNECT a.test:443") "\r\n", HEAD("GET ?") "\r\n"};
    for (size_t i = 0; i < CAY_COUNT(bad); i++) {
        struct cay_http_header fields[CAY_HTTP_PASS_FIELDS_MAX];
        struct cay_http1_head head;
        struct cay_http1_fault fault;
        assert_true(cay_http_pass_head(cay_str(bad[i]), fields, &head, &fault) < 0);
        assert_int_equal(fault.status, 400);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers), cmocka_unit_test(test_bodies),  cmocka_unit_test(test_left),
        cmocka_unit_test(test_ends),    cmocka_unit_test(test_targets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
