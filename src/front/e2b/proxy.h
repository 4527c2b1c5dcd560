/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Requests to programs behind the other ports of a sandbox, passed on as they are. */

#include "front/e2b/request.h"

/* Answers 403 when the sandbox's ports are private and the request has no traffic token. */
[[nodiscard]] bool cay_e2b_proxy_admit(struct cay_e2b_request *request);

/* For a request that passed the gate. */
void cay_e2b_proxy(struct cay_e2b_request *request);
