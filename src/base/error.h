/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The error object of everything from `api` upwards. Functions there return true when done and
 * false with *err filled; outputs are untouched on false. Rooms below return 0 or -errno instead.
 * The object is the caller's, lives on the stack and owns nothing.
 *
 *     return cay_fail(err, CAY_R_SESSION_PAUSED, "session '%s' is paused", id);
 *     return cay_fail_errno(err, CAY_R_STORE_FAILED, -ENOSPC, "write layer '%s'", name);
 *     return cay_wrap(err, "create session '%s'", id);      (puts context before the text)
 *     return cay_error_fact(err, "state", "paused");        (after one of the above)
 */

#include "base/base.h"
#include "cay/error.h"

enum cay_reason {
    CAY_R_NONE = 0,
#define CAY_REASON(enum_name, name, code, status, text) CAY_R_##enum_name,
#include "base/reasons.def"
#undef CAY_REASON
    CAY_R_COUNT,
};

/* The fact under which the word of a reason is kept that this build does not know: the error has
 * the reason of its code then. */
#define CAY_FACT_REASON "reason"

/* What the table says of a reason. `name` is lower case, as clients see it. */
struct cay_reason_info {
    const char *name;
    enum cay_connect_code code;
    int http_status;
    const char *text;
};

const struct cay_reason_info *cay_reason_info(enum cay_reason reason);

/* CAY_R_NONE for a name that is not in the table. */
enum cay_reason cay_reason_by_name(struct cay_str name);

/* "invalid_argument" and back; NULL and CAY_CODE_UNKNOWN for what is not a code. */
const char *cay_code_name(enum cay_connect_code code);
enum cay_connect_code cay_code_by_name(struct cay_str name);

/* All three return false, so that `return cay_fail(...)` is one line. A NULL fmt takes the table's
 * text. The limit of open files is always CAY_R_TOO_MANY_OPEN_FILES: it may be hit by any step. */
CAY_PRINTF(3, 4) bool cay_fail(struct cay_error *err, enum cay_reason reason, const char *fmt, ...);
CAY_PRINTF(4, 5)
bool cay_fail_errno(struct cay_error *err, enum cay_reason reason, int neg_errno, const char *fmt,
                    ...);
/* Adds a fact, which clients get beside the sentence: "nearest", "session_id". Keys are snake_case.
 * One that does not fit any more is left out. Returns false, as the others. */
CAY_PRINTF(3, 4)
bool cay_error_fact(struct cay_error *err, const char *key, const char *fmt, ...);
/* The next fact after `at`, which is NULL for the first one; NULL after the last. */
const char *cay_error_next_fact(const struct cay_error *err, const char *at,
                                const char **out_value);
CAY_PRINTF(2, 3) bool cay_wrap(struct cay_error *err, const char *fmt, ...);
