/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is done for snapshots after they were acknowledged, so that nobody waits for it: they are
 * synced to the disk, and what they changed is counted. Some seconds later and many at a time: one
 * sync is good for all that came before it.
 */

struct cay_host;

/* There are snapshots to look after, or may be. Loop thread. */
void cay_aftermath_soon(struct cay_host *host);
/* No more of it. */
void cay_aftermath_stop(struct cay_host *host);
