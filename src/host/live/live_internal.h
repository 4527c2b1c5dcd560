/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The talk with a sandbox's init, for the two files it is in: what is said (live.c), and what is
 * heard (live_events.c). */

#include "host/live/live.h"
#include "host/live/watchdog.h"
#include "host/session/session.h"

struct cay_live {
    struct cay_session *session;
    struct cay_link *link;
    struct cay_watch link_watch;
    struct cay_watch death_watch;
    uint64_t next_call;
    struct cay_list others; /* calls with living processes that nobody follows */
    bool is_listing;        /* those of an earlier daemon are not known yet */
    struct cay_watchdog watchdog;
    unsigned depth; /* inside cay_link_step */
    bool is_broken;
    struct cay_error broken;
};

/* A command of an earlier daemon that still runs, or one that ended and left processes behind. */
struct cay_live_other {
    struct cay_list_node in_live;
    uint64_t call;
};

/* What init says; their owner is a struct cay_live. */
extern const struct cay_link_handlers cay_live_handlers;

void cay_live_note_other(struct cay_live *live, uint64_t call);
void cay_live_forget_other(struct cay_live *live, uint64_t call);
