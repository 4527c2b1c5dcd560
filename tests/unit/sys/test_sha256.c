/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "sys/sha256.h"

/* RFC 4231, cases 1, 2 and 6. */
static void hmac_is_the_standard_one(void **)
{
    char key[131];
    char hex[CAY_SHA256_HEX_SIZE];
    memset(key, 0x0b, 20);
    cay_hmac_sha256(key, 20, CAY_STR("Hi There"), hex);
    assert_string_equal(hex, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    cay_hmac_sha256("Jefe", 4, CAY_STR("what do ya want for nothing?"), hex);
    assert_string_equal(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof(key));
    cay_hmac_sha256(key, sizeof(key),
                    CAY_STR("Test Using Larger Than Block-Size Key - Hash Key First"), hex);
    assert_string_equal(hex, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

static void a_digest_is_64_lower_case_digits(void **)
{
    struct cay_sha256 sha;
    char hex[CAY_SHA256_HEX_SIZE];
    cay_sha256_init(&sha);
    cay_sha256_add(&sha, "abc", 3);
    cay_sha256_end(&sha, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_true(cay_sha256_is_hex(cay_str(hex)));
    hex[0] = 'B';
    assert_false(cay_sha256_is_hex(cay_str(hex)));
    assert_false(cay_sha256_is_hex(cay_str(hex + 1)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hmac_is_the_standard_one),
        cmocka_unit_test(a_digest_is_64_lower_case_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
