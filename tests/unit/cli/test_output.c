/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <locale.h>
#include <stdlib.h>

#include "base/clock.h"
#include "cli/output.h"
#include "wire/pb/google_protobuf.h"

static void assert_clean(struct cay_str text, const char *expected)
{
    cay_auto(cay_buf_finish) struct cay_buf buf;
    cay_buf_init(&buf, 4096);
    cay_output_clean(&buf, text);
    cay_buf_append_byte(&buf, '\0');
    assert_string_equal(buf.data, expected);
}

static void text_from_outside_cannot_command_the_terminal(void **)
{
    assert_clean(CAY_STR("plain näme 名"), "plain näme 名");
    assert_clean(CAY_STR("\033[31mred\a"), "\\x1b[31mred\\x07");
    assert_clean(CAY_STR("a\nb\tc\rd"), "a\\nb\\tc\\rd");
    assert_clean(CAY_STR("a\0b\x7f"), "a\\x00b\\x7f");
    assert_clean(CAY_STR("\xC2\x9B"), "\\u009b");     /* C1: one character that starts a sequence */
    assert_clean(CAY_STR("\xE2\x80\xAE"), "\\u202e"); /* right-to-left override */
    assert_clean(CAY_STR("\xFF\x9B"), "\xEF\xBF\xBD\xEF\xBF\xBD"); /* not UTF-8 */
    assert_clean((struct cay_str){}, "");
}

static void width_is_counted_in_columns(void **)
{
    assert_int_equal(cay_output_width(CAY_STR("abc")), 3);
    assert_int_equal(cay_output_width(CAY_STR("näme")), 4);
    assert_int_equal(cay_output_width(CAY_STR("名前")), 4);
    assert_int_equal(cay_output_width(CAY_STR("")), 0);
}

/* Prints into memory. */
struct page {
    char *text;
    size_t len;
    struct cay_output out;
};

static void open_page(struct page *page)
{
    page->out = (struct cay_output){.file = open_memstream(&page->text, &page->len)};
    assert_non_null(page->out.file);
}

static void assert_page(struct page *page, const char *expected)
{
    fclose(page->out.file);
    assert_string_equal(page->text, expected);
    free(page->text);
}

static void a_table_is_aligned(void **)
{
    static const char *const titles[] = {"ID", "NAME", "STATE"};
    struct page page = {};
    cay_auto(cay_table_finish) struct cay_table table;
    cay_table_init(&table, titles, CAY_COUNT(titles));
    const char *cells[] = {"key-1", "名前", "active", "k", "evil\033", "", "k3", "", "x"};
    for (size_t i = 0; i < CAY_COUNT(cells); i++)
        cay_table_cell(&table, CAY_STYLE_GOOD, cay_str(cells[i]));
    open_page(&page);
    cay_table_print(&table, &page.out);
    assert_page(&page, "ID     NAME      STATE\n"
                       "key-1  名前      active\n"
                       "k      evil\\x1b  -\n"
                       "k3     -         x\n");
}

static void colours_do_not_move_columns(void **)
{
    static const char *const titles[] = {"A", "B"};
    struct page page = {};
    cay_auto(cay_table_finish) struct cay_table table;
    cay_table_init(&table, titles, CAY_COUNT(titles));
    cay_table_cell(&table, CAY_STYLE_GOOD, CAY_STR("xyz"));
    cay_table_cell(&table, CAY_STYLE_PLAIN, CAY_STR("b"));
    open_page(&page);
    page.out.has_colour = true;
    cay_table_print(&table, &page.out);
    assert_page(&page, "\033[1mA\033[0m    \033[1mB\033[0m\n"
                       "\033[32mxyz\033[0m  b\n");
}

static void an_error_is_one_json_document(void **)
{
    struct page page = {};
    struct cay_error err = {};
    cay_fail(&err, CAY_R_KEY_NOT_FOUND, "there is no key '\"\n'");
    open_page(&page);
    page.out.is_json = true;
    cay_output_error(&page.out, &err);
    assert_page(&page, "{\"error\":{\"code\":\"not_found\",\"reason\":\"key_not_found\","
                       "\"message\":\"there is no key '\\\"\\n'\"}}\n");
}

static void assert_when(int64_t seconds, const char *expected)
{
    struct google_protobuf_timestamp time = {.seconds = seconds};
    char text[CAY_WHEN_BYTES];
    cay_output_when(&time, 1'000'000 * CAY_NS_PER_SEC, text);
    assert_string_equal(text, expected);
}

static void times_are_told_from_now(void **)
{
    char text[CAY_WHEN_BYTES];
    cay_output_when(NULL, 0, text);
    assert_string_equal(text, "never");
    assert_when(1'000'000, "now");
    assert_when(1'000'000 - 59, "59s ago");
    assert_when(1'000'000 - 60, "1m ago");
    assert_when(1'000'000 - 7199, "1h ago");
    assert_when(1'000'000 + 30 * 86400, "in 30d");
    assert_when(INT64_MIN, "106751991167300d ago");
    assert_when(INT64_MAX, "in 106751991167289d");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_from_outside_cannot_command_the_terminal),
        cmocka_unit_test(width_is_counted_in_columns),
        cmocka_unit_test(a_table_is_aligned),
        cmocka_unit_test(colours_do_not_move_columns),
        cmocka_unit_test(an_error_is_one_json_document),
        cmocka_unit_test(times_are_told_from_now),
    };
    setlocale(LC_CTYPE, "C.UTF-8");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
