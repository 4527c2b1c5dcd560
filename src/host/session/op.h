/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One operation on a session: the way from a verb to its tree and its sandbox. It asks the state
 * table, waits at the session's gate, asks the table again (the world may have moved on while it
 * waited), works on a worker thread, and comes back to the loop thread.
 *
 *     struct turn_op { struct cay_op op; ... values for the worker ... };
 *     cay_op_start(&self->op, call, session_id, CAY_VERB_SNAPSHOT, true, &turn_steps);
 *
 * begin runs on the loop thread inside the gate and may refuse or fill in values; work runs on a
 * worker; end runs on the loop thread with the outcome, answers the call and frees the operation. A
 * failure before work skips it.
 *
 * An operation alone in the gate may wait for tools: `drain` says for how long and what then. Tools
 * that come meanwhile wait behind it. One whose begin sets `kills` ends what runs, and waits until
 * everybody has been told how it ended and what it wrote. Then comes `ready`, on the loop thread
 * too.
 */

#include "host/session/request.h"
#include "host/session/session.h"
#include "io/loop.h"

struct cay_op;

struct cay_op_steps {
    bool (*begin)(struct cay_op *op, struct cay_error *err); /* may be NULL */
    bool (*ready)(struct cay_op *op, struct cay_error *err); /* may be NULL */
    bool (*work)(struct cay_op *op, struct cay_error *err);  /* may be NULL: nothing blocks */
    void (*end)(struct cay_op *op);
    /* Work has no effects: it is not begun, or ends early, when the caller has gone; what the
     * daemon does by itself, when that ends. Work with effects: see cay_op_watch. */
    bool ends_with_call;
    bool is_search; /* and it may take long */
};

enum cay_op_wait {
    CAY_OP_WAITS_NOT,
    CAY_OP_WAITS_FOR_GATE,
    CAY_OP_WAITS_FOR_TOOLS, /* inside the gate, and so for the next */
    CAY_OP_WAITS_FOR_ENDS,
};

struct cay_op {
    const struct cay_op_steps *steps;
    struct cay_host *host;
    struct cay_call *call;       /* NULL for what the daemon does by itself */
    struct cay_session *session; /* loop thread only */
    enum cay_session_verb verb;
    struct cay_gate_ticket ticket;
    struct cay_job job;
    struct cay_drain drain; /* set before the start */
    bool kills;             /* set by begin */
    enum cay_op_wait wait;
    struct cay_timer waiting;
    uint64_t wait_until_ms;
    const struct cay_live *waited_on; /* the sandbox that ran when it began to wait */
    bool is_inside;                   /* passed the gate */
    bool is_done;                     /* begin and work went well */
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

/* For work with effects, around the part of it that may take long and leaves nothing behind when it
 * fails: that ends early when the caller has gone or the session is destroyed (base/stop.h). Others
 * to watch can be added. unwatch passes on how it went, and says why it ended early. */
void cay_op_watch(const struct cay_op *op);
[[nodiscard]] bool cay_op_unwatch(const struct cay_op *op, bool is_good, struct cay_error *err);

/* Something ended in the session: who waits for that inside its gate looks again. */
void cay_op_poke(struct cay_session *session);

/* The daemon ends: who waits for tools fails. Before jobs are waited for. */
void cay_op_wait_no_longer(struct cay_session *session);

/* For `end`: lets the next one in. The session may be freed inside if it was destroyed, and what
 * the operation has left in it (a process, a watch) is ended inside if the next one ends such
 * things. */
void cay_op_leave(struct cay_op *op);
