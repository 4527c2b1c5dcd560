/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/run.h"

#include "tests/unit/test.h"

#include <errno.h>

static int run(struct cay_buf *out, int timeout_ms, const char *const *argv)
{
    const struct cay_program how = {.argv = argv, .timeout_ms = timeout_ms, .out = out};
    return cay_run(&how);
}

enum { LONG_MS = 60'000 };

static void output_and_status_come_back(void **)
{
    struct cay_buf out;
    cay_buf_init(&out, 4096);
    const char *const argv[] = {"sh", "-c", "echo one; echo two >&2; cat; exit 3", NULL};
    assert_int_equal(run(&out, LONG_MS, argv), 3);
    assert_true(cay_str_is(cay_buf_str(&out), "one\ntwo\n"));
    cay_buf_finish(&out);
    const char *const killed[] = {"sh", "-c", "kill -9 $$", NULL};
    assert_int_equal(run(NULL, LONG_MS, killed), 128 + 9);
}

static void the_environment_is_ours(void **)
{
    struct cay_buf out;
    cay_buf_init(&out, 4096);
    setenv("CAY_RUN_SECRET", "x", 1);
    const char *const argv[] = {"env", NULL};
    assert_int_equal(run(&out, LONG_MS, argv), 0);
    cay_buf_append_byte(&out, '\0');
    assert_null(strstr(out.data, "SECRET"));
    assert_non_null(strstr(out.data, "LC_ALL=C\n"));
    cay_buf_finish(&out);
    unsetenv("CAY_RUN_SECRET");
}

static void output_has_a_bound(void **)
{
    struct cay_buf out;
    cay_buf_init(&out, 1000);
    const char *const argv[] = {"sh", "-c", "yes | head -c 1000000", NULL};
    assert_int_equal(run(&out, LONG_MS, argv), 0);
    assert_int_equal(out.len, 1000);
    assert_false(out.failed);
    cay_buf_finish(&out);
}

static void time_has_a_bound(void **)
{
    const char *const argv[] = {"sleep", "1000", NULL};
    assert_int_equal(run(NULL, 50, argv), -ETIMEDOUT);
}

static void what_is_not_there_is_said(void **)
{
    const char *const argv[] = {"no-such-program-as-this", NULL};
    assert_int_equal(run(NULL, LONG_MS, argv), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(output_and_status_come_back), cmocka_unit_test(the_environment_is_ours),
        cmocka_unit_test(output_has_a_bound),          cmocka_unit_test(time_has_a_bound),
        cmocka_unit_test(what_is_not_there_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
