/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The calling thread makes files as somebody else and keeps all its rights. In a tree whose owners
 * are mapped, nothing can be made under an id that has no mapping, as the host's root has none.
 */

#include <linux/capability.h>

#include "base/base.h"

struct cay_fsid {
    struct __user_cap_header_struct header;
    struct __user_cap_data_struct caps[2];
};

/* User and group `id`. -errno; then nothing has changed. */
[[nodiscard]] int cay_fsid_enter(struct cay_fsid *fsid, uint32_t id);
void cay_fsid_leave(struct cay_fsid *fsid);
