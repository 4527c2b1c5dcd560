/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <time.h>

static int64_t read_clock(clockid_t clock)
{
    struct timespec now;
    int failed = clock_gettime(clock, &now);
    assert(!failed);
    return (int64_t)now.tv_sec * CAY_NS_PER_SEC + now.tv_nsec;
}

int64_t cay_clock_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

int64_t cay_clock_ms(void)
{
    return cay_clock_ns() / CAY_NS_PER_MS;
}

int64_t cay_clock_wall_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}

void cay_time_format(int64_t wall_ns, unsigned digits, char out[CAY_TIME_BYTES])
{
    assert(digits <= 9);
    time_t seconds = wall_ns / CAY_NS_PER_SEC;
    int64_t fraction = wall_ns % CAY_NS_PER_SEC;
    if (fraction < 0) {
        seconds--;
        fraction += CAY_NS_PER_SEC;
    }
    struct tm tm = {};
    gmtime_r(&seconds, &tm);
    size_t len = strftime(out, CAY_TIME_BYTES, "%Y-%m-%dT%H:%M:%S", &tm);
    if (digits) {
        snprintf(out + len, CAY_TIME_BYTES - len, ".%09lld", (long long)fraction);
        len += 1 + digits;
    }
    out[len] = 'Z';
    out[len + 1] = '\0';
}

/* Takes exactly `width` digits off the front of *text. */
static bool take_number(struct cay_str *text, size_t width, int *out_value)
{
    int value = 0;
    if (text->len < width)
        return false;
    for (size_t i = 0; i < width; i++) {
        if (text->ptr[i] < '0' || text->ptr[i] > '9')
            return false;
        value = value * 10 + (text->ptr[i] - '0');
    }
    text->ptr += width;
    text->len -= width;
    *out_value = value;
    return true;
}

static bool take_one_of(struct cay_str *text, const char *set)
{
    if (!text->len || !*text->ptr || !strchr(set, *text->ptr))
        return false;
    text->ptr++;
    text->len--;
    return true;
}

static bool take_fraction(struct cay_str *text, int64_t *out_ns)
{
    *out_ns = 0;
    if (!take_one_of(text, "."))
        return true;
    int64_t unit = CAY_NS_PER_SEC / 10;
    int digit = 0;
    bool any = false;
    for (; take_number(text, 1, &digit); unit /= 10, any = true)
        *out_ns += digit * unit;
    return any;
}

static bool take_offset(struct cay_str *text, int64_t *out_seconds)
{
    *out_seconds = 0;
    if (take_one_of(text, "Zz"))
        return true;
    int hours = 0;
    int minutes = 0;
    int sign = text->len && *text->ptr == '-' ? -1 : 1;
    if (!take_one_of(text, "+-") || !take_number(text, 2, &hours) || !take_one_of(text, ":") ||
        !take_number(text, 2, &minutes) || hours > 23 || minutes > 59)
        return false;
    *out_seconds = sign * (hours * 3600 + minutes * 60);
    return true;
}

static bool is_a_date(int year, int month, int day)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (month < 1 || month > 12 || day < 1)
        return false;
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return day <= days[month - 1] + (month == 2 && leap);
}

int cay_time_parse(struct cay_str text, int64_t *out_wall_ns)
{
    int year = 0;
    int month = 0;
    struct tm tm = {};
    if (!take_number(&text, 4, &year) || !take_one_of(&text, "-") ||
        !take_number(&text, 2, &month) || !take_one_of(&text, "-") ||
        !take_number(&text, 2, &tm.tm_mday) || !is_a_date(year, month, tm.tm_mday))
        return -EINVAL;
    if (!take_one_of(&text, "Tt ") || !take_number(&text, 2, &tm.tm_hour) ||
        !take_one_of(&text, ":") || !take_number(&text, 2, &tm.tm_min) ||
        !take_one_of(&text, ":") || !take_number(&text, 2, &tm.tm_sec) || tm.tm_hour > 23 ||
        tm.tm_min > 59 || tm.tm_sec > 60)
        return -EINVAL;
    int64_t fraction = 0;
    int64_t offset = 0;
    if (!take_fraction(&text, &fraction) || !take_offset(&text, &offset) || text.len)
        return -EINVAL;
    tm.tm_year = year - 1900;
    tm.tm_mon = month - 1;
    int64_t ns = 0;
    if (__builtin_mul_overflow((int64_t)timegm(&tm) - offset, CAY_NS_PER_SEC, &ns) ||
        __builtin_add_overflow(ns, fraction, &ns))
        return -ERANGE;
    *out_wall_ns = ns;
    return 0;
}
