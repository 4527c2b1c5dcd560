/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/entry.h"
#include "tests/unit/test.h"

struct sized {
    size_t size;
    int64_t old;
    int64_t new;
};

static void older_callers_leave_new_fields_unset(void **)
{
    struct cay_error err = {};
    struct sized out;
    const struct sized given = {offsetof(struct sized, new), 1, 2};
    assert_true(cay_entry_take(&given, &out, sizeof(out), "given", &err));
    assert_int_equal(out.size, sizeof(out));
    assert_int_equal(out.old, 1);
    assert_int_equal(out.new, 0);
    assert_true(cay_entry_take(NULL, &out, sizeof(out), "given", &err));
    assert_true(out.size == sizeof(out) && !out.old && !out.new);
}

static void newer_callers_may_not_set_what_is_unknown(void **)
{
    struct cay_error err = {};
    struct {
        struct sized known;
        char unknown[16];
    } given = {.known = {sizeof(given), 1, 2}};
    struct sized out;
    assert_true(cay_entry_take(&given, &out, sizeof(out), "given", &err));
    assert_int_equal(out.new, 2);
    given.unknown[15] = 1;
    assert_false(cay_entry_take(&given, &out, sizeof(out), "given", &err));
    assert_int_equal(err.reason, CAY_R_NOT_SUPPORTED);
}

static void sizes_that_were_not_set_are_refused(void **)
{
    static const size_t sizes[] = {
        0, 1, sizeof(size_t) - 1, sizeof(size_t) + 1, CAY_ENTRY_SIZE_MAX + 1, SIZE_MAX};
    for (size_t i = 0; i < CAY_COUNT(sizes); i++) {
        struct cay_error err = {};
        const struct sized given = {sizes[i], 1, 2};
        struct sized out = {.old = 7};
        assert_false(cay_entry_take(&given, &out, sizeof(out), "given", &err));
        assert_int_equal(err.reason, CAY_R_INVALID_ARGUMENT);
        assert_int_equal(out.old, 7);
    }
}

static void text_is_there_and_utf8(void **)
{
    struct cay_error err = {};
    const struct cay_pair pairs[] = {{"a", NULL}, {"b", "\xff"}};
    assert_true(cay_entry_text("x", "text", &err) && cay_entry_word(NULL, "text", &err) &&
                cay_entry_word("", "text", &err) && cay_entry_pairs(NULL, 0, "pairs", &err) &&
                cay_entry_pairs(pairs, 1, "pairs", &err));
    assert_false(
        cay_entry_text(NULL, "text", &err) || cay_entry_text("", "text", &err) ||
        cay_entry_text("\xff", "text", &err) || cay_entry_word("a\xc0\x80", "text", &err) ||
        cay_entry_pairs(NULL, 1, "pairs", &err) || cay_entry_pairs(pairs, 2, "pairs", &err));
    assert_int_equal(err.reason, CAY_R_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "number 2"));
}

static void ids_differ(void **)
{
    struct cay_error err = {};
    char one[64];
    char two[64];
    assert_true(cay_entry_id(one, sizeof(one), "x-", &err) &&
                cay_entry_id(two, sizeof(two), "x-", &err));
    assert_int_equal(strlen(one), 18);
    assert_string_not_equal(one, two);
    struct cay_error spare;
    assert_ptr_equal(cay_entry_error(NULL, &spare), &spare);
    assert_ptr_equal(cay_entry_error(&err, &spare), &err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(older_callers_leave_new_fields_unset),
        cmocka_unit_test(newer_callers_may_not_set_what_is_unknown),
        cmocka_unit_test(sizes_that_were_not_set_are_refused),
        cmocka_unit_test(text_is_there_and_utf8),
        cmocka_unit_test(ids_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
