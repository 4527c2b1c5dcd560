/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/store/diff_patch.h"

static char *hunks(const char *before, const char *after)
{
    struct cay_buf out;
    cay_buf_init(&out, 1 << 20);
    assert_true(cay_patch_hunks(cay_str(before), cay_str(after), CAY_PATCH_CONTEXT, &out));
    cay_buf_append_byte(&out, '\0');
    assert_false(out.failed);
    return out.data;
}

static void expect(const char *before, const char *after, const char *want)
{
    char *got = hunks(before, after);
    assert_string_equal(got, want);
    free(got);
}

static void equal_texts_have_no_hunks(void **)
{
    expect("", "", "");
    expect("a\nb\n", "a\nb\n", "");
}

static void one_line_changes_with_three_lines_around(void **)
{
    expect("1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nfive\n6\n7\n8\n9\n",
           "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n");
}

static void near_changes_share_a_hunk_and_far_ones_do_not(void **)
{
    expect("a\n1\n2\n3\n4\n5\n6\nb\n", "A\n1\n2\n3\n4\n5\n6\nB\n",
           "@@ -1,8 +1,8 @@\n-a\n+A\n 1\n 2\n 3\n 4\n 5\n 6\n-b\n+B\n");
    expect("a\n1\n2\n3\n4\n5\n6\n7\nb\n", "A\n1\n2\n3\n4\n5\n6\n7\nB\n",
           "@@ -1,4 +1,4 @@\n-a\n+A\n 1\n 2\n 3\n@@ -6,4 +6,4 @@\n 5\n 6\n 7\n-b\n+B\n");
}

static void files_come_and_go_whole(void **)
{
    expect("", "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b\n");
    expect("a\n", "", "@@ -1 +0,0 @@\n-a\n");
}

static void a_missing_last_newline_is_said(void **)
{
    expect("a\nb", "a\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n");
    expect("a", "b",
           "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n"
           "\\ No newline at end of file\n");
}

static void a_nul_makes_a_text_binary(void **)
{
    assert_true(cay_patch_is_binary((struct cay_str){"a\0b", 3}));
    assert_false(cay_patch_is_binary(CAY_STR("abc\n")));
    assert_false(cay_patch_is_binary((struct cay_str){NULL, 0}));
}

/* Applies hunks to `before`; strict about every number in them. */
static char *apply(const char *before, char *patch)
{
    struct cay_buf out;
    cay_buf_init(&out, 1 << 22);
    const char *at = before;
    size_t line = 0;
    while (*patch) {
        size_t start = 0;
        size_t count = 1;
        assert_memory_equal(patch, "@@ -", 4);
        start = strtoul(patch + 4, &patch, 10);
        if (*patch == ',')
            count = strtoul(patch + 1, &patch, 10);
        patch = strchr(patch, '\n') + 1;
        size_t skip = count ? start - 1 : start;
        while (line < skip) {
            const char *end = strchr(at, '\n');
            cay_buf_append(&out, at, (size_t)(end + 1 - at));
            at = end + 1;
            line++;
        }
        while (*patch && *patch != '@') {
            char *end = strchr(patch, '\n') + 1;
            bool cut = !strncmp(end, "\\ No", 4);
            size_t len = (size_t)(end - patch) - 1 - (cut ? 1 : 0);
            if (*patch != '+') {
                assert_memory_equal(at, patch + 1, len);
                at += len;
                line++;
                count--;
            }
            if (*patch != '-')
                cay_buf_append(&out, patch + 1, len);
            patch = cut ? strchr(end, '\n') + 1 : end;
        }
        assert_int_equal(count, 0);
    }
    cay_buf_append_text(&out, at);
    cay_buf_append_byte(&out, '\0');
    return out.data;
}

static unsigned next_random(unsigned *seed)
{
    *seed = *seed * 1103515245u + 12345u;
    return *seed >> 16;
}

static char *random_text(unsigned *seed, size_t lines, unsigned alphabet)
{
    struct cay_buf out;
    cay_buf_init(&out, 1 << 22);
    for (size_t i = 0; i < lines; i++) {
        cay_buf_printf(&out, "%c", (int)('a' + next_random(seed) % alphabet));
        if (i + 1 < lines || next_random(seed) % 3)
            cay_buf_append_byte(&out, '\n');
    }
    cay_buf_append_byte(&out, '\0');
    return out.data;
}

static void applying_a_patch_gives_the_other_text(void **)
{
    unsigned seed = 42;
    for (int i = 0; i < 3000; i++) {
        char *a = random_text(&seed, next_random(&seed) % 40, 2 + next_random(&seed) % 20);
        char *b = random_text(&seed, next_random(&seed) % 40, 2 + next_random(&seed) % 20);
        char *patch = hunks(a, b);
        char *result = apply(a, patch);
        assert_string_equal(result, b);
        free(a);
        free(b);
        free(patch);
        free(result);
    }
}

static void texts_that_differ_throughout_are_still_right(void **)
{
    unsigned seed = 7;
    char *a = random_text(&seed, 6000, 20);
    char *b = random_text(&seed, 5000, 26);
    char *patch = hunks(a, b);
    char *result = apply(a, patch);
    assert_string_equal(result, b);
    free(a);
    free(b);
    free(patch);
    free(result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_texts_have_no_hunks),
        cmocka_unit_test(one_line_changes_with_three_lines_around),
        cmocka_unit_test(near_changes_share_a_hunk_and_far_ones_do_not),
        cmocka_unit_test(files_come_and_go_whole),
        cmocka_unit_test(a_missing_last_newline_is_said),
        cmocka_unit_test(a_nul_makes_a_text_binary),
        cmocka_unit_test(applying_a_patch_gives_the_other_text),
        cmocka_unit_test(texts_that_differ_throughout_are_still_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
