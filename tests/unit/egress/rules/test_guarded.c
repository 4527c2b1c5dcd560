/* SPDX-License-Identifier: Apache-2.0 */
/* What is not the internet. */
#include "tests/unit/test.h"

#include <arpa/inet.h>

#include "egress/rules/guarded.h"

static enum cay_guard guard_of(const char *text, const char **out_what)
{
    struct cay_subnet range;
    if (!cay_subnet_parse(text, &range))
        fail_msg("not a range: %s", text);
    return cay_guard_of(&range, out_what);
}

static void addresses_of_the_internet_are_open(void **)
{
    static const char *const open[] = {
        "1.1.1.1",         "9.255.255.255", "11.0.0.0",         "100.63.255.255",
        "100.128.0.0",     "126.0.0.1",     "128.0.0.1",        "168.63.129.15",
        "169.253.255.255", "169.255.0.0",   "172.15.255.255",   "172.32.0.0",
        "192.0.1.0",       "192.167.0.1",   "192.169.0.1",      "198.17.255.255",
        "198.20.0.0",      "198.51.99.255", "203.0.112.255",    "223.255.255.255",
        "2606:4700::1111", "2a00:1450::1",  "64:ff9b::808:808", "2001:200::1",
        "2001:4860::8888", "2001:db7::1",   "2003::1",          "3ffe::1",
    };
    for (size_t i = 0; i < CAY_COUNT(open); i++) {
        if (guard_of(open[i], NULL) != CAY_GUARD_NONE)
            fail_msg("closed: %s", open[i]);
    }
}

static void what_is_not_is_guarded(void **)
{
    static const struct {
        const char *text;
        enum cay_guard guard;
    } cases[] = {
        {"10.0.0.0", CAY_GUARD_CLOSED},
        {"10.255.255.255", CAY_GUARD_CLOSED},
        {"100.64.0.0", CAY_GUARD_CLOSED},
        {"100.100.100.200", CAY_GUARD_CLOSED},
        {"168.63.129.16", CAY_GUARD_CLOSED},
        {"169.254.169.254", CAY_GUARD_CLOSED},
        {"172.16.0.1", CAY_GUARD_CLOSED},
        {"172.31.255.255", CAY_GUARD_CLOSED},
        {"192.0.0.192", CAY_GUARD_CLOSED},
        {"192.0.2.1", CAY_GUARD_CLOSED},
        {"192.88.99.1", CAY_GUARD_CLOSED},
        {"192.168.1.1", CAY_GUARD_CLOSED},
        {"198.51.100.1", CAY_GUARD_CLOSED},
        {"203.0.113.1", CAY_GUARD_CLOSED},
        {"2001:db8::1", CAY_GUARD_CLOSED},
        {"2001:2::1", CAY_GUARD_CLOSED},
        {"3fff::1", CAY_GUARD_CLOSED},
        {"fc00::1", CAY_GUARD_CLOSED},
        {"fd00:ec2::254", CAY_GUARD_CLOSED},
        {"0.0.0.0", CAY_GUARD_NEVER},
        {"0.1.2.3", CAY_GUARD_NEVER},
        {"127.0.0.1", CAY_GUARD_NEVER},
        {"127.255.0.1", CAY_GUARD_NEVER},
        {"198.18.0.1", CAY_GUARD_NEVER},
        {"198.19.255.255", CAY_GUARD_NEVER},
        {"224.0.0.1", CAY_GUARD_NEVER},
        {"240.0.0.1", CAY_GUARD_NEVER},
        {"255.255.255.255", CAY_GUARD_NEVER},
        {"::", CAY_GUARD_NEVER},
        {"::1", CAY_GUARD_NEVER},
        {"::1.2.3.4", CAY_GUARD_NEVER},
        {"::ffff:10.0.0.1", CAY_GUARD_NEVER},
        {"::ffff:8.8.8.8", CAY_GUARD_NEVER},
        {"::ffff:0:8.8.8.8", CAY_GUARD_NEVER},  /* SIIT */
        {"64:ff9b::10.0.0.1", CAY_GUARD_NEVER}, /* NAT64 */
        {"64:ff9b::127.0.0.1", CAY_GUARD_NEVER},
        {"64:ff9b::169.254.169.254", CAY_GUARD_NEVER},
        {"64:ff9b::224.0.0.1", CAY_GUARD_NEVER},
        {"64:ff9b:1::10.0.0.1", CAY_GUARD_NEVER}, /* NAT64 of somebody's own */
        {"100::1", CAY_GUARD_NEVER},
        {"2001:0:102:304::1", CAY_GUARD_NEVER}, /* Teredo */
        {"2002:a00:1::1", CAY_GUARD_NEVER},     /* 6to4 */
        {"fd00:e900::1", CAY_GUARD_NEVER},
        {"fe80::1", CAY_GUARD_NEVER},
        {"fec0::1", CAY_GUARD_NEVER},
        {"ff02::1", CAY_GUARD_NEVER},
        {"4000::1", CAY_GUARD_NEVER},
    };
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        const char *what = NULL;
        enum cay_guard guard = guard_of(cases[i].text, &what);
        if (guard != cases[i].guard || !what)
            fail_msg("%s: %d", cases[i].text, guard);
        struct cay_subnet range;
        assert_true(cay_subnet_parse(cases[i].text, &range));
        assert_true(cay_address_is_guarded(&range.first));
    }
}

/* A range names guarded addresses when there is nothing else in it. */
static void ranges_are_guarded_as_a_whole(void **)
{
    static const struct {
        const char *text;
        enum cay_guard guard;
    } cases[] = {
        {"10.0.0.0/8", CAY_GUARD_CLOSED},
        {"10.1.0.0/16", CAY_GUARD_CLOSED},
        {"8.0.0.0/6", CAY_GUARD_NONE},
        {"0.0.0.0/0", CAY_GUARD_NONE},
        {"127.0.0.0/8", CAY_GUARD_NEVER},
        {"fd00::/8", CAY_GUARD_CLOSED},
        {"::/0", CAY_GUARD_NONE},
        {"2000::/3", CAY_GUARD_NONE},
        {"64:ff9b::/96", CAY_GUARD_NONE},
        {"64:ff9b::a00:0/104", CAY_GUARD_NEVER},
        {"64:ff9b::800:0/102", CAY_GUARD_NONE},
        {"::ffff:0:0/96", CAY_GUARD_NEVER},
        {"2001::/23", CAY_GUARD_CLOSED},
        {"2001::/32", CAY_GUARD_NEVER},
        {"2001::/16", CAY_GUARD_NONE},
        {"fe80::/10", CAY_GUARD_NEVER},
    };
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        if (guard_of(cases[i].text, NULL) != cases[i].guard)
            fail_msg("%s: %d", cases[i].text, guard_of(cases[i].text, NULL));
    }
}

static void what_is_closed_is_closed_behind_nat64(void **)
{
    struct cay_subnet range;
    size_t fours = 0;
    size_t embedded = 0;
    size_t cursor = 0;
    while (cay_closed_next(&cursor, &range)) {
        char text[CAY_SUBNET_TEXT_SIZE];
        struct cay_subnet again;
        struct cay_ip four;
        cay_subnet_format(&range, text);
        assert_true(cay_subnet_parse(text, &again));
        assert_int_not_equal(cay_guard_of(&range, NULL), CAY_GUARD_NONE);
        fours += range.first.family == AF_INET;
        embedded += cay_address_embedded(&range.first, &four);
    }
    assert_true(fours > 10);
    assert_int_equal(fours, embedded);
    assert_false(cay_closed_next(&cursor, &range));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_of_the_internet_are_open),
        cmocka_unit_test(what_is_not_is_guarded),
        cmocka_unit_test(ranges_are_guarded_as_a_whole),
        cmocka_unit_test(what_is_closed_is_closed_behind_nat64),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
