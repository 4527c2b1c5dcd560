/* SPDX-License-Identifier: Apache-2.0 */
#include "io/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    STANDARD_FDS = 3,
    CHILD_FDS_MAX = 1024,
};

/*
 * posix_spawn does what must happen between fork and exec without our memory being copied. Each
 * descriptor is first duplicated above all of their final places, because one of them may stand in
 * the place of another.
 */
static int add_fds(posix_spawn_file_actions_t *actions, const struct cay_child_spec *spec,
                   int *out_copies)
{
    int base = (int)CAY_MAX(spec->fd_count, (size_t)STANDARD_FDS);
    for (int place = 0; place < base; place++) {
        int fd = (size_t)place < spec->fd_count ? spec->fds[place] : -1;
        int status = 0;
        if (fd >= 0) {
            out_copies[place] = fcntl(fd, F_DUPFD_CLOEXEC, base);
            if (out_copies[place] < 0)
                return -errno;
            status = posix_spawn_file_actions_adddup2(actions, out_copies[place], place);
        } else {
            status = posix_spawn_file_actions_addopen(actions, place, "/dev/null", O_RDWR, 0);
        }
        if (status != 0)
            return -status;
    }
    /* All of ours are close-on-exec, but not what our own parent may have left open. */
    return -posix_spawn_file_actions_addclosefrom_np(actions, base);
}

static int set_attributes(posix_spawnattr_t *attributes)
{
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    int status = posix_spawnattr_setflags(
        attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (status == 0)
        status = posix_spawnattr_setpgroup(attributes, 0);
    if (status == 0)
        status = posix_spawnattr_setsigmask(attributes, &none);
    if (status == 0)
        status = posix_spawnattr_setsigdefault(attributes, &all);
    return -status;
}

static int spawn(const struct cay_child_spec *spec, posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, pid_t *out_pid)
{
    static const char *const nothing[] = {NULL};
    /* The arrays are not changed; their type is older than const. */
    char *const *argv = (char *const *)(uintptr_t)spec->argv;
    char *const *env = (char *const *)(uintptr_t)(spec->env ? spec->env : nothing);
    if (spec->cwd) {
        int status = posix_spawn_file_actions_addchdir_np(actions, spec->cwd);
        if (status != 0)
            return -status;
    }
    if (spec->path)
        return -posix_spawn(out_pid, spec->path, actions, attributes, argv, env);
    return -posix_spawnp(out_pid, spec->argv[0], actions, attributes, argv, env);
}

static int start(const struct cay_child_spec *spec, pid_t *out_pid)
{
    size_t count = CAY_MAX(spec->fd_count, (size_t)STANDARD_FDS);
    cay_autofree int *copies = cay_alloc(count * sizeof(*copies));
    for (size_t i = 0; i < count; i++)
        copies[i] = -1;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    int status = add_fds(&actions, spec, copies);
    if (status == 0)
        status = set_attributes(&attributes);
    if (status == 0)
        status = spawn(spec, &actions, &attributes, out_pid);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    for (size_t i = 0; i < count; i++)
        cay_cleanup_close(&copies[i]);
    return status;
}

/* Until it is waited for, its number and its group's are nobody else's. */
static void reap(pid_t pid)
{
    siginfo_t info;
    while (waitid(P_PID, (id_t)pid, &info, WEXITED) < 0 && errno == EINTR)
        ;
}

static void forget(struct cay_child *child)
{
    cay_watch_close(&child->watch);
    close(cay_take_fd(child->pid_fd));
}

static void on_ready(struct cay_watch *watch, unsigned)
{
    struct cay_child *child = CAY_CONTAINER_OF(watch, struct cay_child, watch);
    siginfo_t info = {};
    if (waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || !info.si_pid)
        return;
    if (info.si_code == CLD_EXITED)
        child->exit_code = info.si_status;
    else
        child->exit_signal = info.si_status;
    child->has_core = info.si_code == CLD_DUMPED;
    if (child->kills_leftovers)
        (void)kill(-child->pid, SIGKILL);
    reap(child->pid);
    forget(child);
    child->exited(child);
}

int cay_child_spawn(struct cay_child *child, struct cay_loop *loop,
                    const struct cay_child_spec *spec, void (*exited)(struct cay_child *child))
{
    *child = (struct cay_child){
        .exited = exited, .loop = loop, .pid_fd = -1, .kills_leftovers = spec->kills_leftovers};
    if (!spec->argv[0] || spec->fd_count > CHILD_FDS_MAX)
        return -EINVAL;
    int status = start(spec, &child->pid);
    if (status < 0)
        return status;
    /* Close-on-exec by itself. A child that has ended by now is still there to be waited for. */
    child->pid_fd = (int)syscall(SYS_pidfd_open, child->pid, 0);
    status =
        child->pid_fd < 0 ? -errno : cay_watch_open(&child->watch, loop, child->pid_fd, on_ready);
    if (status < 0) {
        (void)kill(-child->pid, SIGKILL);
        reap(child->pid);
        cay_cleanup_close(&child->pid_fd);
        child->pid_fd = -1;
        return status;
    }
    cay_watch_set(&child->watch, CAY_READY_READ);
    return 0;
}

/* A killed process may still take its time to die (in the middle of a slow disk): a worker waits.
 */
struct reaper {
    struct cay_job job;
    pid_t pid;
};

static void reaper_work(struct cay_job *job)
{
    reap(CAY_CONTAINER_OF(job, struct reaper, job)->pid);
}

static void reaper_done(struct cay_job *job)
{
    free(CAY_CONTAINER_OF(job, struct reaper, job));
}

void cay_child_close(struct cay_child *child)
{
    if (!child->exited || child->pid_fd < 0)
        return;
    (void)kill(-child->pid, SIGKILL);
    forget(child);
    siginfo_t info = {};
    if (waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG) == 0 && info.si_pid)
        return;
    struct reaper *reaper = cay_new(struct reaper);
    reaper->job = (struct cay_job){.work = reaper_work, .done = reaper_done};
    reaper->pid = child->pid;
    cay_loop_submit(child->loop, &reaper->job);
}
