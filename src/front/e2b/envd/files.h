/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What reading and writing of /files share. */

#include "front/e2b/visit.h"

struct cay_e2b_file {
    struct cay_str path; /* as the query has it; may be empty */
    struct cay_str user; /* empty: the session's default */
};

/* May this caller read or write there, by the sandbox's token or by a signature of it? NULL, or why
 * not. */
[[nodiscard]] const char *cay_e2b_files_refusal(struct cay_rest_request *request);

void cay_e2b_files_query(struct cay_rest_request *request, struct cay_e2b_file *out_file);

void cay_e2b_files_error(struct cay_rest_request *request, const struct cay_error *err);
