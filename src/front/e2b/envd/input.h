/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Input for a process, at the pace at which it reads: the hallway takes over what fits into its
 * queue, and clients of this wire expect to wait for the rest, as at a pipe.
 *
 * Order: open -> write, and again when that is done -> close when the request is closed.
 */

#include "front/rest/call.h"

struct cay_e2b_input {
    struct cay_rest_request *request;
    struct cay_str process_id;
    struct cay_buf data;
    size_t at; /* so much of it is taken over */
    struct cay_timer timer;
    uint64_t full_ms; /* how long a full queue is left alone */
    /* All of it is taken over, or it failed and the error was answered. */
    void (*done)(struct cay_rest_request *request, bool is_good);
};

void cay_e2b_input_open(struct cay_e2b_input *input, struct cay_rest_request *request,
                        void (*done)(struct cay_rest_request *request, bool is_good));

/* One at a time; the data is copied. `process_id` is set by then. */
void cay_e2b_input_write(struct cay_e2b_input *input, struct cay_str data);

void cay_e2b_input_close(struct cay_e2b_input *input);
