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
 */

#include <linux/filter.h>

#include "base/base.h"

enum { CAY_SECCOMP_PROGRAM_MAX = 255 };

struct cay_seccomp {
    struct sock_filter program[CAY_SECCOMP_PROGRAM_MAX];
    unsigned short len;
};

/* The long one. -E2BIG when the table does not fit the program. */
[[nodiscard]] int cay_seccomp_build(struct cay_seccomp *out_filter);

/* The short one, to be loaded on top. */
void cay_seccomp_build_gate(struct cay_seccomp *out_filter);

/* For the calling thread, by raw system call. Needs CAP_SYS_ADMIN in the caller's user namespace or
 * no_new_privs. */
[[nodiscard]] int cay_seccomp_load(const struct cay_seccomp *filter);
