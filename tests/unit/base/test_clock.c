/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <errno.h>
#include <time.h>

#include "base/clock.h"

static void the_monotonic_clock_does_not_go_back(void **)
{
    int64_t last = cay_clock_ns();
    for (unsigned i = 0; i < 1000; i++) {
        int64_t now = cay_clock_ns();
        assert_true(now >= last);
        last = now;
    }
    int64_t ms = cay_clock_ms();
    assert_true(ms >= last / CAY_NS_PER_MS);
    assert_true(ms - last / CAY_NS_PER_MS < 60'000);
    assert_true(cay_clock_wall_ns() / CAY_NS_PER_SEC - (int64_t)time(NULL) < 60);
}

static void assert_time(int64_t wall_ns, unsigned digits, const char *want)
{
    char text[CAY_TIME_BYTES];
    cay_time_format(wall_ns, digits, text);
    assert_string_equal(text, want);
}

static void times_are_written_in_utc(void **)
{
    assert_time(0, 0, "1970-01-01T00:00:00Z");
    assert_time(INT64_C(951'782'400) * CAY_NS_PER_SEC, 0, "2000-02-29T00:00:00Z");
    assert_time(INT64_C(1'767'323'045'123'456'789), 9, "2026-01-02T03:04:05.123456789Z");
    assert_time(INT64_C(1'767'323'045'123'456'789), 3, "2026-01-02T03:04:05.123Z");
    assert_time(INT64_C(1'767'323'045'999'999'999), 3, "2026-01-02T03:04:05.999Z");
    assert_time(-1, 9, "1969-12-31T23:59:59.999999999Z");
    assert_time(INT64_MAX, 9, "2262-04-11T23:47:16.854775807Z");
    assert_time(INT64_MIN, 9, "1677-09-21T00:12:43.145224192Z");
}

static void times_are_read_with_every_offset(void **)
{
    static const struct {
        const char *text;
        int64_t wall_ns;
    } cases[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"1970-01-01t00:00:00z", 0},
        {"1970-01-01 00:00:00Z", 0},
        {"1970-01-01T01:30:00+01:30", 0},
        {"1969-12-31T22:00:00-02:00", 0},
        {"2026-01-02T03:04:05.123456789Z", INT64_C(1'767'323'045'123'456'789)},
        {"2026-01-02T03:04:05.1234567899999Z", INT64_C(1'767'323'045'123'456'789)},
        {"2026-01-02T03:04:05.5Z", INT64_C(1'767'323'045'500'000'000)},
        {"2000-02-29T00:00:00Z", INT64_C(951'782'400) * CAY_NS_PER_SEC},
        {"2016-12-31T23:59:60Z", INT64_C(1'483'228'800) * CAY_NS_PER_SEC},
        {"1969-12-31T23:59:59.999999999Z", -1},
    };
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        int64_t wall_ns = 42;
        assert_int_equal(cay_time_parse(cay_str(cases[i].text), &wall_ns), 0);
        assert_true(wall_ns == cases[i].wall_ns);
    }
}

static void what_is_no_time_is_refused(void **)
{
    static const char *const bad[] = {
        "",
        "2026",
        "2026-01-02",
        "2026-01-02T03:04:05",
        "2026-01-02T03:04Z",
        "2026-01-02T03:04:05.Z",
        "2026-01-02T03:04:05ZZ",
        "2026-01-02T03:04:05+0100",
        "2026-01-02T03:04:05+24:00",
        "2026-13-02T03:04:05Z",
        "2026-00-02T03:04:05Z",
        "2026-02-29T03:04:05Z",
        "1900-02-29T03:04:05Z",
        "2026-04-31T03:04:05Z",
        "2026-01-00T03:04:05Z",
        "2026-01-02T24:00:00Z",
        "2026-01-02T23:60:00Z",
        "2026-01-02T23:59:61Z",
        "+026-01-02T03:04:05Z",
        " 2026-01-02T03:04:05Z",
    };
    int64_t wall_ns = 42;
    for (size_t i = 0; i < CAY_COUNT(bad); i++)
        assert_int_equal(cay_time_parse(cay_str(bad[i]), &wall_ns), -EINVAL);
    struct cay_str zero = {"2026-01-02\00003:04:05Z", 20};
    assert_int_equal(cay_time_parse(zero, &wall_ns), -EINVAL);
    assert_int_equal(cay_time_parse(CAY_STR("9999-01-02T03:04:05Z"), &wall_ns), -ERANGE);
    assert_int_equal(cay_time_parse(CAY_STR("0001-01-02T03:04:05Z"), &wall_ns), -ERANGE);
    assert_int_equal(wall_ns, 42);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_monotonic_clock_does_not_go_back),
        cmocka_unit_test(times_are_written_in_utc),
        cmocka_unit_test(times_are_read_with_every_offset),
        cmocka_unit_test(what_is_no_time_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
