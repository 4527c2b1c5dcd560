/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * All that descends from one process, as /proc says: whatever group or session it is in. Since the
 * first one is a keeper (keeper.h), nobody leaves it by losing a parent. /proc is read while the
 * world goes on, so what acts on a family looks again until nothing new is found.
 *
 * Functions give 0 or -errno.
 */

#include "base/base.h"

enum {
    CAY_FAMILY_SHOWN_MAX = 64,
    CAY_FAMILY_TEXT_BYTES_MAX = 200, /* of one command line */
};

struct cay_family_member {
    pid_t pid;
    uint32_t text_len;
    char text[CAY_FAMILY_TEXT_BYTES_MAX]; /* its command line with spaces, or its [name] */
};

struct cay_family {
    uint32_t total;
    uint32_t count; /* of the members here */
    struct cay_family_member members[CAY_FAMILY_SHOWN_MAX];
};

/* Who is alive below `top`, but for `except` (0: nobody). */
[[nodiscard]] int cay_family_look(pid_t top, pid_t except, struct cay_family *out_family);

/* SIGSTOP or SIGCONT to all; returns when nobody runs (or nobody stands still) any more. */
[[nodiscard]] int cay_family_stop(pid_t top);
[[nodiscard]] int cay_family_continue(pid_t top);
