/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Completion of what only the daemon knows: sessions, snapshots, processes, bases. */

struct cay_completion;

/* For `complete` of commands whose first word is a session: offers the sessions there, and nothing
 * further on. Says nothing when no daemon answers at once. */
void cay_session_offer(struct cay_completion *completion);

/* The same, and the session's snapshots at the words after it. */
void cay_session_offer_snapshots(struct cay_completion *completion);

/* The same with its processes. */
void cay_session_offer_processes(struct cay_completion *completion);

/* Sessions at every word; and with ':' behind them, for cp. */
void cay_session_offer_many(struct cay_completion *completion);
void cay_session_offer_bases(struct cay_completion *completion);    /* for a flag --base */
void cay_session_offer_runtimes(struct cay_completion *completion); /* for a flag --runtime */
void cay_session_offer_places(struct cay_completion *completion);
/* The secrets of the caller's owner. */
void cay_secret_offer(struct cay_completion *completion);

/* "active" for CAY_V1_SESSION_STATE_ACTIVE. */
[[nodiscard]] const char *cay_session_state_name(int state);
