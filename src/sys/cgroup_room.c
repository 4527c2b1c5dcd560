/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/cgroup_internal.h"

/* The controllers a call can be limited by, in the order of their `tasks`. */
static const int controllers[] = {CAY_CGROUP_MEMORY, CAY_CGROUP_PIDS, CAY_CGROUP_CPU};

/* A new one: memory that an earlier call left in files of a tmpfs stays charged to the old
 * (Documentation/admin-guide/cgroup-v2.rst, "Memory Ownership"). */
static int fresh_dir(int parent_fd, const char *name)
{
    if (unlinkat(parent_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        return -errno;
    if (mkdirat(parent_fd, name, 0755) < 0)
        return -errno;
    int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* Version 1: in the hierarchies of the wanted limits, and in that of memory, which tells whom it
 * killed. */
static int make_v1(const struct cay_cgroup *group, const char *name, unsigned wanted,
                   struct cay_cgroup *room, struct cay_cgroup_slot *slot)
{
    size_t count = 0;
    for (size_t i = 0; i < CAY_COUNT(controllers); i++) {
        int which = controllers[i];
        bool is_wanted = which == CAY_CGROUP_MEMORY || wanted & 1u << which;
        if (group->v1_fd[which] < 0 || !is_wanted)
            continue;
        int shared_fd = -1;
        for (size_t j = 0; j < i; j++) {
            if (room->v1_fd[controllers[j]] >= 0 &&
                strcmp(group->host->v1[which], group->host->v1[controllers[j]]) == 0)
                shared_fd = room->v1_fd[controllers[j]];
        }
        int fd = shared_fd >= 0 ? fcntl(shared_fd, F_DUPFD_CLOEXEC, 0)
                                : fresh_dir(group->v1_fd[which], name);
        if (fd < 0)
            return shared_fd >= 0 ? -errno : fd;
        room->v1_fd[which] = fd;
        int *tasks_fd = count == 0 ? &slot->tasks_fd : &slot->more_tasks_fd[count - 1];
        if (shared_fd < 0)
            *tasks_fd = openat(fd, "tasks", O_WRONLY | O_CLOEXEC);
        count += shared_fd < 0;
    }
    return 0;
}

static int make_unified(const struct cay_cgroup *group, const char *name, struct cay_cgroup *room,
                        struct cay_cgroup_slot *slot)
{
    if (group->unified_fd < 0)
        return 0;
    if (group->host->unified_has[CAY_CGROUP_PIDS] || group->host->unified_has[CAY_CGROUP_CPU])
        cay_cgroup_enable_below(group->unified_fd);
    int dir = fresh_dir(group->unified_fd, name);
    if (dir < 0)
        return dir;
    room->unified_fd = dir;
    slot->into_fd = fcntl(dir, F_DUPFD_CLOEXEC, 0);
    slot->freeze_fd = openat(dir, "cgroup.freeze", O_WRONLY | O_CLOEXEC);
    slot->procs_fd = openat(dir, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    slot->oom_fd = openat(dir, "memory.events", O_RDONLY | O_CLOEXEC);
    return fchownat(dir, "cgroup.procs", group->init_uid, (gid_t)-1, 0) < 0 ? -errno : 0;
}

int cay_cgroup_open_room(const struct cay_cgroup *group, unsigned index,
                         const struct cay_cgroup_limits *limits, struct cay_cgroup_slot *out_slot)
{
    struct cay_cgroup room = {.host = group->host, .unified_fd = -1, .init_fd = -1};
    for (int i = 0; i < CAY_CGROUP_CONTROLLERS; i++)
        room.v1_fd[i] = -1;
    *out_slot = CAY_CGROUP_NO_SLOT;
    if (index >= CAY_CGROUP_ROOMS_MAX)
        return -ERANGE;
    char name[16];
    snprintf(name, sizeof(name), "r%u", index);
    unsigned wanted = cay_cgroup_wanted(limits);
    int result = make_unified(group, name, &room, out_slot);
    if (result == 0)
        result = make_v1(group, name, wanted, &room, out_slot);
    int memory_fd = room.v1_fd[CAY_CGROUP_MEMORY];
    if (result == 0 && out_slot->oom_fd < 0 && memory_fd >= 0)
        out_slot->oom_fd = openat(memory_fd, "memory.oom_control", O_RDONLY | O_CLOEXEC);
    if (result == 0 && out_slot->procs_fd < 0 && memory_fd >= 0)
        out_slot->procs_fd = openat(memory_fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    if (result == 0)
        result = cay_cgroup_limit_new(&room, limits);
    if (result == 0 && (room.applied & wanted) != wanted)
        result = -EOPNOTSUPP;
    cay_cgroup_close(&room);
    if (result < 0)
        cay_cgroup_close_slot(out_slot);
    return result;
}
