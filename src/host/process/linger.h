/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Processes that were not written down before they were started: most are over soon, and cost no
 * write. One that has run for a while is, so that another daemon finds it again.
 */

#include "host/process/process.h"

/* It was started. */
void cay_process_may_linger(struct cay_process *process);
