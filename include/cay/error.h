/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_ERROR_H
#define CAY_ERROR_H

/*
 * Why something failed: a reason (a word for programs, such as "session_paused"), a code (one of
 * the sixteen that RPCs have), and a sentence for people that says what to do. The object is the
 * caller's and owns nothing; it may stand on the stack and be copied.
 *
 *     struct cay_error err;
 *     if (!cay_env_pause(env, NULL, &err))
 *         fprintf(stderr, "%s (%s)\n", err.text, cay_error_reason(&err));
 */

#include "cay/api.h"

CAY_API_BEGIN

/* The codes of Connect and gRPC. */
enum cay_connect_code {
    CAY_CODE_OK = 0,
    CAY_CODE_CANCELED = 1,
    CAY_CODE_UNKNOWN = 2,
    CAY_CODE_INVALID_ARGUMENT = 3,
    CAY_CODE_DEADLINE_EXCEEDED = 4,
    CAY_CODE_NOT_FOUND = 5,
    CAY_CODE_ALREADY_EXISTS = 6,
    CAY_CODE_PERMISSION_DENIED = 7,
    CAY_CODE_RESOURCE_EXHAUSTED = 8,
    CAY_CODE_FAILED_PRECONDITION = 9,
    CAY_CODE_ABORTED = 10,
    CAY_CODE_OUT_OF_RANGE = 11,
    CAY_CODE_UNIMPLEMENTED = 12,
    CAY_CODE_INTERNAL = 13,
    CAY_CODE_UNAVAILABLE = 14,
    CAY_CODE_DATA_LOSS = 15,
    CAY_CODE_UNAUTHENTICATED = 16
};

struct cay_error {
    unsigned reason; /* the library's own number for it, 0: none; cay_error_reason has the word */
    int sys_errno;   /* positive; 0 when no system call was involved */
    char text[232];  /* the sentence */
    char facts[272]; /* for programs: cay_error_get */
};

/* The reason as a word, "" for an error that is not set. A word of a newer daemon that the library
 * does not know is given as it came. */
CAY_API const char *cay_error_reason(const struct cay_error *err);

CAY_API enum cay_connect_code cay_error_code(const struct cay_error *err);

/* Whether the reason is this word. */
CAY_API bool cay_error_is(const struct cay_error *err, const char *reason);

/* A fact that came with it, such as "nearest" or "session_id"; NULL when there is none of that
 * name. */
CAY_API const char *cay_error_get(const struct cay_error *err, const char *name);

CAY_API_END

#endif
