/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "base/secret.h"

static void a_secret_keeps_its_own_copy(void **)
{
    cay_auto(cay_secret_finish) struct cay_secret secret = {};
    assert_int_equal(cay_secret_view(&secret).len, 0);
    char text[] = "hunter2";
    cay_secret_set(&secret, cay_str(text));
    cay_wipe(text, sizeof(text));
    assert_true(cay_str_is(cay_secret_view(&secret), "hunter2"));
    assert_int_equal(secret.bytes[7], '\0');
    cay_secret_set(&secret, (struct cay_str){secret.bytes + 3, 3});
    assert_true(cay_str_is(cay_secret_view(&secret), "ter"));
}

static void finishing_empties_it_and_may_be_repeated(void **)
{
    struct cay_secret secret = {};
    cay_secret_set(&secret, CAY_STR("key"));
    cay_secret_finish(&secret);
    assert_null(secret.bytes);
    assert_int_equal(secret.len, 0);
    cay_secret_finish(&secret);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_secret_keeps_its_own_copy),
        cmocka_unit_test(finishing_empties_it_and_may_be_repeated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
