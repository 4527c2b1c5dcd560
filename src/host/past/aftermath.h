/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What is done for snapshots after they were acknowledged, so that nobody waits for it: they are
 * synced to the disk, and what they changed is counted. Some seconds later and many at a time: one
 * sync is good for all that came before it.
 */

struct cay_host;

/* Before there are any; cay_snapshots_look_after has it done. Loop thread. */
void cay_aftermath_start(struct cay_host *host);
/* No more of it. */
void cay_aftermath_stop(struct cay_host *host);
