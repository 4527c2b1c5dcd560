/* SPDX-License-Identifier: Apache-2.0 */
#include "base/stop.h"

static thread_local const bool *watched;

const bool *cay_stop_watch(const bool *flag)
{
    const bool *before = watched;
    watched = flag;
    return before;
}

const bool *cay_stop_watched(void)
{
    return watched;
}

bool cay_stop_asked(void)
{
    return watched && __atomic_load_n(watched, __ATOMIC_RELAXED);
}

void cay_stop_ask(bool *flag)
{
    __atomic_store_n(flag, true, __ATOMIC_RELAXED);
}
