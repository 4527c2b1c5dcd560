/* SPDX-License-Identifier: Apache-2.0 */
#include "base/conf_internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/quantity.h"

static const struct {
    size_t size;
    const char *metavar;
} types[] = {
    [CAY_CONF_STRING] = {sizeof(char *), "TEXT"},
    [CAY_CONF_SECRET] = {sizeof(struct cay_secret), "SECRET"},
    [CAY_CONF_BOOL] = {sizeof(bool), "BOOL"},
    [CAY_CONF_INTEGER] = {sizeof(int64_t), "NUMBER"},
    [CAY_CONF_DURATION] = {sizeof(int64_t), "DURATION"},
    [CAY_CONF_SIZE] = {sizeof(uint64_t), "SIZE"},
    [CAY_CONF_RATIO] = {sizeof(double), "RATIO"},
    [CAY_CONF_DECIMAL] = {sizeof(double), "NUMBER"},
    [CAY_CONF_ENUM] = {sizeof(int), "CHOICE"},
    [CAY_CONF_LIST] = {sizeof(struct cay_conf_list), "LIST"},
};

size_t cay_conf_value_size(enum cay_conf_type type)
{
    assert(type >= CAY_CONF_STRING && type <= CAY_CONF_LIST);
    return types[type].size;
}

const char *cay_conf_metavar(const struct cay_conf_entry *entry)
{
    return entry->metavar ? entry->metavar : types[entry->type].metavar;
}

static bool in_bounds(const struct cay_conf_entry *entry, int64_t value)
{
    return (!entry->min && !entry->max) || (value >= entry->min && value <= entry->max);
}

static bool parse_string(const struct cay_conf_entry *entry, struct cay_str text, char **out)
{
    if (!in_bounds(entry, (int64_t)text.len) || (text.len && memchr(text.ptr, '\0', text.len)))
        return false;
    *out = cay_strndup(text.ptr, text.len);
    return true;
}

static bool parse_bool(struct cay_str text, bool *out)
{
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
    for (size_t i = 0; i < CAY_COUNT(words); i++) {
        if (cay_str_equal_nocase(text, cay_str(words[i]))) {
            *out = i % 2;
            return true;
        }
    }
    return false;
}

static bool parse_integer(struct cay_str text, int64_t *out)
{
    bool negative = cay_str_starts(text, "-");
    if (negative)
        text = (struct cay_str){text.ptr + 1, text.len - 1};
    uint64_t value = 0;
    if (cay_str_to_u64(text, INT64_MAX, &value) < 0)
        return false;
    *out = negative ? -(int64_t)value : (int64_t)value;
    return true;
}

/* Digits with one point at most: no exponent, no sign, no "nan". */
static bool parse_decimal(const struct cay_conf_entry *entry, struct cay_str text, double *out)
{
    char number[32];
    if (!text.len || text.len >= sizeof(number) || text.ptr[0] == '.')
        return false;
    memcpy(number, text.ptr, text.len);
    number[text.len] = '\0';
    size_t len = strspn(number, "0123456789");
    if (number[len] == '.')
        len += 1 + strspn(number + len + 1, "0123456789");
    if (len != text.len)
        return false;
    double value = strtod(number, NULL);
    if (value < (double)entry->min || value > (double)entry->max)
        return false;
    *out = value;
    return true;
}

static bool parse_choice(const struct cay_conf_entry *entry, struct cay_str text, int *out)
{
    for (int i = 0; entry->choices[i]; i++) {
        if (cay_str_is(text, entry->choices[i])) {
            *out = i;
            return true;
        }
    }
    return false;
}

static void finish_list(struct cay_conf_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i]);
    free(list->items);
    *list = (struct cay_conf_list){};
}

/* Empty text is an empty list, but a list has no empty items: "a,,b" is a slip. */
static bool parse_list(struct cay_str text, struct cay_conf_list *out)
{
    struct cay_conf_list list = {};
    struct cay_str rest = cay_str_trim(text);
    struct cay_str part;
    if (!rest.len)
        rest.ptr = NULL;
    while (cay_str_split(&rest, ',', &part)) {
        part = cay_str_trim(part);
        if (!part.len || memchr(part.ptr, '\0', part.len) ||
            list.count == CAY_CONF_LIST_ITEMS_MAX) {
            finish_list(&list);
            return false;
        }
        list.items = cay_realloc_array(list.items, list.count + 1, sizeof(*list.items));
        list.items[list.count++] = cay_strndup(part.ptr, part.len);
    }
    *out = list;
    return true;
}

bool cay_conf_value_parse(const struct cay_conf_entry *entry, struct cay_str text,
                          union cay_conf_value *out)
{
    cay_conf_value_clear(out);
    if (text.len > CAY_CONF_VALUE_BYTES_MAX)
        return false;
    switch (entry->type) {
    case CAY_CONF_STRING: return parse_string(entry, text, &out->string);
    case CAY_CONF_SECRET: cay_secret_set(&out->secret, text); return true;
    case CAY_CONF_BOOL: return parse_bool(text, &out->truth);
    case CAY_CONF_INTEGER:
        return parse_integer(text, &out->integer) && in_bounds(entry, out->integer);
    case CAY_CONF_DURATION:
        return cay_duration_parse(text, &out->integer) == 0 && in_bounds(entry, out->integer);
    case CAY_CONF_SIZE:
        return cay_size_parse(text, &out->bytes) == 0 && out->bytes <= INT64_MAX &&
               in_bounds(entry, (int64_t)out->bytes);
    case CAY_CONF_RATIO: return cay_ratio_parse(text, &out->ratio) == 0;
    case CAY_CONF_DECIMAL: return parse_decimal(entry, text, &out->ratio);
    case CAY_CONF_ENUM: return parse_choice(entry, text, &out->choice);
    case CAY_CONF_LIST: return parse_list(text, &out->list);
    }
    return false;
}

void cay_conf_value_finish(const struct cay_conf_entry *entry, union cay_conf_value *value)
{
    if (entry->type == CAY_CONF_STRING)
        free(value->string);
    else if (entry->type == CAY_CONF_SECRET)
        cay_secret_finish(&value->secret);
    else if (entry->type == CAY_CONF_LIST)
        finish_list(&value->list);
    cay_conf_value_clear(value);
}

/* One bound of an entry, in words. */
static void format_bound(enum cay_conf_type type, int64_t bound, char out[CAY_DURATION_BYTES])
{
    if (type == CAY_CONF_DURATION)
        cay_duration_format(bound, out);
    else if (type == CAY_CONF_SIZE)
        cay_size_format((uint64_t)bound, out);
    else
        snprintf(out, CAY_DURATION_BYTES, "%lld", (long long)bound);
}

static void list_choices(const struct cay_conf_entry *entry, char out[CAY_CONF_ALLOWED_BYTES])
{
    int len = snprintf(out, CAY_CONF_ALLOWED_BYTES, "one of ");
    for (size_t i = 0; entry->choices[i] && len < CAY_CONF_ALLOWED_BYTES; i++) {
        const char *comma = !i ? "" : entry->choices[i + 1] ? ", " : " or ";
        len += snprintf(out + len, (size_t)(CAY_CONF_ALLOWED_BYTES - len), "%s%s", comma,
                        entry->choices[i]);
    }
}

void cay_conf_allowed(const struct cay_conf_entry *entry, char out[CAY_CONF_ALLOWED_BYTES])
{
    static const char *const nouns[] = {
        [CAY_CONF_STRING] = "text",
        [CAY_CONF_SECRET] = "text",
        [CAY_CONF_BOOL] = "true or false",
        [CAY_CONF_INTEGER] = "a whole number",
        [CAY_CONF_DURATION] = "a duration such as 30s, 5m or 1h30m",
        [CAY_CONF_SIZE] = "a size such as 4096, 512M or 2GiB",
        [CAY_CONF_RATIO] = "a ratio from 0 to 1 such as 0.8 or 80%",
        [CAY_CONF_DECIMAL] = "a number such as 2 or 0.5",
        [CAY_CONF_LIST] = "a list with commas between its items",
    };
    char min[CAY_DURATION_BYTES];
    char max[CAY_DURATION_BYTES];
    if (entry->type == CAY_CONF_ENUM) {
        list_choices(entry, out);
        return;
    }
    const char *noun = nouns[entry->type];
    format_bound(entry->type, entry->min, min);
    format_bound(entry->type, entry->max, max);
    if (!entry->min && !entry->max)
        snprintf(out, CAY_CONF_ALLOWED_BYTES, "%s", noun);
    else if (entry->type == CAY_CONF_STRING)
        snprintf(out, CAY_CONF_ALLOWED_BYTES, "%s of %s to %s bytes", noun, min, max);
    else if (entry->type == CAY_CONF_INTEGER)
        snprintf(out, CAY_CONF_ALLOWED_BYTES, "%s from %s to %s", noun, min, max);
    else
        snprintf(out, CAY_CONF_ALLOWED_BYTES, "%s, from %s to %s", noun, min, max);
}
