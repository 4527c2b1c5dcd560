/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Structured logging: one event, one line, typed key-values and no format strings.
 *
 *     cay_log(CAY_INFO, "session.created", CAY_S("session", id), CAY_U("layers", count),
 *             CAY_D("took", cay_clock_ns() - start_ns));
 *     cay_log(CAY_ERROR, "call.failed", CAY_S("call", call_id), CAY_ERR(&err));
 *
 * Lines are logfmt on standard error (coloured on a terminal) or JSON; under systemd they carry the
 * journal's priority. Values may be hostile: they are quoted and escaped so that none can forge a
 * line, a field or a terminal sequence. Each line is bounded and written by one write(2). Any
 * thread may log; setup and sink belong to the start of the program. Arguments are only evaluated
 * when the level is wanted.
 */

#include "base/base.h"
#include "base/error.h"
#include "base/secret.h"

enum {
    CAY_LOG_LINE_BYTES_MAX = 8192,
    CAY_LOG_VALUE_BYTES_MAX = 2048, /* after escaping; so that one value cannot crowd out others */
};

enum cay_log_level {
    CAY_DEBUG = 1,
    CAY_INFO,
    CAY_WARN,
    CAY_ERROR,
};

enum cay_log_format {
    CAY_LOG_LOGFMT = 1,
    CAY_LOG_JSON,
};

/* Zeroed: from info on, logfmt. */
struct cay_log_options {
    enum cay_log_level level_min;
    enum cay_log_format format;
};

/* Looks at the environment too: NO_COLOR and TERM, and JOURNAL_STREAM. Without it the defaults
 * hold, plain. */
void cay_log_setup(const struct cay_log_options *options);

/* May be changed at any time. */
void cay_log_set_level(enum cay_log_level level_min);

[[nodiscard]] const char *cay_log_level_name(enum cay_log_level level);

/* For tests: lines (with their newline) go to `sink` instead of standard error, one at a time. The
 * sink must not log. NULL puts standard error back. */
void cay_log_set_sink(void (*sink)(void *data, struct cay_str line), void *data);

enum cay_log_type {
    CAY_LOG_END = 0,
    CAY_LOG_TEXT,
    CAY_LOG_SECRET,
    CAY_LOG_UNSIGNED,
    CAY_LOG_SIGNED,
    CAY_LOG_REAL,
    CAY_LOG_BOOL,
    CAY_LOG_DURATION,
    CAY_LOG_ERROR,
};

struct cay_log_field {
    const char *key;
    enum cay_log_type type;
    union {
        struct cay_str text;
        uint64_t number;
        int64_t integer; /* also nanoseconds */
        double real;
        bool truth;
        const struct cay_error *error;
    };
};

/* Text: a char *, a struct cay_str, or a struct cay_secret *, which is printed as ***. */
/* clang-format off */
#define CAY_S(key_, ...)                                \
    _Generic((__VA_ARGS__),                             \
        struct cay_str: cay_log_field_str,              \
        struct cay_secret *: cay_log_field_secret,      \
        const struct cay_secret *: cay_log_field_secret, \
        default: cay_log_field_text)("" key_, (__VA_ARGS__))
/* clang-format on */

#define CAY_U(key_, value_) \
    ((struct cay_log_field){.key = "" key_, .type = CAY_LOG_UNSIGNED, .number = (value_)})
#define CAY_I(key_, value_) \
    ((struct cay_log_field){.key = "" key_, .type = CAY_LOG_SIGNED, .integer = (value_)})
#define CAY_F(key_, value_) \
    ((struct cay_log_field){.key = "" key_, .type = CAY_LOG_REAL, .real = (value_)})
#define CAY_B(key_, value_) \
    ((struct cay_log_field){.key = "" key_, .type = CAY_LOG_BOOL, .truth = (value_)})

/* A duration in nanoseconds: took=1.23ms, or "took_ns":1234567 in JSON. */
#define CAY_D(key_, value_) \
    ((struct cay_log_field){.key = "" key_, .type = CAY_LOG_DURATION, .integer = (value_)})

/* The fields `reason`, `error` and, if a system call was involved, `errno`. */
#define CAY_ERR(err_) \
    ((struct cay_log_field){.key = "error", .type = CAY_LOG_ERROR, .error = (err_)})

#define cay_log(level_, event_, ...)                                                             \
    do {                                                                                         \
        if (cay_log_wants(level_))                                                               \
            cay_log_write((level_), "" event_,                                                   \
                          (const struct cay_log_field[]){__VA_ARGS__ __VA_OPT__(, ){.key = 0}}); \
    } while (0)

[[nodiscard]] bool cay_log_wants(enum cay_log_level level);

/* What cay_log calls; `fields` end with one of type CAY_LOG_END. Keeps errno. */
void cay_log_write(enum cay_log_level level, const char *event, const struct cay_log_field *fields);

static inline struct cay_log_field cay_log_field_str(const char *key, struct cay_str text)
{
    return (struct cay_log_field){.key = key, .type = CAY_LOG_TEXT, .text = text};
}

static inline struct cay_log_field cay_log_field_text(const char *key, const char *text)
{
    return cay_log_field_str(key, cay_str(text));
}

static inline struct cay_log_field cay_log_field_secret(const char *key, const struct cay_secret *)
{
    return (struct cay_log_field){.key = key, .type = CAY_LOG_SECRET};
}
