/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* A number taken apart: digits * 10^exponent. `digits` has no leading zeros and is empty for 0. */
struct decimal {
    bool negative;
    bool lost_digits; /* more digits than a uint64_t holds */
    uint64_t digits;  /* without trailing zeros of the number's own text */
    int64_t exponent;
};

enum { EXPONENT_CEILING = 1000000 }; /* far outside any type; only its sign still matters */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

size_t cay_json_number_len(struct cay_str text)
{
    const char *at = text.ptr;
    const char *end = text.ptr + text.len;
    if (at < end && *at == '-')
        at++;
    if (at == end || !is_digit(*at))
        return 0;
    if (*at == '0')
        at++;
    else
        while (at < end && is_digit(*at))
            at++;
    if (at < end && is_digit(*at))
        return 0;
    if (at < end && *at == '.') {
        at++;
        if (at == end || !is_digit(*at))
            return 0;
        while (at < end && is_digit(*at))
            at++;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < end && (*at == '+' || *at == '-'))
            at++;
        if (at == end || !is_digit(*at))
            return 0;
        while (at < end && is_digit(*at))
            at++;
    }
    return (size_t)(at - text.ptr);
}

/* Zeros wait until a digit follows them, so that 1.000 and 1000e-3 are exact however long they
 * are. */
static void take_digit(struct decimal *number, char c, uint64_t *zeros)
{
    if (c == '0') {
        *zeros += number->digits || number->lost_digits;
        return;
    }
    for (uint64_t i = 0; i < *zeros + 1 && !number->lost_digits; i++) {
        uint64_t digit = i == *zeros ? (uint64_t)(c - '0') : 0;
        uint64_t grown = 0;
        if (__builtin_mul_overflow(number->digits, 10u, &grown) ||
            __builtin_add_overflow(grown, digit, &grown))
            number->lost_digits = true;
        else
            number->digits = grown;
    }
    *zeros = 0;
}

/* `text` has passed cay_json_number_len. */
static struct decimal take_apart(struct cay_str text)
{
    struct decimal number = {};
    const char *at = text.ptr;
    const char *end = text.ptr + text.len;
    uint64_t zeros = 0; /* pending, behind the last digit that counts */
    int64_t fraction_len = 0;
    if (*at == '-') {
        number.negative = true;
        at++;
    }
    for (; at < end && is_digit(*at); at++)
        take_digit(&number, *at, &zeros);
    if (at < end && *at == '.') {
        for (at++; at < end && is_digit(*at); at++, fraction_len++)
            take_digit(&number, *at, &zeros);
    }
    int64_t exponent = 0;
    if (at < end) {
        at++;
        bool negative = *at == '-';
        at += *at == '-' || *at == '+';
        for (; at < end; at++)
            exponent = CAY_MIN(exponent * 10 + (*at - '0'), (int64_t)EXPONENT_CEILING);
        exponent = negative ? -exponent : exponent;
    }
    number.exponent = exponent - fraction_len + (int64_t)zeros;
    return number;
}

static int to_magnitude(struct cay_str text, struct decimal *out_number, uint64_t *out_magnitude)
{
    if (!text.len || cay_json_number_len(text) != text.len || text.len > CAY_JSON_NUMBER_LEN_MAX)
        return -EINVAL;
    *out_number = take_apart(text);
    if (out_number->lost_digits)
        return out_number->exponent < 0 ? -EINVAL : -ERANGE;
    uint64_t magnitude = out_number->digits;
    if (magnitude && out_number->exponent < 0)
        return -EINVAL;
    for (int64_t i = 0; magnitude && i < out_number->exponent; i++) {
        if (__builtin_mul_overflow(magnitude, 10u, &magnitude))
            return -ERANGE;
    }
    *out_magnitude = magnitude;
    return 0;
}

int cay_json_to_i64(struct cay_str text, int64_t *out_value)
{
    struct decimal number = {};
    uint64_t magnitude = 0;
    int r = to_magnitude(text, &number, &magnitude);
    if (r < 0)
        return r;
    if (magnitude > (uint64_t)INT64_MAX + number.negative)
        return -ERANGE;
    *out_value = (int64_t)(number.negative ? 0 - magnitude : magnitude);
    return 0;
}

int cay_json_to_u64(struct cay_str text, uint64_t *out_value)
{
    struct decimal number = {};
    uint64_t magnitude = 0;
    int r = to_magnitude(text, &number, &magnitude);
    if (r < 0)
        return r;
    if (number.negative && magnitude)
        return -ERANGE;
    *out_value = magnitude;
    return 0;
}

/* A NUL-terminated copy for strtod and strtof, which need one. */
static int copy_number(struct cay_str text, char out[CAY_JSON_NUMBER_LEN_MAX + 1])
{
    if (!text.len || cay_json_number_len(text) != text.len || text.len > CAY_JSON_NUMBER_LEN_MAX)
        return -EINVAL;
    memcpy(out, text.ptr, text.len);
    out[text.len] = '\0';
    return 0;
}

int cay_json_to_double(struct cay_str text, double *out_value)
{
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    char copy[CAY_JSON_NUMBER_LEN_MAX + 1];
    int r = copy_number(text, copy);
    if (r < 0)
        return r;
    struct decimal number = take_apart(text);
    /* Both factors are exact doubles, so one operation rounds once: no need of strtod. */
    if (!number.lost_digits && number.digits < (uint64_t)1 << 53 && number.exponent >= -22 &&
        number.exponent <= 22) {
        double value = (double)number.digits;
        value = number.exponent < 0 ? value / powers[-number.exponent]
                                    : value * powers[number.exponent];
        *out_value = number.negative ? -value : value;
        return 0;
    }
    double value = strtod(copy, NULL);
    if (isinf(value))
        return -ERANGE;
    *out_value = value;
    return 0;
}

int cay_json_to_float(struct cay_str text, float *out_value)
{
    char copy[CAY_JSON_NUMBER_LEN_MAX + 1];
    int r = copy_number(text, copy);
    if (r < 0)
        return r;
    float value = strtof(copy, NULL);
    if (isinf(value))
        return -ERANGE;
    *out_value = value;
    return 0;
}
