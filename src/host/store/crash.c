/* SPDX-License-Identifier: Apache-2.0 */
#include "host/store/crash.h"

#include <assert.h>

void (*cay_store_crash_hook)(enum cay_crash_point point);

static const char *const names[] = {
#define CAY_CRASH_POINT(enum_name, name) [CAY_CRASH_##enum_name] = name,
#include "host/store/crash_points.def"
#undef CAY_CRASH_POINT
};

const char *cay_store_crash_name(enum cay_crash_point point)
{
    assert(point > CAY_CRASH_NONE && point < CAY_CRASH_COUNT);
    return names[point];
}
