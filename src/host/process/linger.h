/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Processes that were not written down before they were started: most are over soon, and cost no
 * write. One that has run for a while is, so that another daemon finds it again.
 *
 * Commands that a call waits for are hidden until then: nobody else sees them, and no event tells
 * of them. Order: new -> hide -> may_linger -> (show) -> go_on or unfollow -> show or forget.
 */

#include "host/process/process.h"

/* A new process runs for a call, which follows it. */
void cay_process_hide(struct cay_process *process);

/* It was started. */
void cay_process_may_linger(struct cay_process *process);

/* Others see it from now on, at the end of the table. */
void cay_process_show(struct cay_process *process);

/* Its caller waits no longer: it goes on as any other, and keeps its output. */
void cay_process_go_on(struct cay_process *process);

/* Its caller has all it wants of one that ended: init may forget it, unless somebody else of the
 * table needs it. */
void cay_process_unfollow(struct cay_process *process);
