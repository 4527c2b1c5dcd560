/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/local/family.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "sys/pidfd.h"

enum {
    ROUNDS_MAX = 200, /* of a look that finds somebody new each time */
    ROUND_MS = 5,
    PROCESSES_MAX = 1 << 20,
};

struct process {
    pid_t pid;
    pid_t parent;
    char state;
    bool is_in; /* below the top */
};

struct table {
    struct process *items;
    size_t count;
    size_t cap;
};

static ssize_t read_of(pid_t pid, const char *name, char *text, size_t size)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    cay_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 ? read(fd, text, size) : -1;
}

/* State and parent are the two fields behind the name, which may hold anything. */
static bool read_process(pid_t pid, struct process *out_process)
{
    char text[512];
    ssize_t len = read_of(pid, "stat", text, sizeof(text) - 1);
    if (len <= 0)
        return false;
    text[len] = '\0';
    const char *after_name = strrchr(text, ')');
    if (!after_name || after_name[1] != ' ' || !after_name[2] || after_name[3] != ' ')
        return false;
    struct cay_str rest = cay_str(after_name + 4);
    struct cay_str field;
    uint64_t parent = 0;
    if (!cay_str_split(&rest, ' ', &field) || cay_str_to_u64(field, INT32_MAX, &parent) < 0)
        return false;
    *out_process = (struct process){.pid = pid, .parent = (pid_t)parent, .state = after_name[2]};
    return true;
}

static int add(struct table *table, const struct process *process)
{
    if (table->count == table->cap) {
        size_t cap = CAY_MAX(table->cap * 2, (size_t)256);
        struct process *items =
            cap > PROCESSES_MAX ? NULL : reallocarray(table->items, cap, sizeof(*items));
        if (!items)
            return -ENOMEM;
        table->items = items;
        table->cap = cap;
    }
    table->items[table->count++] = *process;
    return 0;
}

static int compare(const void *a, const void *b)
{
    pid_t x = ((const struct process *)a)->pid;
    pid_t y = ((const struct process *)b)->pid;
    return (x > y) - (x < y);
}

static struct process *find(const struct table *table, pid_t pid)
{
    const struct process key = {.pid = pid};
    return table->count ? bsearch(&key, table->items, table->count, sizeof(key), compare) : NULL;
}

/* Whoever has a parent that is in is in, too. Children may have lower numbers than their parents,
 * so it takes as many rounds as the tree is deep, at worst. */
static void mark(struct table *table, pid_t top)
{
    bool is_new = true;
    while (is_new) {
        is_new = false;
        for (size_t i = 0; i < table->count; i++) {
            struct process *process = &table->items[i];
            const struct process *parent = process->is_in ? NULL : find(table, process->parent);
            if (process->is_in || (process->parent != top && !(parent && parent->is_in)))
                continue;
            process->is_in = is_new = true;
        }
    }
}

static void table_finish(struct table *table)
{
    free(table->items);
}

static int read_table(struct table *table, pid_t top)
{
    DIR *dir = opendir("/proc");
    int result = dir ? 0 : -errno;
    const struct dirent *entry;
    while (result == 0 && (entry = readdir(dir))) {
        uint64_t pid = 0;
        struct process process;
        if (cay_str_to_u64(cay_str(entry->d_name), INT32_MAX, &pid) == 0 &&
            read_process((pid_t)pid, &process))
            result = add(table, &process);
    }
    if (dir)
        closedir(dir);
    if (result < 0)
        return result;
    if (table->count)
        qsort(table->items, table->count, sizeof(*table->items), compare);
    mark(table, top);
    return 0;
}

static bool is_dead(const struct process *process)
{
    return process->state == 'Z' || process->state == 'X';
}

/* One that is about to become another program, or that has just died, has no arguments (proc(5)).
 * It still has a name, which is shown in brackets as ps(1) does. */
static void describe(struct cay_family_member *member)
{
    char *text = member->text;
    ssize_t len = read_of(member->pid, "cmdline", text, sizeof(member->text));
    while (len > 0 && text[len - 1] == '\0')
        len--;
    for (ssize_t i = 0; i < len; i++) {
        if (text[i] == '\0')
            text[i] = ' ';
    }
    if (len <= 0) {
        len = read_of(member->pid, "comm", text + 1, sizeof(member->text) - 2);
        if (len > 0 && text[len] == '\n')
            len--;
        if (len > 0) {
            text[0] = '[';
            text[len + 1] = ']';
            len += 2;
        }
    }
    member->text_len = len > 0 ? (uint32_t)len : 0;
}

int cay_family_look(pid_t top, pid_t except, struct cay_family *out_family)
{
    cay_auto(table_finish) struct table table = {};
    out_family->total = out_family->count = 0;
    int result = read_table(&table, top);
    for (size_t i = 0; result == 0 && i < table.count; i++) {
        const struct process *process = &table.items[i];
        if (!process->is_in || is_dead(process) || process->pid == except)
            continue;
        out_family->total++;
        if (out_family->count == CAY_FAMILY_SHOWN_MAX)
            continue;
        struct cay_family_member *member = &out_family->members[out_family->count++];
        member->pid = process->pid;
        describe(member);
    }
    return result;
}

/* By descriptor, and only when the descriptor is of whom was looked at: a number can be somebody
 * else's by now, but not with the same parent, unless that is of the family as well. Where no
 * descriptors of processes are to be had, the number must do right after that look. */
static void signal_to(const struct process *process, int signal)
{
    struct process now;
    cay_autoclose int pidfd = cay_pidfd_open(process->pid);
    bool has_none = pidfd == -ENOSYS || pidfd == -EPERM;
    if ((pidfd < 0 && !has_none) || !read_process(process->pid, &now) ||
        now.parent != process->parent)
        return;
    if (has_none)
        (void)kill(process->pid, signal);
    else
        (void)cay_pidfd_signal(pidfd, signal);
}

/* How many were not yet as they should be. */
static int signal_round(pid_t top, int signal)
{
    cay_auto(table_finish) struct table table = {};
    int result = read_table(&table, top);
    int count = 0;
    for (size_t i = 0; result == 0 && i < table.count; i++) {
        const struct process *process = &table.items[i];
        /* Who is stopped by a debugger is that one's to continue. */
        bool is_stopped = process->state == 'T' || (process->state == 't' && signal == SIGSTOP);
        if (!process->is_in || is_dead(process) || is_stopped == (signal == SIGSTOP))
            continue;
        signal_to(process, signal);
        count++;
    }
    return result < 0 ? result : count;
}

static int signal_all(pid_t top, int signal)
{
    const struct timespec pause = {.tv_nsec = ROUND_MS * 1000000L};
    int calm = 0;
    for (int round = 0; round < ROUNDS_MAX; round++) {
        int count = signal_round(top, signal);
        if (count < 0)
            return count;
        /* Twice: one who is new is missed by a look that began before. */
        calm = count ? 0 : calm + 1;
        if (calm == 2)
            return 0;
        if (count)
            (void)nanosleep(&pause, NULL);
    }
    return -EBUSY;
}

int cay_family_stop(pid_t top)
{
    return signal_all(top, SIGSTOP);
}

int cay_family_continue(pid_t top)
{
    return signal_all(top, SIGCONT);
}
