/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Whole messages, in and out of gzip. Each is independent of the others. */

#include "base/buf.h"

/* Appends what `bytes` unpack to. -EMSGSIZE when that is more than out may hold, -EBADMSG when it
 * is not one complete gzip member. */
[[nodiscard]] int cay_gunzip(struct cay_str bytes, struct cay_buf *out);

/* Appends `bytes` packed. -ENOMEM. */
[[nodiscard]] int cay_gzip(struct cay_str bytes, struct cay_buf *out);
