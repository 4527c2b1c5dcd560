/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the verbs of processes share. Room-private. */

#include "host/process/process.h"
#include "host/session/session.h"

/* The process, in a session that the caller may look at. */
[[nodiscard]] bool cay_process_lookup(struct cay_host *host, const struct cay_call *call,
                                      struct cay_str session_id, struct cay_str process_id,
                                      struct cay_session **out_session,
                                      struct cay_process **out_process, struct cay_error *err);

/* Up to an hour, which is also what is meant by none. */
[[nodiscard]] bool cay_process_wait_ms(const struct google_protobuf_duration *wait, int64_t *out_ms,
                                       struct cay_error *err);

enum cay_v1_output_stream cay_process_stream(uint8_t stream);
