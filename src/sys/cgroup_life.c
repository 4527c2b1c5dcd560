/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sys/cgroup_internal.h"

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void nap_ms(int ms)
{
    struct timespec nap = {.tv_nsec = ms * 1000000L};
    nanosleep(&nap, NULL);
}

static ssize_t read_file(int dir_fd, const char *file, char *text, size_t size)
{
    cay_autoclose int fd = openat(dir_fd, file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t len = read(fd, text, size - 1);
    if (len < 0)
        return -errno;
    text[len] = '\0';
    return len;
}

/* The number after `key ` at the start of a line, or the whole text when key is empty. */
static uint64_t number_of(const char *text, const char *key)
{
    struct cay_str rest = cay_str(text);
    struct cay_str line;
    uint64_t number = 0;
    while (cay_str_split(&rest, '\n', &line)) {
        if (!cay_str_starts(line, key))
            continue;
        line.ptr += strlen(key);
        line.len -= strlen(key);
        if (cay_str_to_u64(cay_str_trim(line), UINT64_MAX, &number) == 0)
            break;
    }
    return number;
}

uint64_t cay_cgroup_read_number(int dir_fd, const char *file, const char *key)
{
    char text[8192]; /* memory.stat has more than a hundred lines */
    return dir_fd >= 0 && read_file(dir_fd, file, text, sizeof(text)) > 0 ? number_of(text, key)
                                                                          : 0;
}

static int wait_frozen_unified(int dir_fd, int timeout_ms)
{
    cay_autoclose int fd = openat(dir_fd, "cgroup.events", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int64_t deadline_ms = now_ms() + timeout_ms;
    for (;;) {
        char text[256];
        ssize_t len = pread(fd, text, sizeof(text) - 1, 0);
        if (len < 0)
            return -errno;
        text[len] = '\0';
        if (number_of(text, "frozen ") == 1)
            return 0;
        int64_t left_ms = deadline_ms - now_ms();
        if (left_ms <= 0)
            return -ETIMEDOUT;
        struct pollfd entry = {.fd = fd, .events = POLLPRI};
        if (poll(&entry, 1, (int)left_ms) < 0 && errno != EINTR)
            return -errno;
    }
}

static int wait_frozen_v1(int dir_fd, int timeout_ms)
{
    int64_t deadline_ms = now_ms() + timeout_ms;
    for (;;) {
        char text[32];
        ssize_t len = read_file(dir_fd, "freezer.state", text, sizeof(text));
        if (len < 0)
            return (int)len;
        if (strncmp(text, "FROZEN", 6) == 0)
            return 0;
        if (now_ms() >= deadline_ms)
            return -ETIMEDOUT;
        nap_ms(1);
    }
}

int cay_cgroup_freeze(const struct cay_cgroup *group, int timeout_ms)
{
    int result = -EOPNOTSUPP;
    if (group->unified_fd >= 0) {
        result = cay_cgroup_write(group->unified_fd, "cgroup.freeze", "1");
        if (result == 0)
            result = wait_frozen_unified(group->unified_fd, timeout_ms);
    } else if (group->v1_fd[CAY_CGROUP_FREEZER] >= 0) {
        int fd = group->v1_fd[CAY_CGROUP_FREEZER];
        result = cay_cgroup_write(fd, "freezer.state", "FROZEN");
        if (result == 0)
            result = wait_frozen_v1(fd, timeout_ms);
    }
    return result;
}

int cay_cgroup_thaw(const struct cay_cgroup *group)
{
    if (group->unified_fd >= 0)
        return cay_cgroup_write(group->unified_fd, "cgroup.freeze", "0");
    if (group->v1_fd[CAY_CGROUP_FREEZER] >= 0)
        return cay_cgroup_write(group->v1_fd[CAY_CGROUP_FREEZER], "freezer.state", "THAWED");
    return -EOPNOTSUPP;
}

int cay_cgroup_kill(const struct cay_cgroup *group)
{
    if (group->unified_fd < 0)
        return -EOPNOTSUPP;
    return cay_cgroup_write(group->unified_fd, "cgroup.kill", "1");
}

void cay_cgroup_read_stats(const struct cay_cgroup *group, struct cay_cgroup_stats *out_stats)
{
    int memory = group->v1_fd[CAY_CGROUP_MEMORY];
    bool memory_v1 = memory >= 0;
    int pids = group->v1_fd[CAY_CGROUP_PIDS];
    int init = memory_v1 ? memory : group->init_fd;
    if (!memory_v1)
        memory = group->unified_fd;
    *out_stats = (struct cay_cgroup_stats){
        .memory_bytes = cay_cgroup_read_number(
            memory, memory_v1 ? "memory.usage_in_bytes" : "memory.current", ""),
        .memory_peak_bytes = cay_cgroup_read_number(
            memory, memory_v1 ? "memory.max_usage_in_bytes" : "memory.peak", ""),
        .memory_cache_bytes =
            cay_cgroup_read_number(memory, "memory.stat", memory_v1 ? "total_cache " : "file "),
        .pids = cay_cgroup_read_number(pids >= 0 ? pids : group->unified_fd, "pids.current", ""),
        .cpu_usec = cay_cgroup_read_number(group->unified_fd, "cpu.stat", "usage_usec "),
        .init_oom_kills = cay_cgroup_read_number(
            init, memory_v1 ? "memory.oom_control" : "memory.events", "oom_kill "),
    };
}

uint64_t cay_cgroup_oom_kills(const struct cay_cgroup *group)
{
    int memory = group->v1_fd[CAY_CGROUP_MEMORY];
    if (memory < 0)
        return cay_cgroup_read_number(group->unified_fd, "memory.events", "oom_kill ");
    uint64_t count = cay_cgroup_read_number(memory, "memory.oom_control", "oom_kill ");
    int fd = openat(memory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        if (fd >= 0)
            close(fd);
        return count;
    }
    for (const struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
            continue;
        cay_autoclose int slot = openat(memory, entry->d_name, O_PATH | O_DIRECTORY | O_CLOEXEC);
        count += cay_cgroup_read_number(slot, "memory.oom_control", "oom_kill ");
    }
    closedir(dir);
    return count;
}

bool cay_cgroup_is_populated(const struct cay_cgroup *group)
{
    if (group->unified_fd >= 0)
        return cay_cgroup_read_number(group->unified_fd, "cgroup.events", "populated ") == 1;
    for (int i = 0; i < CAY_CGROUP_CONTROLLERS; i++) {
        char text[16];
        if (group->v1_fd[i] >= 0 &&
            read_file(group->v1_fd[i], "cgroup.procs", text, sizeof(text)) > 0)
            return true;
    }
    return false;
}

/* Version 1 has no kill: everybody in the group and its slots is signalled. */
static void kill_members(int dir_fd)
{
    char text[65536];
    ssize_t len = read_file(dir_fd, "cgroup.procs", text, sizeof(text));
    struct cay_str rest = {text, len > 0 ? (size_t)len : 0};
    struct cay_str line;
    while (len > 0 && cay_str_split(&rest, '\n', &line)) {
        uint64_t pid = 0;
        if (cay_str_to_u64(line, INT32_MAX, &pid) == 0 && pid > 1)
            kill((pid_t)pid, SIGKILL);
    }
}

static void kill_below(int dir_fd, char kind, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        char name[16];
        snprintf(name, sizeof(name), "%c%u", kind, i);
        cay_autoclose int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
            continue;
        kill_members(fd);
    }
}

static void kill_v1(int dir_fd)
{
    kill_members(dir_fd);
    kill_below(dir_fd, 's', CAY_CGROUP_SLOTS_MAX);
    kill_below(dir_fd, 'r', CAY_CGROUP_ROOMS_MAX);
}

int cay_cgroup_kill_all(const struct cay_cgroup *group, int timeout_ms)
{
    int64_t deadline_ms = now_ms() + timeout_ms;
    for (;;) {
        if (cay_cgroup_kill(group) < 0) {
            for (int i = 0; i < CAY_CGROUP_CONTROLLERS; i++) {
                if (group->v1_fd[i] >= 0)
                    kill_v1(group->v1_fd[i]);
            }
            (void)cay_cgroup_thaw(group);
        }
        if (!cay_cgroup_is_populated(group))
            return 0;
        if (now_ms() >= deadline_ms)
            return -ETIMEDOUT;
        nap_ms(1);
    }
}

/* Groups are two deep: slots and init below the session. -EBUSY asks the caller to come again. */
static int remove_once(const char *path)
{
    cay_autoclose int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0)
        return errno == ENOENT ? 0 : -errno;
    int list_fd = fcntl(dir_fd, F_DUPFD_CLOEXEC, 0);
    DIR *dir = list_fd >= 0 ? fdopendir(list_fd) : NULL;
    if (!dir) {
        cay_cleanup_close(&list_fd);
        return -errno;
    }
    int result = 0;
    const struct dirent *entry;
    while ((entry = readdir(dir))) {
        if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
            continue;
        if (unlinkat(dir_fd, entry->d_name, AT_REMOVEDIR) < 0 && errno != ENOENT)
            result = -errno;
    }
    closedir(dir);
    if (result == 0 && rmdir(path) < 0 && errno != ENOENT)
        result = -errno;
    return result;
}

static int remove_at(const char *mount_point, const char *name, int64_t deadline_ms)
{
    char path[CAY_CGROUP_PATH_BYTES + CAY_CGROUP_NAME_BYTES];
    snprintf(path, sizeof(path), "%s/%s", mount_point, name);
    int result = remove_once(path);
    while (result == -EBUSY && now_ms() < deadline_ms) {
        nap_ms(1);
        result = remove_once(path);
    }
    return result;
}

int cay_cgroup_remove(const struct cay_cgroup_host *host, const char *name, int timeout_ms)
{
    if (!name[0] || strstr(name, "..") || strlen(name) >= CAY_CGROUP_NAME_BYTES)
        return -EINVAL;
    int64_t deadline_ms = now_ms() + timeout_ms;
    int result = 0;
    for (int i = 0; i < CAY_CGROUP_CONTROLLERS; i++) {
        int one = host->v1[i][0] ? remove_at(host->v1[i], name, deadline_ms) : 0;
        result = result ? result : one;
    }
    int one = host->unified[0] ? remove_at(host->unified, name, deadline_ms) : 0;
    return result ? result : one;
}
