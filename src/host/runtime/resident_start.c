/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/runtime/resident.h"
#include "sys/pidfd.h"

/*
 * Init waits for each child until that has become its program. Whoever runs in the sandbox can make
 * the wait long: by stopping the child once it has the command's user, or by a lease on the
 * program's file. The child is then still a copy of init, and can be told by that.
 */

enum {
    CHILDREN_BYTES = 65536,
    ASLEEP_MS = 1500, /* a start does not sleep: somebody holds it up */
    SLOW_MS = 10'000, /* reads from a slow disk, or gets little of the processor */
};

static bool same_program(pid_t pid, const struct stat *image)
{
    char path[64];
    struct stat st;
    snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
    return stat(path, &st) == 0 && st.st_dev == image->st_dev && st.st_ino == image->st_ino;
}

/* R, S, D, T …; 0 when it is gone. */
static char state_of(pid_t pid)
{
    char path[64];
    char text[512];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    cay_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    if (len <= 0)
        return 0;
    text[len] = '\0';
    const char *end = strrchr(text, ')'); /* its name may have any characters */
    return end && end[1] ? end[2] : '\0';
}

static bool is_held_up(pid_t pid, int64_t waited_ms)
{
    switch (state_of(pid)) {
    case 'T':
    case 't': return true;
    case 'S': return waited_ms >= ASLEEP_MS;
    case 'R':
    case 'D': return waited_ms >= SLOW_MS;
    default: return false;
    }
}

bool cay_resident_end_start(struct cay_sandbox *sandbox, int64_t waited_ms)
{
    const struct cay_resident *resident = CAY_CONTAINER_OF(sandbox, struct cay_resident, base);
    int init = (int)resident->description.pid;
    static char text[CHILDREN_BYTES]; /* loop thread only */
    char path[64];
    struct stat image;
    bool is_ended = false;
    snprintf(path, sizeof(path), "/proc/%d/exe", init);
    if (stat(path, &image) < 0)
        return false;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", init, init);
    cay_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, text, sizeof(text)) : -1;
    struct cay_str rest = {text, len > 0 ? (size_t)len : 0};
    struct cay_str number;
    while (cay_str_split(&rest, ' ', &number)) {
        uint64_t pid = 0;
        if (cay_str_to_u64(number, INT32_MAX, &pid) < 0 || !pid)
            continue;
        cay_autoclose int pidfd = cay_pidfd_open((pid_t)pid);
        if (pidfd >= 0 && same_program((pid_t)pid, &image) && is_held_up((pid_t)pid, waited_ms))
            is_ended = cay_pidfd_signal(pidfd, SIGKILL) == 0 || is_ended;
    }
    return is_ended;
}
