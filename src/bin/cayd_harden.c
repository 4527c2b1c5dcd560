/* SPDX-License-Identifier: Apache-2.0 */
#include "bin/cayd_harden.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sys/caps.h"

/* The same as in deploy/cayd.service.in. */
#define NEVER_NEEDED                                                                   \
    (CAY_CAP(CAP_AUDIT_CONTROL) | CAY_CAP(CAP_AUDIT_READ) | CAY_CAP(CAP_AUDIT_WRITE) | \
     CAY_CAP(CAP_BLOCK_SUSPEND) | CAY_CAP(CAP_BPF) | CAY_CAP(CAP_CHECKPOINT_RESTORE) | \
     CAY_CAP(CAP_IPC_OWNER) | CAY_CAP(CAP_LEASE) | CAY_CAP(CAP_LINUX_IMMUTABLE) |      \
     CAY_CAP(CAP_MAC_ADMIN) | CAY_CAP(CAP_MAC_OVERRIDE) | CAY_CAP(CAP_NET_BROADCAST) | \
     CAY_CAP(CAP_PERFMON) | CAY_CAP(CAP_SYSLOG) | CAY_CAP(CAP_SYS_BOOT) |              \
     CAY_CAP(CAP_SYS_MODULE) | CAY_CAP(CAP_SYS_PACCT) | CAY_CAP(CAP_SYS_RAWIO) |       \
     CAY_CAP(CAP_SYS_TIME) | CAY_CAP(CAP_SYS_TTY_CONFIG) | CAY_CAP(CAP_WAKE_ALARM))

void cayd_harden(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {};
    /* Its memory has keys. With 1 the kernel also starts no program that would be given the core,
     * which it does with 0 (fs/coredump.c). */
    const struct rlimit none = {1, 1};
    (void)setrlimit(RLIMIT_CORE, &none);
    /* Programs that the daemon runs get no more than it has. */
    (void)cay_caps_bound(~NEVER_NEEDED);
    if (syscall(SYS_capget, &header, data) == 0) {
        uint64_t held = data[0].permitted | (uint64_t)data[1].permitted << 32;
        (void)cay_caps_set(held & ~NEVER_NEEDED);
    }
}
