/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The way out of sandboxes whose network is open: one pair of devices per sandbox, addresses from a
 * pool, and a table of packet filter rules that is this daemon's own. What the kernel holds
 * outlives the daemon; a device is named for its sandbox's slot and goes with it, at the latest
 * when its network namespace goes.
 *
 * The rules (gateway_rules.c) are the same for all sandboxes: whom a packet is from, the routes
 * say. A second line of defence are routes inside (gateway_link.c), which nobody inside can change.
 *
 * Order: init -> recover, once -> attach and detach, on workers, any number at once -> finish.
 */

#include <pthread.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/subnet.h"

enum { CAY_GATEWAY_ALLOWED_MAX = 64, CAY_GATEWAY_NEIGHBOURS_MAX = 512 };

struct cay_gateway {
    pthread_mutex_t lock; /* around all that changes the kernel's state */
    char prefix[16];      /* of devices */
    char table[24];
    struct cay_subnet pool;
    struct cay_subnet allowed[CAY_GATEWAY_ALLOWED_MAX];
    size_t allowed_count;
    /* Ranges that the host reaches without a router: closed, also where they are public. */
    struct cay_subnet neighbours[CAY_GATEWAY_NEIGHBOURS_MAX];
    size_t neighbour_count;
    bool is_ruled; /* the table is there, as far as we know */
};

struct cay_gateway_options {
    uint32_t instance; /* tells daemons on one machine apart; the same after a restart */
    const char *pool;  /* IPv4 */
    /* Closed ranges that are open nevertheless. */
    const char *const *allowed;
    size_t allowed_count;
};

/* What was changed on the host besides. */
struct cay_gateway_notes {
    bool is_forwarding_set;
    bool is_forwarding6_set;
    bool has_six; /* the sandbox has IPv6 */
};

/* Reason: INVALID_ARGUMENT. */
[[nodiscard]] bool cay_gateway_init(struct cay_gateway *gateway,
                                    const struct cay_gateway_options *options,
                                    struct cay_error *err);
/* What the kernel holds stays. */
void cay_gateway_finish(struct cay_gateway *gateway);

/* Could a sandbox be attached here? Reason: NOT_SUPPORTED, with what is missing. */
[[nodiscard]] bool cay_gateway_check(struct cay_error *err);

/* Nothing is attached when it fails. An older device of the slot goes. Reasons: NOT_SUPPORTED when
 * the rules cannot be enforced, FAILED_PRECONDITION when the pool is in use, RESOURCE_EXHAUSTED,
 * RUNTIME_FAILED. */
[[nodiscard]] bool cay_gateway_attach(struct cay_gateway *gateway, int netns_fd, uint32_t slot,
                                      struct cay_gateway_notes *out_notes, struct cay_error *err);
/* Done when there is none. The last takes the rules with it. */
[[nodiscard]] bool cay_gateway_detach(struct cay_gateway *gateway, uint32_t slot,
                                      struct cay_error *err);
[[nodiscard]] bool cay_gateway_is_attached(struct cay_gateway *gateway, uint32_t slot);

/* Bytes that the sandbox received and sent since it was attached; 0 when it is not. */
struct cay_gateway_traffic {
    uint64_t received_bytes;
    uint64_t sent_bytes;
};
[[nodiscard]] struct cay_gateway_traffic cay_gateway_traffic(const struct cay_gateway *gateway,
                                                             uint32_t slot);

/* At the start: devices of slots that are not wanted go; rules are put back for what is left, or go
 * with it. */
typedef bool cay_gateway_wanted_fn(void *context, uint32_t slot);
[[nodiscard]] bool cay_gateway_recover(struct cay_gateway *gateway, cay_gateway_wanted_fn *wanted,
                                       void *context, struct cay_error *err);

/* Somebody took the rules away, or the host has other neighbours: puts them right, if there should
 * be any. */
[[nodiscard]] bool cay_gateway_renew(struct cay_gateway *gateway, struct cay_error *err);
