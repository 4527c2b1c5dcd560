/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"
#include "base/sized.h"
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
    assert_true(cay_sized_take(&given, &out, sizeof(out), "given", &err));
    assert_int_equal(out.size, sizeof(out));
    assert_int_equal(out.old, 1);
    assert_int_equal(out.new, 0);
    assert_true(cay_sized_take(NULL, &out, sizeof(out), "given", &err));
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
    assert_true(cay_sized_take(&given, &out, sizeof(out), "given", &err));
    assert_int_equal(out.new, 2);
    given.unknown[15] = 1;
    assert_false(cay_sized_take(&given, &out, sizeof(out), "given", &err));
    assert_int_equal(err.reason, CAY_R_NOT_SUPPORTED);
}

static void sizes_that_were_not_set_are_refused(void **)
{
    static const size_t sizes[] = {
        0, 1, sizeof(size_t) - 1, sizeof(size_t) + 1, CAY_SIZED_BYTES_MAX + 1, SIZE_MAX};
    for (size_t i = 0; i < CAY_COUNT(sizes); i++) {
        struct cay_error err = {};
        const struct sized given = {sizes[i], 1, 2};
        struct sized out = {.old = 7};
        assert_false(cay_sized_take(&given, &out, sizeof(out), "given", &err));
        assert_int_equal(err.reason, CAY_R_INVALID_ARGUMENT);
        assert_int_equal(out.old, 7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(older_callers_leave_new_fields_unset),
        cmocka_unit_test(newer_callers_may_not_set_what_is_unknown),
        cmocka_unit_test(sizes_that_were_not_set_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
