/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Pages of any origin may talk to the services inside a sandbox: they need its token, which no
 * browser adds by itself. Nothing else at this door is open to them.
 */

#include "front/e2b/visit.h"

/* Does a browser ask whether it may send a request to a path of the services? It does so without
 * any of the headers that the request will have, so nothing is known of the sandbox unless the
 * host's name says it. */
[[nodiscard]] bool cay_e2b_cors_is_question(const struct cay_exchange *exchange,
                                            const struct cay_e2b_target *target);
/* Yes. */
void cay_e2b_cors_answer(struct cay_exchange *exchange);

/* What every answer of those services has besides. */
enum { CAY_E2B_CORS_HEADERS = 2 };
extern const struct cay_http_header cay_e2b_cors_headers[CAY_E2B_CORS_HEADERS];
