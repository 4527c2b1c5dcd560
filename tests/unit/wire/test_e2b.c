/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <errno.h>
#include <string.h>

#include "wire/e2b/filter.h"
#include "wire/e2b/target.h"
#include "wire/e2b/template.h"
#include "wire/http1.h"

static void host_names_lead_to_ports_of_sandboxes(void **)
{
    static const struct {
        const char *host;
        enum cay_e2b_place place;
        const char *id;
        unsigned port;
    } cases[] = {
        {"8000-abc.sbx.test:8443", CAY_E2B_SANDBOX, "abc", 8000},
        {"8000-abc.SBX.test", CAY_E2B_SANDBOX, "abc", 8000},
        {"49983-iabc-client.sbx.test", CAY_E2B_SANDBOX, "iabc", 49983},
        {"api.sbx.test", CAY_E2B_NOWHERE, NULL, 0},
        {"sbx.test", CAY_E2B_NOWHERE, NULL, 0},
        {"8000-abc.other.test", CAY_E2B_NOWHERE, NULL, 0},
        {"8000-abc.xsbx.test.evil", CAY_E2B_NOWHERE, NULL, 0},
        {"127.0.0.1:4747", CAY_E2B_NOWHERE, NULL, 0},
        {"", CAY_E2B_NOWHERE, NULL, 0},
        {"8000-.sbx.test", CAY_E2B_BAD, NULL, 0},
        {"8000.sbx.test", CAY_E2B_BAD, NULL, 0},
        {"0-abc.sbx.test", CAY_E2B_BAD, NULL, 0},
        {"65536-abc.sbx.test", CAY_E2B_BAD, NULL, 0},
        {"8000-a.b.sbx.test", CAY_E2B_BAD, NULL, 0},
        {"8000-ABC.sbx.test", CAY_E2B_BAD, NULL, 0},
    };
    const struct cay_http_headers none = {};
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        const struct cay_e2b_target target =
            cay_e2b_target(&none, cay_str(cases[i].host), CAY_STR("sbx.test:8443"));
        assert_int_equal(target.place, cases[i].place);
        if (cases[i].id) {
            assert_true(cay_str_is(target.id, cases[i].id));
            assert_int_equal(target.port, cases[i].port);
        }
    }
    assert_int_equal(cay_e2b_target(&none, CAY_STR("8000-abc.sbx.test"), CAY_STR("")).place,
                     CAY_E2B_NOWHERE);
}

static void headers_win_over_host_names_and_go_together(void **)
{
    struct cay_http_header fields[] = {
        {CAY_STR("E2b-Sandbox-Id"), CAY_STR("abc-client")},
        {CAY_STR("E2b-Sandbox-Port"), CAY_STR("80")},
    };
    const struct cay_http_headers both = {fields, 2};
    const struct cay_http_headers only_id = {fields, 1};
    const struct cay_http_headers only_port = {fields + 1, 1};
    struct cay_str host = CAY_STR("8000-other.sbx.test");
    struct cay_str domain = CAY_STR("sbx.test");
    const struct cay_e2b_target target = cay_e2b_target(&both, host, domain);
    assert_int_equal(target.place, CAY_E2B_SANDBOX);
    assert_true(cay_str_is(target.id, "abc"));
    assert_int_equal(target.port, 80);
    assert_int_equal(cay_e2b_target(&only_id, host, domain).place, CAY_E2B_BAD);
    assert_int_equal(cay_e2b_target(&only_port, host, domain).place, CAY_E2B_BAD);
}

static void a_filter_is_escaped_twice(void **)
{
    struct cay_arena arena;
    struct cay_pb_pairs pairs = {};
    cay_arena_init(&arena, 4096);
    assert_int_equal(
        cay_e2b_filter_parse(CAY_STR("a=b%2520c&d%253De=f%252Bg&x="), 3, &arena, &pairs), 0);
    assert_int_equal(pairs.count, 3);
    assert_true(cay_str_is(pairs.items[0].key, "a") && cay_str_is(pairs.items[0].value, "b c"));
    assert_true(cay_str_is(pairs.items[1].key, "d=e") && cay_str_is(pairs.items[1].value, "f+g"));
    assert_true(cay_str_is(pairs.items[2].key, "x") && pairs.items[2].value.len == 0);
    assert_int_equal(cay_e2b_filter_parse(CAY_STR("a=1&b=2"), 1, &arena, &pairs), -E2BIG);
    assert_int_equal(cay_e2b_filter_parse(CAY_STR("a=%2"), 4, &arena, &pairs), -EINVAL);
    assert_int_equal(cay_e2b_filter_parse(CAY_STR("a=%25z"), 4, &arena, &pairs), -EINVAL);
    cay_arena_finish(&arena);
}

static void answers_are_read_strictly(void **)
{
    static const struct {
        const char *bytes;
        int status; /* 0: not complete, -1: refused */
        bool has_length;
        bool is_chunked;
    } cases[] = {
        {"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc", 200, true, false},
        {"HTTP/1.1 204\r\n\r\n", 204, false, false},
        {"HTTP/1.0 200 Fine by me\r\n\r\n", 200, false, false},
        {"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n", 200, false,
         true},
        {"HTTP/1.1 200 OK\r\n", 0, false, false},
        {"", 0, false, false},
        {"HTTP/2 200 OK\r\n\r\n", -1, false, false},
        {"HTTP/1.1 20 OK\r\n\r\n", -1, false, false},
        {"HTTP/1.1 600 OK\r\n\r\n", -1, false, false},
        {"HTTP/1.1 200 OK\r\nx\r\n\r\n", -1, false, false},
        {"HTTP/1.1 200 OK\r\nx : y\r\n\r\n", -1, false, false},
        {"HTTP/1.1 200 OK\r\nx: \x01\r\n\r\n", -1, false, false},
        {"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\n", -1, false, false},
        {"HTTP/1.1 200 OK\r\ncontent-length: -3\r\n\r\n", -1, false, false},
        {"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n", -1, false, false},
    };
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        struct cay_http_header fields[4];
        struct cay_http1_answer answer = {};
        struct cay_http1_fault fault = {};
        ssize_t len = cay_http1_parse_answer(cay_str(cases[i].bytes), fields, CAY_COUNT(fields),
                                             1024, &answer, &fault);
        if (cases[i].status > 0) {
            assert_true(len > 0);
            assert_int_equal(answer.status, cases[i].status);
            assert_int_equal(answer.has_length, cases[i].has_length);
            assert_int_equal(answer.is_chunked, cases[i].is_chunked);
        } else {
            assert_int_equal(len, cases[i].status);
        }
    }
}

static void names_of_templates_are_taken_apart(void **)
{
    static const struct {
        const char *text, *space, *name, *tag; /* name NULL: none */
    } cases[] = {
        {"app", "", "app", ""},
        {"App:V1.0", "", "app", "v1.0"},
        {"Me.2/a_b-c:x", "Me.2", "a_b-c", "x"},
        {"", "", NULL, ""},
        {":x", "", NULL, ""},
        {"app:", "", NULL, ""},
        {"a:b:c", "", NULL, ""},
        {"a/b/c", "", NULL, ""},
        {"/b", "", NULL, ""},
        {"a/", "", NULL, ""},
        {"-a", "", NULL, ""},
        {"a.b", "", NULL, ""},
        {"a b", "", NULL, ""},
        {"../a", "", NULL, ""},
        {"a:..", "", NULL, ""},
        {"0123456789012345678901234567890123456789012345678901234567890123", "",
         "0123456789012345678901234567890123456789012345678901234567890123", ""},
        {"01234567890123456789012345678901234567890123456789012345678901234", "", NULL, ""},
    };
    struct cay_arena arena;
    cay_arena_init(&arena, 1 << 16);
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        struct cay_e2b_ref ref;
        bool is_one = cay_e2b_ref_parse(cay_str(cases[i].text), &arena, &ref);
        assert_int_equal(is_one, cases[i].name != NULL);
        if (!is_one)
            continue;
        assert_true(cay_str_is(ref.space, cases[i].space));
        assert_true(cay_str_is(ref.name, cases[i].name));
        assert_true(cay_str_is(ref.tag, cases[i].tag));
    }
    cay_arena_finish(&arena);
}

static void images_stand_for_bases_the_nearest_line_first(void **)
{
    static const char *const lines[] = {"python=any-python", "python:3.12=twelve",
                                        "example.com:5000/x=port", "node:latest=newest",
                                        "docker.io/library/redis=redis"};
    static const char *const all[] = {"*=rest", "python=any-python"};
    static const struct {
        const char *image, *base;
    } cases[] = {
        {"python:3.12", "twelve"},
        {"docker.io/library/python:3.12", "twelve"},
        {"python:3.13", "any-python"},
        {"python", "any-python"},
        {"python@sha256:0", "any-python"},
        {"example.com:5000/x", "port"},
        {"example.com:5000/x:1", "port"},
        {"example.com:5000/y", ""},
        {"node", "newest"},
        {"node:lts", ""},
        {"redis:7", "redis"},
        {"my/python", ""},
        {"", ""},
        {":", ""},
    };
    for (size_t i = 0; i < CAY_COUNT(cases); i++)
        assert_true(cay_str_is(cay_e2b_image_base(lines, CAY_COUNT(lines), cay_str(cases[i].image)),
                               cases[i].base));
    assert_true(cay_str_is(cay_e2b_image_base(all, 2, CAY_STR("whatever")), "rest"));
    assert_true(cay_str_is(cay_e2b_image_base(all, 2, CAY_STR("python:1")), "any-python"));
    assert_true(cay_e2b_image_line_valid(CAY_STR("a:1=b")));
    static const char *const bad[] = {"", "a", "=b", "a=", "a=b=c", ":1=b"};
    for (size_t i = 0; i < CAY_COUNT(bad); i++)
        assert_false(cay_e2b_image_line_valid(cay_str(bad[i])));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_names_lead_to_ports_of_sandboxes),
        cmocka_unit_test(headers_win_over_host_names_and_go_together),
        cmocka_unit_test(a_filter_is_escaped_twice),
        cmocka_unit_test(answers_are_read_strictly),
        cmocka_unit_test(names_of_templates_are_taken_apart),
        cmocka_unit_test(images_stand_for_bases_the_nearest_line_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
