/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A process that a call starts and waits for, with its output: launched, followed by a reader,
 * captured, answered. Until its end, or for as long as the call wants to wait. What differs between
 * the verbs is how output and end are told.
 */

#include "host/exec/launch.h"
#include "host/process/reader.h"
#include "tool/capture.h"

struct cay_run;

struct cay_run_style {
    /* It is on its way; may be NULL. */
    void (*started)(struct cay_run *run, struct cay_process *process);
    /* Sends a piece of output, `gap` lost bytes before it, besides its being captured; false: no
     * more until there is room. May be NULL. */
    bool (*output)(struct cay_run *run, const struct cay_frame_output *output, uint64_t gap);
    /* Answers the call; `process` is there until it returns. `result` is NULL while it goes on, and
     * both are NULL with an error. */
    void (*answer)(struct cay_run *run, struct cay_process *process,
                   struct cay_v1_exec_result *result, const struct cay_error *err);
    bool keeps; /* the process is remembered after its end, even if nobody else ever saw it */
};

struct cay_run {
    /* Filled by the caller; the launch as for cay_launch_start, without its `done`. */
    const struct cay_run_style *style;
    struct cay_launch launch;
    int64_t wait_ms; /* then it is answered as it is; -1: when it has started, 0: at its end */
    size_t result_bytes_max;

    struct cay_capture out; /* the rest is the run's own */
    struct cay_capture err_out;
    struct cay_reader reader;
    struct cay_timer wait;
};

/* `run` is on the heap and freed after the answer. */
void cay_run_start(struct cay_run *run, struct cay_host *host, struct cay_str session_id);
