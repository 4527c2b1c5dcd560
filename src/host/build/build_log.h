/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a build tells its caller: lines, how far it is, signs of life. On the loop thread. */

#include "api/call.h"
#include "api/cay_v1.h"
#include "base/base.h"

enum { CAY_BUILD_LINE_BYTES_MAX = 4096 };

struct cay_build_log {
    struct cay_call *call;
    struct cay_loop *loop;
    int32_t step; /* being done; 0: none */
    int32_t steps;
    bool is_full;    /* the caller has enough: no more output is to be read until there is room */
    bool is_sending; /* inside a send: the call may be cancelled there */
    uint64_t said_ms;
    double fraction;
    char line[CAY_BUILD_LINE_BYTES_MAX];
    size_t line_len;
    void (*seen)(void *context, struct cay_str line); /* of each line of output; may be NULL */
    void *context;
};

void cay_build_log_init(struct cay_build_log *log, struct cay_call *call, struct cay_loop *loop);
void cay_build_log_line(struct cay_build_log *log, const char *level, struct cay_str line);
/* Output, cut into lines; flush tells of one without an end. */
void cay_build_log_bytes(struct cay_build_log *log, struct cay_str bytes);
void cay_build_log_flush(struct cay_build_log *log);
/* Only ever forwards. */
void cay_build_log_progress(struct cay_build_log *log, double fraction, const char *message);
/* Called now and then. */
void cay_build_log_tick(struct cay_build_log *log);
/* The end. */
void cay_build_log_base(struct cay_build_log *log, struct cay_v1_base *base);
