/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether the work that this thread does is still wanted. A worker that answers a call watches the
 * call's flag meanwhile; loops that may take long look at it and end early. What they leave behind
 * is thrown away, so only work without effects is ended this way, or before it has one.
 */

#include "base/base.h"

/* Watches the flag until the next call; NULL: nothing. Returns what was watched before. */
const bool *cay_stop_watch(const bool *flag);

/* Watches this one, too, until the next cay_stop_watch; a few may be added. */
void cay_stop_watch_also(const bool *flag);

/* For threads that help this one. */
[[nodiscard]] const bool *cay_stop_watched(void);

/* Asks this thread to stop after so many looks, too: work that is worth only a little. 0: never. */
void cay_stop_after(uint32_t looks);

/* Cheap: for every turn of a loop. */
[[nodiscard]] bool cay_stop_asked(void);

/* Sets a flag that other threads may watch. */
void cay_stop_ask(bool *flag);
