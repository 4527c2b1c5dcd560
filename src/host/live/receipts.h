/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the helper of a filtered network tells of connections: events for the journal, a bounded
 * number of them; totals, which the helper keeps in its file and we only repeat; and, for commands
 * that end, what was refused while they ran. Loop thread only.
 */

#include "host/session/session.h"
#include "wire/egress/egress.h"

enum {
    CAY_RECEIPTS_BURST = 128,  /* events of one session at once, */
    CAY_RECEIPTS_PER_S = 16,   /* and as long as it goes on */
    CAY_RECEIPTS_DENIALS = 32, /* of the first, those that only what was not allowed may use */
};

/* Before its helper is heard: from then on there is more than the totals that were kept. */
void cay_receipts_open(struct cay_session *session);
void cay_receipts_take(struct cay_session *session, const struct cay_egress_receipt *receipt);
void cay_receipts_take_totals(struct cay_session *session, const struct cay_egress_totals *totals);

/* Whether anything was refused or failed in the last so many milliseconds. */
[[nodiscard]] bool cay_receipts_were_refused(const struct cay_session *session, int64_t ms);
/* A process has ended: what was refused while it ran becomes part of its result. */
void cay_receipts_process_ended(struct cay_session *session, const struct cay_process *process);
void cay_receipts_add_to_result(const struct cay_session *session,
                                const struct cay_process *process, struct cay_arena *arena,
                                struct cay_v1_exec_result *result);

/* Of all sessions, since the daemon started. */
void cay_receipts_metrics(const struct cay_host *host, struct cay_buf *out);

extern const struct cay_session_part cay_receipts_part;
