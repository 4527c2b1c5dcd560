/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/pidfd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/raw.h"

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

int cay_pidfd_open(pid_t pid)
{
    return (int)cay_raw2(SYS_pidfd_open, pid, 0);
}

int cay_pidfd_signal(int pidfd, int signal)
{
    return (int)cay_raw4(SYS_pidfd_send_signal, pidfd, signal, 0, 0);
}

int cay_pidfd_wait(int pidfd, int timeout_ms)
{
    struct pollfd entry = {.fd = pidfd, .events = POLLIN};
    int ready = 0;
    do {
        ready = poll(&entry, 1, timeout_ms);
    } while (ready < 0 && errno == EINTR);
    if (ready < 0)
        return -errno;
    return ready ? 0 : -ETIMEDOUT;
}

void cay_pidfd_reap(int pidfd)
{
    siginfo_t info = {};
    (void)waitid((idtype_t)P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOHANG | __WALL);
}

int cay_pidfd_start_ticks(pid_t pid, uint64_t *out_ticks)
{
    enum { START_TIME_FIELD = 22 };
    char path[64];
    char text[1024];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    cay_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t len = read(fd, text, sizeof(text) - 1);
    if (len <= 0)
        return len < 0 ? -errno : -ESRCH;
    text[len] = '\0';
    /* The second field is the name in parentheses and may hold anything. */
    const char *after_name = strrchr(text, ')');
    if (!after_name || after_name[1] != ' ')
        return -EINVAL;
    struct cay_str rest = cay_str(after_name + 2);
    struct cay_str field = {};
    for (int at = 3; at <= START_TIME_FIELD; at++) {
        if (!cay_str_split(&rest, ' ', &field))
            return -EINVAL;
    }
    return cay_str_to_u64(field, UINT64_MAX, out_ticks);
}
