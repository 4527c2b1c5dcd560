/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One call of a tool, from the verb to its answer. Tools of tier 1 run on a worker on the session's
 * tree (verbs_tool.c), the others as commands in the sandbox (tool_command.c).
 */

#include "host/session/session.h"
#include "tool/tool.h"

enum { CAY_PULSE_MS = 30'000 };

/* A sign of life after each silence of that length; in the call's arena. */
struct cay_pulse {
    struct cay_timer timer;
    struct cay_call *call; /* NULL: it does not beat */
};

void cay_pulse_start(struct cay_pulse *pulse, struct cay_call *call, struct cay_loop *loop);
/* Something was sent: the silence begins anew. Accepts NULL, as does stop. */
void cay_pulse_beat(struct cay_pulse *pulse);
void cay_pulse_stop(struct cay_pulse *pulse);

struct cay_tool_call {
    struct cay_host *host;
    struct cay_session *session; /* held while it runs or waits for its turn: tool_turn.c */
    struct cay_once *once;       /* the call has an id; NULL: it has none */
    const struct cay_tool *tool;
    const struct cay_v1_tool_call *request;
    struct cay_str session_id;
    int64_t result_bytes_max;
    int64_t timeout_ms;      /* of the call's policy; 0: it has none */
    struct cay_pulse *pulse; /* of a stream; may be NULL */
    int64_t started_ns;      /* monotonic */
    bool is_stream;
};

/* The ends: exactly one of them, once. */
void cay_tool_answer(struct cay_call *call, const struct cay_tool_call *tool,
                     struct cay_v1_tool_result *result);
void cay_tool_fail(struct cay_call *call, const struct cay_tool_call *tool,
                   const struct cay_error *err);

/* For streams: the first frame. `process_id` is empty when there is none. */
void cay_tool_send_started(struct cay_call *call, const struct cay_tool_call *tool,
                           const char *process_id);

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

extern const struct cay_session_part cay_tools_part;
