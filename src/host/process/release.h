/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What is remembered of ended processes, and for how long init keeps their output. Room-private. */

#include "host/process/process.h"

/* Lets init forget a call, unless somebody of the table still needs it. */
void cay_process_release_call(struct cay_processes *table, uint64_t call);

/* Forgets the oldest ended processes, and the output of some more. */
void cay_processes_trim(struct cay_processes *table);
