/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Who is calling: an API key (Authorization: Bearer, or X-API-Key), or the peer of a Unix socket as
 * the kernel names it. A key that is sent counts, also on the Unix socket.
 */

#include "api/service.h"
#include "front/http/exchange.h"

/* UNAUTHENTICATED when nobody may call so; RESOURCE_EXHAUSTED when it is somebody who has too many
 * connections or calls. */
[[nodiscard]] bool cay_auth(struct cay_exchange *exchange, struct cay_service *service,
                            bool allow_anonymous, struct cay_caller *out_caller,
                            struct cay_error *err);

/* Where no key is asked for: whoever any credential is of, in whatever header, X-Access-Token
 * included. What is not ours is not looked at. False: nobody that we know. */
[[nodiscard]] bool cay_auth_known(const struct cay_exchange *exchange, struct cay_service *service,
                                  bool allow_anonymous, struct cay_caller *out_caller);

/* Whether a header's value is a credential of ours, as far as its form goes. */
[[nodiscard]] bool cay_auth_is_ours(struct cay_str name, struct cay_str value);
