/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "init/view.h"

enum {
    TEXT_BYTES = 32768,
    TICK_USEC = 10'000, /* the unit of /proc/stat: proc(5) */
    CPU_LINE_BYTES = 128,
};

static char text[TEXT_BYTES];

/* A line of /proc/meminfo and where its number comes from, by the version of control groups. Lines
 * that a group knows nothing of are there, and 0. */
static const struct {
    const char *name;
    const char *v1;
    const char *v2;
} memory_lines[] = {
    {"Buffers", NULL, NULL},
    {"Cached", "total_cache", "file"},
    {"SwapCached", NULL, NULL},
    {"Active", NULL, NULL}, /* the sum of two: see active_of */
    {"Inactive", NULL, NULL},
    {"Active(anon)", "total_active_anon", "active_anon"},
    {"Inactive(anon)", "total_inactive_anon", "inactive_anon"},
    {"Active(file)", "total_active_file", "active_file"},
    {"Inactive(file)", "total_inactive_file", "inactive_file"},
    {"Unevictable", "total_unevictable", "unevictable"},
    {"Mlocked", NULL, NULL},
    {"SwapTotal", NULL, NULL},
    {"SwapFree", NULL, NULL},
    {"Dirty", "total_dirty", "file_dirty"},
    {"Writeback", "total_writeback", "file_writeback"},
    {"AnonPages", "total_rss", "anon"},
    {"Mapped", "total_mapped_file", "file_mapped"},
    {"Shmem", "total_shmem", "shmem"},
    {"KReclaimable", NULL, "slab_reclaimable"},
    {"Slab", NULL, "slab"},
    {"SReclaimable", NULL, "slab_reclaimable"},
    {"SUnreclaim", NULL, "slab_unreclaimable"},
    {"KernelStack", NULL, "kernel_stack"},
    {"PageTables", NULL, "pagetables"},
};

static size_t put_kib(size_t at, const char *name, uint64_t bytes)
{
    int pad = (int)CAY_MAX(15 - (ssize_t)strlen(name), (ssize_t)1);
    int len = snprintf(text + at, sizeof(text) - at, "%s:%*s%8llu kB\n", name, pad, "",
                       (unsigned long long)(bytes >> 10));
    return len > 0 && (size_t)len < sizeof(text) - at ? at + (size_t)len : at;
}

static uint64_t active_of(const char *stat, bool is_v1, bool is_active)
{
    static const char *const words[2][2][2] = {
        {{"inactive_anon", "inactive_file"}, {"active_anon", "active_file"}},
        {{"total_inactive_anon", "total_inactive_file"},
         {"total_active_anon", "total_active_file"}},
    };
    const char *const *two = words[is_v1][is_active];
    return view_number(stat, two[0]) + view_number(stat, two[1]);
}

/* Whoever has no limit of memory sees the machine's. */
static void copy_machine_memory(const struct view *view)
{
    size_t len = view_read(view, SOURCE_MACHINE_MEMORY, text, sizeof(text));
    view_put(view->file_fd[VIEW_MEMINFO], text, len);
}

void view_write_memory(const struct view *view)
{
    char stat[8192];
    uint64_t total = view->shown.memory_bytes;
    if (!total) {
        copy_machine_memory(view);
        return;
    }
    struct view_memory memory = view_memory(view);
    uint64_t unused = total - CAY_MIN(memory.used_bytes, total);
    (void)view_read(view, SOURCE_MEMORY_STAT, stat, sizeof(stat));
    size_t len = put_kib(0, "MemTotal", total);
    len = put_kib(len, "MemFree", unused);
    len = put_kib(len, "MemAvailable", CAY_MIN(unused + memory.file_bytes, total));
    for (size_t i = 0; i < CAY_COUNT(memory_lines); i++) {
        const char *word = view->is_v1 ? memory_lines[i].v1 : memory_lines[i].v2;
        const char *name = memory_lines[i].name;
        uint64_t bytes = word ? view_number(stat, word) : 0;
        if (strcmp(name, "Active") == 0 || strcmp(name, "Inactive") == 0)
            bytes = active_of(stat, view->is_v1, name[0] == 'A');
        len = put_kib(len, name, bytes);
    }
    view_put(view->file_fd[VIEW_MEMINFO], text, len);
}

/* How much of the text ends the record that makes `*left` 0; all of it when there are more. */
static size_t whole_records(const char *at, size_t len, bool *was_line_end, uint32_t *left)
{
    for (size_t i = 0; i < len; i++) {
        bool is_line_end = at[i] == '\n';
        if (is_line_end && *was_line_end && --*left == 0)
            return i + 1;
        *was_line_end = is_line_end;
    }
    return len;
}

/* The first of the machine's processors; an empty line ends each. */
void view_write_cpus(const struct view *view)
{
    int from_fd = view->source_fd[SOURCE_MACHINE_CPUS];
    int to_fd = view->file_fd[VIEW_CPUINFO];
    uint32_t left = view->shown.cpus;
    bool was_line_end = false;
    off_t at = 0;
    if (from_fd < 0 || lseek(from_fd, 0, SEEK_SET) < 0)
        return;
    while (left) {
        ssize_t got = read(from_fd, text, sizeof(text));
        if (got <= 0)
            break;
        size_t len = whole_records(text, (size_t)got, &was_line_end, &left);
        if (pwrite(to_fd, text, len, at) != (ssize_t)len)
            break;
        at += (off_t)len;
    }
    (void)!ftruncate(to_fd, at);
}

static size_t put_cpu(size_t at, const char *name, uint64_t user, uint64_t kernel, uint64_t idle)
{
    int len =
        snprintf(text + at, sizeof(text) - at, "%s %llu 0 %llu %llu 0 0 0 0 0 0\n", name,
                 (unsigned long long)user, (unsigned long long)kernel, (unsigned long long)idle);
    return at + (size_t)CAY_MAX(len, 0);
}

/* When the machine was started, from which times of processes count. */
static long long boot_time(void)
{
    struct timespec now;
    struct timespec since;
    clock_gettime(CLOCK_REALTIME, &now);
    clock_gettime(CLOCK_BOOTTIME, &since);
    return (long long)now.tv_sec - since.tv_sec;
}

static void write_stat(const struct view *view, uint64_t user_usec, uint64_t system_usec,
                       int64_t now_ms)
{
    uint32_t cpus = view->shown.cpus;
    uint64_t user = user_usec / TICK_USEC;
    uint64_t kernel = system_usec / TICK_USEC;
    uint64_t all = (uint64_t)(now_ms - view->began_ms) / 10 * cpus;
    uint64_t idle = all - CAY_MIN(user + kernel, all);
    char name[16];
    size_t len = put_cpu(0, "cpu ", user, kernel, idle);
    for (uint32_t i = 0; i < cpus && len + 2 * CPU_LINE_BYTES < sizeof(text); i++) {
        snprintf(name, sizeof(name), "cpu%u", i);
        len = put_cpu(len, name, user / cpus, kernel / cpus, idle / cpus);
    }
    len += (size_t)snprintf(text + len, sizeof(text) - len,
                            "intr 0\nctxt 0\nbtime %lld\nprocesses %llu\nprocs_running 1\n"
                            "procs_blocked 0\nsoftirq 0 0 0 0 0 0 0 0 0 0 0\n",
                            boot_time(), (unsigned long long)view->starts);
    view_put(view->file_fd[VIEW_STAT], text, len);
}

static void write_loadavg(const struct view *view)
{
    unsigned whole[3];
    unsigned parts[3];
    for (int i = 0; i < 3; i++) {
        whole[i] = (unsigned)(view->load[i] >> LOAD_SHIFT);
        parts[i] = (unsigned)((view->load[i] & (LOAD_ONE - 1)) * 100 >> LOAD_SHIFT);
    }
    int len = snprintf(text, sizeof(text), "%u.%02u %u.%02u %u.%02u %u/%u %u\n", whole[0], parts[0],
                       whole[1], parts[1], whole[2], parts[2], CAY_MAX(view->running, 1u),
                       view->running + 1, CAY_MAX(view->last_pid, 1u));
    view_put(view->file_fd[VIEW_LOADAVG], text, (size_t)CAY_MAX(len, 0));
}

void view_write_use(const struct view *view, uint64_t user_usec, uint64_t system_usec,
                    int64_t now_ms)
{
    write_stat(view, user_usec, system_usec, now_ms);
    write_loadavg(view);
}
