/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the handlers of processes share. */

#include "front/e2b/envd/rpc.h"
#include "wire/e2b/e2b.h"

/* A process as the hallway names it. Answers and returns false when none is named. */
[[nodiscard]] bool cay_e2b_process_id(struct cay_rest_request *request,
                                      const struct e2b_process_selector *selector,
                                      struct cay_str *out_id);

/* "process with pid 7 not found" */
void cay_e2b_process_missing(struct cay_rest_request *request, struct cay_str process_id);

/* An error of a verb on one process. */
void cay_e2b_process_error(struct cay_rest_request *request, struct cay_str process_id,
                           const struct cay_error *err);

/* The same for input: what nobody takes is an error of its own kind on this wire. */
void cay_e2b_process_input_error(struct cay_rest_request *request, struct cay_str process_id,
                                 const struct cay_error *err);

/* The bytes for standard input or terminal. */
[[nodiscard]] struct cay_str cay_e2b_process_bytes(const struct e2b_process_input *input);
