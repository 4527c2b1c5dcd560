/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <errno.h>

#include "base/quantity.h"

static void durations_are_read(void **)
{
    static const struct {
        const char *text;
        int64_t ms;
    } cases[] = {
        {"0", 0},
        {"0s", 0},
        {"30s", 30'000},
        {"5m", 300'000},
        {"1h30m", 5'400'000},
        {"250ms", 250},
        {"1.5h", 5'400'000},
        {"1m30.5s", 90'500},
        {"7d", 604'800'000},
        {"1ns", 1},
        {"1000us", 1},
        {"1001us", 2},
        {"2\xC2\xB5s", 1},
        {"0.25s", 250},
        {"1h1m1s1ms", 3'661'001},
        {"100d", INT64_C(8'640'000'000)},
    };
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        int64_t ms = -1;
        assert_int_equal(cay_duration_parse(cay_str(cases[i].text), &ms), 0);
        assert_true(ms == cases[i].ms);
    }
}

static void what_is_no_duration_is_refused(void **)
{
    static const char *const bad[] = {"",    "30",    "s",    "-1s",  "+1s",  "1 s",
                                      " 1s", "1s ",   "1x",   "5M",   "1h30", "1.s",
                                      ".5s", "1..5s", "0x1s", "1,5s", "1e3s", "1.0000000001s"};
    int64_t ms = 42;
    for (size_t i = 0; i < CAY_COUNT(bad); i++)
        assert_int_equal(cay_duration_parse(cay_str(bad[i]), &ms), -EINVAL);
    assert_int_equal(cay_duration_parse(CAY_STR("99999999999h"), &ms), -ERANGE);
    assert_int_equal(cay_duration_parse(CAY_STR("99999999999999999999s"), &ms), -ERANGE);
    assert_int_equal(cay_duration_parse(CAY_STR("200000d200000d"), &ms), -ERANGE);
    assert_int_equal(ms, 42);
}

static void durations_are_written_and_read_back(void **)
{
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {
        {0, "0s"},           {1, "1ms"},           {999, "999ms"},     {1000, "1s"},
        {1500, "1.5s"},      {1001, "1.001s"},     {60'000, "1m"},     {90'500, "1m30.5s"},
        {60'250, "1m250ms"}, {5'400'000, "1h30m"}, {86'400'000, "1d"}, {90'000'000, "1d1h"},
    };
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        char text[CAY_DURATION_BYTES];
        int64_t ms = -1;
        cay_duration_format(cases[i].ms, text);
        assert_string_equal(text, cases[i].text);
        assert_int_equal(cay_duration_parse(cay_str(text), &ms), 0);
        assert_true(ms == cases[i].ms);
    }
    char text[CAY_DURATION_BYTES];
    cay_duration_format(-1500, text);
    assert_string_equal(text, "-1.5s");
    cay_duration_format(INT64_MIN, text);
    assert_string_equal(text, "-106751991167d7h12m55.808s");
}

static void short_durations_show_three_digits(void **)
{
    static const struct {
        int64_t ns;
        const char *text;
    } cases[] = {
        {0, "0s"},
        {950, "950ns"},
        {12'345, "12.3us"},
        {1'234'567, "1.23ms"},
        {123'456'789, "123ms"},
        {1'000'000'000, "1s"},
        {INT64_C(9'876'543'210), "9.87s"},
        {INT64_C(90'500'000'000), "1m30.5s"},
        {-5, "0s"},
    };
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        char text[CAY_DURATION_BYTES];
        cay_duration_format_ns(cases[i].ns, text);
        assert_string_equal(text, cases[i].text);
    }
}

static void sizes_are_read(void **)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {
        {"0", 0},
        {"4096", 4096},
        {"100B", 100},
        {"1k", 1024},
        {"512M", UINT64_C(512) << 20},
        {"2GiB", UINT64_C(2) << 30},
        {"2gib", UINT64_C(2) << 30},
        {"10MB", 10'000'000},
        {"1.5G", UINT64_C(3) << 29},
        {"1T", UINT64_C(1) << 40},
        {"16383P", UINT64_C(16383) << 50},
    };
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        uint64_t bytes = 42;
        assert_int_equal(cay_size_parse(cay_str(cases[i].text), &bytes), 0);
        assert_true(bytes == cases[i].bytes);
    }
    static const char *const bad[] = {"", "M", "-1", "1 M", "1.5", "1.5B", "1X", "1MM", "1.M"};
    uint64_t bytes = 42;
    for (size_t i = 0; i < CAY_COUNT(bad); i++)
        assert_int_equal(cay_size_parse(cay_str(bad[i]), &bytes), -EINVAL);
    assert_int_equal(cay_size_parse(CAY_STR("16384P"), &bytes), -ERANGE);
    assert_int_equal(cay_size_parse(CAY_STR("18446744073709551616"), &bytes), -ERANGE);
    assert_int_equal(bytes, 42);
}

static void sizes_are_written(void **)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {
        {0, "0B"},
        {1023, "1023B"},
        {1024, "1KiB"},
        {1536, "1.5KiB"},
        {1024 * 1024 - 1, "1MiB"},
        {UINT64_C(2) << 30, "2GiB"},
        {UINT64_C(50) << 30, "50GiB"},
        {UINT64_MAX, "16384PiB"},
    };
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        char text[CAY_SIZE_BYTES];
        cay_size_format(cases[i].bytes, text);
        assert_string_equal(text, cases[i].text);
    }
}

static void ratios_go_from_zero_to_one(void **)
{
    double ratio = -1;
    assert_int_equal(cay_ratio_parse(CAY_STR("0.8"), &ratio), 0);
    assert_true(ratio == 0.8);
    assert_int_equal(cay_ratio_parse(CAY_STR("80%"), &ratio), 0);
    assert_true(ratio == 0.8);
    assert_int_equal(cay_ratio_parse(CAY_STR("1"), &ratio), 0);
    assert_true(ratio == 1);
    assert_int_equal(cay_ratio_parse(CAY_STR("0%"), &ratio), 0);
    assert_true(ratio == 0);
    assert_int_equal(cay_ratio_parse(CAY_STR("1.01"), &ratio), -ERANGE);
    assert_int_equal(cay_ratio_parse(CAY_STR("101%"), &ratio), -ERANGE);
    static const char *const bad[] = {"", "%", "-0.1", "0.5x", "nan", "inf", "1e-1", "0.5 %"};
    for (size_t i = 0; i < CAY_COUNT(bad); i++)
        assert_int_equal(cay_ratio_parse(cay_str(bad[i]), &ratio), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_are_read),
        cmocka_unit_test(what_is_no_duration_is_refused),
        cmocka_unit_test(durations_are_written_and_read_back),
        cmocka_unit_test(short_durations_show_three_digits),
        cmocka_unit_test(sizes_are_read),
        cmocka_unit_test(sizes_are_written),
        cmocka_unit_test(ratios_go_from_zero_to_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
