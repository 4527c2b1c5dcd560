/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/hidden_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { GROUP_DEPTH_MAX = 4 }; /* ours are two deep */

struct hidden_file {
    dev_t dev;
    ino_t ino;
    uint64_t bytes;
};

struct looking {
    dev_t dev;
    struct hidden_file *files;
    size_t count, cap;
    uint64_t in_flight;
};

static void cleanup_dir(DIR **dir)
{
    if (*dir)
        closedir(*dir);
}

static void cleanup_file(FILE **file)
{
    if (*file)
        (void)fclose(*file);
}

static DIR *open_dir(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir && fd >= 0)
        close(fd);
    return dir;
}

static FILE *open_text(const char *path)
{
    return fopen(path, "re");
}

static void add(struct looking *looking, const struct stat *st)
{
    if (!S_ISREG(st->st_mode) || st->st_nlink)
        return;
    if (looking->count == looking->cap) {
        looking->cap = looking->cap ? 2 * looking->cap : 64;
        looking->files = cay_realloc_array(looking->files, looking->cap, sizeof(*looking->files));
    }
    looking->files[looking->count++] =
        (struct hidden_file){st->st_dev, st->st_ino, (uint64_t)st->st_blocks * 512};
}

static void note(struct looking *looking, const struct stat *st)
{
    if (st->st_dev == looking->dev)
        add(looking, st);
}

/* "scm_fds: 3", of a Unix socket (Linux 5.11; unix_show_fdinfo() in net/unix/af_unix.c). */
static void look_at_socket(struct looking *looking, const char *task, const char *name)
{
    char path[320];
    char line[128];
    unsigned long long count = 0;
    snprintf(path, sizeof(path), "%s/fdinfo/%s", task, name);
    cay_auto(cleanup_file) FILE *file = open_text(path);
    while (file && fgets(line, sizeof(line), file)) {
        if (sscanf(line, "scm_fds: %llu", &count) == 1)
            looking->in_flight += count;
    }
}

static void look_at_descriptors(struct looking *looking, const char *task)
{
    char path[320];
    snprintf(path, sizeof(path), "%s/fd", task);
    cay_auto(cleanup_dir) DIR *dir = open_dir(path);
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        struct stat st;
        if (entry->d_name[0] == '.' || fstatat(dirfd(dir), entry->d_name, &st, 0) < 0)
            continue;
        if (S_ISSOCK(st.st_mode))
            look_at_socket(looking, task, entry->d_name);
        else
            note(looking, &st);
    }
}

/* A mapping keeps a file after its last descriptor was closed. */
static void look_at_mappings(struct looking *looking, const char *process)
{
    char path[320];
    snprintf(path, sizeof(path), "%s/maps", process);
    cay_auto(cleanup_file) FILE *file = open_text(path);
    char *line = NULL;
    size_t size = 0;
    while (file && getline(&line, &size, file) > 0) {
        char range[64];
        struct stat st;
        if (!strstr(line, " (deleted)") || sscanf(line, "%63s", range) != 1)
            continue;
        snprintf(path, sizeof(path), "%s/map_files/%s", process, range);
        if (stat(path, &st) == 0)
            note(looking, &st);
    }
    free(line);
}

/* A thread may have descriptors of its own. */
static bool shares_files(pid_t pid, pid_t tid)
{
    return syscall(SYS_kcmp, pid, tid, KCMP_FILES, 0, 0) == 0;
}

static void look_at_process(struct looking *looking, pid_t pid)
{
    char process[32];
    char path[320];
    snprintf(process, sizeof(process), "/proc/%d", (int)pid);
    look_at_mappings(looking, process);
    look_at_descriptors(looking, process);
    snprintf(path, sizeof(path), "%s/task", process);
    cay_auto(cleanup_dir) DIR *tasks = open_dir(path);
    for (const struct dirent *entry; tasks && (entry = readdir(tasks));) {
        pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (tid <= 0 || tid == pid || shares_files(pid, tid))
            continue;
        snprintf(path, sizeof(path), "%s/task/%d", process, (int)tid);
        look_at_descriptors(looking, path);
    }
}

static int look_at_group(struct looking *looking, int group_fd, int depth)
{
    cay_autoclose int fd = openat(group_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cay_autoclose int procs_fd = openat(group_fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || procs_fd < 0)
        return -errno;
    cay_auto(cleanup_file) FILE *procs = fdopen(procs_fd, "r");
    if (!procs)
        return -errno;
    (void)cay_take_fd(procs_fd);
    int pid;
    while (fscanf(procs, "%d", &pid) == 1)
        look_at_process(looking, pid);
    cay_auto(cleanup_dir) DIR *dir = fdopendir(fd);
    if (!dir)
        return -errno;
    (void)cay_take_fd(fd);
    for (const struct dirent *entry; depth < GROUP_DEPTH_MAX && (entry = readdir(dir));) {
        if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
            continue;
        cay_autoclose int below =
            openat(dirfd(dir), entry->d_name, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (below >= 0)
            (void)look_at_group(looking, below, depth + 1);
    }
    return 0;
}

static int compare(const void *left, const void *right)
{
    const struct hidden_file *a = left;
    const struct hidden_file *b = right;
    if (a->dev != b->dev)
        return a->dev < b->dev ? -1 : 1;
    return a->ino < b->ino ? -1 : a->ino > b->ino;
}

int cay_hidden_files_look(int group_fd, dev_t dev, const struct stat *held, size_t held_count,
                          struct cay_hidden_files *out)
{
    struct looking looking = {.dev = dev};
    *out = (struct cay_hidden_files){};
    for (size_t i = 0; i < held_count; i++)
        add(&looking, &held[i]);
    int rc = group_fd < 0 ? 0 : look_at_group(&looking, group_fd, 0);
    if (looking.count)
        qsort(looking.files, looking.count, sizeof(*looking.files), compare);
    for (size_t i = 0; i < looking.count; i++) {
        if (i && compare(&looking.files[i], &looking.files[i - 1]) == 0)
            continue;
        out->bytes += looking.files[i].bytes;
        out->count++;
    }
    out->in_flight = looking.in_flight;
    free(looking.files);
    return rc;
}

bool cay_hidden_files_cpu(int group_fd, uint64_t *out_usec)
{
    char text[64] = "";
    cay_autoclose int fd = openat(group_fd, "cpu.stat", O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    unsigned long long usec = 0;
    bool is_known = len > 0 && sscanf(text, "usage_usec %llu", &usec) == 1;
    *out_usec = usec;
    return is_known;
}
