/* SPDX-License-Identifier: Apache-2.0 */
#include "base/stop.h"

#include <assert.h>

enum { MORE_MAX = 2 };

static thread_local const bool *watched;
static thread_local const bool *more[MORE_MAX];
static thread_local size_t more_count;
static thread_local uint32_t looks_max; /* 0: any number */
static thread_local uint32_t looks;

const bool *cay_stop_watch(const bool *flag)
{
    const bool *before = watched;
    watched = flag;
    more_count = 0;
    return before;
}

void cay_stop_watch_also(const bool *flag)
{
    assert(more_count < MORE_MAX);
    more[more_count++] = flag;
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
    for (size_t i = 0; i < more_count; i++) {
        if (__atomic_load_n(more[i], __ATOMIC_RELAXED))
            return true;
    }
    return watched && __atomic_load_n(watched, __ATOMIC_RELAXED);
}

void cay_stop_ask(bool *flag)
{
    __atomic_store_n(flag, true, __ATOMIC_RELAXED);
}
