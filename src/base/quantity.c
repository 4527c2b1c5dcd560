/* SPDX-License-Identifier: Apache-2.0 */
#include "base/quantity.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"

enum { FRACTION_DIGITS_MAX = 9 };

struct unit {
    const char *name;
    uint64_t factor;
};

/* whole + fraction / scale */
struct decimal {
    uint64_t whole;
    uint64_t fraction;
    uint64_t scale;
};

#define MS_PER_SEC  UINT64_C(1000)
#define MS_PER_MIN  (60 * MS_PER_SEC)
#define MS_PER_HOUR (60 * MS_PER_MIN)
#define MS_PER_DAY  (24 * MS_PER_HOUR)

/* In nanoseconds. */
static const struct unit duration_units[] = {
    {"ns", 1},
    {"us", 1000},
    {"\xC2\xB5s", 1000}, /* micro sign */
    {"\xCE\xBCs", 1000}, /* Greek mu */
    {"ms", CAY_NS_PER_MS},
    {"s", CAY_NS_PER_SEC},
    {"m", MS_PER_MIN *CAY_NS_PER_MS},
    {"h", MS_PER_HOUR *CAY_NS_PER_MS},
    {"d", MS_PER_DAY *CAY_NS_PER_MS},
};

/* clang-format off */
static const struct unit size_units[] = {
    {"", 1},                   {"b", 1},
    {"k", UINT64_C(1) << 10},  {"kib", UINT64_C(1) << 10},  {"kb", UINT64_C(1'000)},
    {"m", UINT64_C(1) << 20},  {"mib", UINT64_C(1) << 20},  {"mb", UINT64_C(1'000'000)},
    {"g", UINT64_C(1) << 30},  {"gib", UINT64_C(1) << 30},  {"gb", UINT64_C(1'000'000'000)},
    {"t", UINT64_C(1) << 40},  {"tib", UINT64_C(1) << 40},  {"tb", UINT64_C(1'000'000'000'000)},
    {"p", UINT64_C(1) << 50},  {"pib", UINT64_C(1) << 50},  {"pb", UINT64_C(1'000'000'000'000'000)},
};
/* clang-format on */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static size_t count_digits(struct cay_str text)
{
    size_t count = 0;
    while (count < text.len && is_digit(text.ptr[count]))
        count++;
    return count;
}

static void skip(struct cay_str *text, size_t len)
{
    text->ptr += len;
    text->len -= len;
}

/* Takes "12" or "12.5" off the front of *text. */
static int take_decimal(struct cay_str *text, struct decimal *out)
{
    *out = (struct decimal){.scale = 1};
    size_t digits = count_digits(*text);
    int result = cay_str_to_u64((struct cay_str){text->ptr, digits}, UINT64_MAX, &out->whole);
    if (result < 0)
        return result;
    skip(text, digits);
    if (!text->len || *text->ptr != '.')
        return 0;
    skip(text, 1);
    digits = count_digits(*text);
    if (!digits || digits > FRACTION_DIGITS_MAX)
        return -EINVAL;
    for (size_t i = 0; i < digits; i++) {
        out->fraction = out->fraction * 10 + (uint64_t)(text->ptr[i] - '0');
        out->scale *= 10;
    }
    skip(text, digits);
    return 0;
}

/* Adds `number` units to *sum. */
static int add_scaled(uint64_t *sum, struct decimal number, uint64_t factor)
{
    uint64_t product = 0;
    uint64_t part = (uint64_t)((unsigned __int128)number.fraction * factor / number.scale);
    if (__builtin_mul_overflow(number.whole, factor, &product) ||
        __builtin_add_overflow(product, part, &product) ||
        __builtin_add_overflow(*sum, product, sum))
        return -ERANGE;
    return 0;
}

/* Case matters for durations ("5M" is no duration) but not for sizes. */
static const struct unit *find_duration_unit(struct cay_str name)
{
    for (size_t i = 0; i < CAY_COUNT(duration_units); i++) {
        if (cay_str_is(name, duration_units[i].name))
            return &duration_units[i];
    }
    return NULL;
}

static const struct unit *find_size_unit(struct cay_str name)
{
    for (size_t i = 0; i < CAY_COUNT(size_units); i++) {
        if (cay_str_equal_nocase(name, cay_str(size_units[i].name)))
            return &size_units[i];
    }
    return NULL;
}

int cay_duration_parse(struct cay_str text, int64_t *out_ms)
{
    if (!text.len)
        return -EINVAL;
    uint64_t ns = 0;
    while (text.len) {
        struct decimal number;
        int result = take_decimal(&text, &number);
        if (result < 0)
            return result;
        size_t len = 0;
        while (len < text.len && !is_digit(text.ptr[len]))
            len++;
        struct cay_str name = {text.ptr, len};
        if (!len && !number.whole && !number.fraction && !ns)
            break;
        const struct unit *unit = find_duration_unit(name);
        if (!unit)
            return -EINVAL;
        result = add_scaled(&ns, number, unit->factor);
        if (result < 0)
            return result;
        skip(&text, len);
    }
    *out_ms = (int64_t)(ns / CAY_NS_PER_MS + (ns % CAY_NS_PER_MS != 0));
    return 0;
}

/* Writes "12.3unit" without zeroes at the end of the fraction. */
static int put_decimal(char *out, size_t size, uint64_t value, uint64_t factor, unsigned digits,
                       const char *unit)
{
    uint64_t scale = 1;
    for (unsigned i = 0; i < digits; i++)
        scale *= 10;
    uint64_t fraction = (uint64_t)((unsigned __int128)(value % factor) * scale / factor);
    while (digits && fraction % 10 == 0) {
        fraction /= 10;
        digits--;
    }
    if (!digits)
        return snprintf(out, size, "%llu%s", (unsigned long long)(value / factor), unit);
    return snprintf(out, size, "%llu.%0*llu%s", (unsigned long long)(value / factor), (int)digits,
                    (unsigned long long)fraction, unit);
}

void cay_duration_format(int64_t ms, char out[CAY_DURATION_BYTES])
{
    static const struct unit units[] = {{"d", MS_PER_DAY}, {"h", MS_PER_HOUR}, {"m", MS_PER_MIN}};
    uint64_t rest = ms < 0 ? -(uint64_t)ms : (uint64_t)ms;
    size_t len = 0;
    if (ms < 0)
        out[len++] = '-';
    size_t start = len;
    for (size_t i = 0; i < CAY_COUNT(units); i++) {
        if (rest >= units[i].factor) {
            len += (size_t)put_decimal(out + len, CAY_DURATION_BYTES - len, rest, units[i].factor,
                                       0, units[i].name);
            rest %= units[i].factor;
        }
    }
    if (!rest && len > start)
        out[len] = '\0';
    else if (rest && rest < MS_PER_SEC)
        put_decimal(out + len, CAY_DURATION_BYTES - len, rest, 1, 0, "ms");
    else
        put_decimal(out + len, CAY_DURATION_BYTES - len, rest, MS_PER_SEC, 3, "s");
}

void cay_duration_format_ns(int64_t ns, char out[CAY_DURATION_BYTES])
{
    static const struct unit units[] = {
        {"s", CAY_NS_PER_SEC}, {"ms", CAY_NS_PER_MS}, {"us", 1000}, {"ns", 1}};
    if (ns >= 10 * CAY_NS_PER_SEC || ns <= 0) {
        cay_duration_format(ns / CAY_NS_PER_MS, out);
        return;
    }
    size_t i = 0;
    while ((uint64_t)ns < units[i].factor)
        i++;
    uint64_t whole = (uint64_t)ns / units[i].factor;
    unsigned digits = whole >= 100 ? 0 : whole >= 10 ? 1 : 2;
    put_decimal(out, CAY_DURATION_BYTES, (uint64_t)ns, units[i].factor, digits, units[i].name);
}

int cay_size_parse(struct cay_str text, uint64_t *out_bytes)
{
    struct decimal number;
    int result = take_decimal(&text, &number);
    if (result < 0)
        return result;
    const struct unit *unit = find_size_unit(text);
    if (!unit || (number.fraction && unit->factor == 1))
        return -EINVAL;
    uint64_t bytes = 0;
    result = add_scaled(&bytes, number, unit->factor);
    if (result < 0)
        return result;
    *out_bytes = bytes;
    return 0;
}

void cay_size_format(uint64_t bytes, char out[CAY_SIZE_BYTES])
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t unit = 0;
    uint64_t tenths = bytes < 1024 ? bytes * 10 : UINT64_MAX;
    /* Rounding may reach 1024.0 of a unit, which is then 1 of the next. */
    while (tenths >= 10240 && unit + 1 < CAY_COUNT(names)) {
        unit++;
        uint64_t factor = UINT64_C(1) << (10 * unit);
        tenths = (uint64_t)(((unsigned __int128)bytes * 10 + factor / 2) / factor);
    }
    put_decimal(out, CAY_SIZE_BYTES, tenths, 10, 1, names[unit]);
}

int cay_ratio_parse(struct cay_str text, double *out_ratio)
{
    struct decimal number;
    int result = take_decimal(&text, &number);
    if (result < 0)
        return result;
    bool percent = cay_str_is(text, "%");
    if (text.len && !percent)
        return -EINVAL;
    uint64_t whole_max = percent ? 100 : 1;
    if (number.whole > whole_max || (number.whole == whole_max && number.fraction))
        return -ERANGE;
    double value = (double)number.whole + (double)number.fraction / (double)number.scale;
    *out_ratio = percent ? value / 100 : value;
    return 0;
}
