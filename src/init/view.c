/* SPDX-License-Identifier: Apache-2.0 */
#include "init/view.h"

#include <errno.h>
#include <fcntl.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/raw.h"
#include "sys/seccomp.h"

enum {
    CPU_PERIOD_USEC = 100'000, /* the kernel's default, which we leave */
    CPU_DIRS_MAX = 256,
    FRESH_MS = 100, /* nothing is written more often than that */
    PAUSE_MS = 1000,
    PAUSE_MS_MAX = 8000, /* while nobody looks and nothing is started */
    LOAD_STEP_MS = 5000,
    LOAD_STEPS_MAX = 720,
    STAT_BYTES = 8192,
};

static const char *const file_names[VIEW_FILES] = {
    [VIEW_MEMINFO] = "meminfo",
    [VIEW_CPUINFO] = "cpuinfo",
    [VIEW_STAT] = "stat",
    [VIEW_LOADAVG] = "loadavg",
};

const char *view_file_name(enum view_file file)
{
    return file_names[file];
}

void view_init(struct view *view)
{
    for (int i = 0; i < VIEW_SOURCES; i++)
        view->source_fd[i] = view->path_fd[i] = -1;
    for (int i = 0; i < VIEW_FILES; i++)
        view->file_fd[i] = -1;
    view->proc_fd = view->sys_fd = view->cgroups_fd = view->watch_fd = -1;
}

static int find_first(int dir_fd, const char *name, const char *other)
{
    int fd = dir_fd < 0 ? -1 : openat(dir_fd, name, O_PATH | O_CLOEXEC);
    return fd >= 0 || dir_fd < 0 || !other ? fd : openat(dir_fd, other, O_PATH | O_CLOEXEC);
}

void view_open(struct view *view, const struct view_groups *groups)
{
    int *fds = view->path_fd;
    view->has_groups = view->cgroups_fd >= 0;
    int memory_fd = groups->memory_fd;
    fds[SOURCE_MEMORY_MAX] = find_first(memory_fd, "memory.max", NULL);
    view->is_v1 = fds[SOURCE_MEMORY_MAX] < 0;
    if (view->is_v1)
        fds[SOURCE_MEMORY_MAX] = find_first(memory_fd, "memory.limit_in_bytes", NULL);
    fds[SOURCE_MEMORY_USED] = find_first(memory_fd, "memory.current", "memory.usage_in_bytes");
    fds[SOURCE_MEMORY_STAT] = find_first(memory_fd, "memory.stat", NULL);
    fds[SOURCE_CPU_MAX] = find_first(groups->cpu_fd, "cpu.max", "cpu.cfs_quota_us");
    fds[SOURCE_CPU_STAT] = find_first(groups->usage_fd, "cpu.stat", NULL);
    cay_cleanup_close(&groups->memory_fd);
    cay_cleanup_close(&groups->cpu_fd);
    cay_cleanup_close(&groups->usage_fd);
}

int view_make_files(struct view *view, int dir_fd, int proc_fd)
{
    view->proc_fd = openat(proc_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    view->path_fd[SOURCE_MACHINE_MEMORY] = find_first(proc_fd, "meminfo", NULL);
    view->path_fd[SOURCE_MACHINE_CPUS] = find_first(proc_fd, "cpuinfo", NULL);
    for (int i = 0; i < VIEW_FILES; i++) {
        view->file_fd[i] = openat(dir_fd, file_names[i], O_CREAT | O_WRONLY | O_CLOEXEC, 0444);
        if (view->file_fd[i] < 0)
            return -errno;
    }
    return 0;
}

int view_make_sys(struct view *view, int dir_fd, const char *name, uint32_t owner)
{
    if (mkdirat(dir_fd, name, 0755) < 0)
        return -errno;
    view->sys_fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (view->sys_fd < 0 || fchown(view->sys_fd, owner, owner) < 0)
        return -errno;
    if (!view->has_groups)
        return 0;
    return mkdirat(view->sys_fd, "fs", 0755) < 0 || mkdirat(view->sys_fd, "fs/cgroup", 0755) < 0
               ? -errno
               : 0;
}

void view_wake(struct view *view)
{
    char path[32];
    for (int i = 0; i < VIEW_SOURCES; i++) {
        if (view->source_fd[i] >= 0 || view->path_fd[i] < 0)
            continue;
        snprintf(path, sizeof(path), "self/fd/%d", view->path_fd[i]);
        view->source_fd[i] = openat(view->proc_fd, path, O_RDONLY | O_CLOEXEC);
    }
}

void view_rest(struct view *view)
{
    for (int i = 0; i < VIEW_SOURCES; i++) {
        if (view->source_fd[i] >= 0)
            close(cay_take_fd(view->source_fd[i]));
    }
}

size_t view_read(const struct view *view, enum view_source source, char *text, size_t size)
{
    ssize_t got =
        view->source_fd[source] < 0 ? -1 : pread(view->source_fd[source], text, size - 1, 0);
    size_t len = got > 0 ? (size_t)got : 0;
    text[len] = '\0';
    return len;
}

uint64_t view_number(const char *text, const char *word)
{
    size_t len = strlen(word);
    while (text && *text) {
        if (strncmp(text, word, len) == 0 && (text[len] == ' ' || text[len] == ':'))
            return strtoull(text + len + 1, NULL, 10);
        text = strchr(text, '\n');
        text = text ? text + 1 : NULL;
    }
    return 0;
}

void view_put(int fd, const char *text, size_t len)
{
    if (fd >= 0 && pwrite(fd, text, len, 0) == (ssize_t)len)
        (void)!ftruncate(fd, (off_t)len);
}

struct view_limits view_limits(const struct view *view)
{
    char text[64];
    struct view_limits limits = {.cpus = view->machine_cpus};
    /* Words ("max") and what is less than nothing ("-1") are no limits. */
    if (view_read(view, SOURCE_MEMORY_MAX, text, sizeof(text)) && text[0] >= '0' && text[0] <= '9')
        limits.memory_bytes = strtoull(text, NULL, 10);
    if (limits.memory_bytes >= view->machine_bytes)
        limits.memory_bytes = 0;
    if (view_read(view, SOURCE_CPU_MAX, text, sizeof(text)) && text[0] >= '1' && text[0] <= '9') {
        char *rest = NULL;
        uint64_t quota_usec = strtoull(text, &rest, 10);
        uint64_t period_usec = strtoull(rest, NULL, 10);
        if (!period_usec)
            period_usec = CPU_PERIOD_USEC;
        uint64_t cpus = quota_usec / period_usec + (quota_usec % period_usec ? 1 : 0);
        limits.cpus = (uint32_t)CAY_MIN(cpus, (uint64_t)view->machine_cpus);
    }
    return limits;
}

struct view_memory view_memory(const struct view *view)
{
    char text[STAT_BYTES];
    struct view_memory memory = {};
    if (view_read(view, SOURCE_MEMORY_USED, text, sizeof(text)))
        memory.used_bytes = strtoull(text, NULL, 10);
    (void)view_read(view, SOURCE_MEMORY_STAT, text, sizeof(text));
    bool is_v1 = view->is_v1;
    memory.file_bytes = view_number(text, is_v1 ? "total_inactive_file" : "inactive_file") +
                        view_number(text, is_v1 ? "total_active_file" : "active_file");
    memory.shared_bytes = view_number(text, is_v1 ? "total_shmem" : "shmem");
    memory.file_bytes = CAY_MIN(memory.file_bytes, memory.used_bytes);
    return memory;
}

/* The filter lets this length pass to the kernel. */
static uint32_t count_cpus(void)
{
    uint64_t mask[CAY_SECCOMP_AFFINITY_BYTES / sizeof(uint64_t)];
    long len = cay_raw3(SYS_sched_getaffinity, 0, sizeof(mask), mask);
    uint32_t count = 0;
    for (long i = 0; i < len / (long)sizeof(mask[0]); i++)
        count += (uint32_t)__builtin_popcountll(mask[i]);
    return CAY_MAX(count, 1u);
}

static void put_sys(const struct view *view, const char *path, const char *text)
{
    cay_autoclose int fd = openat(view->sys_fd, path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    view_put(fd, text, strlen(text));
}

static void make_dirs(const struct view *view)
{
    static const char *const dirs[] = {"devices", "devices/system", "devices/system/cpu"};
    static const char *const group_dirs[] = {"fs", "fs/cgroup", "fs/cgroup/memory",
                                             "fs/cgroup/cpu"};
    for (size_t i = 0; i < CAY_COUNT(dirs); i++)
        (void)mkdirat(view->sys_fd, dirs[i], 0755);
    for (size_t i = 0; i < CAY_COUNT(group_dirs) && !view->has_groups; i++)
        (void)mkdirat(view->sys_fd, group_dirs[i], 0755);
}

/* For programs that look for the files of version 1 and at nothing else. */
static void put_groups(const struct view *view)
{
    char text[32];
    if (view->has_groups || !view->is_v1 || !view_read(view, SOURCE_MEMORY_MAX, text, sizeof(text)))
        return;
    put_sys(view, "fs/cgroup/memory/memory.limit_in_bytes", text);
    (void)view_read(view, SOURCE_CPU_MAX, text, sizeof(text));
    put_sys(view, "fs/cgroup/cpu/cpu.cfs_quota_us", text);
    snprintf(text, sizeof(text), "%d\n", CPU_PERIOD_USEC);
    put_sys(view, "fs/cgroup/cpu/cpu.cfs_period_us", text);
}

/* The three lists are one file. */
static void put_cpu_dirs(struct view *view)
{
    static const char online[] = "devices/system/cpu/online";
    char path[64];
    char text[32];
    uint32_t last = view->shown.cpus - 1;
    snprintf(text, sizeof(text), last ? "0-%u\n" : "%u\n", last);
    put_sys(view, online, text);
    (void)linkat(view->sys_fd, online, view->sys_fd, "devices/system/cpu/possible", 0);
    (void)linkat(view->sys_fd, online, view->sys_fd, "devices/system/cpu/present", 0);
    uint32_t wanted = CAY_MIN(view->shown.cpus, (uint32_t)CPU_DIRS_MAX);
    while (view->cpu_dirs != wanted) {
        bool is_more = view->cpu_dirs < wanted;
        snprintf(path, sizeof(path), "devices/system/cpu/cpu%u", view->cpu_dirs - !is_more);
        if (is_more)
            (void)mkdirat(view->sys_fd, path, 0755);
        else
            (void)unlinkat(view->sys_fd, path, AT_REMOVEDIR);
        view->cpu_dirs += is_more ? 1 : UINT32_MAX;
    }
}

static void show_limits(struct view *view, const struct view_limits *limits)
{
    view->shown = *limits;
    put_cpu_dirs(view);
    put_groups(view);
    view_write_cpus(view);
    view->next_ms = 0; /* what is used is a part of it */
}

/* As the kernel does for the machine (kernel/sched/loadavg.c), of the time that was used: who waits
 * for a processor is not known. */
static void count_load(struct view *view, uint64_t cpu_usec, int64_t now_ms)
{
    static const uint64_t decay[] = {1884, 2014, 2037}; /* in five seconds */
    int64_t passed_ms = now_ms - view->load_ms;
    if (passed_ms < LOAD_STEP_MS)
        return;
    uint64_t rate = (cpu_usec - view->load_cpu_usec) * LOAD_ONE / ((uint64_t)passed_ms * 1000);
    for (size_t i = 0; i < CAY_COUNT(decay); i++) {
        for (int64_t n = CAY_MIN(passed_ms / LOAD_STEP_MS, (int64_t)LOAD_STEPS_MAX); n > 0; n--)
            view->load[i] =
                (view->load[i] * decay[i] + rate * (LOAD_ONE - decay[i]) + LOAD_ONE / 2) / LOAD_ONE;
    }
    view->load_ms = now_ms;
    view->load_cpu_usec = cpu_usec;
}

static void show_use(struct view *view, int64_t now_ms)
{
    char text[STAT_BYTES];
    (void)view_read(view, SOURCE_CPU_STAT, text, sizeof(text));
    count_load(view, view_number(text, "usage_usec"), now_ms);
    view_write_memory(view);
    view_write_use(view, view_number(text, "user_usec"), view_number(text, "system_usec"), now_ms);
    view->written_ms = now_ms;
}

static bool is_shown(const struct view *view)
{
    return view->sys_fd >= 0;
}

void view_fill(struct view *view, int64_t now_ms)
{
    char text[128];
    if (!is_shown(view))
        return;
    view_wake(view);
    (void)view_read(view, SOURCE_MACHINE_MEMORY, text, sizeof(text));
    view->machine_bytes = view_number(text, "MemTotal") << 10;
    view->machine_cpus = count_cpus();
    view->began_ms = view->load_ms = now_ms;
    make_dirs(view);
    struct view_limits limits = view_limits(view);
    show_limits(view, &limits);
    show_use(view, now_ms);
    view->watch_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
}

void view_before_start(struct view *view, int64_t now_ms)
{
    if (!is_shown(view))
        return;
    view_wake(view);
    struct view_limits limits = view_limits(view);
    if (limits.cpus == view->shown.cpus && limits.memory_bytes == view->shown.memory_bytes)
        return;
    show_limits(view, &limits);
    show_use(view, now_ms);
}

void view_after_start(struct view *view)
{
    view->starts++;
    view->next_ms = view->written_ms + PAUSE_MS;
    view->pause_ms = PAUSE_MS;
}

/* Not before something runs for longer than a moment: most sandboxes never need it. */
static void watch_files(struct view *view)
{
    static const char *const watched[] = {"/proc/meminfo", "/proc/stat", "/proc/loadavg"};
    for (size_t i = 0; i < CAY_COUNT(watched) && view->watch_fd >= 0; i++)
        (void)inotify_add_watch(view->watch_fd, watched[i], IN_OPEN);
    view->is_watched = true;
}

void view_opened(struct view *view)
{
    alignas(struct inotify_event) char events[1024];
    while (read(view->watch_fd, events, sizeof(events)) > 0)
        ;
    view->next_ms = view->written_ms + FRESH_MS;
    view->pause_ms = PAUSE_MS;
}

int view_timeout_ms(const struct view *view, int64_t now_ms)
{
    if (!is_shown(view) || !view->running)
        return -1;
    return (int)CAY_MAX(CAY_MIN(view->next_ms - now_ms, (int64_t)PAUSE_MS_MAX), (int64_t)0);
}

void view_tick(struct view *view, int64_t now_ms)
{
    if (!is_shown(view) || now_ms < view->next_ms || !view->running)
        return;
    view_before_start(view, now_ms);
    show_use(view, now_ms);
    if (!view->is_watched)
        watch_files(view);
    view->next_ms = now_ms + view->pause_ms;
    view->pause_ms = CAY_MIN(view->pause_ms * 2, (uint32_t)PAUSE_MS_MAX);
}
