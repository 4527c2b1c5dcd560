/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A variable in the environment of commands by which their descendants are found where there are no
 * control groups. Holds init's own pid, so that two sandboxes of the plain mode do not mix.
 */

#include "base/base.h"

enum { MARK_BYTES = 64 };

/* "CAY_CALL=<pid of init>-<call>" */
void mark_format(char out_mark[MARK_BYTES], pid_t init_pid, uint64_t call);

[[nodiscard]] bool mark_is_on(pid_t pid, const char *mark);
