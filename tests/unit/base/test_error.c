/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/error.h"

static void every_reason_is_complete(void **)
{
    for (int reason = CAY_R_NONE + 1; reason < CAY_R_COUNT; reason++) {
        const struct cay_reason_info *info = cay_reason_info((enum cay_reason)reason);
        assert_non_null(info->name);
        for (const char *c = info->name; *c; c++)
            assert_true(islower(*c) || *c == '_');
        assert_non_null(cay_code_name(info->code));
        assert_in_range(info->http_status, 400, 599);
        assert_true(strlen(info->text) > 10);
        assert_int_equal(cay_reason_by_name(cay_str(info->name)), reason);
    }
}

static void codes_have_names_both_ways(void **)
{
    for (int code = CAY_CODE_CANCELED; code <= CAY_CODE_UNAUTHENTICATED; code++) {
        const char *name = cay_code_name((enum cay_connect_code)code);
        assert_non_null(name);
        assert_int_equal(cay_code_by_name(cay_str(name)), code);
    }
    assert_null(cay_code_name((enum cay_connect_code)99));
    assert_int_equal(cay_code_by_name(CAY_STR("nonsense")), CAY_CODE_UNKNOWN);
}

static void an_error_tells_its_reason_and_facts(void **)
{
    struct cay_error err = {};
    assert_string_equal(cay_error_reason(&err), "");
    assert_int_equal(cay_error_code(&err), CAY_CODE_OK);
    assert_false(cay_error_is(&err, ""));
    cay_fail(&err, CAY_R_SESSION_PAUSED, NULL);
    cay_error_fact(&err, "state", "paused");
    cay_error_fact(&err, "empty", "%s", "");
    assert_string_equal(cay_error_reason(&err), "session_paused");
    assert_int_equal(cay_error_code(&err), CAY_CODE_FAILED_PRECONDITION);
    assert_true(cay_error_is(&err, "session_paused"));
    assert_false(cay_error_is(&err, "session"));
    assert_string_equal(cay_error_get(&err, "state"), "paused");
    assert_string_equal(cay_error_get(&err, "empty"), "");
    assert_null(cay_error_get(&err, "paused"));
    /* What a newer daemon calls it counts, although only its code is understood. */
    cay_error_fact(&err, CAY_FACT_REASON, "session_in_orbit");
    assert_string_equal(cay_error_reason(&err), "session_in_orbit");
    err.reason = CAY_R_COUNT;
    assert_string_equal(cay_error_reason(&err), "");
    assert_string_equal(cay_error_reason(NULL), "");
    assert_null(cay_error_get(NULL, "state"));
}

static void fail_formats_and_wrap_puts_context_first(void **)
{
    struct cay_error err = {};
    assert_false(cay_fail(&err, CAY_R_SESSION_PAUSED, "session '%s' is paused", "a"));
    assert_int_equal(err.reason, CAY_R_SESSION_PAUSED);
    assert_string_equal(err.text, "session 'a' is paused");
    assert_false(cay_wrap(&err, "run tool '%s'", "bash"));
    assert_string_equal(err.text, "run tool 'bash': session 'a' is paused");
    assert_int_equal(err.reason, CAY_R_SESSION_PAUSED);
}

static void a_null_format_takes_the_sentence_of_the_table(void **)
{
    struct cay_error err = {};
    assert_false(cay_fail(&err, CAY_R_NOT_FOUND, NULL));
    assert_string_equal(err.text, cay_reason_info(CAY_R_NOT_FOUND)->text);
}

static void errno_is_kept_and_described(void **)
{
    struct cay_error err = {};
    assert_false(cay_fail_errno(&err, CAY_R_NO_SPACE, -ENOSPC, "write '%s'", "x"));
    assert_int_equal(err.sys_errno, ENOSPC);
    assert_string_equal(err.text, "write 'x': No space left on device");
}

static void a_limit_of_open_files_is_no_internal_error(void **)
{
    static const int errors[] = {EMFILE, ENFILE};
    for (size_t i = 0; i < CAY_COUNT(errors); i++) {
        struct cay_error err = {};
        assert_false(cay_fail_errno(&err, CAY_R_STORE_FAILED, -errors[i], "open layer"));
        assert_int_equal(err.reason, CAY_R_TOO_MANY_OPEN_FILES);
        assert_int_equal(err.sys_errno, errors[i]);
        assert_non_null(strstr(err.text, "open layer: too many files are open; end sessions"));
    }
}

static void an_errno_that_nobody_knows_is_still_described(void **)
{
    struct cay_error err = {};
    assert_false(cay_fail_errno(&err, CAY_R_INTERNAL, -4000, "x"));
    assert_string_equal(err.text, "x: unknown system error");
}

static void a_cut_text_ends_on_a_whole_character(void **)
{
    struct cay_error err = {};
    char text[400];
    for (size_t shift = 0; shift < 3; shift++) {
        memset(text, 'a', shift);
        for (size_t at = shift; at + 3 < sizeof(text); at += 3)
            memcpy(text + at, "\xE2\x82\xAC", 4);
        cay_fail(&err, CAY_R_INTERNAL, "%s", text);
        size_t len = strlen(err.text);
        assert_true(len > 200);
        assert_int_equal((len - shift) % 3, 0);
    }
}

static void facts_are_kept_in_order_and_left_out_when_full(void **)
{
    struct cay_error err = {};
    const char *value = NULL;
    assert_null(cay_error_next_fact(&err, NULL, &value));
    cay_fail(&err, CAY_R_INTERNAL, NULL);
    assert_false(cay_error_fact(&err, "state", "%s", "paused"));
    assert_false(cay_error_fact(&err, "empty", "%s", ""));
    assert_false(cay_error_fact(&err, "huge", "%0300d", 1));
    assert_false(cay_error_fact(&err, "limit", "%d", 7));
    for (int i = 0; i < 100; i++)
        cay_error_fact(&err, "more", "%d", i);
    cay_wrap(&err, "around");
    const char *key = cay_error_next_fact(&err, NULL, &value);
    assert_string_equal(key, "state");
    assert_string_equal(value, "paused");
    key = cay_error_next_fact(&err, key, &value);
    assert_string_equal(key, "empty");
    assert_string_equal(value, "");
    key = cay_error_next_fact(&err, key, &value);
    assert_string_equal(key, "limit");
    assert_string_equal(value, "7");
    size_t count = 0;
    while ((key = cay_error_next_fact(&err, key, &value)))
        count++;
    assert_true(count > 20 && count < 40);
    cay_fail(&err, CAY_R_INTERNAL, NULL);
    assert_null(cay_error_next_fact(&err, NULL, &value));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_reason_is_complete),
        cmocka_unit_test(codes_have_names_both_ways),
        cmocka_unit_test(an_error_tells_its_reason_and_facts),
        cmocka_unit_test(fail_formats_and_wrap_puts_context_first),
        cmocka_unit_test(a_null_format_takes_the_sentence_of_the_table),
        cmocka_unit_test(errno_is_kept_and_described),
        cmocka_unit_test(a_limit_of_open_files_is_no_internal_error),
        cmocka_unit_test(an_errno_that_nobody_knows_is_still_described),
        cmocka_unit_test(a_cut_text_ends_on_a_whole_character),
        cmocka_unit_test(facts_are_kept_in_order_and_left_out_when_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
