/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A process whose caller was cut off because the daemon restarts, and may come back: what it
 * printed is kept for the caller, and one that dies with its caller lives on for the time being.
 */

#include "host/process/process.h"

enum { CAY_PROCESS_RETURN_MS = 30 * 1000 };

/* This daemon ends. The process is written down if it was not. */
void cay_process_orphan(struct cay_process *process);

/* The next daemon has found it: somebody has a while to come back. */
void cay_process_await_return(struct cay_process *process);

/* Somebody did. */
void cay_process_claim(struct cay_process *process);
