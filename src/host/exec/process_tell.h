/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the journal and the audit log are told of processes: which command, whose, how it ended. */

#include "base/buf.h"
#include "host/process/process.h"
#include "host/session/session.h"

/* It has started, ended, or waits to be started again. */
void cay_process_tell(struct cay_session *session, const struct cay_process *process);

/* The arguments with spaces between them. */
void cay_process_command(struct cay_pb_strs argv, struct cay_buf *out_text);

/* How something ended, as the `reason` of an event. NULL: not known. */
const char *cay_process_end_word(enum cay_v1_end_cause cause);
