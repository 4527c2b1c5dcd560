/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Who is calling: an API key (Authorization: Bearer, or X-API-Key), or the peer of a Unix socket as
 * the kernel names it. A key that is sent counts, also on the Unix socket.
 */

#include "api/service.h"
#include "front/http/exchange.h"

[[nodiscard]] bool cay_auth(const struct cay_exchange *exchange, struct cay_service *service,
                            bool allow_anonymous, struct cay_caller *out_caller,
                            struct cay_error *err);
