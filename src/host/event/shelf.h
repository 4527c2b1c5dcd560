/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Encoded events in the order of their numbers, as many as fit. When one is too many, the owner who
 * has the most there loses its oldest: whoever causes a lot of events pushes out its own, not the
 * few of others. So between two that are kept there may be others that are not. Receipts of an
 * owner's networks count as those of another: programs inside cause them, as many as they like.
 */

#include "base/base.h"
#include "base/list.h"
#include "base/map.h"

enum { CAY_SHELF_EVENTS_MAX = 8192 };

struct cay_shelf_event {
    uint64_t number;
    uint64_t nth; /* of its owner's, the first is 1 */
    struct cay_shelf_share *share;
    struct cay_list_node in_share;
    size_t len;
    char bytes[];
};

struct cay_shelf {
    struct cay_shelf_event *events[CAY_SHELF_EVENTS_MAX]; /* by number */
    size_t count;
    size_t bytes;
    size_t bytes_max;
    uint64_t lost;            /* number of the newest that was pushed out; 0: none */
    struct cay_map shares[2]; /* by owner, of receipts the second; they stay, to know what was lost
                               */
};

void cay_shelf_init(struct cay_shelf *shelf, size_t bytes_max);
void cay_shelf_finish(struct cay_shelf *shelf);

/* Its number is higher than all before. */
void cay_shelf_add(struct cay_shelf *shelf, uint64_t number, struct cay_str owner, bool is_receipt,
                   struct cay_str bytes);

/* The first that has this number or a higher one; NULL: none. Kept until the next is added. */
[[nodiscard]] const struct cay_shelf_event *cay_shelf_from(const struct cay_shelf *shelf,
                                                           uint64_t number);

[[nodiscard]] struct cay_str cay_shelf_owner(const struct cay_shelf_event *event);
[[nodiscard]] bool cay_shelf_is_receipt(const struct cay_shelf_event *event);

/* Number of the newest event of an owner (of anybody: `owner.ptr` is NULL) that was pushed out, 0:
 * none; and how many of an owner's were. */
[[nodiscard]] uint64_t cay_shelf_lost(const struct cay_shelf *shelf, struct cay_str owner,
                                      bool is_receipt);
[[nodiscard]] uint64_t cay_shelf_lost_count(const struct cay_shelf *shelf, struct cay_str owner,
                                            bool is_receipt);

/* How many numbers from one to another, both included, are not there. */
[[nodiscard]] uint64_t cay_shelf_missing(const struct cay_shelf *shelf, uint64_t from, uint64_t to);

/* How many events of an owner there have been. */
[[nodiscard]] uint64_t cay_shelf_owner_count(const struct cay_shelf *shelf, struct cay_str owner,
                                             bool is_receipt);
