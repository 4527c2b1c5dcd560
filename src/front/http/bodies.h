/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Memory for bodies of requests under way: a budget for all of them, and one for each owner, so
 * that neither many connections nor one owner's many can take the daemon's memory. Who calls is
 * known before a body is read. Loop thread only.
 */

#include "base/error.h"
#include "base/map.h"

struct cay_bodies {
    size_t bytes_max; /* 0: no limit; so with the next */
    size_t owner_bytes_max;
    size_t bytes;
    struct cay_map owners; /* struct cay_bodies_owner; those that have some */
};

/* What one request holds; zeroed at first. */
struct cay_body_charge {
    struct cay_bodies *bodies;
    struct cay_bodies_owner *owner;
    size_t bytes;
};

void cay_bodies_init(struct cay_bodies *bodies, size_t bytes_max, size_t owner_bytes_max);
void cay_bodies_finish(struct cay_bodies *bodies);

/* The request holds that much now, or did before. RESOURCE_EXHAUSTED when it is too much for its
 * owner or for all. `bodies` may be NULL: there is no budget. */
[[nodiscard]] bool cay_body_charge_to(struct cay_body_charge *charge, struct cay_bodies *bodies,
                                      const char *owner, size_t bytes, struct cay_error *err);

/* Nothing of it is held any more. */
void cay_body_release(struct cay_body_charge *charge);
