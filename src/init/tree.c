/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "init/init.h"
#include "init/mark.h"

enum {
    KILL_ROUNDS_MAX = 16,
    LIST_BYTES = 65536,
};

static const struct cay_cgroup_slot *slot_of(const struct init *init, const struct call *call)
{
    return call->slot >= 0 ? &init->slots[call->slot].fds : NULL;
}

/* A list of pids of a group, one per line, newest state of the kernel. Returns how many there are;
 * puts at most max of them out, without the direct child of the call. */
static uint32_t list_slot(const struct call *call, int procs_fd, uint32_t *out_pids, uint32_t max,
                          uint32_t *out_total)
{
    static char text[LIST_BYTES];
    uint32_t count = 0;
    off_t at = 0;
    *out_total = 0;
    uint32_t pid = 0;
    bool in_number = false;
    ssize_t len;
    for (; (len = pread(procs_fd, text, sizeof(text), at)) > 0; at += len) {
        for (ssize_t i = 0; i < len; i++) {
            if (text[i] >= '0' && text[i] <= '9') {
                pid = pid * 10 + (uint32_t)(text[i] - '0');
                in_number = true;
                continue;
            }
            /* 0 is a process that has no number here: none of ours. */
            if (in_number && pid && pid != (uint32_t)call->pid) {
                (*out_total)++;
                if (count < max)
                    out_pids[count++] = pid;
            }
            pid = 0;
            in_number = false;
        }
    }
    return count;
}

/* Without control groups: whoever carries the call's mark in its environment. A process that cleans
 * its environment is not found; the plain mode promises no more. */
static uint32_t list_proc(const struct call *call, uint32_t *out_pids, uint32_t max,
                          uint32_t *out_total)
{
    uint32_t count = 0;
    *out_total = 0;
    char mark[MARK_BYTES];
    mark_format(mark, getpid(), call->id);
    DIR *dir = opendir("/proc");
    const struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        uint64_t pid = 0;
        if (cay_str_to_u64(cay_str(entry->d_name), INT32_MAX, &pid) < 0 ||
            pid == (uint64_t)call->pid || !mark_is_on((pid_t)pid, mark))
            continue;
        (*out_total)++;
        if (count < max)
            out_pids[count++] = (uint32_t)pid;
    }
    if (dir)
        closedir(dir);
    return count;
}

uint32_t tree_list(struct init *init, const struct call *call, uint32_t *out_pids, uint32_t max,
                   uint32_t *out_total)
{
    const struct cay_cgroup_slot *slot = slot_of(init, call);
    if (slot && slot->procs_fd >= 0)
        return list_slot(call, slot->procs_fd, out_pids, max, out_total);
    if (init->slot_count) {
        *out_total = 0; /* its slot was found empty and is somebody else's now */
        return 0;
    }
    return list_proc(call, out_pids, max, out_total);
}

static ssize_t read_of(uint32_t pid, const char *name, char *text, size_t size)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%u/%s", pid, name);
    cay_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 ? read(fd, text, size) : -1;
}

/* A process that is about to become another program, or that is dead and not yet waited for, has no
 * arguments (proc(5)). It still has a name, which is shown in brackets as ps(1) does. */
static struct cay_str tree_name(uint32_t pid, char *text, size_t size)
{
    ssize_t len = read_of(pid, "comm", text + 1, size - 2);
    if (len <= 0)
        return (struct cay_str){text, 0};
    if (text[len] == '\n')
        len--;
    text[0] = '[';
    text[len + 1] = ']';
    return (struct cay_str){text, (size_t)len + 2};
}

struct cay_str tree_command(uint32_t pid, char *text, size_t size)
{
    ssize_t len = read_of(pid, "cmdline", text, size);
    while (len > 0 && text[len - 1] == '\0')
        len--;
    if (len <= 0)
        return tree_name(pid, text, size);
    for (ssize_t i = 0; i < len; i++) {
        if (text[i] == '\0')
            text[i] = ' ';
    }
    return (struct cay_str){text, (size_t)len};
}

void tree_note_killed(struct init *init, struct call *call)
{
    struct killed *killed = &init->killed[call - init->calls];
    if (call->has_killed)
        return;
    killed->count = tree_list(init, call, killed->pids, CAY_FRAME_WHO_MAX, &killed->total);
    for (uint32_t i = 0; i < killed->count; i++)
        killed->lens[i] =
            (uint32_t)tree_command(killed->pids[i], killed->texts[i], sizeof(killed->texts[i])).len;
    call->has_killed = killed->total > 0;
}

bool tree_tell_killed(struct init *init, const struct call *call)
{
    static struct cay_frame_who who;
    const struct killed *killed = &init->killed[call - init->calls];
    if (!call->has_killed)
        return true;
    if (cay_frame_room(&init->link.out) <= CAY_FRAME_WHO_BYTES_MAX + CAY_FRAME_HEADER_BYTES)
        return false;
    who.total = killed->total;
    who.count = killed->count;
    for (uint32_t i = 0; i < killed->count; i++) {
        who.pids[i] = killed->pids[i];
        who.commands[i] = (struct cay_str){killed->texts[i], killed->lens[i]};
    }
    return cay_frame_put_killed(&init->link.out, call->id, &who);
}

void tree_signal(struct init *init, const struct call *call, int signal)
{
    static uint32_t pids[CAY_FRAME_PROCS_MAX];
    uint32_t total = 0;
    uint32_t count = tree_list(init, call, pids, CAY_FRAME_PROCS_MAX, &total);
    if (call->pid)
        kill(call->pid, signal);
    for (uint32_t i = 0; i < count; i++)
        kill((pid_t)pids[i], signal);
}

/* Frozen, nobody can fork any more, and a killed process dies all the same. A fork that was under
 * way shows up in the next round; who slips through is killed when the next one dies (calls_reap).
 */
void tree_kill(struct init *init, const struct call *call)
{
    const struct cay_cgroup_slot *slot = slot_of(init, call);
    bool frozen = slot && slot->freeze_fd >= 0 && write(slot->freeze_fd, "1", 1) == 1;
    uint32_t before = UINT32_MAX;
    uint32_t total = 0;
    for (int round = 0; round < KILL_ROUNDS_MAX; round++) {
        tree_signal(init, call, SIGKILL);
        (void)tree_list(init, call, NULL, 0, &total);
        if (total == 0 || total == before)
            break;
        before = total;
    }
    if (call->pid)
        kill(-call->pid, SIGKILL);
    if (frozen)
        (void)!write(slot->freeze_fd, "0", 1);
}

uint32_t tree_oom_kills(struct init *init, const struct call *call)
{
    const struct cay_cgroup_slot *slot = slot_of(init, call);
    char text[512];
    if (!slot || slot->oom_fd < 0)
        return 0;
    ssize_t len = pread(slot->oom_fd, text, sizeof(text), 0);
    if (len <= 0)
        return 0;
    struct cay_str rest = {text, (size_t)len};
    struct cay_str line;
    uint64_t total = 0;
    while (cay_str_split(&rest, '\n', &line)) {
        static const char key[] = "oom_kill ";
        if (!cay_str_starts(line, key))
            continue;
        line.ptr += sizeof(key) - 1;
        line.len -= sizeof(key) - 1;
        (void)cay_str_to_u64(line, UINT32_MAX, &total);
    }
    struct slot *entry = &init->slots[call->slot];
    uint64_t fresh = total > entry->oom_seen ? total - entry->oom_seen : 0;
    entry->oom_seen = total;
    return (uint32_t)fresh;
}

struct cay_frame_slots slots_report(const struct init *init)
{
    struct cay_frame_slots report = {.execs = init->link.execs};
    if (init->page)
        return report; /* they are ours, not the daemon's */
    for (uint32_t i = 0; i < init->slot_count; i++) {
        report.total += init->slots[i].present;
        report.unused += init->slots[i].present && !init->slots[i].busy;
    }
    return report;
}
