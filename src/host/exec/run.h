/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A command on behalf of a call, from the state table to the answer: wake the session, pass the
 * gate, start it, follow its output, answer. What differs between the verbs is how output and end
 * are told.
 */

#include "host/exec/command.h"
#include "host/live/live.h"
#include "host/session/op.h"
#include "io/loop.h"
#include "tool/capture.h"

struct cay_run;

struct cay_run_style {
    bool is_tool; /* a pause waits for it; processes are frozen */
    /* The command runs; may be NULL. */
    void (*started)(struct cay_run *run);
    /* Sends a piece of output; false: no more until there is room. NULL: it is captured instead. */
    bool (*output)(struct cay_run *run, const struct cay_frame_output *output);
    /* Answers the call. `result` is NULL when the command was lost or never began: then err says
     * why; without err it goes on. */
    void (*answer)(struct cay_run *run, struct cay_v1_exec_result *result,
                   const struct cay_error *err);
};

struct cay_run {
    const struct cay_run_style *style;
    struct cay_call *call;
    struct cay_command_line command;
    struct cay_str stdin_data;
    enum cay_v1_process_origin origin;
    struct cay_str tool_call_id;
    struct cay_str tag;
    int64_t wait_ms; /* then it goes on by itself; 0: it is waited for */
    size_t result_bytes_max;
    bool kills_on_disconnect;

    struct cay_op op; /* the passage through the gate */
    struct cay_exec exec;
    struct cay_timer wait;
    const struct cay_frame_exit *exit; /* in `answer`: how it ended; NULL: it goes on */
    const struct cay_frame_who *who;
    struct cay_user user;
    struct cay_session *session; /* until the command ended */
    struct cay_frame_exec frame;
    struct cay_capture out;
    struct cay_capture err_out;
    int64_t started_ns;   /* wall clock */
    uint64_t seen_offset; /* output told so far */
    uint64_t acked_offset;
    uint64_t dropped_bytes; /* lost in the ring */
    uint64_t gap_bytes;     /* the part of it directly before the piece at hand */
    bool is_stalled;        /* the reader has enough */
    bool has_begun;
};

/* The process of the table that the command is known as; made when it is not there yet. */
struct cay_process *cay_run_process(struct cay_run *run);

/* `run` is on the heap, its first part filled; it is freed after the answer. */
void cay_run_start(struct cay_run *run, struct cay_host *host, struct cay_str session_id);
