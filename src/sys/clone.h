/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * clone3 with a function to run in the child. The child leaves with the function's result as its
 * exit status and never returns into the caller.
 *
 * A child that shares memory (CAY_CLONE_SHARED: CLONE_VM | CLONE_VFORK) costs the same whatever the
 * size of the caller's heap; its function may use raw system calls only (sys/raw.h) and needs a
 * stack of its own. A child that copies memory runs on a copy of the caller's stack.
 */

#include <linux/sched.h>

#include "base/base.h"

/* Keeps a function that runs on a borrowed stack out of the sanitizers' books. */
#define CAY_CLONE_CHILD [[gnu::no_sanitize("address", "undefined"), gnu::noinline]]

#define CAY_CLONE_SHARED (CLONE_VM | CLONE_VFORK)

enum { CAY_CLONE_STACK_BYTES = 32768 };

struct cay_clone {
    uint64_t
        flags; /* CLONE_*; without CLONE_PIDFD and CLONE_INTO_CGROUP, which follow from below */
    int exit_signal;
    int cgroup_fd;  /* a v2 group the child is born in, -1 for the caller's */
    int *out_pidfd; /* NULL when not wanted */
    void *stack;    /* of CAY_CLONE_STACK_BYTES, needed with CLONE_VM */
};

/* The child's pid, or -errno. */
[[nodiscard]] pid_t cay_clone_call(const struct cay_clone *how, int (*child)(void *), void *arg);

/* The same for a child that shares memory, on a stack that is found here; how->stack is not read.
 * All signals are blocked in the child until it says otherwise: no handler of the caller's may run
 * in it. Returns once the child has left, or runs another program. */
[[nodiscard]] pid_t cay_clone_shared(const struct cay_clone *how, int (*child)(void *), void *arg);

/* Memory for a child's stack; NULL when there is none. */
[[nodiscard]] void *cay_clone_stack_open(void);
void cay_clone_stack_close(void *stack);
