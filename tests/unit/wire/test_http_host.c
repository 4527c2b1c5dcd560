/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of one connection, held to one host. */
#include "tests/unit/test.h"

#include <errno.h>

#include "wire/http_host.h"

#define TO(host) "Host: " host "\r\n\r\n"

static void http_is_told_apart(void **)
{
    static const struct {
        const char *text;
        enum cay_http_looks looks;
    } cases[] = {
        {"", CAY_HTTP_LOOKS_MORE},
        {"G", CAY_HTTP_LOOKS_MORE},
        {"GET ", CAY_HTTP_LOOKS_MORE},
        {"GET / HTTP", CAY_HTTP_LOOKS_MORE},
        {"GET / HTTP/1.1\r\n", CAY_HTTP_LOOKS_SO},
        {"\r\n\r\nGET / HTTP/1.1", CAY_HTTP_LOOKS_SO},
        {"get\t/ HTTP/", CAY_HTTP_LOOKS_SO},
        {" GET / HTTP/1.1\n", CAY_HTTP_LOOKS_SO},
        {"PRI * HTTP/2.0\r\n", CAY_HTTP_LOOKS_SO},
        {"CONNECT a:1 HTTP/1.1\r\n", CAY_HTTP_LOOKS_SO},
        {"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", CAY_HTTP_LOOKS_OTHER},
        {"EHLO x\r\n", CAY_HTTP_LOOKS_OTHER},
        {"GET /\r\n", CAY_HTTP_LOOKS_OTHER},
        {"*1\r\n$4\r\nPING\r\n", CAY_HTTP_LOOKS_OTHER},
        {"\x16\3", CAY_HTTP_LOOKS_OTHER},
        {"PING\r\n", CAY_HTTP_LOOKS_OTHER},
    };
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        if (cay_http_looks(cases[i].text, strlen(cases[i].text)) != cases[i].looks)
            fail_msg("%s", cases[i].text);
    }
    static char line[20'000];
    memset(line, 'a', sizeof(line));
    assert_int_equal(cay_http_looks(line, sizeof(line)), CAY_HTTP_LOOKS_OTHER);
    /* Its end may come later, with a version: some servers read as far. */
    line[3] = ' ';
    assert_int_equal(cay_http_looks(line, sizeof(line)), CAY_HTTP_LOOKS_SO);
    line[sizeof(line) - 1] = '\n';
    assert_int_equal(cay_http_looks(line, sizeof(line)), CAY_HTTP_LOOKS_OTHER);
    assert_int_equal(cay_http_looks("\0\0\0\x08", 4), CAY_HTTP_LOOKS_OTHER);
}

static ssize_t feed_new(const char *text)
{
    struct cay_http_host check;
    cay_http_host_init(&check, CAY_STR("pack.example"));
    return cay_http_host_feed(&check, text, strlen(text));
}

static void the_host_has_to_be_the_name(void **)
{
    static const struct {
        const char *text;
        int status; /* 0: all of it passes */
    } cases[] = {
        {"GET / HTTP/1.1\r\n" TO("pack.example"), 0},
        {"GET / HTTP/1.1\r\n" TO("Pack.Example:80"), 0},
        {"GET / HTTP/1.1\r\n" TO("pack.example."), 0},
        {"GET / HTTP/1.0\r\n" TO("pack.example"), 0},
        {"GET / HTTP/1.1\r\n" TO("other.example"), -EPERM},
        {"GET / HTTP/1.1\r\n" TO("pack.example.evil"), -EPERM},
        {"GET / HTTP/1.1\r\n" TO("xpack.example"), -EPERM},
        {"GET / HTTP/1.1\r\n" TO(""), -EPERM},
        {"GET / HTTP/1.0\r\n\r\n", -EPERM},
        {"GET / HTTP/1.1\r\n\r\n", -EBADMSG},
        {"GET / HTTP/1.1\r\nHost: pack.example\r\n" TO("other.example"), -EBADMSG},
        {"GET / HTTP/1.1\r\nHost: other.example\r\n" TO("pack.example"), -EBADMSG},
        {"GET http://other.example/ HTTP/1.1\r\n" TO("pack.example"), -EBADMSG},
        {"GET http://pack.example/ HTTP/1.1\r\n" TO("pack.example"), -EBADMSG},
        {"CONNECT other.example:443 HTTP/1.1\r\n" TO("pack.example"), -EBADMSG},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", -EBADMSG},
        {"GET / HTTP/1.1\nHost: pack.example\n\n", -EBADMSG},
        {"GET / HTTP/1.1\r\nHost : pack.example\r\n\r\n", -EBADMSG},
        {"GET / HTTP/1.1\r\nX: y\r\n Host: pack.example\r\n\r\n", -EBADMSG},
        {"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n" TO(
             "pack.example"),
         -EBADMSG},
    };
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        ssize_t status = feed_new(cases[i].text);
        ssize_t wanted = cases[i].status ? cases[i].status : (ssize_t)strlen(cases[i].text);
        if (status != wanted)
            fail_msg("%s: %zd", cases[i].text, status);
    }
}

/* Byte by byte: nothing of a head passes before all of it has come. */
static void every_request_is_checked(void **)
{
    static const char good[] = "POST /a HTTP/1.1\r\nContent-Length: 5\r\n" TO(
        "pack.example") "GET /"
                        "PUT /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" TO(
                            "pack.example") "3\r\nabc\r\n0\r\n\r\n"
                                            "GET /c HTTP/1.1\r\n" TO("pack.example");
    static const char bad[] = "GET /d HTTP/1.1\r\n" TO("other.example");
    struct cay_http_host check;
    char text[sizeof(good) + sizeof(bad)];
    snprintf(text, sizeof(text), "%s%s", good, bad);
    size_t len = strlen(text);
    cay_http_host_init(&check, CAY_STR("pack.example"));
    size_t passed = 0;
    ssize_t status = 0;
    for (size_t have = 1; have <= len && status >= 0; have++) {
        status = cay_http_host_feed(&check, text + passed, have - passed);
        passed += status > 0 ? (size_t)status : 0;
    }
    assert_int_equal(status, -EPERM);
    assert_int_equal(passed, strlen(good));
    /* And at once: what is good passes, then the rest is refused. */
    cay_http_host_init(&check, CAY_STR("pack.example"));
    assert_int_equal(cay_http_host_feed(&check, text, len), strlen(good));
    assert_int_equal(cay_http_host_feed(&check, bad, strlen(bad)), -EPERM);
}

static void other_protocols_wait_for_the_answer(void **)
{
    static const char first[] =
        "GET /ws HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" TO("pack.example");
    static const char next[] = "GET / HTTP/1.1\r\n" TO("other.example");
    struct cay_http_host check;
    cay_http_host_init(&check, CAY_STR("pack.example"));
    assert_int_equal(cay_http_host_feed(&check, first, strlen(first)), strlen(first));
    assert_int_equal(cay_http_host_feed(&check, next, strlen(next)), 0);
    assert_false(cay_http_host_answered(&check, "HTTP/1.1", 8));
    assert_true(cay_http_host_answered(&check, "HTTP/1.1 101 ", 13));
    assert_int_equal(cay_http_host_feed(&check, next, strlen(next)), strlen(next));
    cay_http_host_init(&check, CAY_STR("pack.example"));
    assert_int_equal(cay_http_host_feed(&check, first, strlen(first)), strlen(first));
    assert_true(cay_http_host_answered(&check, "HTTP/1.1 200 OK", 15));
    assert_int_equal(cay_http_host_feed(&check, next, strlen(next)), -EPERM);
    /* Nobody leaves later, when it could not be told which answer is which. */
    cay_http_host_init(&check, CAY_STR("pack.example"));
    static const char plain[] = "GET / HTTP/1.1\r\n" TO("pack.example");
    assert_int_equal(cay_http_host_feed(&check, plain, strlen(plain)), strlen(plain));
    assert_int_equal(cay_http_host_feed(&check, first, strlen(first)), -EBADMSG);
    /* An answer to nothing changes nothing. */
    cay_http_host_init(&check, CAY_STR("pack.example"));
    assert_true(cay_http_host_answered(&check, "HTTP/1.1 101 ", 13));
    assert_int_equal(cay_http_host_feed(&check, next, strlen(next)), -EPERM);
}

/* A chunk's size that is wrong must not be taken up again behind its first digit. */
static void what_was_refused_stays_so(void **)
{
    static const char text[] =
        "POST / HTTP/1.1\r\nHost: pack.example\r\nTransfer-Encoding: chunked\r\n\r\n"
        "1\r\nx\r\na\x95\r\n0123456789";
    const size_t good = strlen(text) - strlen("\r\na\x95\r\n0123456789");
    struct cay_http_host check;
    cay_http_host_init(&check, CAY_STR("pack.example"));
    assert_int_equal(cay_http_host_feed(&check, text, strlen(text)), good);
    assert_int_equal(cay_http_host_feed(&check, text + good, strlen(text) - good), -EBADMSG);
    assert_int_equal(cay_http_host_feed(&check, "\r\n0123456789", 12), -EBADMSG);
}

static void heads_are_bounded(void **)
{
    static char text[2 * CAY_HTTP_HOST_HEAD_MAX];
    memset(text, 'a', sizeof(text));
    static const char start[] = "GET / HTTP/1.1\r\nX: ";
    memcpy(text, start, strlen(start));
    struct cay_http_host check;
    cay_http_host_init(&check, CAY_STR("pack.example"));
    assert_int_equal(cay_http_host_feed(&check, text, 1000), 0);
    assert_int_equal(cay_http_host_feed(&check, text, sizeof(text)), -EBADMSG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(http_is_told_apart),
        cmocka_unit_test(the_host_has_to_be_the_name),
        cmocka_unit_test(every_request_is_checked),
        cmocka_unit_test(other_protocols_wait_for_the_answer),
        cmocka_unit_test(what_was_refused_stays_so),
        cmocka_unit_test(heads_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
