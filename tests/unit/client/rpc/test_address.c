/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include "client/rpc/address.h"

static void a_socket_is_named_by_its_path(void **)
{
    struct cay_address address = {};
    struct cay_error err = {};
    assert_true(cay_address_parse("unix:/run/cay/cayd.sock", &address, &err));
    assert_string_equal(address.unix_path, "/run/cay/cayd.sock");
    assert_string_equal(address.text, "unix:/run/cay/cayd.sock");
    assert_true(address.is_loopback);
    cay_address_finish(&address);
    assert_true(cay_address_parse("unix:.dev/run/cayd.sock", &address, &err));
    assert_string_equal(address.unix_path, ".dev/run/cayd.sock");
    cay_address_finish(&address);
    assert_true(cay_address_parse("unix:///run/x", &address, &err));
    assert_string_equal(address.unix_path, "/run/x");
    cay_address_finish(&address);
}

static void a_url_loses_its_last_slash_and_knows_this_machine(void **)
{
    static const struct {
        const char *url;
        const char *origin;
        bool is_loopback;
    } cases[] = {
        {"http://127.0.0.1:4747", "http://127.0.0.1:4747", true},
        {"http://localhost:4747/", "http://localhost:4747", true},
        {"https://[::1]:4747", "https://[::1]:4747", true},
        {"https://cay.example/behind/proxy//", "https://cay.example/behind/proxy", false},
        {"http://127x.example", "http://127x.example", false},
    };
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        struct cay_address address = {};
        struct cay_error err = {};
        assert_true(cay_address_parse(cases[i].url, &address, &err));
        assert_null(address.unix_path);
        assert_string_equal(address.origin, cases[i].origin);
        assert_int_equal(address.is_loopback, cases[i].is_loopback);
        cay_address_finish(&address);
    }
}

static void a_wrong_address_is_refused_with_advice(void **)
{
    static const struct {
        const char *url;
        const char *advice;
    } cases[] = {
        {"127.0.0.1:4747", "write http://127.0.0.1:4747"},
        {"/run/cay/cayd.sock", "write unix:/run/cay/cayd.sock"},
        {"unix:", "names no socket"},
        {"ftp://host", "none of unix:PATH"},
        {"http://", "not valid"},
        {"http://host:99999", "not valid"},
        {"http://a:b@host", "CAY_API_KEY"},
        {"http://host?x=1", "must end"},
        {"http://host#x", "must end"},
        {"", "has no scheme"},
    };
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        struct cay_address address = {};
        struct cay_error err = {};
        assert_false(cay_address_parse(cases[i].url, &address, &err));
        assert_int_equal(err.reason, CAY_R_INVALID_ARGUMENT);
        if (!strstr(err.text, cases[i].advice))
            fail_msg("'%s': %s", cases[i].url, err.text);
        assert_null(address.text);
    }
}

static void lengths_are_bounded(void **)
{
    struct cay_address address = {};
    struct cay_error err = {};
    char url[2000];
    memset(url, 'a', sizeof(url));
    url[sizeof(url) - 1] = '\0';
    assert_false(cay_address_parse(url, &address, &err));
    memcpy(url, "unix:/", 6);
    url[5 + 108] = '\0';
    assert_false(cay_address_parse(url, &address, &err));
    assert_non_null(strstr(err.text, "too long"));
    url[5 + 107] = '\0';
    assert_true(cay_address_parse(url, &address, &err));
    cay_address_finish(&address);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_socket_is_named_by_its_path),
        cmocka_unit_test(a_url_loses_its_last_slash_and_knows_this_machine),
        cmocka_unit_test(a_wrong_address_is_refused_with_advice),
        cmocka_unit_test(lengths_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
