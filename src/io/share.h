/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The workers' shares of owners, by name. Whatever is done for an owner goes through lanes of its
 * shares, wherever it arises: a door that unpacks a large message, a session's file tools, a base
 * that is imported. Loop thread only.
 */

#include "base/id.h"
#include "io/loop.h"

enum {
    CAY_OWNER_THREADS = 16,       /* of one owner's jobs, at once */
    CAY_OWNER_SEARCH_THREADS = 8, /* and of those that search and compare trees */
    CAY_OWNER_DOOR_THREADS = 2,   /* and of those that decode and pack its messages */
};

struct cay_shares {
    struct cay_share quick;  /* what answers soon, or waits for the disk */
    struct cay_share search; /* what may keep a processor busy for long */
    struct cay_share door;   /* large messages, before and after their verbs */
    struct cay_lane door_lane;
    char owner[CAY_ID_SIZE];
    unsigned ref_count;
    struct cay_loop *loop;
};

/* Made when nobody had them. */
[[nodiscard]] struct cay_shares *cay_shares_ref(struct cay_loop *loop, const char *owner);

/* Freed with the last one: no job may be under way then. NULL does nothing. */
void cay_shares_unref(struct cay_shares *shares);
