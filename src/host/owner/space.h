/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How full the pool is, and how its devices are, and what follows: from one share on the host says
 * that it is degraded, from another on it takes no new sessions and snapshots, so that what is
 * there can go on and be cleaned up.
 */

#include "api/cay_v1.h"
#include "host/pool/pool.h"
#include "host/store/store.h"
#include "io/loop.h"

struct cay_call;
struct cay_host;

struct cay_space {
    struct cay_pool_space now;
    enum cay_store_health health;
    struct cay_error err; /* the pool cannot be looked at */
    int64_t looked_ns;    /* wall clock */
};

/* The host's: what was seen last, and who waits for the next look. Freed by its host. */
struct cay_space_watch {
    struct cay_host *host;
    struct cay_space seen;
    struct cay_timer look;
    bool is_looking;
    struct cay_list calls;                                        /* that wait for a look */
    void (*looked)(struct cay_host *host, struct cay_call *call); /* answers them */
};
[[nodiscard]] struct cay_space_watch *cay_space_watch_create(struct cay_host *host);

/* On a worker: fills it in. */
void cay_space_look(const struct cay_pool *pool, struct cay_store *store,
                    struct cay_space *out_space);

/* Looks now, and then again and again. */
void cay_space_start(struct cay_host *host);
void cay_space_stop(struct cay_host *host);

/* Looks, or waits for the look under way; then the call is answered by `seen`, the same for all. */
void cay_space_ask(struct cay_host *host, struct cay_call *call,
                   void (*seen)(struct cay_host *host, struct cay_call *call));

/* What was seen of a pool counts if it is still the host's. */
void cay_space_seen(struct cay_host *host, const struct cay_pool *pool,
                    const struct cay_space *space);

/* On a worker, before something new takes space: RESOURCE_EXHAUSTED when there is too little. */
[[nodiscard]] bool cay_space_check(struct cay_host *host, struct cay_error *err);

/* What may still be written before the pool takes nothing new: bytes, and files. From any thread.
 */
[[nodiscard]] uint64_t cay_space_room(const struct cay_host *host,
                                      const struct cay_pool_space *space);
[[nodiscard]] uint64_t cay_space_room_files(const struct cay_host *host,
                                            const struct cay_pool_space *space);

enum cay_v1_pool_state cay_space_state(const struct cay_space *space);

/* All that is wrong, worst first. */
enum { CAY_PROBLEMS_MAX = 16 };
struct cay_problems {
    struct cay_arena *arena; /* for the sentences */
    struct cay_v1_health_problem items[CAY_PROBLEMS_MAX];
    size_t count;
};

/* `reason` stays. */
[[gnu::format(printf, 4, 5)]] void cay_problem_add(struct cay_problems *problems,
                                                   enum cay_v1_health_status status,
                                                   const char *reason, const char *format, ...);

/* Adds what is to say about the pool. */
void cay_space_problems(const struct cay_host *host, struct cay_problems *problems);
