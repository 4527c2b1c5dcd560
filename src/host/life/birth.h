/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How a session comes to be, comes back after a restart, and goes. Each is one operation alone in
 * the gate. Every step is written down before it is done, so that a daemon killed anywhere
 * converges: a session found `creating` is removed, one found `destroying` is removed on, an active
 * one is woken when somebody calls.
 */

#include "host/life/waking.h"
#include "host/runtime/runtime.h"
#include "host/session/op.h"
#include "host/session/record.h"

/* A base, a snapshot, or neither: the store has the tree already (a live fork). */
struct cay_birth_source {
    const char *base; /* the store's own name, of cay_bases_look_up */
    const char *snapshot_store_id;
    bool is_user_wanted; /* by the caller: a base without that user is refused */
};

struct cay_birth;
typedef void cay_birth_fn(struct cay_birth *birth);

struct cay_birth {
    struct cay_op op;
    struct cay_call *call;
    struct cay_session *session; /* alive in `born` when err.reason is 0 */
    struct cay_error err;
    cay_birth_fn *born;
    struct cay_session_record record;
    struct cay_waking waking;
    char base[CAY_STORE_NAME_SIZE];
    char snapshot_store_id[CAY_STORE_ID_SIZE];
    bool is_existing_tree; /* the store has it already (a live fork) */
    bool is_held;          /* made, and not there yet: see cay_birth_release */
    bool is_user_wanted;
    struct cay_str cwd;  /* where commands start */
    struct cay_str user; /* and as whom */
    int64_t disk_bytes;  /* its limit; 0: none */
};

/* Gives a session that is to be born its name in the store, if it has none yet: for who must know
 * it before. Its runtime is known by then. */
void cay_birth_name(struct cay_session *session, bool is_lazy);

/* `session` is new and in the table; on failure it is gone when `born` runs. */
void cay_birth_start(struct cay_session *session, struct cay_call *call,
                     const struct cay_birth_source *source, bool is_lazy, cay_birth_fn *born);

/* The same for one of several that come to be together. After a good birth it stays in its gate, in
 * state creating, and a daemon that dies takes it back; the caller puts birth->record when all are
 * made, and then releases each. */
void cay_birth_start_held(struct cay_session *session, struct cay_call *call,
                          const struct cay_birth_source *source, bool is_lazy, cay_birth_fn *born);
void cay_birth_release(struct cay_birth *birth);
