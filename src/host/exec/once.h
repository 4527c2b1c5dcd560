/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Tool calls that have an id happen once: a second call with the same id joins the first while it
 * runs, and gets its result as long as that is kept. Only results are kept, not failures: those may
 * be tried again. Loop thread only.
 */

#include "api/call.h"
#include "api/cay_v1.h"
#include "base/list.h"

enum {
    CAY_ONCE_RESULTS_MAX = 256,          /* kept per session */
    CAY_ONCE_RESULT_BYTES_MAX = 1 << 20, /* a larger one is not kept */
};

/* A session's half. */
struct cay_once_table {
    struct cay_list calls; /* oldest first */
    size_t count;
};

struct cay_once; /* one call; shared by the table and whoever runs it */

/* Somebody who waits for a call of another; lives in its own call's arena. */
struct cay_once_waiter {
    struct cay_list_node in_once;
    struct cay_call *call;
    bool is_stream;
    /* Exactly one of the two is set; the result is good until it returns. */
    void (*answer)(struct cay_once_waiter *waiter, struct cay_v1_tool_result *result,
                   const struct cay_error *err);
};

void cay_once_init(struct cay_once_table *table);
/* Empties it: at the end, and when a rollback undid what the results tell of. */
void cay_once_finish(struct cay_once_table *table);

/* A call begins. *out_mine: the caller runs it and ends it with cay_once_end. NULL there: the
 * waiter has been answered, or will be. False: the id was used for something else. */
[[nodiscard]] bool cay_once_begin(struct cay_once_table *table,
                                  const struct cay_v1_tool_call *request,
                                  struct cay_once_waiter *waiter, struct cay_once **out_mine,
                                  struct cay_error *err);

/* It has a result, or failed. Answers those who waited; NULL for `once` does nothing. */
void cay_once_end(struct cay_once *once, const struct cay_v1_tool_result *result,
                  const struct cay_error *err);
