/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "tool/tree/write.h"

/* Gives fd the attributes that replacing `write`'s target must keep. -errno when one cannot be
 * kept. */
[[nodiscard]] int cay_write_keep_attributes(const struct cay_write *write);

/* Replaces the user.cay.* attributes of fd by the options' metadata. */
[[nodiscard]] int cay_write_set_metadata(const struct cay_write *write, int fd);
