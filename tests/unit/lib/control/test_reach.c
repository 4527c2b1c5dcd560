/* SPDX-License-Identifier: Apache-2.0 */
/* The address of an exposed port, for callers here and elsewhere. */
#include "tests/unit/test.h"

#include "lib/control/reach.h"

static struct cay_place place_of(const char *url)
{
    struct cay_place place = {};
    struct cay_error err = {};
    assert_true(cay_place_of(url, &place, &err));
    return place;
}

static void daemons_have_places(void **)
{
    static const struct {
        const char *url;
        const char *address;
        const char *host;
        bool is_local;
    } rows[] = {
        {"unix:/run/cay/cayd.sock", "unix:/run/cay/cayd.sock", "", true},
        {"unix:///run/cay/cayd.sock", "unix:/run/cay/cayd.sock", "", true},
        {"http://127.0.0.1:7777", "127.0.0.1:7777", "127.0.0.1", true},
        {"http://LocalHost", "LocalHost:80", "LocalHost", true},
        {"https://[::1]/under/a/path", "[::1]:443", "::1", true},
        {"https://cay.example.org", "cay.example.org:443", "cay.example.org", false},
        {"http://[2001:db8::7]:81/", "[2001:db8::7]:81", "2001:db8::7", false},
    };
    for (size_t i = 0; i < CAY_COUNT(rows); i++) {
        const struct cay_place place = place_of(rows[i].url);
        assert_string_equal(place.address, rows[i].address);
        assert_string_equal(place.host, rows[i].host);
        assert_int_equal(place.is_local, rows[i].is_local);
    }
}

static void ports_are_reached_from_where_the_caller_is(void **)
{
    static const char here[] = "unix:/run/cay/cayd.sock";
    static const char loopback[] = "http://127.0.0.1:7777";
    static const char there[] = "http://box.example.org:7777";
    static const char six[] = "https://[2001:db8::7]";
    static const struct {
        const char *url;
        const char *bind;
        const char *told;
        const char *wanted; /* NULL: there is none */
    } rows[] = {
        {here, "127.0.0.1", "127.0.0.1:4001", "127.0.0.1:4001"},
        {here, "0.0.0.0", "0.0.0.0:4001", "127.0.0.1:4001"},
        {here, "::", "[::]:4001", "[::1]:4001"},
        {here, "10.0.0.7", "10.0.0.7:4001", "10.0.0.7:4001"},
        {here, "0.0.0.0", "box.example.org:4001", "127.0.0.1:4001"},
        {loopback, "0.0.0.0", "0.0.0.0:4001", "127.0.0.1:4001"},
        {there, "0.0.0.0", "0.0.0.0:4001", "box.example.org:4001"},
        {there, "::", "[::]:4001", "box.example.org:4001"},
        {there, "0.0.0.0", "ports.example.org:4001", "ports.example.org:4001"},
        {there, "10.0.0.7", "10.0.0.7:4001", "10.0.0.7:4001"},
        {there, "127.0.0.1", "ports.example.org:4001", "ports.example.org:4001"},
        {there, "127.0.0.1", "127.0.0.1:4001", NULL},
        {there, "::1", "[::1]:4001", NULL},
        {six, "::", "[::]:4001", "[2001:db8::7]:4001"},
        {six, "2001:db8::8", "[2001:db8::8]:4001", "[2001:db8::8]:4001"},
        {here, "", "", NULL},
    };
    for (size_t i = 0; i < CAY_COUNT(rows); i++) {
        const struct cay_place place = place_of(rows[i].url);
        const struct cay_v1_exposed_port port = {.port = 80,
                                                 .host_port = 4001,
                                                 .bind_address = cay_str(rows[i].bind),
                                                 .address = cay_str(rows[i].told)};
        char address[CAY_REACH_BYTES] = "";
        struct cay_error err = {};
        bool is_reached = cay_place_reach(&place, &port, address, &err);
        assert_string_equal(address, rows[i].wanted ? rows[i].wanted : "");
        assert_int_equal(is_reached, rows[i].wanted != NULL);
    }
}

static void an_address_for_nobody_says_what_to_set(void **)
{
    const struct cay_place place = place_of("http://box.example.org:7777");
    const struct cay_v1_exposed_port port = {.host_port = 4001,
                                             .bind_address = CAY_STR("127.0.0.1"),
                                             .address = CAY_STR("127.0.0.1:4001")};
    char address[CAY_REACH_BYTES];
    struct cay_error err = {};
    assert_false(cay_place_reach(&place, &port, address, &err));
    assert_int_equal(err.reason, CAY_R_FAILED_PRECONDITION);
    assert_non_null(strstr(err.text, "port_bind"));
}

static void a_url_that_is_too_long_is_refused(void **)
{
    char url[4000] = "http://";
    struct cay_place place;
    struct cay_error err = {};
    memset(url + strlen(url), 'a', sizeof(url) - strlen(url) - 1);
    assert_false(cay_place_of(url, &place, &err));
    assert_false(cay_place_of("nothing", &place, &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(daemons_have_places),
        cmocka_unit_test(ports_are_reached_from_where_the_caller_is),
        cmocka_unit_test(an_address_for_nobody_says_what_to_set),
        cmocka_unit_test(a_url_that_is_too_long_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
