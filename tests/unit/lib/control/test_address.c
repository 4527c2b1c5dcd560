/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses as URLs. */
#include "tests/unit/test.h"

#include "cay/control.h"

static void becomes(const char *address, bool is_tls, const char *wanted)
{
    struct cay_text url = {};
    struct cay_error err = {};
    if (!cay_address_to_url(address, is_tls, &url, &err))
        fail_msg("%s: %s", address, err.text);
    assert_string_equal(url.data, wanted);
    assert_int_equal(url.len, strlen(wanted));
    cay_text_free(&url);
}

static void is_refused(const char *address, const char *word)
{
    struct cay_text url = {};
    struct cay_error err = {};
    if (cay_address_to_url(address, false, &url, &err))
        fail_msg("'%s' becomes '%s'", address, url.data);
    assert_null(url.data);
    assert_true(cay_error_is(&err, "invalid_argument"));
    if (!strstr(err.text, word))
        fail_msg("'%s': %s", address, err.text);
    assert_false(cay_address_to_url(address, true, &url, NULL));
}

static void names_and_numbers(void **)
{
    becomes("localhost:80", false, "http://localhost:80");
    becomes("box.example.com:40123", true, "https://box.example.com:40123");
    becomes("10.0.0.7:1", false, "http://10.0.0.7:1");
    becomes("a_b-c:65535", false, "http://a_b-c:65535");
    becomes("host:0080", false, "http://host:80");
}

static void ipv6(void **)
{
    becomes("[::1]:8080", false, "http://[::1]:8080");
    becomes("::1:8080", false, "http://[::1]:8080");
    becomes("[2001:db8::1]:443", true, "https://[2001:db8::1]:443");
    becomes("2001:db8::1:443", true, "https://[2001:db8::1]:443");
    becomes("1:2:3:4:5:6:7:8:9", false, "http://[1:2:3:4:5:6:7:8]:9");
    becomes("::ffff:10.0.0.1:80", false, "http://[::ffff:10.0.0.1]:80");
    becomes(":::80", false, "http://[::]:80");
}

static void scopes(void **)
{
    becomes("[fe80::1%eth0]:80", false, "http://[fe80::1%25eth0]:80");
    becomes("fe80::1%eth0:80", false, "http://[fe80::1%25eth0]:80");
    becomes("fe80::1%25:80", false, "http://[fe80::1%2525]:80");
    is_refused("[fe80::1%]:80", "no IPv6 address");
    is_refused("[fe80::1%a/b]:80", "no IPv6 address");
    is_refused("10.0.0.1%eth0:80", "does not begin with a host");
}

static void unix_sockets(void **)
{
    struct cay_text url = {};
    struct cay_error err = {};
    becomes("unix:/run/cay/cayd.sock", false, "unix:/run/cay/cayd.sock");
    assert_false(cay_address_to_url("unix:/run/cay/cayd.sock", true, &url, &err));
    assert_non_null(strstr(err.text, "no TLS"));
}

static void what_is_none_is_refused(void **)
{
    char long_text[2000];
    memset(long_text, 'a', sizeof(long_text) - 1);
    long_text[sizeof(long_text) - 1] = '\0';
    is_refused(NULL, "missing");
    is_refused("", "missing");
    is_refused("host", "has no port");
    is_refused("::1", "write [::1]:PORT");
    is_refused("1:2:3:4:5:6:7:8", "has no port");
    is_refused("[::1]", "has no port");
    is_refused("host:", "does not end with a port");
    is_refused("host:0", "does not end with a port");
    is_refused("host:65536", "does not end with a port");
    is_refused("host:+80", "does not end with a port");
    is_refused("host:80 ", "does not end with a port");
    is_refused("host:80/path", "does not end with a port");
    is_refused("host:99999999999999999999", "does not end with a port");
    is_refused(":80", "does not begin with a host");
    is_refused("[]:80", "does not begin with a host");
    is_refused("[host]:80", "no IPv6 address");
    is_refused("[::1:80", "does not begin with a host");
    is_refused("a b:80", "does not begin with a host");
    is_refused("user@host:80", "does not begin with a host");
    is_refused("h\xc3\xb6st:80", "does not begin with a host");
    is_refused("http://host:80", "does not begin with a host");
    is_refused("host\r\nx:80", "does not begin with a host");
    is_refused(long_text, "longer than");
    assert_false(cay_address_to_url("host:80", false, NULL, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_numbers),
        cmocka_unit_test(ipv6),
        cmocka_unit_test(scopes),
        cmocka_unit_test(unix_sockets),
        cmocka_unit_test(what_is_none_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
