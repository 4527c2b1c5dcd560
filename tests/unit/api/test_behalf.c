/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "api/behalf.h"

static void write_text(const struct cay_caller *caller, char *out, size_t size)
{
    cay_auto(cay_buf_finish) struct cay_buf buf;
    cay_buf_init(&buf, 1024);
    cay_behalf_write(caller, &buf);
    snprintf(out, size, "%.*s", (int)buf.len, buf.data);
}

static void callers_come_through_as_they_are(void **)
{
    static const struct cay_caller callers[] = {
        {.role = CAY_ROLE_USER, .owner = "alice"},
        {.role = CAY_ROLE_ADMIN, .owner = "local", .is_local = true},
        {.role = CAY_ROLE_ADMIN, .owner = "local", .is_door = true, .session_id = "demo"},
        {.role = CAY_ROLE_USER, .owner = "uid-7", .key_id = "session-token", .session_id = "a.b_c"},
    };
    for (size_t i = 0; i < CAY_COUNT(callers); i++) {
        char text[1024];
        struct cay_caller read = {};
        struct cay_error err = {};
        write_text(&callers[i], text, sizeof(text));
        assert_true(cay_behalf_read(cay_str(text), &read, &err));
        assert_memory_equal(&read, &callers[i], sizeof(read));
    }
}

static void the_form_is_as_documented(void **)
{
    char text[1024];
    const struct cay_caller caller = {.role = CAY_ROLE_USER,
                                      .owner = "alice",
                                      .key_id = "key-3f9a",
                                      .session_id = "demo",
                                      /* Rights of the peer's own, which do not travel. */
                                      .is_host = true,
                                      .may_vouch = true,
                                      .voucher = "key-1"};
    write_text(&caller, text, sizeof(text));
    assert_string_equal(text, "role=user; owner=alice; key=key-3f9a; session=demo");
}

static void nothing_else_is_understood(void **)
{
    static const char *const bad[] = {
        "",
        ";",
        "alice",
        "owner=alice",
        "role=user",
        "role=user; owner=",
        "role=user; owner=../x",
        "role=user; owner=al ice",
        "role=root; owner=alice",
        "role=user; role=admin; owner=alice",
        "role=user; owner=alice; owner=bob",
        "role=user; owner=alice; door; door",
        "role=user; owner=alice; door=yes",
        "role=user; owner=alice; key",
        "role=user; owner=alice; host",
        "role=user; owner=alice; may_vouch",
        "role=user; owner=alice;",
        "Role=user; owner=alice",
        "role=user; owner=alice; key=0123456789012345678901234567890123456789",
    };
    for (size_t i = 0; i < CAY_COUNT(bad); i++) {
        struct cay_caller caller = {};
        struct cay_error err = {};
        if (cay_behalf_read(cay_str(bad[i]), &caller, &err))
            fail_msg("'%s' was understood", bad[i]);
        assert_int_equal(err.reason, CAY_R_INVALID_ARGUMENT);
        assert_int_equal(caller.role, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(callers_come_through_as_they_are),
        cmocka_unit_test(the_form_is_as_documented),
        cmocka_unit_test(nothing_else_is_understood),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
