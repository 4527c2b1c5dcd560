/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls that a sandbox has no use for. Each is called in a way that changes nothing where it
 * is let through: with arguments that are refused only behind the check of rights, or on the
 * process itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <linux/perf_event.h>
#include <linux/reboot.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "probe/attempts.h"

ATTEMPT(try_call)
{
    return judge(world,
                 syscall(attempt->number, attempt->args[0], attempt->args[1], attempt->args[2]),
                 attempt->passes_as);
}

ATTEMPT(io_uring)
{
    char params[128] = {};
    return judge(world, syscall(SYS_io_uring_setup, 1, params), 0);
}

ATTEMPT(bpf_map)
{
    union bpf_attr attr = {
        .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};
    return judge(world, syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr)), 0);
}

ATTEMPT(perf_event)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE, .size = sizeof(attr), .config = PERF_COUNT_SW_CPU_CLOCK};
    return judge(world, syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0), 0);
}

ATTEMPT(userfault)
{
    return judge(world, syscall(SYS_userfaultfd, O_CLOEXEC), 0);
}

ATTEMPT(keyring)
{
    return judge(
        world,
        syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_SESSION_KEYRING, "user", world->host.token, 0),
        0);
}

ATTEMPT(add_key)
{
    return judge(world, syscall(SYS_add_key, "user", "probe", "x", 1, KEY_SPEC_PROCESS_KEYRING), 0);
}

ATTEMPT(request_key)
{
    return judge(world, syscall(SYS_request_key, "user", world->host.token, NULL, 0), 0);
}

ATTEMPT(join_keyring)
{
    return judge(world, syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL), 0);
}

ATTEMPT(kexec)
{
    return judge(world, syscall(SYS_kexec_load, 0, 0, NULL, 0x0f00), EINVAL);
}

ATTEMPT(kexec_file)
{
    return judge(world, syscall(SYS_kexec_file_load, -1, -1, 0, "", 0x0f00), EINVAL);
}

/* Without the magic numbers. */
ATTEMPT(reboot_machine)
{
    return judge(world, syscall(SYS_reboot, 0, 0, 0, NULL), EINVAL);
}

ATTEMPT(quota)
{
    return judge(world, syscall(SYS_quotactl, 0, "/cay-no-such", 0, NULL),
                 errno == ENOTBLK ? ENOTBLK : ENOENT);
}

ATTEMPT(kernel_log)
{
    enum { READ_ALL = 3 };
    char text[256];
    return judge(world, syscall(SYS_syslog, READ_ALL, text, sizeof(text)), 0);
}

/* A tick of no length is refused to whom may set it. */
ATTEMPT(adjust_clock)
{
    struct timex change = {.modes = ADJ_TICK};
    return judge(world, adjtimex(&change), EINVAL);
}

ATTEMPT(set_clock)
{
    struct timespec never = {.tv_nsec = -1};
    return judge(world, syscall(SYS_clock_settime, CLOCK_REALTIME, &never), EINVAL);
}

/* To what it is already. */
ATTEMPT(set_hostname)
{
    char name[256] = "";
    if (gethostname(name, sizeof(name) - 1) < 0)
        return denied("%s", strerror(errno));
    return judge(world, sethostname(name, strlen(name)), 0);
}

ATTEMPT(set_personality)
{
    return judge(world, personality(READ_IMPLIES_EXEC | ADDR_NO_RANDOMIZE), 0);
}

#ifdef __x86_64__
ATTEMPT(port_level)
{
    return judge(world, syscall(SYS_iopl, 3), 0);
}

ATTEMPT(port_bits)
{
    return judge(world, syscall(SYS_ioperm, 0x80, 1, 1), 0);
}

ATTEMPT(segments)
{
    char text[64];
    return judge(world, syscall(SYS_modify_ldt, 0, text, sizeof(text)), 0);
}

/* A filter that looks at numbers only would let 20, here writev, be getpid there. */
ATTEMPT(calls_of_32_bits)
{
    enum { GETPID_32 = 20 };
    long result = GETPID_32;
    pid_t pid = fork();
    if (pid == 0) {
        __asm__ volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
        _exit(result == getpid() ? 0 : 1);
    }
    int status = 0;
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return reached("it works");
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
        return denied("killed by the filter");
    return world->is_control ? absent("this kernel has none") : denied("it fails");
}

ATTEMPT(calls_of_x32)
{
    return judge(world, syscall(0x40000000 | SYS_getpid), 0);
}
#else
#define ONLY_THERE(name)                          \
    ATTEMPT(name)                                 \
    {                                             \
        return absent("this processor has none"); \
    }
ONLY_THERE(port_level)
ONLY_THERE(port_bits)
ONLY_THERE(segments)
ONLY_THERE(calls_of_32_bits)
ONLY_THERE(calls_of_x32)
#endif

ATTEMPT(move_pages_of_self)
{
    return judge(world, syscall(SYS_move_pages, 0, 0, NULL, NULL, NULL, 0), 0);
}

ATTEMPT(bind_pages)
{
    void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return judge(world, syscall(SYS_mbind, page, 4096, 0, NULL, 0, 0), 0);
}

/* In a session without a terminal there is nothing to hang up. */
ATTEMPT(hang_up)
{
    (void)setsid();
    return judge(world, syscall(SYS_vhangup), 0);
}

ATTEMPT(memory_secret)
{
    enum { CALL_MEMFD_SECRET = 447 };
    return judge(world, syscall(CALL_MEMFD_SECRET, 0), 0);
}

ATTEMPT(realtime)
{
    struct sched_param wanted = {.sched_priority = 1};
    return judge(world, syscall(SYS_sched_setscheduler, 0, SCHED_FIFO, &wanted), 0);
}

ATTEMPT(priority)
{
    return judge(world, setpriority(PRIO_PROCESS, 0, -20), 0);
}

ATTEMPT(io_priority)
{
    enum { WHO_PROCESS = 1, CLASS_REALTIME = 1 << 13 };
    return judge(world, syscall(SYS_ioprio_set, WHO_PROCESS, 0, CLASS_REALTIME), 0);
}

/* Down for certain, then up. */
ATTEMPT(hard_limit)
{
    if (control_lacks(world, CAP_SYS_RESOURCE))
        return absent("root of this machine may not, either");
    const struct rlimit low = {0, 0};
    const struct rlimit high = {1 << 20, 1 << 20};
    if (setrlimit(RLIMIT_CORE, &low) < 0)
        return denied("%s", strerror(errno));
    return judge(world, setrlimit(RLIMIT_CORE, &high), 0);
}
