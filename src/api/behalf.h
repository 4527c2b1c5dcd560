/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A caller on the wire: what a trusted peer says of whom it calls for, in the header
 * `cay-on-behalf-of`:
 *
 *     role=user; owner=alice; key=key-3f9a; session=demo
 *
 * `role` (user or admin) and `owner` must be there. `key` is the id of the caller's key, `session`
 * the one session there is for it. Two words may follow: `local`, it is a process of the peer's own
 * machine; `door`, it is a door of the peer, for somebody who has shown nothing.
 *
 * Whether the peer is to be believed is not decided here.
 */

#include "api/call.h"
#include "base/buf.h"

#define CAY_BEHALF_HEADER "cay-on-behalf-of"

/* Appends what stands for the caller. */
void cay_behalf_write(const struct cay_caller *caller, struct cay_buf *out);

/* INVALID_ARGUMENT for what is not such a text, or says something twice or unknown. */
[[nodiscard]] bool cay_behalf_read(struct cay_str text, struct cay_caller *out_caller,
                                   struct cay_error *err);
