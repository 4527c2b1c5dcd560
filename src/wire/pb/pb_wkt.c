/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/pb/pb_wkt.h"

#include <errno.h>
#include <stdio.h>

#include "wire/pb/pb_internal.h"

#define TIMESTAMP_SECONDS_MIN (-62135596800) /* 0001-01-01T00:00:00Z */
#define TIMESTAMP_SECONDS_MAX 253402300799   /* 9999-12-31T23:59:59Z */
#define DURATION_SECONDS_MAX  315576000000
#define NANOS_PER_SECOND      1000000000

enum {
    SECONDS_PER_DAY = 86400,
    DAYS_PER_ERA = 146097,  /* 400 years */
    DAYS_TO_EPOCH = 719468, /* from 0000-03-01 to 1970-01-01 */
    OFFSET_HOURS_MAX = 23,
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Exactly `width` digits, then `after` unless that is NUL. */
static bool take_number(struct cay_str *rest, size_t width, char after, int *out_value)
{
    int value = 0;
    size_t need = width + (after != '\0');
    if (rest->len < need)
        return false;
    for (size_t i = 0; i < width; i++) {
        if (!is_digit(rest->ptr[i]))
            return false;
        value = value * 10 + (rest->ptr[i] - '0');
    }
    if (after && rest->ptr[width] != after)
        return false;
    rest->ptr += need;
    rest->len -= need;
    *out_value = value;
    return true;
}

/* An optional fraction of 1 to 9 digits behind a dot. */
static bool take_nanos(struct cay_str *rest, int32_t *out_nanos)
{
    int32_t nanos = 0;
    int32_t unit = NANOS_PER_SECOND / 10;
    *out_nanos = 0;
    if (!rest->len || *rest->ptr != '.')
        return true;
    size_t at = 1;
    for (; at < rest->len && is_digit(rest->ptr[at]); at++, unit /= 10) {
        if (at > 9)
            return false;
        nanos += unit * (rest->ptr[at] - '0');
    }
    rest->ptr += at;
    rest->len -= at;
    *out_nanos = nanos;
    return at > 1;
}

/* Days since 1970 of a date in the Gregorian calendar. Years start in March, so that the day that
 * leap years add is the last. */
static int64_t days_from_date(int year, int month, int day)
{
    int64_t shifted_year = month <= 2 ? year - 1 : year;
    int64_t era = shifted_year / 400;
    int64_t year_of_era = shifted_year % 400;
    int64_t day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * DAYS_PER_ERA + day_of_era - DAYS_TO_EPOCH;
}

static void date_from_days(int64_t days, int *out_year, int *out_month, int *out_day)
{
    days += DAYS_TO_EPOCH; /* not negative from year 1 on */
    int64_t era = days / DAYS_PER_ERA;
    int64_t day_of_era = days % DAYS_PER_ERA;
    int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t shifted_month = (5 * day_of_year + 2) / 153;
    *out_day = (int)(day_of_year - (153 * shifted_month + 2) / 5 + 1);
    *out_month = (int)(shifted_month < 10 ? shifted_month + 3 : shifted_month - 9);
    *out_year = (int)(year_of_era + era * 400 + (*out_month <= 2));
}

static int days_in_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return days[month - 1] + (month == 2 && leap);
}

/* "Z" or "+hh:mm", nothing behind it. */
static bool take_offset(struct cay_str rest, int *out_seconds)
{
    *out_seconds = 0;
    if (cay_str_is(rest, "Z"))
        return true;
    if (!rest.len || (*rest.ptr != '+' && *rest.ptr != '-'))
        return false;
    int sign = *rest.ptr == '-' ? -1 : 1;
    int hours = 0;
    int minutes = 0;
    rest.ptr++;
    rest.len--;
    if (!take_number(&rest, 2, ':', &hours) || !take_number(&rest, 2, '\0', &minutes) || rest.len ||
        hours > OFFSET_HOURS_MAX || minutes > 59)
        return false;
    *out_seconds = sign * (hours * 3600 + minutes * 60);
    return true;
}

int cay_pb_timestamp_parse(struct cay_str text, struct google_protobuf_timestamp *out_time)
{
    int year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0, offset_seconds = 0;
    int32_t nanos = 0;
    if (!take_number(&text, 4, '-', &year) || !take_number(&text, 2, '-', &month) ||
        !take_number(&text, 2, 'T', &day) || !take_number(&text, 2, ':', &hour) ||
        !take_number(&text, 2, ':', &minute) || !take_number(&text, 2, '\0', &second) ||
        !take_nanos(&text, &nanos) || !take_offset(text, &offset_seconds))
        return -EINVAL;
    if (year < 1 || month < 1 || month > 12 || day < 1 || day > days_in_month(year, month) ||
        hour > 23 || minute > 59 || second > 59)
        return -ERANGE;
    int64_t seconds = days_from_date(year, month, day) * SECONDS_PER_DAY + hour * 3600 +
                      minute * 60 + second - offset_seconds;
    if (seconds < TIMESTAMP_SECONDS_MIN || seconds > TIMESTAMP_SECONDS_MAX)
        return -ERANGE;
    *out_time = (struct google_protobuf_timestamp){.seconds = seconds, .nanos = nanos};
    return 0;
}

/* None, three, six or nine digits, as few as tell the whole. */
static void format_fraction(int32_t nanos, char out[12])
{
    out[0] = '\0';
    if (nanos % 1000)
        snprintf(out, 12, ".%09d", nanos);
    else if (nanos % 1000000)
        snprintf(out, 12, ".%06d", nanos / 1000);
    else if (nanos)
        snprintf(out, 12, ".%03d", nanos / 1000000);
}

int cay_pb_timestamp_format(const struct google_protobuf_timestamp *time,
                            char out[CAY_PB_TIME_TEXT_MAX])
{
    if (time->seconds < TIMESTAMP_SECONDS_MIN || time->seconds > TIMESTAMP_SECONDS_MAX ||
        time->nanos < 0 || time->nanos >= NANOS_PER_SECOND)
        return -ERANGE;
    int64_t since_year_1 = time->seconds - TIMESTAMP_SECONDS_MIN;
    int in_day = (int)(since_year_1 % SECONDS_PER_DAY);
    int year = 0, month = 0, day = 0;
    char fraction[12];
    date_from_days((time->seconds - in_day) / SECONDS_PER_DAY, &year, &month, &day);
    format_fraction(time->nanos, fraction);
    snprintf(out, CAY_PB_TIME_TEXT_MAX, "%04d-%02d-%02dT%02d:%02d:%02d%sZ", year, month, day,
             in_day / 3600, in_day / 60 % 60, in_day % 60, fraction);
    return 0;
}

int cay_pb_duration_parse(struct cay_str text, struct google_protobuf_duration *out_duration)
{
    bool negative = text.len && *text.ptr == '-';
    int64_t seconds = 0;
    int32_t nanos = 0;
    size_t digits = 0;
    if (!text.len)
        return -EINVAL;
    text.ptr += negative;
    text.len -= negative;
    for (; text.len && is_digit(*text.ptr); digits++, text.ptr++, text.len--) {
        seconds = seconds * 10 + (*text.ptr - '0');
        if (seconds > DURATION_SECONDS_MAX)
            return -ERANGE;
    }
    if (!digits || !take_nanos(&text, &nanos) || !cay_str_is(text, "s"))
        return -EINVAL;
    *out_duration = (struct google_protobuf_duration){
        .seconds = negative ? -seconds : seconds,
        .nanos = negative ? -nanos : nanos,
    };
    return 0;
}

int cay_pb_duration_format(const struct google_protobuf_duration *duration,
                           char out[CAY_PB_TIME_TEXT_MAX])
{
    int64_t seconds = duration->seconds;
    int32_t nanos = duration->nanos;
    bool negative = seconds < 0 || nanos < 0;
    if (seconds < -DURATION_SECONDS_MAX || seconds > DURATION_SECONDS_MAX ||
        nanos <= -NANOS_PER_SECOND || nanos >= NANOS_PER_SECOND ||
        (negative && (seconds > 0 || nanos > 0)))
        return -ERANGE;
    char fraction[12];
    format_fraction(negative ? -nanos : nanos, fraction);
    snprintf(out, CAY_PB_TIME_TEXT_MAX, "%s%lld%ss", negative ? "-" : "",
             (long long)(negative ? -seconds : seconds), fraction);
    return 0;
}

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

int cay_pb_field_mask_parse(struct cay_str text, struct cay_arena *arena,
                            struct google_protobuf_field_mask *out_mask)
{
    struct cay_pb_list paths = {};
    struct cay_str part = {};
    *out_mask = (struct google_protobuf_field_mask){};
    while (text.len && cay_str_split(&text, ',', &part)) {
        char *path = cay_arena_array(arena, part.len + 1, 2);
        struct cay_str *item = cay_pb_list_grow(&paths, sizeof(*item), 1, arena);
        size_t len = 0;
        if (!path || !item)
            return -ENOMEM;
        if (!part.len)
            return -EINVAL;
        for (size_t i = 0; i < part.len; i++) {
            char c = part.ptr[i];
            if (c == '_')
                return -EINVAL;
            if (is_upper(c)) {
                path[len++] = '_';
                c = (char)(c - 'A' + 'a');
            }
            path[len++] = c;
        }
        *item = (struct cay_str){path, len};
        paths.count++;
    }
    *out_mask = (struct google_protobuf_field_mask){.paths = {paths.items, paths.count}};
    return 0;
}

/* Only paths that read back as themselves can be written. */
static bool append_path(struct cay_buf *buf, struct cay_str path)
{
    for (size_t i = 0; i < path.len; i++) {
        char c = path.ptr[i];
        if (is_upper(c) || c == ',')
            return false;
        if (c == '_') {
            if (++i == path.len || !is_lower(path.ptr[i]))
                return false;
            c = (char)(path.ptr[i] - 'a' + 'A');
        }
        cay_buf_append_byte(buf, (unsigned char)c);
    }
    return path.len != 0;
}

int cay_pb_field_mask_format(const struct google_protobuf_field_mask *mask, struct cay_buf *buf)
{
    for (size_t i = 0; i < mask->paths.count; i++) {
        if (i)
            cay_buf_append_byte(buf, ',');
        if (!append_path(buf, mask->paths.items[i]))
            return -EINVAL;
    }
    return 0;
}
