/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "sys/cgroup_internal.h"

enum { CPU_PERIOD_USEC = 100000 };

/* 0 lifts the limit, in the words of `none`. */
static int write_limit(int dir_fd, const char *file, uint64_t number, const char *none)
{
    char text[32];
    snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
    return cay_cgroup_write(dir_fd, file, number ? text : none);
}

/* The processes hold more than that, and it is nothing that the kernel could give up, like the
 * files it has read for them. The sums are expensive: they are made when they matter. */
static bool is_memory_held(const struct cay_cgroup *group, uint64_t bytes)
{
    int v1_fd = group->v1_fd[CAY_CGROUP_MEMORY];
    bool is_v1 = v1_fd >= 0;
    int fd = is_v1 ? v1_fd : group->unified_fd;
    uint64_t used =
        cay_cgroup_read_number(fd, is_v1 ? "memory.usage_in_bytes" : "memory.current", "");
    if (used <= bytes)
        return false;
    uint64_t files =
        cay_cgroup_read_number(fd, "memory.stat",
                               is_v1 ? "total_inactive_file " : "inactive_file ") +
        cay_cgroup_read_number(fd, "memory.stat", is_v1 ? "total_active_file " : "active_file ");
    return used > bytes + files;
}

/* The kernel keeps the limit of memory below that of memory and swap, so the order depends on where
 * it goes (Documentation/admin-guide/cgroup-v1/memory.rst). Where swap is not counted there is no
 * second file. */
static int set_memory_v1(int fd, uint64_t bytes)
{
    static const char *const files[] = {"memory.limit_in_bytes", "memory.memsw.limit_in_bytes"};
    uint64_t old = cay_cgroup_read_number(fd, files[1], "");
    bool is_raised = old && (!bytes || bytes > old);
    for (size_t i = 0; i < CAY_COUNT(files); i++) {
        size_t which = is_raised ? CAY_COUNT(files) - 1 - i : i;
        int result = write_limit(fd, files[which], bytes, "-1");
        if (result < 0 && !(which == 1 && result == -ENOENT))
            return result;
    }
    return 0;
}

/* Version 2 takes any limit and kills for it (memory.max in
 * Documentation/admin-guide/cgroup-v2.rst): that is not what was asked for. */
static int set_memory(struct cay_cgroup *group, uint64_t bytes)
{
    int v1_fd = group->v1_fd[CAY_CGROUP_MEMORY];
    if (bytes && is_memory_held(group, bytes))
        return -EBUSY;
    if (v1_fd >= 0)
        return set_memory_v1(v1_fd, bytes);
    int result = write_limit(group->unified_fd, "memory.max", bytes, "max");
    /* Without swap there is no such file. */
    int swap = cay_cgroup_write(group->unified_fd, "memory.swap.max", bytes ? "0" : "max");
    return result < 0 || swap == -ENOENT ? result : swap;
}

static int set_pids(struct cay_cgroup *group, uint32_t pids)
{
    int fd = group->v1_fd[CAY_CGROUP_PIDS];
    return write_limit(fd >= 0 ? fd : group->unified_fd, "pids.max", pids, "max");
}

static int set_cpu(struct cay_cgroup *group, uint32_t millis)
{
    uint64_t quota_usec = (uint64_t)millis * (CPU_PERIOD_USEC / 1000);
    if (group->v1_fd[CAY_CGROUP_CPU] >= 0)
        return write_limit(group->v1_fd[CAY_CGROUP_CPU], "cpu.cfs_quota_us", quota_usec, "-1");
    char text[64];
    snprintf(text, sizeof(text), "%llu %d", (unsigned long long)quota_usec, CPU_PERIOD_USEC);
    return cay_cgroup_write(group->unified_fd, "cpu.max", quota_usec ? text : "max");
}

void cay_cgroup_set_part(const struct cay_cgroup *group, unsigned parts)
{
    /* The kernel's (kernel/sched/sched.h, Documentation/admin-guide/cgroup-v2.rst). */
    enum { SHARES = 1024, SHARES_MIN = 2, WEIGHT = 100, WEIGHT_MIN = 1 };
    int v1_fd = group->v1_fd[CAY_CGROUP_CPU];
    uint64_t number = v1_fd >= 0 ? CAY_MAX(SHARES / CAY_MAX(parts, 1u), (unsigned)SHARES_MIN)
                                 : CAY_MAX(WEIGHT / CAY_MAX(parts, 1u), (unsigned)WEIGHT_MIN);
    (void)write_limit(v1_fd >= 0 ? v1_fd : group->unified_fd,
                      v1_fd >= 0 ? "cpu.shares" : "cpu.weight", number, "");
}

/* What the kernel made of it; it rounds down to whole pages (mm/page_counter.c). */
static bool memory_holds(const struct cay_cgroup *group, uint64_t bytes)
{
    int v1_fd = group->v1_fd[CAY_CGROUP_MEMORY];
    uint64_t now = cay_cgroup_read_number(v1_fd >= 0 ? v1_fd : group->unified_fd,
                                          v1_fd >= 0 ? "memory.limit_in_bytes" : "memory.max", "");
    uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    return now / page_bytes == bytes / page_bytes;
}

static int set_limit(struct cay_cgroup *group, enum cay_cgroup_controller controller,
                     const struct cay_cgroup_limits *limits)
{
    if (controller == CAY_CGROUP_MEMORY)
        return set_memory(group, limits->memory_bytes);
    return controller == CAY_CGROUP_PIDS ? set_pids(group, limits->pids)
                                         : set_cpu(group, limits->cpu_millis);
}

unsigned cay_cgroup_wanted(const struct cay_cgroup_limits *limits)
{
    return (limits->memory_bytes ? 1u << CAY_CGROUP_MEMORY : 0) |
           (limits->pids ? 1u << CAY_CGROUP_PIDS : 0) |
           (limits->cpu_millis ? 1u << CAY_CGROUP_CPU : 0);
}

/* A new group has no limits to lift. */
static int set_limits(struct cay_cgroup *group, const struct cay_cgroup_limits *limits, bool is_new)
{
    unsigned wanted = cay_cgroup_wanted(limits);
    int first = 0;
    group->applied = 0;
    for (int i = CAY_CGROUP_MEMORY; i <= CAY_CGROUP_CPU; i++) {
        bool is_wanted = wanted & 1u << i;
        if (!is_wanted && is_new)
            continue;
        int result = set_limit(group, i, limits);
        if (result == 0 && is_wanted && i == CAY_CGROUP_MEMORY &&
            !memory_holds(group, limits->memory_bytes))
            result = -EIO;
        if (result == 0 && is_wanted)
            group->applied |= 1u << i;
        bool is_missing = result == -ENOENT || result == -EBADF;
        if (result < 0 && !is_missing && first == 0)
            first = result;
    }
    return first;
}

int cay_cgroup_set_limits(struct cay_cgroup *group, const struct cay_cgroup_limits *limits)
{
    return set_limits(group, limits, false);
}

int cay_cgroup_limit_new(struct cay_cgroup *group, const struct cay_cgroup_limits *limits)
{
    return set_limits(group, limits, true);
}
