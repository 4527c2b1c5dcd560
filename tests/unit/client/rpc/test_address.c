/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <stdlib.h>

#include "client/rpc/address.h"
#include "client/rpc/proxy.h"

static void a_socket_is_named_by_its_path(void **)
{
    struct cay_address address = {};
    struct cay_error err = {};
    assert_true(cay_address_parse("unix:/run/cay/cayd.sock", &address, &err));
    assert_string_equal(address.unix_path, "/run/cay/cayd.sock");
    assert_string_equal(address.text, "unix:/run/cay/cayd.sock");
    assert_true(address.is_loopback);
    assert_true(cay_address_parse("unix:.dev/run/cayd.sock", &address, &err));
    assert_string_equal(address.unix_path, ".dev/run/cayd.sock");
    assert_true(cay_address_parse("unix:///run/x", &address, &err));
    assert_string_equal(address.unix_path, "/run/x");
}

static void a_url_loses_its_last_slash_and_knows_this_machine(void **)
{
    static const struct {
        const char *url;
        const char *host;
        const char *port;
        const char *path;
        bool is_loopback;
    } cases[] = {
        {"http://127.0.0.1:4747", "127.0.0.1", "4747", "", true},
        {"http://localhost:4747/", "localhost", "4747", "", true},
        {"https://[::1]:4747", "::1", "4747", "", true},
        {"https://cay.example/behind/proxy//", "cay.example", "443", "/behind/proxy", false},
        {"http://127x.example", "127x.example", "80", "", false},
    };
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        struct cay_address address = {};
        struct cay_error err = {};
        assert_true(cay_address_parse(cases[i].url, &address, &err));
        assert_string_equal(address.unix_path, "");
        assert_string_equal(address.host, cases[i].host);
        assert_string_equal(address.port, cases[i].port);
        assert_string_equal(address.path, cases[i].path);
        assert_int_equal(address.is_loopback, cases[i].is_loopback);
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
        {"http://[::1", "not valid"},
        {"http://[]:1", "not valid"},
        {"http://host:", "not valid"},
        {"http://host:+1", "not valid"},
        {"http://host:99999", "not valid"},
        {"http://a:b@host", "given apart"},
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
        assert_string_equal(address.text, "");
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
}

static void find_proxy(const char *url, const char *host, const char *port, const char *credentials)
{
    struct cay_address address = {};
    struct cay_proxy proxy = {};
    struct cay_error err = {};
    assert_true(cay_address_parse(url, &address, &err));
    assert_true(cay_proxy_find(&address, &proxy, &err));
    assert_string_equal(proxy.host, host);
    assert_string_equal(proxy.port, port);
    assert_string_equal(proxy.credentials, credentials);
}

static void the_environment_names_proxies_and_exceptions(void **)
{
    setenv("http_proxy", "http://proxy.example:3128/", 1);
    setenv("HTTP_PROXY", "http://evil.example:1", 1); /* from a header, in a server */
    setenv("https_proxy", "us%65r:p%40ss@[2001:db8::1]", 1);
    setenv("no_proxy", "other.example, .inside.example", 1);
    find_proxy("http://cay.example", "proxy.example", "3128", "");
    find_proxy("https://cay.example", "2001:db8::1", "1080", "dXNlcjpwQHNz");
    find_proxy("http://127.0.0.1:80", "", "", "");
    find_proxy("unix:/x", "", "", "");
    find_proxy("http://OTHER.example", "", "", "");
    find_proxy("http://another.example", "proxy.example", "3128", "");
    find_proxy("http://a.b.inside.example", "", "", "");
    setenv("no_proxy", "*", 1);
    find_proxy("http://cay.example", "", "", "");
    unsetenv("no_proxy");
    setenv("http_proxy", "socks5://proxy.example", 1);
    struct cay_address address = {};
    struct cay_proxy proxy = {};
    struct cay_error err = {};
    assert_true(cay_address_parse("http://cay.example", &address, &err));
    assert_false(cay_proxy_find(&address, &proxy, &err));
    assert_int_equal(err.reason, CAY_R_NOT_SUPPORTED);
    unsetenv("http_proxy");
    unsetenv("HTTP_PROXY");
    unsetenv("https_proxy");
    find_proxy("http://cay.example", "", "", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_socket_is_named_by_its_path),
        cmocka_unit_test(a_url_loses_its_last_slash_and_knows_this_machine),
        cmocka_unit_test(a_wrong_address_is_refused_with_advice),
        cmocka_unit_test(lengths_are_bounded),
        cmocka_unit_test(the_environment_names_proxies_and_exceptions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
