/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/run.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

/* The first of the path's directories that has the program. */
int cay_run_find(const char *name, char *out, size_t size)
{
    static const char path[] = CAY_RUN_PATH;
    if (strchr(name, '/'))
        return snprintf(out, size, "%s", name) < (int)size ? 0 : -ENAMETOOLONG;
    for (const char *dir = path; *dir;) {
        int len = (int)strcspn(dir, ":");
        if (snprintf(out, size, "%.*s/%s", len, dir, name) < (int)size && access(out, X_OK) == 0)
            return 0;
        dir += len + (dir[len] == ':');
    }
    return -ENOENT;
}

/* posix_spawn resets what matters in the child; descriptors are all close-on-exec. */
static int spawn(const struct cay_program *run, int out_fd, pid_t *out_pid)
{
    static char path_entry[] = "PATH=" CAY_RUN_PATH;
    static char locale_entry[] = "LC_ALL=C";
    char *env[] = {path_entry, locale_entry, NULL};
    char file[256];
    int rc = cay_run_find(run->argv[0], file, sizeof(file));
    if (rc < 0)
        return rc;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    rc = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (!rc)
        rc = posix_spawn_file_actions_adddup2(&actions, out_fd, 1);
    if (!rc)
        rc = posix_spawn_file_actions_adddup2(&actions, out_fd, 2);
    if (!rc)
        rc = posix_spawn(out_pid, file, &actions, &attr, (char *const *)(uintptr_t)run->argv, env);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    return -rc;
}

/* Reads until the last writer is gone or the time is up. */
static int read_output(const struct cay_program *run, int fd)
{
    int64_t until = now_ms() + run->timeout_ms;
    for (;;) {
        int64_t left = until - now_ms();
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        int count = left <= 0 ? 0 : poll(&ready, 1, (int)left);
        if (count == 0)
            return -ETIMEDOUT;
        if (count < 0 && errno != EINTR)
            return -errno;
        char buf[4096];
        ssize_t len = count > 0 ? read(fd, buf, sizeof(buf)) : -1;
        if (len == 0)
            return 0;
        if (len > 0 && run->out && !run->out->failed)
            cay_buf_append(run->out, buf,
                           CAY_MIN((size_t)len, run->out->size_bytes_max - run->out->len));
    }
}

bool cay_run_has(const char *name)
{
    char file[256];
    return cay_run_find(name, file, sizeof(file)) == 0;
}

int cay_run(const struct cay_program *run)
{
    assert(run->argv && run->argv[0] && run->timeout_ms > 0);
    int pipe_fds[2];
    if (pipe2(pipe_fds, O_CLOEXEC) < 0)
        return -errno;
    cay_autoclose int read_fd = pipe_fds[0];
    pid_t pid = -1;
    int rc = spawn(run, pipe_fds[1], &pid);
    close(pipe_fds[1]);
    if (rc < 0)
        return rc;
    rc = read_output(run, read_fd);
    if (rc < 0)
        kill(pid, SIGKILL);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return -errno;
    }
    if (rc < 0)
        return rc;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
