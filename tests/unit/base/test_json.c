/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/json.h"

enum { MEMORY_BYTES_MAX = 1 << 20 };

/* Copies a document token by token; what the writer gives must read the same again. */
static int copy(struct cay_str text, struct cay_arena *arena, struct cay_buf *out)
{
    struct cay_json_reader in;
    struct cay_json_writer to = {.buf = out};
    double value = 0;
    cay_json_reader_init(&in, text, arena);
    while (cay_json_next(&in) != CAY_JSON_END) {
        switch (in.token) {
        case CAY_JSON_ERROR: return in.status;
        case CAY_JSON_OBJECT_BEGIN: cay_json_object_begin(&to); break;
        case CAY_JSON_OBJECT_END: cay_json_object_end(&to); break;
        case CAY_JSON_ARRAY_BEGIN: cay_json_array_begin(&to); break;
        case CAY_JSON_ARRAY_END: cay_json_array_end(&to); break;
        case CAY_JSON_KEY: cay_json_key_str(&to, in.text); break;
        case CAY_JSON_STRING: cay_json_string(&to, in.text); break;
        case CAY_JSON_NUMBER:
            if (cay_json_to_double(in.text, &value) < 0)
                return -ERANGE;
            cay_json_raw(&to, in.text);
            break;
        case CAY_JSON_TRUE: cay_json_bool(&to, true); break;
        case CAY_JSON_FALSE: cay_json_bool(&to, false); break;
        case CAY_JSON_NULL: cay_json_null(&to); break;
        case CAY_JSON_END: break;
        }
    }
    return 0;
}

/* Nasty inputs, good and bad. Jansson says which is which. */
static const struct cay_str inputs[] = {
    CAY_STR(""),
    CAY_STR(" "),
    CAY_STR("{}"),
    CAY_STR(" [ ] "),
    CAY_STR("\t\r\n{\n}\n"),
    CAY_STR("\f{}"),
    CAY_STR("\xEF\xBB\xBF{}"),
    CAY_STR("{\"a\":1}"),
    CAY_STR("{\"a\" : 1 , \"b\" : [1,2,{}]}"),
    CAY_STR("{\"a\":1,}"),
    CAY_STR("{,}"),
    CAY_STR("{\"a\"}"),
    CAY_STR("{\"a\":}"),
    CAY_STR("{\"a\" 1}"),
    CAY_STR("{a:1}"),
    CAY_STR("{'a':1}"),
    CAY_STR("{1:1}"),
    CAY_STR("{\"a\":1 \"b\":2}"),
    CAY_STR("[1,]"),
    CAY_STR("[,1]"),
    CAY_STR("[1 2]"),
    CAY_STR("[1,,2]"),
    CAY_STR("["),
    CAY_STR("]"),
    CAY_STR("{"),
    CAY_STR("}"),
    CAY_STR("[}"),
    CAY_STR("{]"),
    CAY_STR("[1}"),
    CAY_STR("{\"a\":1]"),
    CAY_STR("[[[]]]"),
    CAY_STR("[[[]]"),
    CAY_STR("[]]"),
    CAY_STR("[] []"),
    CAY_STR("[]x"),
    CAY_STR("[] \0"),
    CAY_STR("1"),
    CAY_STR("\"a\""),
    CAY_STR("true"),
    CAY_STR("null"),
    CAY_STR("nul"),
    CAY_STR("[tru]"),
    CAY_STR("[truex]"),
    CAY_STR("[True]"),
    CAY_STR("[nan]"),
    CAY_STR("[NaN]"),
    CAY_STR("[Infinity]"),
    CAY_STR("[-Infinity]"),
    CAY_STR("[0]"),
    CAY_STR("[-0]"),
    CAY_STR("[00]"),
    CAY_STR("[01]"),
    CAY_STR("[-01]"),
    CAY_STR("[+1]"),
    CAY_STR("[-]"),
    CAY_STR("[--1]"),
    CAY_STR("[1.]"),
    CAY_STR("[.5]"),
    CAY_STR("[0.5]"),
    CAY_STR("[1.5e3]"),
    CAY_STR("[1e]"),
    CAY_STR("[1e+]"),
    CAY_STR("[1E-5]"),
    CAY_STR("[1e5.5]"),
    CAY_STR("[0e0]"),
    CAY_STR("[0x10]"),
    CAY_STR("[1_000]"),
    CAY_STR("[9223372036854775807]"),
    CAY_STR("[-9223372036854775808]"),
    CAY_STR("[1e400]"),
    CAY_STR("[1e-400]"),
    CAY_STR("[\"\"]"),
    CAY_STR("[\"a]"),
    CAY_STR("[\"a\\\"]"),
    CAY_STR("[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"]"),
    CAY_STR("[\"\\a\"]"),
    CAY_STR("[\"\\'\"]"),
    CAY_STR("[\"\\x41\"]"),
    CAY_STR("[\"\\\0\"]"),
    CAY_STR("[\"\\u0041\\u00e9\\u20AC\"]"),
    CAY_STR("[\"\\u004\"]"),
    CAY_STR("[\"\\u004g\"]"),
    CAY_STR("[\"\\U0041\"]"),
    CAY_STR("[\"\\u0000\"]"),
    CAY_STR("[\"\\ud83d\\ude00\"]"),
    CAY_STR("[\"\\uD83D\"]"),
    CAY_STR("[\"\\uD83Dx\"]"),
    CAY_STR("[\"\\uD83D\\n\"]"),
    CAY_STR("[\"\\uD83D\\u0041\"]"),
    CAY_STR("[\"\\uD83D\\uD83D\"]"),
    CAY_STR("[\"\\uDE00\"]"),
    CAY_STR("[\"\\uDE00\\uD83D\"]"),
    CAY_STR("[\"\\uFFFF\"]"),
    CAY_STR("[\"a\nb\"]"),
    CAY_STR("[\"a\tb\"]"),
    CAY_STR("[\"a\0b\"]"),
    CAY_STR("[\"a\x1F\"]"),
    CAY_STR("[\"a\x7F\"]"),
    CAY_STR("[\"\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80\"]"),
    CAY_STR("[\"\xC3\"]"),
    CAY_STR("[\"\xC0\x80\"]"),
    CAY_STR("[\"\xED\xA0\x80\"]"),
    CAY_STR("[\"\xF4\x90\x80\x80\"]"),
    CAY_STR("[\"\xFF\"]"),
    CAY_STR("[\xC3\xA9]"),
    CAY_STR("{\"\xC3\":1}"),
    CAY_STR("{\"\\ud800\":1}"),
    CAY_STR("[\"plain text that is longer than a few words of eight bytes\"]"),
    CAY_STR("[\"plain text that is longer than a few words of\teight bytes\"]"),
    CAY_STR("[\"plain text that is longer than a few words of \xFF eight bytes\"]"),
    CAY_STR("/**/[]"),
    CAY_STR("[]//"),
    CAY_STR("[1;2]"),
};

static void jansson_agrees_on_what_is_json(void **)
{
    for (size_t i = 0; i < CAY_COUNT(inputs); i++) {
        cay_auto(cay_arena_finish) struct cay_arena arena;
        cay_auto(cay_buf_finish) struct cay_buf out;
        cay_arena_init(&arena, MEMORY_BYTES_MAX);
        cay_buf_init(&out, MEMORY_BYTES_MAX);
        json_error_t error;
        size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL;
        json_t *theirs = json_loadb(inputs[i].ptr, inputs[i].len, flags, &error);
        int r = copy(inputs[i], &arena, &out);
        if ((r == 0) != (theirs != NULL))
            fail_msg("input %zu, '%s': we say %d, jansson %s", i, inputs[i].ptr, r, error.text);
        if (theirs) {
            json_t *ours = json_loadb(out.data, out.len, flags, &error);
            assert_non_null(ours);
            if (!json_equal(theirs, ours))
                fail_msg("input %zu, '%s': copied as '%.*s'", i, inputs[i].ptr, (int)out.len,
                         out.data);
            json_decref(ours);
        }
        json_decref(theirs);
    }
}

static void every_cut_of_a_document_is_refused(void **)
{
    static const char text[] =
        "{\"a\":[1,-2.5e3,true,false,null,\"x\\n\\ud83d\\ude00\xC3\xA9\"],\"b\":{}}";
    for (size_t len = 0; len < sizeof(text) - 1; len++) {
        cay_auto(cay_arena_finish) struct cay_arena arena;
        cay_auto(cay_buf_finish) struct cay_buf out;
        cay_arena_init(&arena, MEMORY_BYTES_MAX);
        cay_buf_init(&out, MEMORY_BYTES_MAX);
        assert_int_equal(copy((struct cay_str){text, len}, &arena, &out), -EBADMSG);
    }
}

static void errors_say_where(void **)
{
    struct cay_json_reader json;
    cay_json_reader_init(&json, CAY_STR("{\"a\": 01}"), NULL);
    assert_int_equal(cay_json_next(&json), CAY_JSON_OBJECT_BEGIN);
    assert_int_equal(cay_json_next(&json), CAY_JSON_KEY);
    assert_int_equal(cay_json_next(&json), CAY_JSON_ERROR);
    assert_int_equal(json.error_at, 6);
    assert_string_equal(json.error, "bad number");
    assert_int_equal(json.status, -EBADMSG);
    assert_int_equal(cay_json_next(&json), CAY_JSON_ERROR);
    assert_int_equal(json.error_at, 6);
}

static void depth_is_bounded(void **)
{
    char text[2 * CAY_JSON_DEPTH_MAX + 2];
    for (size_t depth = CAY_JSON_DEPTH_MAX; depth <= CAY_JSON_DEPTH_MAX + 1; depth++) {
        struct cay_json_reader json;
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        cay_json_reader_init(&json, (struct cay_str){text, 2 * depth}, NULL);
        cay_json_next(&json);
        assert_int_equal(cay_json_skip(&json), depth > CAY_JSON_DEPTH_MAX ? -EBADMSG : 0);
    }
}

static void strings_without_escapes_are_not_copied(void **)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    struct cay_json_reader json;
    cay_arena_init(&arena, MEMORY_BYTES_MAX);
    struct cay_str text = CAY_STR("[\"\xC3\xA9 plain\",\"\\u0000\\n\"]");
    cay_json_reader_init(&json, text, &arena);
    cay_json_next(&json);
    assert_int_equal(cay_json_next(&json), CAY_JSON_STRING);
    assert_ptr_equal(json.text.ptr, text.ptr + 2);
    assert_int_equal(arena.used_bytes, 0);
    assert_int_equal(cay_json_next(&json), CAY_JSON_STRING);
    assert_true(cay_str_equal(json.text, CAY_STR("\0\n")));
}

static void a_full_arena_is_told_apart_from_bad_json(void **)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    struct cay_json_reader json;
    cay_arena_init(&arena, 16);
    cay_json_reader_init(&json, CAY_STR("\"\\n\""), &arena);
    assert_int_equal(cay_json_next(&json), CAY_JSON_ERROR);
    assert_int_equal(json.status, -ENOMEM);
}

static void skip_reads_over_one_value_and_checks_it(void **)
{
    struct cay_json_reader json;
    cay_json_reader_init(&json, CAY_STR("{\"a\":{\"x\":[1,{}]},\"b\":\"\\n\",\"c\":2}"), NULL);
    cay_json_next(&json);
    for (const char *key = "abc"; *key; key++) {
        assert_int_equal(cay_json_next(&json), CAY_JSON_KEY);
        assert_int_equal(json.text.ptr[0], *key);
        assert_int_equal(cay_json_skip(&json), 0);
    }
    assert_int_equal(cay_json_next(&json), CAY_JSON_OBJECT_END);
    assert_int_equal(cay_json_next(&json), CAY_JSON_END);
    cay_json_reader_init(&json, CAY_STR("{\"a\":[1,\"\xFF\"]}"), NULL);
    cay_json_next(&json);
    cay_json_next(&json);
    assert_int_equal(cay_json_skip(&json), -EBADMSG);
}

static void integers_are_exact(void **)
{
    static const struct {
        const char *text;
        int r;
        int64_t value;
    } rows[] = {
        {"0", 0, 0},
        {"-0", 0, 0},
        {"9223372036854775807", 0, INT64_MAX},
        {"-9223372036854775808", 0, INT64_MIN},
        {"9223372036854775808", -ERANGE, 0},
        {"-9223372036854775809", -ERANGE, 0},
        {"9007199254740993", 0, 9007199254740993},
        {"9007199254740993.000", 0, 9007199254740993},
        {"1e3", 0, 1000},
        {"1.5e1", 0, 15},
        {"1500e-2", 0, 15},
        {"0.001e3", 0, 1},
        {"1.0", 0, 1},
        {"-12.340e2", 0, -1234},
        {"0e999999999999999999999", 0, 0},
        {"0.0e-99999999999", 0, 0},
        {"1e18", 0, 1000000000000000000},
        {"1e19", -ERANGE, 0},
        {"1e999999999999999999999", -ERANGE, 0},
        {"1.5", -EINVAL, 0},
        {"1e-1", -EINVAL, 0},
        {"1e-99999999999999999", -EINVAL, 0},
        {"100000000000000000000000000.5", -EINVAL, 0},
        {"100000000000000000000000000", -ERANGE, 0},
        {"123456789012345678901234567890e-20", -EINVAL, 0},
        {"", -EINVAL, 0},
        {" 1", -EINVAL, 0},
        {"1 ", -EINVAL, 0},
        {"+1", -EINVAL, 0},
        {"01", -EINVAL, 0},
        {"0x1", -EINVAL, 0},
        {"NaN", -EINVAL, 0},
    };
    for (size_t i = 0; i < CAY_COUNT(rows); i++) {
        int64_t value = 0;
        int r = cay_json_to_i64(cay_str(rows[i].text), &value);
        if (r != rows[i].r || value != rows[i].value)
            fail_msg("'%s': %d, %lld", rows[i].text, r, (long long)value);
    }
    uint64_t wide = 0;
    assert_int_equal(cay_json_to_u64(CAY_STR("18446744073709551615"), &wide), 0);
    assert_true(wide == UINT64_MAX);
    assert_int_equal(cay_json_to_u64(CAY_STR("18446744073709551616"), &wide), -ERANGE);
    assert_int_equal(cay_json_to_u64(CAY_STR("-1"), &wide), -ERANGE);
    assert_int_equal(cay_json_to_u64(CAY_STR("-0"), &wide), 0);
}

static void doubles_are_written_short_and_read_back(void **)
{
    static const struct {
        double value;
        const char *text;
    } rows[] = {
        {0, "0"},
        {-0.0, "-0.0"},
        {1, "1"},
        {-12, "-12"},
        {0.1, "0.1"},
        {0.30000000000000004, "0.30000000000000004"},
        {1e15, "1000000000000000"},
        {9007199254740992.0, "9007199254740992"},
        {1e22, "1e+22"},
        {1.5, "1.5"},
        {1e-7, "1e-07"},
        {5e-324, "5e-324"},
        {1.7976931348623157e308, "1.7976931348623157e+308"},
        {NAN, "\"NaN\""},
        {INFINITY, "\"Infinity\""},
        {-INFINITY, "\"-Infinity\""},
    };
    for (size_t i = 0; i < CAY_COUNT(rows); i++) {
        cay_auto(cay_buf_finish) struct cay_buf buf;
        cay_buf_init(&buf, 100);
        struct cay_json_writer json = {.buf = &buf};
        cay_json_double(&json, rows[i].value);
        if (!cay_str_is(cay_buf_str(&buf), rows[i].text))
            fail_msg("%s: '%.*s'", rows[i].text, (int)buf.len, buf.data);
        double value = 0;
        if (isfinite(rows[i].value)) {
            assert_int_equal(cay_json_to_double(cay_buf_str(&buf), &value), 0);
            assert_memory_equal(&value, &rows[i].value, sizeof(value));
        }
    }
    double value = 0;
    assert_int_equal(cay_json_to_double(CAY_STR("1e309"), &value), -ERANGE);
    float narrow = 0;
    assert_int_equal(cay_json_to_float(CAY_STR("3.5e38"), &narrow), -ERANGE);
    assert_int_equal(cay_json_to_float(CAY_STR("16777217"), &narrow), 0);
    assert_true(narrow == 16777216.0f);
}

static void the_writer_escapes_and_repairs(void **)
{
    cay_auto(cay_buf_finish) struct cay_buf buf;
    cay_buf_init(&buf, 1000);
    struct cay_json_writer json = {.buf = &buf};
    cay_json_object_begin(&json);
    cay_json_key(&json, "a\"");
    cay_json_string(&json, CAY_STR("\"\\/\b\f\n\r\t\0\x1F\x7F\xC3\xA9\xFF\xE2\x82 end"));
    cay_json_key(&json, "b");
    cay_json_array_begin(&json);
    cay_json_i64(&json, INT64_MIN);
    cay_json_u64(&json, UINT64_MAX);
    cay_json_array_begin(&json);
    cay_json_array_end(&json);
    cay_json_null(&json);
    cay_json_base64(&json, CAY_STR("f"));
    cay_json_array_end(&json);
    cay_json_key(&json, "c");
    cay_json_raw(&json, CAY_STR("{\"x\":1}"));
    cay_json_object_end(&json);
    cay_buf_append_byte(&buf, '\0');
    assert_string_equal(buf.data, "{\"a\\\"\":\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f\x7F\xC3\xA9"
                                  "\xEF\xBF\xBD\xEF\xBF\xBD end\",\"b\":[-9223372036854775808,"
                                  "18446744073709551615,[],null,\"Zg==\"],\"c\":{\"x\":1}}");
}

static void an_empty_string_may_have_no_pointer(void **)
{
    cay_auto(cay_buf_finish) struct cay_buf buf;
    cay_buf_init(&buf, 100);
    struct cay_json_writer json = {.buf = &buf};
    cay_json_object_begin(&json);
    cay_json_key_str(&json, (struct cay_str){});
    cay_json_string(&json, (struct cay_str){});
    cay_json_object_end(&json);
    assert_true(cay_str_is(cay_buf_str(&buf), "{\"\":\"\"}"));
}

static void an_escape_is_seen_at_every_place_of_a_word(void **)
{
    char text[40];
    for (size_t at = 0; at < sizeof(text); at++) {
        cay_auto(cay_arena_finish) struct cay_arena arena;
        cay_auto(cay_buf_finish) struct cay_buf buf;
        cay_arena_init(&arena, MEMORY_BYTES_MAX);
        cay_buf_init(&buf, 200);
        struct cay_json_writer out = {.buf = &buf};
        struct cay_json_reader in;
        memset(text, 'x', sizeof(text));
        text[at] = (char)(at % 3 == 0 ? '"' : at % 3 == 1 ? '\\' : 1);
        cay_json_string(&out, (struct cay_str){text, sizeof(text)});
        cay_json_reader_init(&in, cay_buf_str(&buf), &arena);
        assert_int_equal(cay_json_next(&in), CAY_JSON_STRING);
        assert_int_equal(in.text.len, sizeof(text));
        assert_memory_equal(in.text.ptr, text, sizeof(text));
        assert_int_equal(cay_json_next(&in), CAY_JSON_END);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jansson_agrees_on_what_is_json),
        cmocka_unit_test(every_cut_of_a_document_is_refused),
        cmocka_unit_test(errors_say_where),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(strings_without_escapes_are_not_copied),
        cmocka_unit_test(a_full_arena_is_told_apart_from_bad_json),
        cmocka_unit_test(skip_reads_over_one_value_and_checks_it),
        cmocka_unit_test(integers_are_exact),
        cmocka_unit_test(doubles_are_written_short_and_read_back),
        cmocka_unit_test(the_writer_escapes_and_repairs),
        cmocka_unit_test(an_empty_string_may_have_no_pointer),
        cmocka_unit_test(an_escape_is_seen_at_every_place_of_a_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
