/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

static const struct cay_reason_info table[CAY_R_COUNT] = {
#define CAY_REASON(enum_name, name_, code_, status_, text_) \
    [CAY_R_##enum_name] = {(name_), CAY_CODE_##code_, (status_), (text_)},
#include "base/reasons.def"
#undef CAY_REASON
};

static const char *const code_names[] = {
    [CAY_CODE_CANCELED] = "canceled",
    [CAY_CODE_UNKNOWN] = "unknown",
    [CAY_CODE_INVALID_ARGUMENT] = "invalid_argument",
    [CAY_CODE_DEADLINE_EXCEEDED] = "deadline_exceeded",
    [CAY_CODE_NOT_FOUND] = "not_found",
    [CAY_CODE_ALREADY_EXISTS] = "already_exists",
    [CAY_CODE_PERMISSION_DENIED] = "permission_denied",
    [CAY_CODE_RESOURCE_EXHAUSTED] = "resource_exhausted",
    [CAY_CODE_FAILED_PRECONDITION] = "failed_precondition",
    [CAY_CODE_ABORTED] = "aborted",
    [CAY_CODE_OUT_OF_RANGE] = "out_of_range",
    [CAY_CODE_UNIMPLEMENTED] = "unimplemented",
    [CAY_CODE_INTERNAL] = "internal",
    [CAY_CODE_UNAVAILABLE] = "unavailable",
    [CAY_CODE_DATA_LOSS] = "data_loss",
    [CAY_CODE_UNAUTHENTICATED] = "unauthenticated",
};

const struct cay_reason_info *cay_reason_info(enum cay_reason reason)
{
    assert(reason > CAY_R_NONE && reason < CAY_R_COUNT);
    return &table[reason];
}

enum cay_reason cay_reason_by_name(struct cay_str name)
{
    for (int reason = CAY_R_NONE + 1; reason < CAY_R_COUNT; reason++) {
        if (cay_str_is(name, table[reason].name))
            return (enum cay_reason)reason;
    }
    return CAY_R_NONE;
}

const char *cay_code_name(enum cay_connect_code code)
{
    return (size_t)code < CAY_COUNT(code_names) ? code_names[code] : NULL;
}

enum cay_connect_code cay_code_by_name(struct cay_str name)
{
    for (size_t i = 1; i < CAY_COUNT(code_names); i++) {
        if (cay_str_is(name, code_names[i]))
            return (enum cay_connect_code)i;
    }
    return CAY_CODE_UNKNOWN;
}

/* A cut text still ends on a whole character: it is sent in JSON and in gRPC trailers. */
static void trim_partial_utf8(char *text)
{
    size_t len = strlen(text);
    size_t start = len;
    while (start && len - start < 4 && ((unsigned char)text[start - 1] & 0xC0) == 0x80)
        start--;
    if (!start)
        return;
    unsigned char lead = (unsigned char)text[start - 1];
    size_t want = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    if (len - (start - 1) < want)
        text[start - 1] = '\0';
}

CAY_PRINTF(3, 0)
static void set_text(struct cay_error *err, enum cay_reason reason, const char *fmt, va_list args)
{
    assert(reason > CAY_R_NONE && reason < CAY_R_COUNT);
    err->reason = reason;
    err->sys_errno = 0;
    err->facts[0] = '\0';
    if (fmt)
        vsnprintf(err->text, sizeof(err->text), fmt, args);
    else
        snprintf(err->text, sizeof(err->text), "%s", table[reason].text);
    trim_partial_utf8(err->text);
}

bool cay_fail(struct cay_error *err, enum cay_reason reason, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    set_text(err, reason, fmt, args);
    va_end(args);
    return false;
}

/* Whoever needs one more descriptor hits the limit; it is nobody's failure. */
static bool is_out_of_files(int sys_errno)
{
    return sys_errno == EMFILE || sys_errno == ENFILE;
}

/* strerror is not safe with threads in glibc, and the safe one is glibc's only. */
static const char *errno_text(int sys_errno)
{
#ifdef __GLIBC__
    const char *text = strerrordesc_np(sys_errno);
#else
    const char *text = strerror(sys_errno);
#endif
    if (is_out_of_files(sys_errno))
        return table[CAY_R_TOO_MANY_OPEN_FILES].text;
    return text ? text : "unknown system error";
}

bool cay_fail_errno(struct cay_error *err, enum cay_reason reason, int neg_errno, const char *fmt,
                    ...)
{
    assert(neg_errno <= 0);
    va_list args;
    va_start(args, fmt);
    if (is_out_of_files(-neg_errno))
        reason = CAY_R_TOO_MANY_OPEN_FILES;
    set_text(err, reason, fmt, args);
    va_end(args);
    err->sys_errno = -neg_errno;
    size_t len = strlen(err->text);
    snprintf(err->text + len, sizeof(err->text) - len, ": %s", errno_text(-neg_errno));
    trim_partial_utf8(err->text);
    return false;
}

const char *cay_error_next_fact(const struct cay_error *err, const char *at, const char **out_value)
{
    const char *key = err->facts;
    if (at) {
        key = at + strlen(at) + 1;
        key += strlen(key) + 1;
    }
    if (!*key)
        return NULL;
    *out_value = key + strlen(key) + 1;
    return key;
}

bool cay_error_fact(struct cay_error *err, const char *key, const char *fmt, ...)
{
    const char *value = NULL;
    const char *last = NULL;
    for (const char *at = NULL; (at = cay_error_next_fact(err, at, &value));)
        last = value;
    size_t used = last ? (size_t)(last - err->facts) + strlen(last) + 1 : 0;
    size_t room = sizeof(err->facts) - used;
    size_t key_len = strlen(key);
    assert(key_len);
    if (key_len + 3 > room)
        return false;
    va_list args;
    va_start(args, fmt);
    char *place = err->facts + used + key_len + 1;
    size_t value_room = room - key_len - 2; /* the list's own end stays */
    int len = vsnprintf(place, value_room, fmt, args);
    va_end(args);
    if (len < 0 || (size_t)len >= value_room) {
        err->facts[used] = '\0';
        return false;
    }
    memcpy(err->facts + used, key, key_len + 1);
    place[len + 1] = '\0';
    return false;
}

const char *cay_error_get(const struct cay_error *err, const char *name)
{
    const char *value = NULL;
    if (!err || !name)
        return NULL;
    for (const char *key = NULL; (key = cay_error_next_fact(err, key, &value));) {
        if (strcmp(key, name) == 0)
            return value;
    }
    return NULL;
}

const char *cay_error_reason(const struct cay_error *err)
{
    if (!err || err->reason <= CAY_R_NONE || err->reason >= CAY_R_COUNT)
        return "";
    const char *unknown = cay_error_get(err, CAY_FACT_REASON);
    return unknown ? unknown : table[err->reason].name;
}

enum cay_connect_code cay_error_code(const struct cay_error *err)
{
    if (!err || err->reason <= CAY_R_NONE)
        return CAY_CODE_OK;
    return err->reason < CAY_R_COUNT ? table[err->reason].code : CAY_CODE_UNKNOWN;
}

bool cay_error_is(const struct cay_error *err, const char *reason)
{
    return reason && *reason && strcmp(cay_error_reason(err), reason) == 0;
}

bool cay_wrap(struct cay_error *err, const char *fmt, ...)
{
    char inner[sizeof(err->text)];
    snprintf(inner, sizeof(inner), "%s", err->text);
    va_list args;
    va_start(args, fmt);
    vsnprintf(err->text, sizeof(err->text), fmt, args);
    va_end(args);
    size_t len = strlen(err->text);
    snprintf(err->text + len, sizeof(err->text) - len, ": %s", inner);
    trim_partial_utf8(err->text);
    return false;
}
