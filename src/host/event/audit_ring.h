/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The files of the audit log: `audit.log` and the older ones behind it, `audit.log.1` and so on.
 * When there are too many, the two oldest become one, in which every owner has the same right to
 * room: whoever writes much loses lines of its own before anybody else does.
 */

#include "base/base.h"

enum {
    CAY_AUDIT_FILE_BYTES_MAX = 16 << 20,
    CAY_AUDIT_OLD_FILES = 4,
};

/* Adds whole lines. Blocks. 0 or -errno. */
[[nodiscard]] int cay_audit_ring_write(int dir_fd, struct cay_str lines);
