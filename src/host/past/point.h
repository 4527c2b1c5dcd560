/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Taking a point of a session's tree: the part that turns, named snapshots, rollbacks and live
 * forks share. The loop thread says what lives in the sandbox, a worker freezes what must be
 * frozen, lets the store work, and puts the new root under init.
 */

#include "host/session/op.h"
#include "host/session/record.h"

struct cay_sandbox;

struct cay_pointing {
    char store_id[CAY_STORE_ID_SIZE];
    char head_store_id[CAY_STORE_ID_SIZE]; /* of the snapshot it descends from; empty: its base */
    struct cay_store_owner owner;
    enum cay_store_activity activity;
    bool needs_freeze; /* unless it is frozen already, and to stay so */
    bool is_mounted;
    struct cay_sandbox *sandbox; /* borrowed; NULL: none runs */
    struct cay_store_point point;
    int old_fd;                  /* of the root that the sandbox had before */
    int64_t frozen_ns;           /* how long the commands stood still */
    struct cay_watches *watches; /* borrowed; NULL: nobody watches the tree */
    bool is_other_tree;          /* the new root has other files */
};

/* On the loop thread, inside the gate alone. */
void cay_pointing_init(struct cay_pointing *pointing, const struct cay_session *session);

/* On a worker. The activity is known afterwards. */
[[nodiscard]] bool cay_pointing_freeze(struct cay_pointing *pointing, struct cay_error *err);
void cay_pointing_thaw(struct cay_pointing *pointing);
/* For who has ended all commands: the last of them may still be dying. */
void cay_pointing_wait_idle(const struct cay_pointing *pointing);
/* Puts the new root (if there is one) under the sandbox. Fails only when the sandbox is broken: it
 * is then of no use any more, the tree is as it should be. */
[[nodiscard]] bool cay_pointing_switch(struct cay_pointing *pointing, struct cay_error *err);

/* Ends a sandbox whose root is no longer the session's. Before anything is written down: the next
 * daemon would take it for one with the root that the record tells of, and what is written there
 * would be lost, or change a snapshot. */
void cay_pointing_abandon(struct cay_pointing *pointing);

/* On the loop thread: the session goes on with the new root. */
void cay_pointing_install(struct cay_pointing *pointing, struct cay_session *session);

/* The same after a failure, which may have come when the store had moved on: the old root is then
 * a layer that nobody may write to. Does nothing when it had not, or nothing was begun. */
void cay_pointing_settle(struct cay_pointing *pointing, struct cay_session *session);
