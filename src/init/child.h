/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * From the birth of a command's process to its exec: straight-line system calls, in init's memory
 * and on a stack of its own, while init waits. The first that fails is noted and the process ends.
 *
 * Nobody in the sandbox can look at init's memory through this process either: it stays
 * non-dumpable, and belongs to the host's user namespace, until exec replaces it.
 */

#include "init/init.h"

struct child {
    const struct init *init;
    const struct cay_frame_exec *exec;
    uint64_t call;
    int stdio[3];
    int tasks_fd[3]; /* version 1 control groups to join; -1: none */
    struct spawn_cell *cell;
};

/* For cay_clone_call. */
int child_main(void *child);
