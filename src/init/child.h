/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* From the birth of a command's process to its exec. Straight-line system calls on a copy of init's
 * memory; the first that fails is noted in shared memory and the process ends. */

#include "init/init.h"

struct child {
    const struct init *init;
    const struct cay_frame_exec *exec;
    uint64_t call;
    int stdio[3];
    int tasks_fd; /* version 1 control group to join; -1: none */
    struct spawn_cell *cell;
};

/* For cay_clone_call. */
int child_main(void *child);
