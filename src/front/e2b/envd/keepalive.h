/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A silent stream says now and then that it lives, as often as its client asked for
 * (`Keepalive-Ping-Interval`, in seconds).
 *
 * Order: open -> said, from the first message of the stream on -> close when the request is closed.
 */

#include "front/e2b/visit.h"

struct cay_e2b_keepalive {
    struct cay_rest_request *request;
    const char *outer; /* the keys of its message, as cay_e2b_rpc_send_empty has them */
    const char *inner;
    struct cay_timer timer;
    uint64_t interval_ms;
    uint64_t said_ms; /* when something was said; 0: nothing yet */
};

void cay_e2b_keepalive_open(struct cay_e2b_keepalive *keepalive, struct cay_rest_request *request,
                            const char *outer, const char *inner);

/* The stream has just said something. */
void cay_e2b_keepalive_said(struct cay_e2b_keepalive *keepalive);

void cay_e2b_keepalive_close(struct cay_e2b_keepalive *keepalive);
