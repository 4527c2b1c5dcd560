/* SPDX-License-Identifier: Apache-2.0 */
#include "base/stop.h"

static thread_local const bool *watched;
static thread_local uint32_t looks_max; /* 0: any number */
static thread_local uint32_t looks;

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

void cay_stop_after(uint32_t count)
{
    looks_max = count;
    looks = 0;
}

bool cay_stop_asked(void)
{
    if (looks_max && ++looks > looks_max)
        return true;
    return watched && __atomic_load_n(watched, __ATOMIC_RELAXED);
}

void cay_stop_ask(bool *flag)
{
    __atomic_store_n(flag, true, __ATOMIC_RELAXED);
}
