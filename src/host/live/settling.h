/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Those who wait for the helper of a filtered network: until it has new rules, or has told all that
 * it had to tell. Neither may take long, or for ever: whoever waits is called from the loop when
 * the answer comes, when it does not, and when there is nobody left to give it. Loop thread only.
 */

#include "base/list.h"
#include "io/loop.h"

enum { CAY_SETTLING_MS = 1000 };

struct cay_settling {
    struct cay_loop *loop;
    struct cay_list waits; /* oldest first */
    struct cay_timer timer;
};

/* Embedded in whoever waits; Zeroed while it does not. */
struct cay_settle {
    struct cay_list_node in_settling;
    void (*done)(struct cay_settle *settle);
    uint64_t serial;
    uint64_t deadline_ms;
    bool is_for_rules;
    bool is_answered;
};

void cay_settling_open(struct cay_settling *settling, struct cay_loop *loop);
/* All are called. */
void cay_settling_close(struct cay_settling *settling);

void cay_settling_add(struct cay_settling *settling, struct cay_settle *settle, bool is_for_rules,
                      uint64_t serial, void (*done)(struct cay_settle *settle));
/* The answer to what had this number, or a lower one. They are called soon. */
void cay_settling_answer(struct cay_settling *settling, bool is_for_rules, uint64_t serial);
/* Nobody answers any more: all are called soon. */
void cay_settling_give_up(struct cay_settling *settling);
