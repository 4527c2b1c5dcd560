/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <errno.h>

#include "base/buf.h"
#include "client/rpc/refusal.h"
#include "wire/rpc.h"

static void what_the_daemon_writes_comes_back_the_same(void **)
{
    for (int reason = CAY_R_NONE + 1; reason < CAY_R_COUNT; reason++) {
        struct cay_error sent = {};
        struct cay_error got = {};
        cay_auto(cay_buf_finish) struct cay_buf json;
        cay_buf_init(&json, CAY_REFUSAL_BYTES_MAX);
        cay_fail(&sent, (enum cay_reason)reason, "session '%s' \"said\"\n no", "dé");
        cay_error_fact(&sent, "state", "paused");
        cay_error_fact(&sent, "nearest", "a \"b\"");
        cay_rpc_error_json(&json, &sent);
        cay_refusal_read(cay_buf_str(&json), 500, &got);
        assert_int_equal(got.reason, sent.reason);
        assert_string_equal(got.text, sent.text);
        assert_memory_equal(got.facts, sent.facts, sizeof(got.facts));

        got = (struct cay_error){};
        cay_buf_clear(&json, 0);
        cay_rpc_end_json(&json, &sent);
        assert_int_equal(cay_refusal_read_end(cay_buf_str(&json), &got), 1);
        assert_int_equal(got.reason, sent.reason);
        assert_string_equal(got.text, sent.text);
        assert_memory_equal(got.facts, sent.facts, sizeof(got.facts));
    }
}

static void assert_read(const char *json, long status, enum cay_reason reason, const char *text)
{
    struct cay_error err = {};
    cay_refusal_read(cay_str(json), status, &err);
    if (err.reason != reason || !strstr(err.text, text))
        fail_msg("%s: %s: %s", json, cay_reason_info(err.reason)->name, err.text);
}

static void a_reason_is_found_in_the_value_or_the_debug_form(void **)
{
    assert_read("{\"code\":\"not_found\",\"message\":\"m\",\"details\":[{\"type\":\"a.B\","
                "\"value\":\"AA\"},"
                "{\"type\":\"cay.v1.ErrorInfo\",\"value\":\"Cg1rZXlfbm90X2ZvdW5k\"}]}",
                404, CAY_R_KEY_NOT_FOUND, "m");
    assert_read("{\"details\":[{\"debug\":{\"x\":[1],\"reason\":\"key_not_found\"},\"value\":\"!\","
                "\"type\":\"cay.v1.ErrorInfo\"}],\"code\":\"not_found\"}",
                404, CAY_R_KEY_NOT_FOUND, "no such key");
    /* Somebody else's detail does not count. */
    assert_read("{\"code\":\"not_found\",\"details\":[{\"type\":\"a.B\",\"debug\":{\"reason\":"
                "\"key_not_found\"}}]}",
                404, CAY_R_NOT_FOUND, "");
}

static void an_unknown_reason_is_understood_by_its_code(void **)
{
    assert_read("{\"code\":\"permission_denied\",\"message\":\"no\",\"details\":[{\"type\":"
                "\"cay.v1.ErrorInfo\",\"debug\":{\"reason\":\"from_the_future\"}}]}",
                403, CAY_R_PERMISSION_DENIED, "no");
    assert_read("{\"code\":\"aborted\",\"message\":\"m\"}", 409, CAY_R_FAILED_PRECONDITION, "m");
    assert_read("{\"code\":\"unknown\"}", 500, CAY_R_INTERNAL, "");
    assert_read("{\"code\":\"resource_exhausted\"}", 429, CAY_R_RESOURCE_EXHAUSTED, "");
    assert_read("{\"code\":\"unimplemented\",\"details\":null}", 501, CAY_R_UNIMPLEMENTED, "");
}

static void what_is_not_connect_is_understood_by_its_status(void **)
{
    assert_read("<html>", 502, CAY_R_UNAVAILABLE, "502");
    assert_read("", 401, CAY_R_UNAUTHENTICATED, "401");
    assert_read("{}", 403, CAY_R_PERMISSION_DENIED, "403");
    assert_read("{\"code\":7}", 404, CAY_R_UNIMPLEMENTED, "404");
    assert_read("{\"code\":\"not_found\"} x", 500, CAY_R_INTERNAL, "500");
    assert_read("{\"code\":\"not_found\",\"details\":[{]}", 500, CAY_R_INTERNAL, "500");
}

static void an_end_says_whether_all_went_well(void **)
{
    struct cay_error err = {};
    assert_int_equal(cay_refusal_read_end(CAY_STR("{}"), &err), 0);
    assert_int_equal(cay_refusal_read_end(CAY_STR("{\"metadata\":{\"a\":[\"b\"]}}"), &err), 0);
    assert_int_equal(cay_refusal_read_end(CAY_STR("{\"error\":null}"), &err), 0);
    assert_int_equal(cay_refusal_read_end(CAY_STR("{\"error\":{}}"), &err), 1);
    assert_int_equal(err.reason, CAY_R_INTERNAL);
    assert_int_equal(cay_refusal_read_end(CAY_STR(""), &err), -EBADMSG);
    assert_int_equal(cay_refusal_read_end(CAY_STR("[]"), &err), -EBADMSG);
    assert_int_equal(cay_refusal_read_end(CAY_STR("{\"error\":\"x\"}"), &err), -EBADMSG);
    assert_int_equal(cay_refusal_read_end(CAY_STR("{}{}"), &err), -EBADMSG);
}

static void a_text_with_nul_or_too_long_is_cut(void **)
{
    char json[4096];
    struct cay_error err = {};
    snprintf(json, sizeof(json), "{\"code\":\"internal\",\"message\":\"%0*d\"}", 2000, 1);
    cay_refusal_read(cay_str(json), 500, &err);
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
    assert_read("{\"code\":\"internal\",\"message\":\"ab\\u0000cd\"}", 500, CAY_R_INTERNAL, "ab");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_daemon_writes_comes_back_the_same),
        cmocka_unit_test(a_reason_is_found_in_the_value_or_the_debug_form),
        cmocka_unit_test(an_unknown_reason_is_understood_by_its_code),
        cmocka_unit_test(what_is_not_connect_is_understood_by_its_status),
        cmocka_unit_test(an_end_says_whether_all_went_well),
        cmocka_unit_test(a_text_with_nul_or_too_long_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
