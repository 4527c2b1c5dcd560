/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One operation on a session: the only way from a verb to the disk or a process. It asks the state
 * table, waits at the session's gate, asks the table again (the world may have moved on while it
 * waited), works on a worker thread, and comes back to the loop thread.
 *
 *     struct turn_op { struct cay_op op; ... values for the worker ... };
 *     cay_op_start(&self->op, call, session_id, CAY_VERB_SNAPSHOT, true, &turn_steps);
 *
 * begin runs on the loop thread inside the gate and may refuse or fill in values; work runs on a
 * worker; end runs on the loop thread with the outcome, answers the call and frees the operation. A
 * failure before work skips it.
 */

#include "host/session/session.h"
#include "io/loop.h"

struct cay_op;

struct cay_op_steps {
    bool (*begin)(struct cay_op *op, struct cay_error *err); /* may be NULL */
    bool (*work)(struct cay_op *op, struct cay_error *err);  /* may be NULL: nothing blocks */
    void (*end)(struct cay_op *op);
    /* Work has no effects: it is not begun, or ends early, when the caller has gone. */
    bool ends_with_call;
    bool is_search; /* and it may take long */
};

struct cay_op {
    const struct cay_op_steps *steps;
    struct cay_host *host;
    struct cay_call *call;       /* NULL for what the daemon does by itself */
    struct cay_session *session; /* loop thread only */
    enum cay_session_verb verb;
    struct cay_gate_ticket ticket;
    struct cay_job job;
    bool is_inside; /* passed the gate */
    bool is_done;   /* begin and work went well */
    struct cay_error err;
};

/* The operation must be zeroed but for its own values; `end` is called exactly once, maybe before
 * this returns. */
void cay_op_start(struct cay_op *op, struct cay_host *host, struct cay_call *call,
                  struct cay_str session_id, enum cay_session_verb verb, bool is_alone,
                  const struct cay_op_steps *steps);

/* The same for a session already at hand. */
void cay_op_start_on(struct cay_op *op, struct cay_session *session, struct cay_call *call,
                     enum cay_session_verb verb, bool is_alone, const struct cay_op_steps *steps);

/* For `end`: lets the next one in. The session may be freed inside if it was destroyed. */
void cay_op_leave(struct cay_op *op);

/* Fails the call with the operation's error, leaves, frees. The usual bad end. */
void cay_op_fail(struct cay_op *op);
