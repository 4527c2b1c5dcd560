/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Named places to die at, for the crash tests: after each step that changes the disk, a record or
 * a sandbox, where dying leaves a state that the next start must know.
 *
 *     CAY_CRASH_POINT("turn.taken");
 *
 * Nobody keeps a list: the linker gathers the points of a program, and the tests fail for one that
 * they never reach. Names are different for different places. Without a hook a point costs a load
 * and a branch.
 */

#include <stddef.h>

#include "base/base.h"

struct cay_crash_point {
    const char *name;
};

/* Called at each point; NULL: not a test. Set before threads are started. */
extern void (*cay_crash_hook)(const struct cay_crash_point *point);

#define CAY_CRASH_POINT(text)                                              \
    do {                                                                   \
        [[gnu::section("cay_crash_points"),                                \
          gnu::used]] static struct cay_crash_point crash_point_ = {text}; \
        if (__builtin_expect(cay_crash_hook != NULL, 0))                   \
            cay_crash_hook(&crash_point_);                                 \
    } while (0)

/* All points of this program, in no order. */
const struct cay_crash_point *cay_crash_points(size_t *out_count);

/*
 * Sets a hook that kills this process by SIGKILL. `order` is NAME or NAME:COUNT, the point to die
 * at and at which pass; or @FILE, a file that holds such an order and may change at any time; every
 * point that is passed is then appended to FILE.passed, one name per line. NULL or empty: no hook.
 */
void cay_crash_arm(const char *order);
