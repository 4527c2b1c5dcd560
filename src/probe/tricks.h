/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Of the tricks: what their files share. The text above each says its words. */

#include <time.h>

#include "probe/probe.h"

struct timespec trick_in_ms(const char *text);
[[nodiscard]] bool trick_is_before(const struct timespec *end);

/* greed.c */
int trick_fill(char **argv);
int trick_sparse(char **argv);
int trick_deep(char **argv);
int trick_shuffle(char **argv);
int trick_keep(char **argv);
int trick_exhaust(char **argv);
int trick_some(char **argv);
int trick_lease(char **argv);
int trick_signal(char **argv);
