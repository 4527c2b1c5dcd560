/* SPDX-License-Identifier: Apache-2.0 */
#include "host/net/listeners.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/netns.h"

enum {
    STATE_LISTEN = 10,     /* as the kernel's table has it */
    LINES_MAX = 4096,      /* a sandbox decides how many there are, */
    PROCESSES_MAX = 4096,  /* and of these, */
    DESCRIPTORS_MAX = 8192 /* and of one process */
};

struct cay_listeners_look {
    struct cay_job job;
    cay_listeners_fn *done; /* NULL after a cancel */
    void *owner;
    int netns_fd;
    int fds[2];
    struct cay_listeners before;
    struct cay_listeners found;
    bool is_same;
};

static int open_tables(void *context)
{
    struct cay_listeners_look *look = context;
    look->fds[0] = open("/proc/thread-self/net/tcp", O_RDONLY | O_CLOEXEC);
    look->fds[1] = open("/proc/thread-self/net/tcp6", O_RDONLY | O_CLOEXEC);
    return 0;
}

/* Kept in order; a port that several listen on counts once. */
static void add(struct cay_listeners *listeners, uint16_t port, uint64_t inode)
{
    size_t at = 0;
    while (at < listeners->count && listeners->items[at].port < port)
        at++;
    if (listeners->count == CAY_LISTENERS_MAX ||
        (at < listeners->count && listeners->items[at].port == port))
        return;
    memmove(&listeners->items[at + 1], &listeners->items[at],
            (listeners->count - at) * sizeof(listeners->items[0]));
    listeners->items[at] = (struct cay_listener_seen){.port = port, .inode = inode};
    listeners->count++;
}

/* The kernel lists those that listen first. */
static void read_table(FILE *table, struct cay_listeners *listeners)
{
    char line[512];
    for (int i = 0; i < LINES_MAX && fgets(line, sizeof(line), table); i++) {
        unsigned port = 0;
        unsigned state = 0;
        uint64_t inode = 0;
        if (sscanf(line,
                   " %*u: %*[0-9A-F]:%4x %*[0-9A-F]:%*4x %2x %*x:%*x %*x:%*x %*x %*u %*u %" SCNu64,
                   &port, &state, &inode) != 3)
            continue; /* the title */
        if (state != STATE_LISTEN)
            return;
        add(listeners, (uint16_t)port, inode);
    }
}

static bool is_same(const struct cay_listeners *a, const struct cay_listeners *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        if (a->items[i].port != b->items[i].port || a->items[i].inode != b->items[i].inode)
            return false;
    }
    return true;
}

/* --- who holds them --- */

struct status {
    int pid;    /* inside */
    int leader; /* of its session, inside */
    int parent; /* on the host */
};

static bool read_status(int host_pid, struct status *out_status)
{
    char path[64];
    char line[256];
    *out_status = (struct status){};
    snprintf(path, sizeof(path), "/proc/%d/status", host_pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file)) {
        const char *last = strrchr(line, '\t'); /* the innermost namespace's */
        int number = last ? (int)strtol(last + 1, NULL, 10) : 0;
        if (strncmp(line, "PPid:", 5) == 0)
            out_status->parent = number;
        else if (strncmp(line, "NSpid:", 6) == 0)
            out_status->pid = number;
        else if (strncmp(line, "NSsid:", 6) == 0)
            out_status->leader = number;
    }
    if (file)
        fclose(file);
    return out_status->pid > 0;
}

static void note_line(struct cay_listener_seen *seen, int host_pid)
{
    struct status status;
    size_t count = 0;
    while (count + 1 < CAY_LISTENER_LINE && read_status(host_pid, &status) && status.pid != 1) {
        if (count == 0)
            seen->pids[CAY_LISTENER_LINE - 1] = status.leader;
        seen->pids[count++] = status.pid;
        host_pid = status.parent;
    }
}

static void look_at_descriptors(struct cay_listeners *listeners, int host_pid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/fd", host_pid);
    DIR *dir = opendir(path);
    const struct dirent *entry = NULL;
    for (int i = 0; dir && i < DESCRIPTORS_MAX && (entry = readdir(dir)); i++) {
        char target[64];
        uint64_t inode = 0;
        ssize_t len = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);
        if (len <= 0)
            continue;
        target[len] = '\0';
        if (sscanf(target, "socket:[%" SCNu64 "]", &inode) != 1)
            continue;
        for (size_t at = 0; at < listeners->count; at++) {
            if (listeners->items[at].inode == inode && !listeners->items[at].pids[0])
                note_line(&listeners->items[at], host_pid);
        }
    }
    if (dir)
        closedir(dir);
}

static void find_holders(struct cay_listeners_look *look)
{
    struct stat own;
    struct stat info;
    DIR *dir = opendir("/proc");
    int left = PROCESSES_MAX;
    if (!dir || fstat(look->netns_fd, &own) < 0)
        left = 0;
    for (const struct dirent *entry; left > 0 && (entry = readdir(dir));) {
        char path[280];
        int pid = (int)strtol(entry->d_name, NULL, 10);
        snprintf(path, sizeof(path), "%s/ns/net", entry->d_name);
        if (pid <= 0 || fstatat(dirfd(dir), path, &info, 0) < 0 || info.st_ino != own.st_ino)
            continue;
        look_at_descriptors(&look->found, pid);
        left--;
    }
    if (dir)
        closedir(dir);
}

/* --- the look --- */

static void work(struct cay_job *job)
{
    struct cay_listeners_look *look = CAY_CONTAINER_OF(job, struct cay_listeners_look, job);
    look->is_same = true;
    if (cay_netns_visit(look->netns_fd, open_tables, look) < 0)
        return;
    for (size_t i = 0; i < CAY_COUNT(look->fds); i++) {
        FILE *table = look->fds[i] >= 0 ? fdopen(look->fds[i], "r") : NULL;
        if (table) {
            read_table(table, &look->found);
            fclose(table);
        } else if (look->fds[i] >= 0) {
            close(look->fds[i]);
        }
    }
    look->is_same = is_same(&look->before, &look->found);
    if (!look->is_same)
        find_holders(look);
}

static void worked(struct cay_job *job)
{
    struct cay_listeners_look *look = CAY_CONTAINER_OF(job, struct cay_listeners_look, job);
    if (look->done)
        look->done(look->owner, look->is_same ? NULL : &look->found);
    close(look->netns_fd);
    free(look);
}

struct cay_listeners_look *cay_listeners_look(struct cay_loop *loop, int netns_fd,
                                              const struct cay_listeners *before,
                                              cay_listeners_fn *done, void *owner)
{
    int own_fd = fcntl(netns_fd, F_DUPFD_CLOEXEC, 0);
    if (own_fd < 0)
        return NULL;
    struct cay_listeners_look *look = cay_new(struct cay_listeners_look);
    *look = (struct cay_listeners_look){.job = {.work = work, .done = worked},
                                        .done = done,
                                        .owner = owner,
                                        .netns_fd = own_fd,
                                        .fds = {-1, -1},
                                        .before = *before};
    if (cay_loop_try_submit(loop, &look->job))
        return look;
    close(own_fd);
    free(look);
    return NULL;
}

void cay_listeners_cancel(struct cay_listeners_look *look)
{
    look->done = NULL;
}
