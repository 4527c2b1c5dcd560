/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Starting cay-init from the image: without copying the daemon's memory, with nothing inherited but
 * one channel. 0 or -errno.
 */

#include "sys/low_fds.h"
#include "wire/frame/frame.h"

struct cay_init_launch {
    int image_fd;
    struct cay_low_fds *low_fds; /* opened with the image */
    uint64_t namespaces;         /* CLONE_NEW* */
    int netns_fd;                /* one to be in instead of a new one, -1: none */
    int cgroup_fd;               /* version 2 group to be born in, -1: ours */
    struct cay_frame_start start;
    int fds[CAY_FRAME_START_FDS_MAX]; /* in the order of start.fds */
    uint32_t fd_count;
};

struct cay_launched {
    pid_t pid;
    int pidfd;
    int channel_fd;   /* non-blocking; READY comes first */
    uint32_t version; /* of init, once it is ready */
};

/* Returns as soon as the program runs; setup goes on in it. */
[[nodiscard]] int cay_launch_begin(const struct cay_init_launch *launch,
                                   struct cay_launched *out_launched);

/* Waits for READY. -ETIMEDOUT, -EPROTO, -EPIPE, or what setup failed with, *out_stage then says
 * where. */
[[nodiscard]] int cay_launch_finish(struct cay_launched *launched, int timeout_ms,
                                    uint32_t *out_stage);
