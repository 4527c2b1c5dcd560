/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs inside a sandbox and tries what hostile code tries. One line per probe that got through;
 * none means all were refused. Harmless where it succeeds.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int reached;

static void probe(const char *name, long result)
{
    if (result >= 0) {
        printf("reached: %s\n", name);
        reached++;
    }
}

static void probe_write(const char *path)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    probe(path, fd);
    if (fd >= 0)
        close(fd);
}

/* Opened and gives a byte. */
static void probe_read(const char *path)
{
    char byte;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    probe(path, fd >= 0 && read(fd, &byte, 1) == 1 ? 0 : -1);
    if (fd >= 0)
        close(fd);
}

static void probe_mounts(void)
{
    probe("mount tmpfs", mount("x", "/tmp", "tmpfs", 0, NULL));
    probe("mount proc", mount("x", "/tmp", "proc", 0, NULL));
    probe("bind", mount("/bin", "/tmp", NULL, MS_BIND, NULL));
    probe("remount rw", mount(NULL, "/proc/sys", NULL, MS_REMOUNT | MS_BIND, NULL));
    probe("umount", umount2("/proc/sys", MNT_DETACH));
    probe("umount dev", umount2("/dev", MNT_DETACH));
    probe("fsopen", syscall(SYS_fsopen, "tmpfs", 0));
    probe("open_tree", syscall(SYS_open_tree, AT_FDCWD, "/", 1));
    probe("pivot_root", syscall(SYS_pivot_root, ".", "."));
    probe("mknod block", mknod("/tmp/disk", S_IFBLK | 0600, makedev(8, 0)));
    probe("mknod mem", mknod("/tmp/mem", S_IFCHR | 0600, makedev(1, 1)));
    probe("whiteout", mknod("/tmp/white", S_IFCHR | 0600, makedev(0, 0)));
    struct {
        unsigned int bytes;
        int type;
        unsigned char data[128];
    } handle = {.bytes = 128};
    int mount_id;
    probe("name_to_handle_at",
          syscall(SYS_name_to_handle_at, AT_FDCWD, "/", &handle, &mount_id, 0));
    probe("sethostname", sethostname("x", 1));
}

static void probe_kernel(void)
{
    char page[4096] = {};
    probe("io_uring", syscall(SYS_io_uring_setup, 1, page));
    probe("bpf", syscall(SYS_bpf, 0, page, sizeof(page)));
    probe("perf", syscall(SYS_perf_event_open, page, 0, -1, -1, 0));
    probe("userfaultfd", syscall(SYS_userfaultfd, 0));
    probe("keyctl", syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0));
    probe("add_key", syscall(SYS_add_key, "user", "x", "y", 1, KEY_SPEC_PROCESS_KEYRING));
    probe("init_module", syscall(SYS_init_module, page, 1, ""));
    probe("kexec", syscall(SYS_kexec_load, 0, 0, 0, 0));
    probe("syslog", syscall(SYS_syslog, 3, page, sizeof(page)));
    probe("clock_settime", syscall(SYS_clock_settime, CLOCK_REALTIME, page));
    probe("swapon", syscall(SYS_swapon, "/x", 0));
    probe("acct", syscall(SYS_acct, "/tmp/x"));
    probe("quotactl", syscall(SYS_quotactl, 0, "/", 0, page));
    probe("fanotify", syscall(SYS_fanotify_init, 0, 0));
    probe("reboot", syscall(SYS_reboot, 0, 0, 0, 0));
#ifdef __x86_64__
    probe("iopl", syscall(SYS_iopl, 3));
    probe("ioperm", syscall(SYS_ioperm, 0x80, 1, 1));
    probe("modify_ldt", syscall(SYS_modify_ldt, 0, page, sizeof(page)));
    probe("x32 getpid", syscall(0x40000000 | SYS_getpid));
#endif
    probe("personality", personality(ADDR_NO_RANDOMIZE | READ_IMPLIES_EXEC));
    probe("move_pages", syscall(SYS_move_pages, 0, 0, 0, 0, 0, 0));
    struct rlimit more = {RLIM_INFINITY, RLIM_INFINITY};
    probe("raise nofile", setrlimit(RLIMIT_NOFILE, &more));
    struct sched_param fifo = {.sched_priority = 10};
    probe("SCHED_FIFO", sched_setscheduler(0, SCHED_FIFO, &fifo));
    probe("nice -20", setpriority(PRIO_PROCESS, 0, -20));
    probe("TIOCSTI", ioctl(0, TIOCSTI, "x"));
}

static void probe_namespaces(void)
{
    static const struct {
        const char *name;
        int flag;
    } kinds[] = {{"user", CLONE_NEWUSER}, {"mount", CLONE_NEWNS},      {"pid", CLONE_NEWPID},
                 {"net", CLONE_NEWNET},   {"cgroup", CLONE_NEWCGROUP}, {"uts", CLONE_NEWUTS}};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        char name[32];
        snprintf(name, sizeof(name), "unshare %s", kinds[i].name);
        probe(name, unshare(kinds[i].flag));
        snprintf(name, sizeof(name), "clone %s", kinds[i].name);
        long pid = syscall(SYS_clone, kinds[i].flag | SIGCHLD, 0, 0, 0, 0);
        if (pid == 0)
            _exit(0);
        probe(name, pid);
        int fd = open("/proc/1/ns/mnt", O_RDONLY | O_CLOEXEC);
        probe("open init's namespace", fd);
        probe("setns", fd < 0 ? -1 : setns(fd, 0));
    }
    errno = 0;
    probe("clone3", syscall(SYS_clone3, NULL, 0));
    if (errno != ENOSYS)
        printf("reached: clone3 does not say ENOSYS\n");
}

static void probe_init(void)
{
    char byte;
    struct iovec here = {&byte, 1};
    struct iovec there = {(void *)0x400000, 1};
    probe("ptrace init", ptrace(PTRACE_SEIZE, 1, 0, 0));
    probe("process_vm_readv", process_vm_readv(1, &here, 1, &there, 1, 0));
    int pidfd = (int)syscall(SYS_pidfd_open, 1, 0);
    probe("pidfd_getfd", pidfd < 0 ? -1 : syscall(SYS_pidfd_getfd, pidfd, 3, 0));
    probe_read("/proc/1/mem");
    probe_read("/proc/1/environ");
    probe_read("/proc/1/maps");
    probe("init's exe", open("/proc/1/exe", O_RDONLY));
    probe("init's fds", open("/proc/1/fd", O_RDONLY | O_DIRECTORY));
    probe("init's root", open("/proc/1/root", O_PATH | O_DIRECTORY));
    struct rlimit low = {1, 1};
    probe("prlimit init", prlimit(1, RLIMIT_CPU, &low, NULL));
    probe("nice init", setpriority(PRIO_PROCESS, 1, 19));
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    probe("pin init", sched_setaffinity(1, sizeof(one), &one));
    (void)kill(1, SIGKILL);
    probe("kill init", kill(1, 0) == 0 ? -1 : errno == EPERM ? -1 : 0);
    probe_write("/proc/1/oom_score_adj");
    int fd = open("/proc/self/oom_score_adj", O_WRONLY);
    probe("oom_score_adj", fd < 0 ? -1 : write(fd, "-1000", 5));
}

static void probe_files(void)
{
    static const char *const closed[] = {"/proc/sysrq-trigger",
                                         "/proc/sys/kernel/core_pattern",
                                         "/proc/sys/kernel/modprobe",
                                         "/proc/sys/vm/overcommit_memory",
                                         "/proc/sys/fs/binfmt_misc/register",
                                         "/proc/sys/net/ipv4/ip_forward",
                                         "/proc/sys/kernel/hostname",
                                         "/proc/irq/0/smp_affinity",
                                         "/sys/kernel/uevent_helper",
                                         "/sys/power/state",
                                         "/sys/fs/cgroup/cgroup.procs",
                                         "/dev/mem",
                                         "/dev/kmsg",
                                         "/dev/sda",
                                         "/dev/vda",
                                         "/dev/fuse",
                                         "/dev/loop-control"};
    static const char *const hidden[] = {"/proc/kcore", "/proc/kmsg",       "/proc/kallsyms",
                                         "/proc/keys",  "/proc/timer_list", "/proc/sched_debug",
                                         "/dev/kmsg",   "/dev/vda"};
    for (size_t i = 0; i < sizeof(closed) / sizeof(closed[0]); i++)
        probe_write(closed[i]);
    for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++)
        probe_read(hidden[i]);
    for (int fd = 3; fd < 256; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) {
            printf("reached: descriptor %d\n", fd);
            reached++;
        }
    }
}

static void probe_sockets(void)
{
    static const struct {
        const char *name;
        int domain;
        int type;
        int protocol;
    } kinds[] = {{"packet", AF_PACKET, SOCK_RAW, 0},      {"raw", AF_INET, SOCK_RAW, 1},
                 {"netfilter", AF_NETLINK, SOCK_RAW, 12}, {"audit", AF_NETLINK, SOCK_RAW, 9},
                 {"uevent", AF_NETLINK, SOCK_RAW, 15},    {"vsock", 40, SOCK_STREAM, 0},
                 {"alg", 38, SOCK_SEQPACKET, 0},          {"tipc", 30, SOCK_STREAM, 0},
                 {"rds", 21, SOCK_SEQPACKET, 0},          {"bluetooth", 31, SOCK_RAW, 0}};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        probe(kinds[i].name, socket(kinds[i].domain, kinds[i].type, kinds[i].protocol));
}

int main(void)
{
    probe_files();
    probe_mounts();
    probe_kernel();
    probe_namespaces();
    probe_init();
    probe_sockets();
    printf("%d reached\n", reached);
    return reached ? 1 : 0;
}
