/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Low numbers for what a child takes along.
 *
 * The kernel copies the table of descriptors at a clone, in full, and the copy never shrinks: a
 * daemon that holds thousands would give each sandbox's init a table of a hundred kilobytes. A
 * child that shares the table (CLONE_FILES) and then closes all above a number for itself alone
 * (close_range(2), CLOSE_RANGE_UNSHARE) gets a small one. What it needs must lie below that number:
 * so a few low ones are kept from the start on, and taken by turns.
 *
 * Order: open (early, while low numbers are free) -> (take -> give)* -> close. Any thread.
 */

#include <pthread.h>

#include "base/base.h"

enum { CAY_LOW_FDS = 8 }; /* children that are started at the same time; more wait */

struct cay_low_fds {
    pthread_mutex_t lock;
    pthread_cond_t given;
    int common_fd;
    int fds[CAY_LOW_FDS];
    bool taken[CAY_LOW_FDS];
    int end; /* all of them, and what they were opened with, are below; 0: not open */
};

/* With a descriptor that every child needs as well, and which stays open for as long. */
[[nodiscard]] int cay_low_fds_open(struct cay_low_fds *low, int common_fd);
void cay_low_fds_close(struct cay_low_fds *low);

/* A copy of the descriptor with a low number, until it is given back; or -errno. */
[[nodiscard]] int cay_low_fds_take(struct cay_low_fds *low, int fd);
void cay_low_fds_give(struct cay_low_fds *low, int taken_fd);
