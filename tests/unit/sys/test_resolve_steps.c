/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "sys/resolve.h"
#include "sys/resolve_steps.h"

enum { ROUNDS = 20000, MOST_NAMES = 7 };

static char dir[64];
static int root = -1;
static uint32_t state = 20251118;

static uint32_t below(uint32_t bound)
{
    state = state * 1664525 + 1013904223;
    return (state >> 8) % bound;
}

static const char *const dirs[] = {"a", "a/b", "a/b/c", "d", "d/a"};
static const char *const files[] = {"f", "a/f", "a/b/c/f"};
static const struct {
    const char *name, *text;
} links[] = {
    {"l1", "a/b"},       {"l2", "/a/b/c"},     {"l3", "../../d"},     {"l4", "f"},
    {"l5", "l5"},        {"l6", "missing"},    {"a/l1", "../d/a"},    {"a/l2", ".."},
    {"a/b/l1", "/../a"}, {"a/b/l2", "c/f"},    {"d/l1", "../../../"}, {"d/l2", "a/"},
    {"d/l3", "/"},       {"d/l4", "../l1/.."}, {"a/b/l3", "."},
};

static int make_root(void **)
{
    snprintf(dir, sizeof(dir), "/tmp/cay-steps-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    root = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int failed = 0;
    for (size_t i = 0; i < CAY_COUNT(dirs); i++)
        failed |= mkdirat(root, dirs[i], 0755);
    for (size_t i = 0; i < CAY_COUNT(files); i++) {
        cay_autoclose int fd = openat(root, files[i], O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
        failed |= fd < 0;
    }
    for (size_t i = 0; i < CAY_COUNT(links); i++)
        failed |= symlinkat(links[i].text, root, links[i].name);
    return failed;
}

static int drop_root(void **)
{
    for (size_t i = 0; i < CAY_COUNT(links); i++)
        unlinkat(root, links[i].name, 0);
    for (size_t i = 0; i < CAY_COUNT(files); i++)
        unlinkat(root, files[i], 0);
    for (size_t i = CAY_COUNT(dirs); i-- > 0;)
        unlinkat(root, dirs[i], AT_REMOVEDIR);
    close(root);
    return rmdir(dir);
}

static void any_path(char out[128])
{
    static const char *const names[] = {"a",  "b",  "c",  "d",  "f",  "l1", "l2", "l3",     "l4",
                                        "l5", "l6", "..", "..", "..", ".",  "",   "missing"};
    size_t len = 0;
    uint32_t count = 1 + below(MOST_NAMES);
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0 || below(5) == 0)
            out[len++] = '/';
        len += (size_t)snprintf(out + len, 16, "%s", names[below(CAY_COUNT(names))]);
    }
    if (below(6) == 0)
        out[len++] = '/';
    out[len] = '\0';
}

/* What was opened, or why not. */
static void tell(int fd, int flags, char out[96])
{
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        snprintf(out, 96, "error %d", -fd);
    else
        snprintf(out, 96, "inode %lu mode %o flags %o", (unsigned long)st.st_ino, st.st_mode,
                 (unsigned)(fcntl(fd, F_GETFL) & ~(O_NOFOLLOW | O_DIRECTORY)) |
                     (unsigned)(flags & O_PATH));
}

static void any_path_leads_where_the_kernel_leads(void **)
{
    static const int flags[] = {
        O_PATH,
        O_RDONLY | O_NONBLOCK,
        O_PATH | O_NOFOLLOW,
        O_PATH | O_DIRECTORY,
        O_RDONLY | O_NOFOLLOW,
        O_RDONLY | O_DIRECTORY,
        O_WRONLY,
        O_PATH | O_NOFOLLOW | O_DIRECTORY,
    };
    static const uint64_t hows[] = {
        RESOLVE_BENEATH,
        RESOLVE_IN_ROOT,
        RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS,
        RESOLVE_BENEATH | RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS,
        RESOLVE_BENEATH | RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    int opened = 0;
    for (int i = 0; i < ROUNDS; i++) {
        char path[128];
        char kernel[96];
        char steps[96];
        any_path(path);
        int flag = flags[below(CAY_COUNT(flags))];
        uint64_t how = hows[below(CAY_COUNT(hows))];
        cay_autoclose int by_kernel = cay_resolve(root, path, flag, 0, how);
        cay_autoclose int by_steps = cay_resolve_steps(root, path, flag, 0, how);
        tell(by_kernel, flag, kernel);
        tell(by_steps, flag, steps);
        if (strcmp(kernel, steps) != 0)
            print_message("'%s' flags %o how %lx\n", path, (unsigned)flag, (unsigned long)how);
        assert_string_equal(steps, kernel);
        if (by_steps >= 0) {
            assert_true(fcntl(by_steps, F_GETFD) & FD_CLOEXEC);
            opened++;
        }
    }
    assert_true(opened > ROUNDS / 20);
}

static void what_is_made_is_made_below(void **)
{
    const uint64_t how = RESOLVE_IN_ROOT;
    cay_autoclose int fd =
        cay_resolve_steps(root, "../l2/../new", O_WRONLY | O_CREAT | O_EXCL, 0640, how);
    assert_true(fd >= 0);
    assert_int_equal(faccessat(root, "a/b/new", F_OK, 0), 0);
    assert_int_equal(cay_resolve_steps(root, "l2/../new", O_WRONLY | O_CREAT | O_EXCL, 0640, how),
                     -EEXIST);
    assert_int_equal(cay_resolve_steps(root, "l4", O_WRONLY | O_CREAT | O_EXCL, 0640, how),
                     -EEXIST);
    assert_int_equal(cay_resolve_steps(root, "new/", O_WRONLY | O_CREAT, 0640, how), -EISDIR);
    assert_int_equal(unlinkat(root, "a/b/new", 0), 0);
}

static void links_of_proc_and_other_mounts_are_refused(void **)
{
    cay_autoclose int top = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    const uint64_t beneath = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
    assert_int_equal(cay_resolve_steps(top, "proc/self/root/etc", O_PATH, 0, beneath), -ELOOP);
    assert_int_equal(cay_resolve_steps(top, "proc/1/cwd", O_RDONLY, 0, beneath), -ELOOP);
    assert_int_equal(cay_resolve_steps(top, "proc", O_PATH, 0, beneath | RESOLVE_NO_XDEV), -EXDEV);
    assert_int_equal(cay_resolve_steps(top, "proc/1/..", O_PATH, 0, beneath | RESOLVE_NO_XDEV),
                     -EXDEV);
    cay_autoclose int fd = cay_resolve_steps(top, "proc/version", O_RDONLY, 0, beneath);
    assert_true(fd >= 0);
}

/* A bind mount of the same file system is another mount, too. */
static void a_mount_of_the_same_device_is_another(void **)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char from[96];
        char to[96];
        snprintf(from, sizeof(from), "%s/a", dir);
        snprintf(to, sizeof(to), "%s/d/a", dir);
        if (unshare(CLONE_NEWNS) < 0 || mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount(from, to, NULL, MS_BIND, NULL) < 0)
            _exit(77);
        int again = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
        const uint64_t how = RESOLVE_BENEATH | RESOLVE_NO_XDEV;
        int right = cay_resolve_steps(again, "d/a/f", O_PATH, 0, how) == -EXDEV;
        right &= cay_resolve_steps(again, "d/a/f", O_PATH, 0, RESOLVE_BENEATH) >= 0;
        _exit(!right);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status == 77 << 8) {
        print_message("mounting needs root\n");
        skip();
    }
    assert_int_equal(status, 0);
}

static int refuse_openat2(uint32_t error)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {CAY_COUNT(code), code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) |
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void a_filter_that_refuses_openat2_is_no_end(void **)
{
    static const uint32_t errors[] = {ENOSYS, EPERM};
    for (size_t i = 0; i < CAY_COUNT(errors); i++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            if (refuse_openat2(errors[i]) != 0)
                _exit(2);
            const uint64_t how = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
            int right = cay_resolve(root, "a/f", O_RDONLY, 0, how) == -(int)errors[i];
            right &= cay_resolve_anywhere(root, "l1/c/f", O_RDONLY, 0, how) >= 0;
            right &= cay_resolve_anywhere(root, "l2", O_PATH, 0, how) == -EXDEV;
            right &= cay_resolve_anywhere(root, "..", O_PATH, 0, how) == -EXDEV;
            _exit(!right);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
}

/* Somebody puts a link out of the root in the place of a directory, again and again. */
static void a_race_leads_nowhere_else(void **)
{
    struct stat outside;
    assert_int_equal(stat("/", &outside), 0);
    assert_int_equal(symlinkat("../../../../../..", root, "swap-link"), 0);
    assert_int_equal(mkdirat(root, "swap", 0755), 0);
    assert_int_equal(mkdirat(root, "swap/x", 0755), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        for (;;)
            renameat2(root, "swap", root, "swap-link", RENAME_EXCHANGE);
    }
    static const char *const paths[] = {"swap", "swap/x/..", "swap/../swap", "a/../swap/.",
                                        "swap/"};
    int reached = 0;
    for (int i = 0; i < ROUNDS; i++) {
        cay_autoclose int fd = cay_resolve_steps(root, paths[i % (int)CAY_COUNT(paths)],
                                                 O_PATH | O_DIRECTORY, 0, RESOLVE_BENEATH);
        struct stat st;
        assert_true(fd >= 0 || fd == -EXDEV || fd == -EAGAIN || fd == -ENOENT);
        if (fd < 0)
            continue;
        reached++;
        assert_int_equal(fstat(fd, &st), 0);
        assert_false(st.st_ino == outside.st_ino && st.st_dev == outside.st_dev);
    }
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    if (unlinkat(root, "swap", 0) < 0)
        unlinkat(root, "swap-link", 0);
    for (size_t i = 0; i < 2; i++) {
        unlinkat(root, i ? "swap-link/x" : "swap/x", AT_REMOVEDIR);
        unlinkat(root, i ? "swap-link" : "swap", AT_REMOVEDIR);
    }
    assert_true(reached > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_path_leads_where_the_kernel_leads),
        cmocka_unit_test(what_is_made_is_made_below),
        cmocka_unit_test(links_of_proc_and_other_mounts_are_refused),
        cmocka_unit_test(a_mount_of_the_same_device_is_another),
        cmocka_unit_test(a_filter_that_refuses_openat2_is_no_end),
        cmocka_unit_test(a_race_leads_nowhere_else),
    };
    return cmocka_run_group_tests(tests, make_root, drop_root);
}
