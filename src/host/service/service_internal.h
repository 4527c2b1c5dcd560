/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of this room tell each other of the host as a whole. */

#include "host/session/host.h"

struct cay_host_base_cost;
struct cay_session;

/* The rows of all rooms put together, by method; NULL: nobody implements it. */
[[nodiscard]] cay_verb *const *cay_host_verbs(void);

/* Lives in another pool and store from now on; both are the host's. There are no sessions. `cost`
 * is that of the base "host" there. */
void cay_host_move(struct cay_host *host, struct cay_pool *pool, struct cay_store *store,
                   const struct cay_host_base_cost *cost);

/* recovery.c: reads the records, finishes what a dead daemon began, takes living sandboxes over,
 * removes what no record owns. Before anything is served. */
[[nodiscard]] bool cay_host_recover(struct cay_host *host, struct cay_error *err);

/* whois.c: who holds a secret, as the service answers it, and word of keys that are good no more.
 */
void cay_host_whois(struct cay_service *service, struct cay_str secret, struct cay_whois *whois);
[[nodiscard]] bool cay_host_follow(struct cay_service *service, struct cay_str key_id,
                                   struct cay_whois *whois, struct cay_error *err);
void cay_host_lapse_start(struct cay_host *host);
/* Ends what is open by keys that are good no more, in the loop's next turn. */
void cay_host_lapse_keys(struct cay_host *host);
/* The same for what is open by a session's tokens, which are others now. */
void cay_host_lapse_tokens(struct cay_session *session);

/* Writes times of last use now (at the end) or in the background. */
void cay_host_flush_keys(struct cay_host *host, bool is_final);
void cay_host_flush_secrets(struct cay_host *host, bool is_final);
