/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/doctor/checks.h"
#include "sys/clone.h"
#include "sys/pidfd.h"
#include "sys/resolve.h"

enum {
    MOUNTINFO_BYTES_MAX = 4 * 1024 * 1024,
    NAMESPACES =
        CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWNET | CLONE_NEWCGROUP,
};

void cay_doctor_check_kernel(struct cay_doctor *doctor)
{
    struct utsname name;
    unsigned major = 0;
    unsigned minor = 0;
    if (uname(&name) < 0 || sscanf(name.release, "%u.%u", &major, &minor) != 2) {
        cay_doctor_say(doctor, "kernel", CAY_VERDICT_WARN, NULL, "its version cannot be read");
        return;
    }
    /* Overlay mounts take id-mapped layers from 5.19 on. */
    bool is_new_enough = major > 5 || (major == 5 && minor >= 19);
    cay_doctor_say(doctor, "kernel", is_new_enough ? CAY_VERDICT_OK : CAY_VERDICT_FAIL,
                   is_new_enough ? NULL : "install Linux 5.19 or later (Debian 12 has 6.1)",
                   "Linux %s on %s", name.release, name.machine);
}

/* Some mount must be at "/": a plain chroot into a directory leaves none that the caller sees. */
static bool has_root_mount(void)
{
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, MOUNTINFO_BYTES_MAX);
    cay_autoclose int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
    for (;;) {
        char *room = fd < 0 ? NULL : cay_buf_reserve(&text, 16 * 1024);
        ssize_t len = room ? read(fd, room, 16 * 1024) : 0;
        if (len <= 0)
            break;
        cay_buf_grew(&text, (size_t)len);
    }
    struct cay_str rest = cay_buf_str(&text);
    struct cay_str line;
    bool has_lines = false;
    while (rest.ptr && cay_str_split(&rest, '\n', &line)) {
        struct cay_str field;
        int number = 0;
        has_lines = has_lines || line.len;
        while (cay_str_split(&line, ' ', &field) && ++number < 5)
            ;
        if (number == 5 && cay_str_is(field, "/"))
            return true;
    }
    return !has_lines; /* nothing to judge by */
}

/* As root a user namespace is refused in a chroot; chroot into a mount point has a mount at "/". */
static int try_namespaces(int flags)
{
    pid_t pid = fork();
    if (pid < 0)
        return errno;
    if (pid == 0)
        _exit(unshare(flags) < 0 ? errno : 0);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
}

static bool is_other_root(void)
{
    struct stat ours;
    struct stat first;
    return stat("/", &ours) == 0 && stat("/proc/1/root", &first) == 0 &&
           (ours.st_dev != first.st_dev || ours.st_ino != first.st_ino);
}

void cay_doctor_check_chroot(struct cay_doctor *doctor)
{
    bool is_refused = doctor->is_root && try_namespaces(CLONE_NEWUSER) == EPERM;
    if (!has_root_mount() || (is_refused && is_other_root()))
        cay_doctor_say(doctor, "root", CAY_VERDICT_FAIL,
                       "the kernel refuses user namespaces in a chroot; enter the directory with "
                       "pivot_root ('unshare -m', bind, pivot_root), systemd-nspawn or a virtual "
                       "machine instead",
                       "this is a chroot");
    else
        cay_doctor_say(doctor, "root", CAY_VERDICT_OK, NULL, "not a chroot");
}

void cay_doctor_check_userns(struct cay_doctor *doctor)
{
    int error = try_namespaces(CLONE_NEWUSER);
    const char *fix = "use a kernel with CONFIG_USER_NS";
    if (error == ENOSPC || error == EUSERS)
        fix = "raise the limit: sysctl user.max_user_namespaces=15000";
    else if (error == EPERM && !doctor->is_root)
        fix = "run as root, or: sysctl kernel.unprivileged_userns_clone=1";
    else if (error == EPERM)
        fix = "leave the chroot or container, or let it use user namespaces";
    if (error)
        cay_doctor_say(doctor, "user ns", doctor->is_root ? CAY_VERDICT_FAIL : CAY_VERDICT_WARN,
                       fix, "user namespaces are refused: %s", strerrordesc_np(error));
    else
        cay_doctor_say(doctor, "user ns", CAY_VERDICT_OK, NULL, "user namespaces can be made");
}

void cay_doctor_check_namespaces(struct cay_doctor *doctor)
{
    int error = try_namespaces(doctor->is_root ? NAMESPACES : NAMESPACES | CLONE_NEWUSER);
    if (error)
        cay_doctor_say(doctor, "namespaces", doctor->is_root ? CAY_VERDICT_FAIL : CAY_VERDICT_WARN,
                       error == ENOSPC ? "raise the limits: sysctl -a | grep max_.*_namespaces"
                                       : "use a kernel with mount, pid, ipc, uts, net and cgroup "
                                         "namespaces, and run as root",
                       "a set of namespaces is refused: %s", strerrordesc_np(error));
    else
        cay_doctor_say(doctor, "namespaces", CAY_VERDICT_OK, NULL,
                       "mount, pid, ipc, uts, net and cgroup");
}

void cay_doctor_check_seccomp(struct cay_doctor *doctor)
{
    static const uint32_t actions[] = {SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ERRNO};
    bool has_all = true;
    for (size_t i = 0; i < CAY_COUNT(actions); i++)
        has_all = has_all && syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &actions[i]) == 0;
    cay_doctor_say(doctor, "seccomp", has_all ? CAY_VERDICT_OK : CAY_VERDICT_FAIL,
                   has_all ? NULL : "use a kernel with CONFIG_SECCOMP_FILTER",
                   has_all ? "system calls can be filtered" : "system calls cannot be filtered");
}

void cay_doctor_check_openat2(struct cay_doctor *doctor)
{
    cay_autoclose int root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    cay_autoclose int fd = cay_resolve_open(root_fd, "proc", O_PATH, 0);
    if (fd >= 0)
        cay_doctor_say(doctor, "openat2", CAY_VERDICT_OK, NULL, "paths can be confined");
    else
        cay_doctor_say(doctor, "openat2", CAY_VERDICT_FAIL,
                       "leave the container whose filter refuses openat2, or update it",
                       "paths cannot be confined: %s", strerrordesc_np(-fd));
}

static int do_nothing(void *)
{
    return 0;
}

void cay_doctor_check_clone3(struct cay_doctor *doctor)
{
    cay_autoclose int pidfd = -1;
    const struct cay_clone how = {.exit_signal = SIGCHLD, .cgroup_fd = -1, .out_pidfd = &pidfd};
    pid_t pid = cay_clone_call(&how, do_nothing, NULL);
    int status = pid < 0 ? (int)pid : cay_pidfd_wait(pidfd, 5000);
    if (pid > 0)
        cay_pidfd_reap(pidfd);
    if (status == 0)
        cay_doctor_say(doctor, "clone3", CAY_VERDICT_OK, NULL,
                       "processes can be held by descriptor");
    else
        cay_doctor_say(doctor, "clone3", CAY_VERDICT_FAIL,
                       "leave the container whose filter refuses clone3, or update it",
                       "processes cannot be held by descriptor: %s", strerrordesc_np(-status));
}
