/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <string.h>

#include "wire/http.h"

static void the_first_field_of_a_name_is_found_in_any_case(void **)
{
    struct cay_http_header items[] = {
        {CAY_STR("Host"), CAY_STR("a")},
        {CAY_STR("X-Thing"), CAY_STR("1")},
        {CAY_STR("x-thing"), CAY_STR("2")},
        {CAY_STR("Empty"), CAY_STR("")},
    };
    const struct cay_http_headers headers = {items, CAY_COUNT(items)};
    assert_true(cay_str_is(cay_http_header(&headers, "x-thing"), "1"));
    assert_true(cay_str_is(cay_http_header(&headers, "HOST"), "a"));
    assert_non_null(cay_http_header(&headers, "empty").ptr);
    assert_int_equal(cay_http_header(&headers, "empty").len, 0);
    assert_null(cay_http_header(&headers, "x-thin").ptr);
    assert_null(cay_http_header(&headers, "x-things").ptr);
    const struct cay_http_headers none = {};
    assert_null(cay_http_header(&none, "host").ptr);
}

static void tokens_have_the_characters_of_the_rfc_and_no_others(void **)
{
    static const char others[] = "!#$%&'*+-.^_`|~";
    for (int c = 0; c < 256; c++) {
        char byte = (char)c;
        bool is_alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        bool expected = is_alnum || (c && strchr(others, c));
        assert_int_equal(cay_http_is_token((struct cay_str){&byte, 1}), expected);
    }
    assert_false(cay_http_is_token(CAY_STR("")));
    assert_false(cay_http_is_token(CAY_STR("a b")));
    assert_true(cay_http_is_token(CAY_STR("content-length")));
}

static void field_values_have_no_control_characters_but_tab(void **)
{
    for (int c = 0; c < 256; c++) {
        char text[3] = {'a', (char)c, 'b'};
        bool expected = (c >= 0x20 && c != 0x7F) || c == '\t';
        assert_int_equal(cay_http_is_field_value((struct cay_str){text, 3}), expected);
    }
    assert_true(cay_http_is_field_value(CAY_STR("")));
}

static void a_list_has_its_members_and_nothing_else(void **)
{
    static const struct {
        const char *list;
        bool has_gzip;
    } cases[] = {
        {"gzip", true},       {"GZip", true},    {"br, gzip", true},     {"br ,\tgzip\t, x", true},
        {"br,,gzip", true},   {"", false},       {"gzi", false},         {"gzipp", false},
        {"gzip;q=0", false},  {"x-gzip", false}, {"br, deflate", false}, {",", false},
        {"gzip gzip", false}, {" , gzip", true},
    };
    for (size_t i = 0; i < CAY_COUNT(cases); i++)
        assert_int_equal(cay_http_list_has(cay_str(cases[i].list), "gzip"), cases[i].has_gzip);
    assert_false(cay_http_list_has((struct cay_str){}, "gzip"));
}

static void queries_are_decoded(void **)
{
    static const struct {
        const char *query;
        const char *value; /* NULL: false */
    } cases[] = {
        {"a=1", "1"},
        {"x=2&a=1", "1"},
        {"a=1&a=2", "1"},
        {"a=", ""},
        {"a", ""},
        {"&&a=1&", "1"},
        {"a=b+c", "b c"},
        {"a=%41%62%2B%25", "Ab+%"},
        {"a=%c3%A9", "\xC3\xA9"},
        {"a=b=c", "b=c"},
        {"", NULL},
        {"b=1", NULL},
        {"aa=1", NULL},
        {"A=1", NULL},
        {"=1", NULL},
        {"a=%", NULL},
        {"a=%4", NULL},
        {"a=%4g", NULL},
        {"a=%g4", NULL},
        {"a=1%", NULL},
        {"a=% 1", NULL},
    };
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        cay_auto(cay_arena_finish) struct cay_arena arena;
        cay_arena_init(&arena, 4096);
        struct cay_str value = CAY_STR("untouched");
        bool found = cay_http_query(cay_str(cases[i].query), "a", &arena, &value);
        assert_int_equal(found, cases[i].value != NULL);
        assert_true(cay_str_is(value, cases[i].value ? cases[i].value : "untouched"));
    }
}

static void a_value_may_hold_a_nul(void **)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, 4096);
    struct cay_str value = {};
    assert_true(cay_http_query(CAY_STR("a=x%00y"), "a", &arena, &value));
    assert_true(cay_str_equal(value, CAY_STR("x\0y")));
}

static void a_value_too_large_for_the_arena_is_refused(void **)
{
    char query[600] = "a=";
    memset(query + 2, 'x', sizeof(query) - 3);
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, 512);
    struct cay_str value = {};
    assert_false(cay_http_query(cay_str(query), "a", &arena, &value));
}

static void every_status_the_reasons_use_has_a_text(void **)
{
    static const int statuses[] = {200, 400, 401, 403, 404, 405, 408, 409, 413, 414,
                                   415, 417, 429, 431, 499, 500, 501, 503, 504, 505};
    for (size_t i = 0; i < CAY_COUNT(statuses); i++)
        assert_string_not_equal(cay_http_status_text(statuses[i]), "Unknown");
    assert_string_equal(cay_http_status_text(799), "Unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_field_of_a_name_is_found_in_any_case),
        cmocka_unit_test(tokens_have_the_characters_of_the_rfc_and_no_others),
        cmocka_unit_test(field_values_have_no_control_characters_but_tab),
        cmocka_unit_test(a_list_has_its_members_and_nothing_else),
        cmocka_unit_test(queries_are_decoded),
        cmocka_unit_test(a_value_may_hold_a_nul),
        cmocka_unit_test(a_value_too_large_for_the_arena_is_refused),
        cmocka_unit_test(every_status_the_reasons_use_has_a_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
