/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Capabilities of the calling thread, by raw system call: usable between fork and exec. */

#include <linux/capability.h>

#include "base/base.h"

/* What root of a sandbox keeps, of its own user namespace: enough for chown, su, sudo, package
 * managers and debuggers; nothing that makes namespaces, mounts or devices. */
#define CAY_CAPS_SANDBOX                                                                   \
    (CAY_CAP(CAP_CHOWN) | CAY_CAP(CAP_DAC_OVERRIDE) | CAY_CAP(CAP_DAC_READ_SEARCH) |       \
     CAY_CAP(CAP_FOWNER) | CAY_CAP(CAP_FSETID) | CAY_CAP(CAP_KILL) | CAY_CAP(CAP_SETGID) | \
     CAY_CAP(CAP_SETUID) | CAY_CAP(CAP_SETPCAP) | CAY_CAP(CAP_NET_BIND_SERVICE) |          \
     CAY_CAP(CAP_SYS_CHROOT) | CAY_CAP(CAP_SYS_PTRACE) | CAY_CAP(CAP_SETFCAP) |            \
     CAY_CAP(CAP_AUDIT_WRITE))

/* The same in a kernel of its own, in which init differs from root by its capabilities alone: who
 * may trace everybody would reach it. */
#define CAY_CAPS_GVISOR (CAY_CAPS_SANDBOX & ~CAY_CAP(CAP_SYS_PTRACE))

/* What init has beside these there: it mounts, looks at everybody and raises limits. */
#define CAY_CAPS_GVISOR_INIT \
    (CAY_CAP(CAP_SYS_ADMIN) | CAY_CAP(CAP_SYS_PTRACE) | CAY_CAP(CAP_SYS_RESOURCE))

#define CAY_CAP(number) (UINT64_C(1) << (number))

/* Nothing outside `keep` can be gained any more, by exec or otherwise. */
[[nodiscard]] int cay_caps_bound(uint64_t keep);
/* The same of those that are named alone, for whoever is bound already. */
[[nodiscard]] int cay_caps_unbound(uint64_t lost);

/* Gives up what is held now (effective, permitted, inheritable) outside `keep`. */
[[nodiscard]] int cay_caps_set(uint64_t keep);
