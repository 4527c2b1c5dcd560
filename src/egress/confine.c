/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/confine.h"

#include <errno.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "egress/egress.h"
#include "sys/caps.h"
#include "sys/mount.h"
#include "wire/egress/egress.h"

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#endif

enum {
    DESCRIPTORS_MAX = 4096, /* two per connection, one while it is looked for, and a few */
    MEMORY_BYTES_MAX = 512 << 20,
};

/* Two connections have at most a piece each way; a policy is a few megabytes. */
static int limit(void)
{
    static const struct {
        int what;
        rlim_t most;
    } limits[] = {{RLIMIT_NOFILE, DESCRIPTORS_MAX},
                  {RLIMIT_CORE, 0},
                  {RLIMIT_NPROC, 0},
                  {RLIMIT_FSIZE, CAY_EGRESS_NAMES_BYTES_MAX},
                  {RLIMIT_MEMLOCK, 0},
                  {RLIMIT_AS, MEMORY_BYTES_MAX}};
    for (size_t i = 0; i < CAY_COUNT(limits); i++) {
        const struct rlimit limit = {limits[i].most, limits[i].most};
        if (setrlimit(limits[i].what, &limit) < 0)
            return -errno;
    }
    return 0;
}

/* An empty directory that nothing can be written to is all that there is. */
static int leave_files(void)
{
    if (unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS) < 0 || cay_mount_make_private() < 0 ||
        mount("none", "/proc", "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=4k") <
            0 ||
        chdir("/proc") < 0)
        return -errno;
    return cay_mount_pivot_here();
}

int egress_confine_calls(void)
{
    enum { LOAD = BPF_LD | BPF_W | BPF_ABS, EQUAL = BPF_JMP | BPF_JEQ | BPF_K };
    /* The last of the list: is it a child, who waits for what is made once, what time it is where
     * the kernel does not show it, how much memory sorting may take. */
    enum { CALLS_OF_OPENSSL = 4 };
    static const uint32_t allowed[] = {
        SYS_read,        SYS_write,       SYS_readv,        SYS_writev,       SYS_recvfrom,
        SYS_sendto,      SYS_recvmsg,     SYS_sendmsg,      SYS_accept4,      SYS_connect,
        SYS_getsockname, SYS_getsockopt,  SYS_setsockopt,   SYS_shutdown,     SYS_close,
        SYS_epoll_ctl,   SYS_epoll_pwait, SYS_pread64,      SYS_pwrite64,     SYS_mmap,
        SYS_munmap,      SYS_mremap,      SYS_brk,          SYS_madvise,      SYS_clock_gettime,
        SYS_getrandom,   SYS_exit,        SYS_exit_group,   SYS_rt_sigreturn, SYS_epoll_create1,
        SYS_listen,
#ifdef SYS_epoll_wait
        SYS_epoll_wait,
#endif
        SYS_getpid,      SYS_futex,       SYS_gettimeofday, SYS_sysinfo,
    };
    size_t count = CAY_COUNT(allowed) - (egress_intercepts() ? 0 : CALLS_OF_OPENSSL);
    struct sock_filter program[2 * CAY_COUNT(allowed) + 16];
    unsigned short len = 0;
    program[len++] = (struct sock_filter)BPF_STMT(LOAD, offsetof(struct seccomp_data, arch));
    program[len++] = (struct sock_filter)BPF_JUMP(EQUAL, NATIVE_ARCH, 1, 0);
    program[len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    program[len++] = (struct sock_filter)BPF_STMT(LOAD, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < count; i++) {
        program[len++] = (struct sock_filter)BPF_JUMP(EQUAL, allowed[i], 0, 1);
        program[len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    /* Sockets of the internet only. */
    program[len++] = (struct sock_filter)BPF_JUMP(EQUAL, SYS_socket, 0, 4);
    program[len++] = (struct sock_filter)BPF_STMT(LOAD, offsetof(struct seccomp_data, args));
    program[len++] = (struct sock_filter)BPF_JUMP(EQUAL, AF_INET, 1, 0);
    program[len++] = (struct sock_filter)BPF_JUMP(EQUAL, AF_INET6, 0, 1);
    program[len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    program[len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    const struct sock_fprog filter = {.len = len, .filter = program};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) < 0 ? -errno : 0;
}

int egress_confine(uint32_t uid)
{
    int status = limit();
    if (status == 0)
        status = leave_files();
    if (status == 0)
        status = cay_caps_bound(0);
    if (status < 0)
        return status;
    if (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0)
        return -errno;
    /* Where users may not make one, it does without: it has no rights in ours either. One that is
     * made begins with all of its own. */
    if (unshare(CLONE_NEWUSER) == 0)
        status = cay_caps_bound(0);
    else if (errno != EPERM && errno != ENOSPC && errno != EINVAL)
        status = -errno;
    if (status == 0)
        status = cay_caps_set(0);
    if (status == 0 && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        status = -errno;
    return status == 0 ? egress_confine_calls() : status;
}
