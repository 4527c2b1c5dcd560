/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The reserve: sandboxes that were started before somebody needs them. Each has the store id and
 * the uid slot of a session that is still to come; the session takes both over, so everything that
 * outlives the daemon has the right name from the beginning. What they wait with is nobody's: it
 * counts to no owner and no limit of sessions, and goes with the daemon. README.md says more.
 *
 * Loop thread only, but for what a worker does with one that it was given.
 */

#include "base/list.h"
#include "host/runtime/runtime.h"
#include "host/session/session.h"

struct cay_reserve;

struct cay_waiting {
    struct cay_list_node in_reserve;
    struct cay_watch death; /* while it waits */
    struct cay_host *host;
    struct cay_runtime *runtime;
    struct cay_sandbox *sandbox; /* NULL: it was handed out or destroyed */
    char id[CAY_STORE_ID_SIZE];
    uint32_t slot;
    int userns_fd; /* of its range */
    uint64_t memory_bytes;
};

struct cay_reserve_figures {
    size_t waiting;
    size_t size_max; /* as set */
    uint64_t memory_bytes;
    uint64_t handed_out; /* since the daemon started */
    uint64_t cold;       /* sandboxes that had to be started for who needed one */
};

/* After recovery. Nothing happens where none is to be kept. */
void cay_reserve_start(struct cay_host *host);
/* None is made any more. */
void cay_reserve_stop(struct cay_host *host);
/* Those that wait go; no job is left. */
void cay_reserve_destroy(struct cay_host *host);

/* For a new session that is to have a sandbox at once, and has neither a store id nor a slot: if
 * one waits, the session has its id, its slot and it (session->waiting). */
void cay_reserve_take(struct cay_session *session);

/* A sandbox of a session runs: counts where it came from. */
void cay_reserve_count(struct cay_host *host, bool was_waiting);

/* The caller's is not needed, or used up. Destroys what there is of it, in the background. Its slot
 * is the session's. */
void cay_waiting_drop(struct cay_host *host, struct cay_waiting *waiting);

struct cay_reserve_figures cay_reserve_figures(const struct cay_host *host);

extern const struct cay_session_part cay_reserve_part;
