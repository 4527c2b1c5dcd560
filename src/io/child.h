/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A plain child process, in a process group of its own, known by its pidfd: no SIGCHLD, no wait for
 * "any child". It gets the descriptors, the environment and the directory it is given and nothing
 * else; its signals are at their defaults.
 *
 * Order: spawn -> kill* -> `exited`, once -> close. Closing a child that runs kills its group and
 * tells nobody; no zombie is left either way. Children must be closed before cay_loop_finish_jobs.
 */

#include "io/loop.h"

struct cay_child_spec {
    const char *path;        /* what to run; NULL looks for argv[0] in our PATH */
    const char *const *argv; /* ends with NULL, as does env */
    const char *const *env;  /* NULL for an empty one: nothing is inherited unasked */
    const char *cwd;         /* NULL for our own */
    const int *fds;          /* fds[n] becomes descriptor n; -1 for /dev/null. They stay ours */
    size_t fd_count;         /* 0 to 2 are /dev/null when there are fewer */
    bool kills_leftovers;    /* what is left of its group when it ends is killed with it */
};

struct cay_child {
    void (*exited)(struct cay_child *child);
    struct cay_loop *loop;
    struct cay_watch watch;
    int pid_fd; /* -1 when there is no process any more */
    pid_t pid;
    int exit_code;   /* once exited: of a child that ended by itself */
    int exit_signal; /* of one that was killed; 0 for others */
    bool has_core;
    bool kills_leftovers;
};

/* -errno of whatever did not work, exec included; there is nothing to close then. The callback may
 * close the child and free its owner. */
[[nodiscard]] int cay_child_spawn(struct cay_child *child, struct cay_loop *loop,
                                  const struct cay_child_spec *spec,
                                  void (*exited)(struct cay_child *child));

/* Does nothing to a zeroed child or one that is closed. */
void cay_child_close(struct cay_child *child);
