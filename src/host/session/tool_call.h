/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One call of a tool, from the verb to its answer. Tools of tier 1 run on a worker on the session's
 * tree (verbs_tool.c), the others as commands in the sandbox (tool_command.c).
 */

#include "host/session/session.h"
#include "tool/tool.h"

struct cay_tool_call {
    struct cay_host *host;
    struct cay_session *session; /* held while it runs or waits for its turn: tool_turn.c */
    struct cay_once *once;       /* the call has an id; NULL: it has none */
    const struct cay_tool *tool;
    const struct cay_v1_tool_call *request;
    struct cay_str session_id;
    int64_t result_bytes_max;
    int64_t started_ns; /* monotonic */
    bool is_stream;
};

/* The ends: exactly one of them, once. */
void cay_tool_answer(struct cay_call *call, const struct cay_tool_call *tool,
                     struct cay_v1_tool_result *result);
void cay_tool_fail(struct cay_call *call, const struct cay_tool_call *tool,
                   const struct cay_error *err);

/* For streams: the first frame. */
void cay_tool_send_started(struct cay_call *call, const struct cay_tool_call *tool);

/* Runs the program of a tool of tier 2 in the sandbox. */
void cay_tool_command_start(struct cay_call *call, const struct cay_tool_call *tool);

/* Starts the call now, or when it is its turn: so many tools of a session run at the same time. A
 * call that goes away while it waits is failed. */
typedef void cay_tool_start_fn(struct cay_call *call, const struct cay_tool_call *tool);
void cay_tool_turn_take(struct cay_call *call, struct cay_tool_call *tool,
                        cay_tool_start_fn *start);
/* Starts those whose turn it is: more may run now. The session is held by somebody. */
void cay_tool_turns_call(struct cay_session *session);
/* At its end. */
void cay_tool_turn_leave(const struct cay_tool_call *tool);
