/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The base "host" and its life. It is made in the background: by a daemon whose default it is, when
 * somebody first asks for it, and anew when the machine's packages have changed. Meanwhile sessions
 * are made of the one there is; an old one goes with the last that stands on it (base_sweep.c).
 *
 * In most places it is a farm of links and made in seconds. In a pool on another file system it is
 * a copy of all programs of the machine: what that takes is measured first, and what would fill the
 * pool is refused. Who wants a session of it before there is any waits for a while, and is then
 * told how far it is.
 *
 * All of it on the loop thread.
 */

#include <stdatomic.h>

#include "api/service.h"
#include "host/owner/space.h"
#include "host/store/copy.h"
#include "host/store/store.h"
#include "io/loop.h"

struct cay_build;

/* What it takes of the pool. */
struct cay_host_base_cost {
    char name[CAY_STORE_NAME_SIZE]; /* of the base that was measured; empty: not yet */
    struct cay_copy_stats stats;    /* zero: files are linked */
    struct cay_error err;           /* the pool has no room for it */
};

struct cay_host_base {
    struct cay_host *host; /* its owner */
    const char *root;      /* what it is made of: "/" but in tests */
    struct cay_timer look; /* whether it is as the machine is */
    struct cay_timer tick; /* tells how far it is */
    struct cay_list waiting;
    uint64_t looked_ms;        /* when, on the loop's clock */
    bool is_wanted;            /* it is the default, or somebody has asked for it */
    bool is_soon;              /* the next look */
    bool has_old;              /* others of it are still stood on */
    bool is_asked;             /* to look again after the job that is under way */
    struct host_base_job *job; /* under way, or NULL */
    struct cay_host_base_cost cost;
    struct cay_build *build;          /* that shows it, while it is copied */
    struct cay_error err;             /* why it could not be made the last time */
    char failed[CAY_STORE_NAME_SIZE]; /* which is not tried again unless somebody asks */
    _Atomic uint64_t bytes_total;     /* that are being copied; 0: none */
    _Atomic double fraction;          /* that is done */
};

/* Is it the default? Then it is made soon. */
void cay_host_base_start(struct cay_host *host);
/* The host lives in another pool: what was being made for the old one is given up. */
void cay_host_base_moved(struct cay_host *host, const struct cay_host_base_cost *cost);
/* The daemon ends: so does the making. */
void cay_host_base_stop(struct cay_host *host);

/* True: there is one, by the name "host". False: the call waits for it, and the verb is called
 * again then; or the call fails. */
[[nodiscard]] bool cay_host_base_need(struct cay_host *host, struct cay_call *call, cay_verb *verb);

/* On a worker: what it would take of the store, and whether the pool has room for it. */
void cay_host_base_measure(const struct cay_host *host, const struct cay_pool *pool,
                           struct cay_store *store, struct cay_host_base_cost *out_cost);

/* Adds what is to say about it. */
void cay_host_base_problems(const struct cay_host *host, struct cay_problems *problems);
