/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The network namespace of a sandbox whose network is filtered: no packet of it has a way out. All
 * that programs inside connect to ends at sockets that were made in the namespace and that we
 * hold; what they ask port 53, whomever they ask, ends at two more. Anything else is refused at
 * once: other UDP, ICMP, destinations of which no rule speaks. Their own loopback stays theirs.
 *
 * The namespace must be owned by the host's user namespace, so that nobody inside can change
 * it, and have nothing but its loopback device.
 *
 * Order: open -> (set_ranges)* -> close, or remove when the namespace is to live on without.
 */

#include "base/error.h"
#include "base/subnet.h"
#include "sys/sk_lookup.h"

/* Names that are allowed have addresses in these ranges inside; the first two of each are the
 * sandbox's own and where our sockets are. */
#define CAY_FILTER_POOL4 "198.18.0.0/15"
#define CAY_FILTER_POOL6 "fd00:e900::/32"

enum { CAY_FILTER_RANGES_MAX = 4096, CAY_FILTER_LISTEN_BACKLOG = 1024 };

/* How everything is led to our sockets. */
enum cay_filter_way {
    CAY_FILTER_ANY_WAY,   /* to cay_filter_check: the first that can be had */
    CAY_FILTER_BY_BPF,    /* sk_lookup */
    CAY_FILTER_BY_TABLES, /* redirect.h */
};

/* -1 where this kernel has no IPv6, and of the link where it is not needed. */
struct cay_filter {
    int sockets[CAY_STEERED_COUNT];
    int link_fd;
};

#define CAY_FILTER_CLOSED ((struct cay_filter){{-1, -1, -1, -1}, -1})

/* Can it be done here, in this way? Reason: NOT_SUPPORTED, with what is missing. */
[[nodiscard]] bool cay_filter_check(enum cay_filter_way wanted, enum cay_filter_way *out_way,
                                    struct cay_error *err);

/* Reason: NOT_SUPPORTED. A namespace that is furnished already gets new sockets. It may block. */
[[nodiscard]] bool cay_filter_open(int netns_fd, enum cay_filter_way way,
                                   struct cay_filter *out_filter, struct cay_error *err);
/* Nothing is heard any more: whatever programs inside connect to is refused. */
void cay_filter_close(struct cay_filter *filter);

/* The destinations, besides names', that are worth a connection. */
[[nodiscard]] bool cay_filter_set_ranges(int netns_fd, const struct cay_subnet *ranges,
                                         size_t count, struct cay_error *err);

/* The namespace as it was: a loopback and nothing else. */
[[nodiscard]] bool cay_filter_remove(int netns_fd, struct cay_error *err);
