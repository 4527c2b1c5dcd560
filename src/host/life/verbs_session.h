/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What all ways to a new session have in common. */

#include "host/session/host.h"

/* Its name: the one that is wanted, or one that the host makes up. */
[[nodiscard]] bool cay_session_choose_id(const struct cay_host *host, struct cay_str wanted,
                                         char *out, size_t size, struct cay_error *err);
/* Whether the host takes so many more. */
[[nodiscard]] bool cay_session_check_room(const struct cay_host *host, size_t wanted,
                                          struct cay_error *err);
