/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "sys/raw.h"
#include "sys/seccomp.h"

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
#else
#define NATIVE AUDIT_ARCH_AARCH64
#endif

/* Runs the instructions the filters are made of. */
static uint32_t run(const struct cay_seccomp *filter, const struct seccomp_data *data)
{
    uint32_t a = 0;
    for (unsigned at = 0; at < filter->len; at++) {
        const struct sock_filter *in = &filter->program[at];
        switch (in->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            assert_true(in->k + sizeof(a) <= sizeof(*data));
            memcpy(&a, (const char *)data + in->k, sizeof(a));
            break;
        case BPF_JMP | BPF_JGE | BPF_K: at += a >= in->k ? in->jt : in->jf; break;
        case BPF_JMP | BPF_JEQ | BPF_K: at += a == in->k ? in->jt : in->jf; break;
        case BPF_JMP | BPF_JSET | BPF_K: at += a & in->k ? in->jt : in->jf; break;
        case BPF_RET | BPF_K: return in->k;
        default: fail_msg("unexpected instruction %x", in->code);
        }
    }
    fail_msg("the program fell off its end");
    return 0;
}

static uint32_t first_verdict(int number, uint64_t a, uint64_t b, uint64_t c)
{
    static struct cay_seccomp filter;
    static struct cay_seccomp gate;
    if (!filter.len) {
        assert_int_equal(cay_seccomp_build(&filter, 0), 0);
        cay_seccomp_build_gate(&gate);
    }
    struct seccomp_data data = {.nr = number, .arch = NATIVE, .args = {a, b, c}};
    uint32_t verdict = run(&filter, &data);
    return verdict == SECCOMP_RET_ALLOW ? run(&gate, &data) : verdict;
}

static bool allowed(int number)
{
    return first_verdict(number, 0, 0, 0) == SECCOMP_RET_ALLOW;
}

static void every_name_of_the_table_has_its_verdict_and_nothing_else_is_allowed(void **)
{
    static bool listed[1024];
#define CAY_ALLOW(name) listed[SYS_##name] = true;
#define CAY_ABSENT(name) \
    assert_int_equal(first_verdict(SYS_##name, 0, 0, 0), SECCOMP_RET_ERRNO | ENOSYS);
#define CAY_CHECK(name, check)
#define CAY_TOLD(name) listed[SYS_##name] = true;
#define CAY_NESTED(name)
#define CAY_GATED(name)
#define SYS_cachestat        451
#define SYS_fchmodat2        452
#define SYS_map_shadow_stack 453
#define SYS_futex_wake       454
#define SYS_futex_wait       455
#define SYS_futex_requeue    456
#define SYS_mseal            462
#include "sys/syscalls.def"
    listed[SYS_sched_getaffinity] = true;
    for (int number = 0; number < (int)CAY_COUNT(listed); number++) {
        if (number == SYS_clone || number == SYS_unshare || number == SYS_personality ||
            number == SYS_socket || number == SYS_socketpair || number == SYS_ioctl)
            continue;
        if (allowed(number) != listed[number])
            fail_msg("system call %d: allowed %d, listed %d", number, allowed(number),
                     listed[number]);
    }
}

static void what_hostile_code_tries_first_is_refused(void **)
{
    static const int refused[] = {
        SYS_bpf,
        SYS_perf_event_open,
        SYS_userfaultfd,
        SYS_keyctl,
        SYS_add_key,
        SYS_request_key,
        SYS_setns,
        SYS_init_module,
        SYS_finit_module,
        SYS_delete_module,
        SYS_kexec_load,
        SYS_reboot,
        SYS_swapon,
        SYS_acct,
        SYS_quotactl,
        SYS_syslog,
        SYS_settimeofday,
        SYS_clock_settime,
        SYS_adjtimex,
        SYS_fanotify_init,
        SYS_name_to_handle_at,
        SYS_open_by_handle_at,
        SYS_move_pages,
        SYS_mbind,
        SYS_migrate_pages,
        SYS_mount,
        SYS_umount2,
        SYS_pivot_root,
        SYS_fsopen,
        SYS_fsmount,
        SYS_move_mount,
        SYS_open_tree,
        SYS_mount_setattr,
        SYS_sethostname,
#ifdef __x86_64__
        SYS_iopl,
        SYS_ioperm,
        SYS_modify_ldt,
        SYS_uselib,
#endif
    };
    for (size_t i = 0; i < CAY_COUNT(refused); i++)
        assert_int_equal(first_verdict(refused[i], 0, 0, 0), SECCOMP_RET_ERRNO | EPERM);
    assert_int_equal(first_verdict(SYS_io_uring_setup, 0, 0, 0), SECCOMP_RET_ERRNO | ENOSYS);
    assert_int_equal(first_verdict(SYS_clone3, 0, 0, 0), SECCOMP_RET_ERRNO | ENOSYS);
}

static void namespaces_cannot_be_made_but_threads_can(void **)
{
    static const uint64_t flags[] = {CLONE_NEWUSER, CLONE_NEWNS,  CLONE_NEWPID,   CLONE_NEWNET,
                                     CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP};
    for (size_t i = 0; i < CAY_COUNT(flags); i++) {
        assert_int_equal(first_verdict(SYS_clone, flags[i] | 17, 0, 0), SECCOMP_RET_ERRNO | EPERM);
        assert_int_equal(first_verdict(SYS_unshare, flags[i], 0, 0), SECCOMP_RET_ERRNO | EPERM);
    }
    assert_int_equal(first_verdict(SYS_unshare, 0x80, 0, 0), SECCOMP_RET_ERRNO | EPERM);
    assert_int_equal(first_verdict(SYS_clone, 0x3d0f00, 0, 0), SECCOMP_RET_ALLOW);
    assert_int_equal(first_verdict(SYS_clone, 17, 0, 0), SECCOMP_RET_ALLOW);
    assert_int_equal(first_verdict(SYS_unshare, CLONE_FS | CLONE_FILES, 0, 0), SECCOMP_RET_ALLOW);
}

static void arguments_are_looked_at(void **)
{
    assert_int_equal(first_verdict(SYS_personality, UINT32_MAX, 0, 0), SECCOMP_RET_ALLOW);
    assert_int_equal(first_verdict(SYS_personality, 0x0040000, 0, 0), SECCOMP_RET_ERRNO | EPERM);
    assert_int_equal(first_verdict(SYS_personality, 0x0400000, 0, 0), SECCOMP_RET_ERRNO | EPERM);
    assert_int_equal(first_verdict(SYS_socket, AF_INET, SOCK_STREAM, 0), SECCOMP_RET_ALLOW);
    assert_int_equal(first_verdict(SYS_socket, AF_NETLINK, SOCK_RAW, 0), SECCOMP_RET_ALLOW);
    assert_int_equal(first_verdict(SYS_socket, AF_NETLINK, SOCK_RAW, 12),
                     SECCOMP_RET_ERRNO | EAFNOSUPPORT);
    for (uint64_t family = 0; family < 64; family++) {
        bool expected =
            family == AF_UNIX || family == AF_INET || family == AF_INET6 || family == AF_NETLINK;
        assert_int_equal(first_verdict(SYS_socket, family, SOCK_STREAM, 0) == SECCOMP_RET_ALLOW,
                         expected);
        /* A pair makes two sockets of the family before it finds that they cannot be one. */
        assert_int_equal(first_verdict(SYS_socketpair, family, SOCK_STREAM, 0) == SECCOMP_RET_ALLOW,
                         expected);
    }
    assert_int_equal(first_verdict(SYS_ioctl, 0, 0x5412, 0), SECCOMP_RET_ERRNO | EPERM);
    assert_int_equal(first_verdict(SYS_ioctl, 0, 0xffffffff00005412, 0), SECCOMP_RET_ERRNO | EPERM);
    assert_int_equal(first_verdict(SYS_ioctl, 0, 0x541C, 0), SECCOMP_RET_ERRNO | EPERM);
    assert_int_equal(first_verdict(SYS_ioctl, 0, 0x5401, 0), SECCOMP_RET_ALLOW);
}

static uint32_t verdict_with(unsigned flags, int number, uint64_t b)
{
    struct cay_seccomp filter;
    assert_int_equal(cay_seccomp_build(&filter, flags), 0);
    struct seccomp_data data = {.nr = number, .arch = NATIVE, .args = {0, b}};
    return run(&filter, &data);
}

static void nesting_opens_mounts_and_nothing_else(void **)
{
    for (int number = 0; number < 512; number++) {
        bool is_mount = number == SYS_mount || number == SYS_umount2 || number == SYS_pivot_root ||
                        (number >= SYS_open_tree && number <= SYS_fspick) ||
                        number == SYS_mount_setattr || number == SYS_sethostname ||
                        number == SYS_setdomainname;
        uint32_t nested = verdict_with(CAY_SECCOMP_NESTING, number, 0);
        assert_int_equal(nested, is_mount ? SECCOMP_RET_ALLOW : verdict_with(0, number, 0));
    }
}

static void the_size_of_the_machine_is_told_by_who_listens(void **)
{
    assert_int_equal(verdict_with(CAY_SECCOMP_LISTENS, SYS_sysinfo, 0), SECCOMP_RET_USER_NOTIF);
    assert_int_equal(verdict_with(CAY_SECCOMP_LISTENS, SYS_sched_getaffinity, 128),
                     SECCOMP_RET_USER_NOTIF);
    assert_int_equal(
        verdict_with(CAY_SECCOMP_LISTENS, SYS_sched_getaffinity, CAY_SECCOMP_AFFINITY_BYTES),
        SECCOMP_RET_ALLOW);
}

static void other_processor_modes_do_not_go_around_it(void **)
{
    struct cay_seccomp filter;
    assert_int_equal(cay_seccomp_build(&filter, 0), 0);
    struct seccomp_data data = {.nr = SYS_read, .arch = AUDIT_ARCH_I386};
    assert_int_equal(run(&filter, &data), SECCOMP_RET_KILL_PROCESS);
    data = (struct seccomp_data){.nr = 0x40000000 | SYS_read, .arch = NATIVE};
    assert_int_equal(run(&filter, &data), SECCOMP_RET_ERRNO | ENOSYS);
    data.nr = -1;
    assert_int_equal(run(&filter, &data), SECCOMP_RET_ERRNO | ENOSYS);
}

static void the_kernel_takes_both_programs(void **)
{
    struct cay_seccomp filter;
    struct cay_seccomp gate;
    assert_int_equal(cay_seccomp_build(&filter, 0), 0);
    cay_seccomp_build_gate(&gate);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (cay_seccomp_load(&filter) < 0)
            _exit(1);
        if (cay_raw4(SYS_setns, -1, 0, 0, 0) != -EBADF)
            _exit(2);
        if (cay_seccomp_load(&gate) < 0)
            _exit(3);
        if (cay_raw4(SYS_setns, -1, 0, 0, 0) != -EPERM)
            _exit(4);
        if (cay_raw2(SYS_io_uring_setup, 1, 0) != -ENOSYS ||
            cay_raw1(SYS_unshare, CLONE_NEWUTS) != -EPERM)
            _exit(5);
        _exit(getpid() > 0 ? 0 : 6);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_name_of_the_table_has_its_verdict_and_nothing_else_is_allowed),
        cmocka_unit_test(what_hostile_code_tries_first_is_refused),
        cmocka_unit_test(namespaces_cannot_be_made_but_threads_can),
        cmocka_unit_test(arguments_are_looked_at),
        cmocka_unit_test(nesting_opens_mounts_and_nothing_else),
        cmocka_unit_test(the_size_of_the_machine_is_told_by_who_listens),
        cmocka_unit_test(other_processor_modes_do_not_go_around_it),
        cmocka_unit_test(the_kernel_takes_both_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
