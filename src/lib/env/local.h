/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Room-private: the environment `local`, the tools in the caller's own process on a directory of
 * this host (tool/local). local.c has its life and its calls; local_apart.c those calls that may
 * outlive their caller's patience and so run on a thread of their own.
 */

#include "base/list.h"
#include "lib/env/env_ops.h"
#include "lib/env/order.h"
#include "tool/local/local.h"

struct cay_local_env {
    struct cay_env env;
    int dir_fd;         /* the directory that was named when it was opened */
    int64_t timeout_ms; /* of calls that name none */
    bool is_expected;   /* to be something that it is not: a store, a runtime */

    /* Set by create, freed with the environment: calls may be inside. */
    _Atomic(struct cay_local *) engine;

    pthread_mutex_t pause_lock; /* a pause or a resume is under way */
    atomic_bool is_paused;

    pthread_mutex_t lock;   /* of calls apart */
    pthread_cond_t changed; /* somebody has listened, or does not any more */
    struct cay_list apart;  /* those with an id of the caller's, oldest first */
    size_t apart_count;
};

static inline struct cay_local_env *cay_local_env_of(struct cay_env *env)
{
    return CAY_CONTAINER_OF(env, struct cay_local_env, env);
}

/* When a call is over, one way or the other. */
struct cay_local_patience {
    int64_t until_ms; /* monotonic; 0: never */
    int cancel_fd;    /* readable: it is cancelled; -1: nobody can */
};

/* deadline_exceeded or canceled, whichever it is; false when it is neither. */
[[nodiscard]] bool cay_local_patience_over(const struct cay_local_patience *patience,
                                           struct cay_error *err);

/* Runs the call on a thread of its own, or joins the one of its id; the response is in the order.
 * When patience ends, one with an id of the caller's goes on, and any other is ended. */
[[nodiscard]] bool cay_local_apart_run(struct cay_local_env *self, struct cay_env_order *order,
                                       const struct cay_local_patience *patience,
                                       struct cay_error *err);
/* Forgets all, of which none runs any more. */
void cay_local_apart_finish(struct cay_local_env *self);
