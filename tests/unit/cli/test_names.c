/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "cli/commands/cp.h"
#include "cli/names.h"

enum { TEXT_MAX = 4096 };

static void assert_carried(struct cay_str bytes, struct cay_str text)
{
    struct cay_buf buf;
    cay_buf_init(&buf, TEXT_MAX);
    cay_names_encode(&buf, bytes);
    assert_int_equal(buf.len, text.len);
    assert_memory_equal(buf.data, text.ptr, text.len);
    cay_buf_clear(&buf, TEXT_MAX);
    cay_names_decode(&buf, text);
    assert_int_equal(buf.len, bytes.len);
    assert_memory_equal(buf.data, bytes.ptr, bytes.len);
    cay_buf_finish(&buf);
}

static void names_that_are_text_stay_as_they_are(void **)
{
    assert_carried(CAY_STR("a b\n\t\\"), CAY_STR("a b\n\t\\"));
    assert_carried(CAY_STR("sp\xC3\xA4t \xE2\x98\x83 \xF0\x9F\x90\x9A"),
                   CAY_STR("sp\xC3\xA4t \xE2\x98\x83 \xF0\x9F\x90\x9A"));
    /* U+EF7F and U+F000: the neighbours of the carriers. */
    assert_carried(CAY_STR("\xEE\xBD\xBF\xEF\x80\x80"), CAY_STR("\xEE\xBD\xBF\xEF\x80\x80"));
}

static void other_bytes_are_carried_and_come_back(void **)
{
    assert_carried(CAY_STR("a\xFFz"), CAY_STR("a\xEE\xBF\xBFz"));
    assert_carried(CAY_STR("\x80"), CAY_STR("\xEE\xBE\x80"));
    /* The character U+EFFF itself, byte by byte. */
    assert_carried(CAY_STR("\xEE\xBF\xBF"), CAY_STR("\xEE\xBF\xAE\xEE\xBE\xBF\xEE\xBE\xBF"));
}

static void every_byte_comes_back(void **)
{
    char bytes[256 * 3];
    struct cay_buf text;
    struct cay_buf back;
    cay_buf_init(&text, TEXT_MAX);
    cay_buf_init(&back, TEXT_MAX);
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)(i * 7 + i / 256);
    cay_names_encode(&text, (struct cay_str){bytes, sizeof(bytes)});
    cay_names_decode(&back, cay_buf_str(&text));
    assert_int_equal(back.len, sizeof(bytes));
    assert_memory_equal(back.data, bytes, sizeof(bytes));
    cay_buf_finish(&text);
    cay_buf_finish(&back);
}

static void the_last_name_of_a_path_is_found(void **)
{
    static const struct {
        const char *path;
        const char *name;
    } cases[] = {
        {"a", "a"}, {"a/b", "b"}, {"/a/b/", "b"}, {"a//", "a"}, {"/", ""},    {"", ""},
        {".", ""},  {"..", ""},   {"a/.", ""},    {"a/..", ""}, {"a/./", ""}, {"...", "..."},
    };
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        struct cay_str name = cay_cp_last_name(cases[i].path);
        if (!cay_str_is(name, cases[i].name))
            fail_msg("'%s' ends in '%.*s'", cases[i].path, (int)name.len, name.ptr);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_that_are_text_stay_as_they_are),
        cmocka_unit_test(other_bytes_are_carried_and_come_back),
        cmocka_unit_test(every_byte_comes_back),
        cmocka_unit_test(the_last_name_of_a_path_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
