/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/pace.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As in linux/sched/types.h, which cannot be included beside the C library's sched.h. */
struct attributes {
    uint32_t size;
    uint32_t policy; /* 0: SCHED_NORMAL */
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns; /* SCHED_NORMAL: the slice */
    uint64_t deadline_ns;
    uint64_t period_ns;
};

enum { RESET_ON_FORK = 1 };

int cay_pace_set(int nice, unsigned slice_usec)
{
    const struct attributes attributes = {.size = sizeof(attributes),
                                          .flags = RESET_ON_FORK,
                                          .nice = nice,
                                          .runtime_ns = (uint64_t)slice_usec * 1000};
    return syscall(SYS_sched_setattr, 0, &attributes, 0) < 0 ? -errno : 0;
}

bool cay_pace_can_be_changed(void)
{
    struct rlimit most; /* 20 minus the least niceness that may be set without privileges */
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {};
    if (getpriority(PRIO_PROCESS, (id_t)gettid()) != 0)
        return false; /* somebody gave it another place */
    if (getrlimit(RLIMIT_NICE, &most) == 0 && most.rlim_cur >= 40)
        return true;
    return syscall(SYS_capget, &header, data) == 0 &&
           (data[CAP_TO_INDEX(CAP_SYS_NICE)].effective & CAP_TO_MASK(CAP_SYS_NICE)) != 0;
}
