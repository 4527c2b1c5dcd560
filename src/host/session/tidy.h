/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is done behind the calls' backs, on workers: the store tidies up, things are made ahead of
 * need, what takes long to let go of is let go.
 */

#include "host/session/host.h"

/* Frees the space of what was destroyed, in the background. */
void cay_host_collect_soon(struct cay_host *host);

/* The same; `freed` is called once, when all is free again that was removed until now, or with what
 * is in the way of that. The caller's until then. */
struct cay_freeing {
    struct cay_list_node in_host;
    void (*freed)(struct cay_freeing *freeing, const struct cay_error *err);
};
void cay_host_collect_then(struct cay_host *host, struct cay_freeing *freeing);
/* The daemon ends: those who wait for that are told so. */
void cay_host_free_no_longer(struct cay_host *host);

/* After a turn or a birth, on stores that clone ahead of need: does so when a moment of quiet has
 * come, so that turns in a row are not held up by clones that the next one makes worthless. */
void cay_host_spares_soon(struct cay_host *host);

/* Makes the next sandbox start sooner, in the background. */
void cay_host_prepare_soon(struct cay_host *host);

/* Closes what is expensive to close in the background; -1 is nothing. */
void cay_host_close_later(struct cay_host *host, int fd);

/* Destroys a sandbox in the background. */
void cay_host_bury(struct cay_host *host, struct cay_sandbox *sandbox);
