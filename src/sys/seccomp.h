/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The system call filter of a sandbox: an allow-list (syscalls.def) as BPF programs. The numbers
 * are searched as a binary tree of ranges: under a hundred instructions, a handful run per call.
 * Foreign processor modes are killed, x32 numbers do not exist.
 *
 * Loading costs time in proportion to the length, so there are two programs. Init loads the long
 * one for itself and so for all its children; it leaves init the calls that start a command
 * (clone3, setns, unshare). Each command then loads the gate, a dozen instructions that take those
 * away.
 *
 * Two calls tell a program how large the machine is, and know nothing of control groups: sysinfo
 * and sched_getaffinity. Where init listens, they wait for its answer.
 */

#include <linux/filter.h>

#include "base/base.h"

enum { CAY_SECCOMP_PROGRAM_MAX = 255 };

struct cay_seccomp {
    struct sock_filter program[CAY_SECCOMP_PROGRAM_MAX];
    unsigned short len;
};

enum {
    CAY_SECCOMP_LISTENS = 1 << 0, /* somebody answers what is told */
    CAY_SECCOMP_NESTING = 1 << 1, /* namespaces and mounts may be made; the gate is not for them */
    /* The length by which sched_getaffinity is answered by the kernel all the same: whoever answers
     * asks with it. */
    CAY_SECCOMP_AFFINITY_BYTES = 4104,
};

/* The long one; flags of CAY_SECCOMP_*. -E2BIG when the table does not fit the program. */
[[nodiscard]] int cay_seccomp_build(struct cay_seccomp *out_filter, unsigned flags);

/* The short one, to be loaded on top. */
void cay_seccomp_build_gate(struct cay_seccomp *out_filter);

/* Another short one: the first process gets no signals, limits, priority or processors from others,
 * and nobody gets a higher priority. For a kernel that does not see to that itself (gVisor). */
void cay_seccomp_build_guard(struct cay_seccomp *out_filter);

/* For the calling thread, by raw system call. Needs CAP_SYS_ADMIN in the caller's user namespace or
 * no_new_privs. */
[[nodiscard]] int cay_seccomp_load(const struct cay_seccomp *filter);

/* The same, and the descriptor on which calls come that are told (seccomp_unotify(2)). Only one
 * filter of a process can have one. */
[[nodiscard]] int cay_seccomp_load_listening(const struct cay_seccomp *filter);
