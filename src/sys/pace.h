/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How soon a thread that wakes gets a processor. Two things decide: its niceness, which is its part
 * of the processor when everybody wants it, and its slice: the kernel lets the one run whose slice
 * would end first (Linux 6.12 takes slices from sched_setattr(2), older ones ignore them). Who does
 * little each time asks for short slices, and does not wait for the end of others' long ones.
 */

#include "base/base.h"

enum {
    CAY_SLICE_SHORT_USEC = 100, /* the least the kernel takes: __setparam_fair() in kernel/sched */
    CAY_SLICE_USUAL = 0,        /* the kernel's own, some milliseconds */
};

/* For the calling thread; what it starts begins with the usual slice, and not before others.
 * 0 or -errno. */
[[nodiscard]] int cay_pace_set(int nice, unsigned slice_usec);

/* Whether this thread may come before others, and go back to where it was. */
[[nodiscard]] bool cay_pace_can_be_changed(void);
