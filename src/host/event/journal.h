/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The newest events, for readers at their own pace. Loop thread only; README.md says the rest. */

#include "api/cay_v1.h"
#include "base/buf.h"
#include "base/list.h"
#include "host/event/shelf.h"
#include "io/loop.h"

enum {
    CAY_JOURNAL_BYTES_MAX = 8 << 20,
    CAY_CURSOR_BYTES = 48,
    CAY_JOURNAL_READERS_PER_TURN = 32,
};

struct cay_journal;

/* Embedded in whoever reads; called when there is something new. */
struct cay_journal_reader {
    struct cay_list_node in_journal;
    void (*news)(struct cay_journal_reader *reader);
    bool skips_looks;            /* does not care for what changed nothing */
    struct cay_journal *journal; /* the rest is the journal's */
    uint64_t told;               /* of all events before this number */
};

/* With what the daemons before us left in the directory, which stays the caller's. */
[[nodiscard]] struct cay_journal *cay_journal_create(struct cay_loop *loop, int dir_fd);
void cay_journal_destroy(struct cay_journal *journal);

/* Gives the event its cursor and its time and keeps it. Readers hear of it soon, from the loop: a
 * few in each turn, so that many of them do not hold up everything else. */
void cay_journal_add(struct cay_journal *journal, struct cay_v1_event *event);

void cay_journal_follow(struct cay_journal *journal, struct cay_journal_reader *reader);
void cay_journal_unfollow(struct cay_journal_reader *reader);

/* Numbers of the oldest event that is kept and of the next one to come. */
uint64_t cay_journal_first(const struct cay_journal *journal);
uint64_t cay_journal_next(const struct cay_journal *journal);

/* The first event that has this number or a higher one; NULL: none. Kept until the next is added.
 */
[[nodiscard]] const struct cay_shelf_event *cay_journal_from(const struct cay_journal *journal,
                                                             uint64_t number);

/* Whom a reader reads of: an owner, or (`owner.ptr` is NULL) everybody; and what it knows. */
struct cay_journal_place {
    struct cay_str owner;
    uint64_t next; /* number of the event to look at */
    uint64_t lost; /* of those before this one it knows that some are lost */
    /* How many of its owner's are behind it, without receipts and of these, if that is known. */
    struct {
        uint64_t count;
        bool is_known;
    } seen[2];
};

/* Behind all there is. */
void cay_journal_place_at_end(const struct cay_journal *journal, struct cay_journal_place *place);
/* It has passed this event. */
void cay_journal_place_pass(struct cay_journal_place *place, const struct cay_shelf_event *event);
/* True when events before it were lost that it has not been told of. *out_missed: how many, 0 when
 * that is not known. */
[[nodiscard]] bool cay_journal_place_lost(const struct cay_journal *journal,
                                          struct cay_journal_place *place, uint64_t *out_missed);

/* Whether anybody waits for news of what changed nothing, too. */
[[nodiscard]] bool cay_journal_is_followed(const struct cay_journal *journal);

/* How many of a kind there were. */
uint64_t cay_journal_count(const struct cay_journal *journal, enum cay_v1_event_kind kind);

void cay_journal_cursor(const struct cay_journal *journal, uint64_t number,
                        char out[CAY_CURSOR_BYTES]);
/* False for a text that is no cursor. The number is that of the next event wanted; *out_is_lost
 * when there may have been others before it. */
[[nodiscard]] bool cay_journal_parse(const struct cay_journal *journal, struct cay_str cursor,
                                     uint64_t *out_number, bool *out_is_lost);
