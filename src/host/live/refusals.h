/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whom receipts concern: what was refused while a command ran, and which process ran at a time.
 * The helper does not know who connects, so it goes by time: a refusal is told to every command
 * that ran then, and a process is named only when no other one ran. Of a session, bounded.
 */

#include "host/session/session.h"
#include "wire/egress/egress.h"

enum {
    CAY_REFUSALS_MAX = 64,     /* different ones that are kept, */
    CAY_REFUSALS_TOLD_MAX = 8, /* and that one command is told */
    CAY_REFUSALS_LIVES = 32,   /* of processes that have ended */
};

struct cay_refusals {
    struct cay_refusal {
        char *text;
        int64_t last_ns; /* wall clock */
    } items[CAY_REFUSALS_MAX];
    size_t count;
    int64_t dropped_ns; /* the last time of any that had no room */
    struct cay_lived {
        char id[CAY_PROCESS_ID_SIZE];
        int64_t started_ns, ended_ns;
    } lives[CAY_REFUSALS_LIVES]; /* a ring */
    size_t life_count;           /* of all there were */
};

void cay_refusals_finish(struct cay_refusals *refusals);

/* Its texts are printable. */
void cay_refusals_add(struct cay_refusals *refusals, const struct cay_session *session,
                      const struct cay_egress_receipt *receipt);
/* The newest that were seen since, as sentences in the arena; how many there were in all. */
int32_t cay_refusals_since(const struct cay_refusals *refusals, int64_t since_ns,
                           struct cay_arena *arena, struct cay_pb_strs *out_sentences);
/* Whether any was seen since. */
[[nodiscard]] bool cay_refusals_any(const struct cay_refusals *refusals, int64_t since_ns);

/* It has ended just now. */
void cay_refusals_ended(struct cay_refusals *refusals, const struct cay_process *process);
/* The one process that ran between the two; NULL: several did, or that is not known. */
const char *cay_refusals_process(const struct cay_refusals *refusals,
                                 const struct cay_session *session, int64_t began_ns,
                                 int64_t ended_ns);
