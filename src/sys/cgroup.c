/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sys/cgroup_internal.h"

int cay_cgroup_write(int dir_fd, const char *file, const char *text)
{
    cay_autoclose int fd = openat(dir_fd, file, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    size_t len = strlen(text);
    return write(fd, text, len) == (ssize_t)len ? 0 : -errno;
}

/* "parent/session" below a mount point: makes the parent when it is missing. Gives the directory of
 * the session group. */
static int make_group(const char *mount_point, const char *name, bool is_unified)
{
    char path[CAY_CGROUP_PATH_BYTES + CAY_CGROUP_NAME_BYTES];
    snprintf(path, sizeof(path), "%s/%s", mount_point, name);
    int result = mkdir(path, 0755) < 0 ? -errno : 0;
    if (result == -ENOENT) {
        char *slash = strrchr(path, '/');
        *slash = '\0';
        if (mkdir(path, 0755) < 0 && errno != EEXIST)
            return -errno;
        if (is_unified) {
            cay_autoclose int root = open(mount_point, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            cay_autoclose int parent = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            cay_cgroup_enable_below(root);
            cay_cgroup_enable_below(parent);
        }
        *slash = '/';
        result = mkdir(path, 0755) < 0 ? -errno : 0;
    }
    if (result < 0)
        return result;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

void cay_cgroup_enable_below(int dir_fd)
{
    /* One by one: a controller that is not there must not keep the others away. */
    static const char *const words[] = {"+memory", "+pids", "+cpu"};
    for (size_t i = 0; i < CAY_COUNT(words); i++)
        (void)cay_cgroup_write(dir_fd, "cgroup.subtree_control", words[i]);
}

static bool unified_has_limits(const struct cay_cgroup_host *host)
{
    return host->unified_has[CAY_CGROUP_MEMORY] || host->unified_has[CAY_CGROUP_PIDS] ||
           host->unified_has[CAY_CGROUP_CPU];
}

/* The freezer of version 1 is used only where version 2 is not mounted. */
static bool wants_v1(const struct cay_cgroup_host *host, int controller)
{
    return host->v1[controller][0] && (controller != CAY_CGROUP_FREEZER || !host->unified[0]);
}

static int prepare(const struct cay_cgroup_host *host, const char *name, uid_t init_uid,
                   struct cay_cgroup *out_group)
{
    *out_group =
        (struct cay_cgroup){.host = host, .unified_fd = -1, .init_fd = -1, .init_uid = init_uid};
    for (int i = 0; i < CAY_CGROUP_CONTROLLERS; i++)
        out_group->v1_fd[i] = -1;
    size_t len = strlen(name);
    if (len == 0 || len >= sizeof(out_group->name) || strstr(name, "..") || name[0] == '/')
        return -EINVAL;
    memcpy(out_group->name, name, len + 1);
    return 0;
}

/* Two controllers may share one mount: the second finds the group made and shares the descriptor's
 * directory, not the descriptor. */
static int make_v1(struct cay_cgroup *group)
{
    for (int i = 0; i < CAY_CGROUP_CONTROLLERS; i++) {
        if (!wants_v1(group->host, i))
            continue;
        int fd = -ENOENT;
        for (int j = 0; j < i; j++) {
            if (group->v1_fd[j] >= 0 && strcmp(group->host->v1[i], group->host->v1[j]) == 0)
                fd = fcntl(group->v1_fd[j], F_DUPFD_CLOEXEC, 0);
        }
        if (fd < 0)
            fd = make_group(group->host->v1[i], group->name, false);
        if (fd < 0)
            return fd;
        group->v1_fd[i] = fd;
    }
    return 0;
}

static int make_unified(struct cay_cgroup *group)
{
    if (!group->host->unified[0])
        return 0;
    group->unified_fd = make_group(group->host->unified, group->name, true);
    if (group->unified_fd < 0)
        return group->unified_fd;
    /* Births in slots are checked against the common ancestor, too (cgroups(7), "Cgroup
     * delegation containment rules"). */
    if (fchownat(group->unified_fd, "cgroup.procs", group->init_uid, (gid_t)-1, 0) < 0)
        return -errno;
    if (!unified_has_limits(group->host)) {
        group->init_fd = fcntl(group->unified_fd, F_DUPFD_CLOEXEC, 0);
        return group->init_fd < 0 ? -errno : 0;
    }
    /* With controllers for the slots the group itself may hold no process (cgroups(7), "no internal
     * processes" rule). */
    if (mkdirat(group->unified_fd, "init", 0755) < 0)
        return -errno;
    if (group->host->unified_has[CAY_CGROUP_MEMORY])
        (void)cay_cgroup_write(group->unified_fd, "cgroup.subtree_control", "+memory");
    group->init_fd = openat(group->unified_fd, "init", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return group->init_fd < 0 ? -errno : 0;
}

int cay_cgroup_create(const struct cay_cgroup_host *host, const char *name,
                      const struct cay_cgroup_limits *limits, uid_t init_uid,
                      struct cay_cgroup *out_group)
{
    int result = prepare(host, name, init_uid, out_group);
    if (result < 0)
        return result;
    result = make_unified(out_group);
    if (result == 0)
        result = make_v1(out_group);
    if (result == 0)
        result = cay_cgroup_limit_new(out_group, limits);
    if (result < 0) {
        cay_cgroup_close(out_group);
        if (result != -EEXIST)
            (void)cay_cgroup_remove(host, name, 0);
    }
    return result;
}

static int open_group(const char *mount_point, const char *name)
{
    char path[CAY_CGROUP_PATH_BYTES + CAY_CGROUP_NAME_BYTES];
    snprintf(path, sizeof(path), "%s/%s", mount_point, name);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int cay_cgroup_open(const struct cay_cgroup_host *host, const char *name, uid_t init_uid,
                    struct cay_cgroup *out_group)
{
    int result = prepare(host, name, init_uid, out_group);
    if (result < 0)
        return result;
    bool any = false;
    for (int i = 0; i < CAY_CGROUP_CONTROLLERS; i++) {
        if (!wants_v1(host, i))
            continue;
        out_group->v1_fd[i] = open_group(host->v1[i], name);
        any = any || out_group->v1_fd[i] >= 0;
    }
    if (host->unified[0]) {
        out_group->unified_fd = open_group(host->unified, name);
        any = any || out_group->unified_fd >= 0;
        if (out_group->unified_fd >= 0) {
            out_group->init_fd =
                openat(out_group->unified_fd, unified_has_limits(host) ? "init" : ".",
                       O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        }
    }
    return any ? 0 : -ENOENT;
}

void cay_cgroup_close(struct cay_cgroup *group)
{
    cay_cleanup_close(&group->unified_fd);
    cay_cleanup_close(&group->init_fd);
    group->unified_fd = group->init_fd = -1;
    for (int i = 0; i < CAY_CGROUP_CONTROLLERS; i++) {
        cay_cleanup_close(&group->v1_fd[i]);
        group->v1_fd[i] = -1;
    }
}

int cay_cgroup_open_tasks(const struct cay_cgroup *group, int *out_fds)
{
    int count = 0;
    for (int i = 0; i < CAY_CGROUP_CONTROLLERS; i++) {
        bool shared = false;
        for (int j = 0; j < i; j++) {
            shared = shared ||
                     (group->v1_fd[j] >= 0 && strcmp(group->host->v1[i], group->host->v1[j]) == 0);
        }
        if (group->v1_fd[i] < 0 || shared)
            continue;
        int fd = openat(group->v1_fd[i], "tasks", O_WRONLY | O_CLOEXEC);
        if (fd < 0) {
            int saved = -errno;
            while (count > 0)
                close(out_fds[--count]);
            return saved;
        }
        out_fds[count++] = fd;
    }
    return count;
}

/* The version 1 hierarchy that slots are made in: memory tells whom it killed; without version 2
 * any will do to know who is left. */
static int slot_v1(const struct cay_cgroup *group)
{
    if (group->v1_fd[CAY_CGROUP_MEMORY] >= 0 || group->unified_fd >= 0)
        return group->v1_fd[CAY_CGROUP_MEMORY];
    return group->v1_fd[CAY_CGROUP_PIDS] >= 0 ? group->v1_fd[CAY_CGROUP_PIDS]
                                              : group->v1_fd[CAY_CGROUP_FREEZER];
}

static int open_slot_dir(int parent_fd, const char *name)
{
    if (mkdirat(parent_fd, name, 0755) < 0 && errno != EEXIST)
        return -errno;
    int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int cay_cgroup_open_slot(const struct cay_cgroup *group, unsigned index,
                         struct cay_cgroup_slot *out_slot)
{
    *out_slot = CAY_CGROUP_NO_SLOT;
    if (index >= CAY_CGROUP_SLOTS_MAX)
        return -ERANGE;
    char name[16];
    snprintf(name, sizeof(name), "s%u", index);
    if (group->unified_fd >= 0) {
        int dir = open_slot_dir(group->unified_fd, name);
        if (dir < 0)
            return dir;
        out_slot->into_fd = dir;
        out_slot->freeze_fd = openat(dir, "cgroup.freeze", O_WRONLY | O_CLOEXEC);
        out_slot->procs_fd = openat(dir, "cgroup.procs", O_RDONLY | O_CLOEXEC);
        out_slot->oom_fd = openat(dir, "memory.events", O_RDONLY | O_CLOEXEC);
        (void)!fchownat(dir, "cgroup.procs", group->init_uid, (gid_t)-1, 0);
    }
    int v1_fd = slot_v1(group);
    if (v1_fd >= 0) {
        cay_autoclose int dir = open_slot_dir(v1_fd, name);
        if (dir < 0) {
            cay_cgroup_close_slot(out_slot);
            return dir;
        }
        out_slot->tasks_fd = openat(dir, "tasks", O_WRONLY | O_CLOEXEC);
        if (out_slot->oom_fd < 0)
            out_slot->oom_fd = openat(dir, "memory.oom_control", O_RDONLY | O_CLOEXEC);
        if (out_slot->procs_fd < 0)
            out_slot->procs_fd = openat(dir, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    }
    return 0;
}

void cay_cgroup_close_slot(struct cay_cgroup_slot *slot)
{
    cay_cleanup_close(&slot->into_fd);
    cay_cleanup_close(&slot->freeze_fd);
    cay_cleanup_close(&slot->procs_fd);
    cay_cleanup_close(&slot->tasks_fd);
    cay_cleanup_close(&slot->oom_fd);
    cay_cleanup_close(&slot->more_tasks_fd[0]);
    cay_cleanup_close(&slot->more_tasks_fd[1]);
    *slot = CAY_CGROUP_NO_SLOT;
}
