/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Named places to die at, for the crash tests. Without a hook they cost a load and a branch. */

#include <stddef.h>

enum cay_crash_point {
    CAY_CRASH_NONE = 0,
#define CAY_CRASH_POINT(enum_name, name) CAY_CRASH_##enum_name,
#include "host/store/crash_points.def"
#undef CAY_CRASH_POINT
    CAY_CRASH_COUNT,
};

extern void (*cay_store_crash_hook)(enum cay_crash_point point);

const char *cay_store_crash_name(enum cay_crash_point point);

static inline void cay_store_crash_point(enum cay_crash_point point)
{
    if (__builtin_expect(cay_store_crash_hook != NULL, 0))
        cay_store_crash_hook(point);
}
