/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/nsfs.h>

#include "base/base.h"
#include "sys/mount.h"
#include "sys/userns.h"

enum { BASE = 1073741824 };

static void need_root(void)
{
    if (geteuid() != 0) {
        print_message("skipped: making mapped user namespaces needs root\n");
        skip();
    }
}

static void a_namespace_maps_the_range_and_belongs_to_its_last_id(void **)
{
    need_root();
    cay_autoclose int fd = cay_userns_open(BASE, CAY_USERNS_COUNT);
    assert_true(fd >= 0);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    uid_t owner = 0;
    assert_int_equal(ioctl(fd, NS_GET_OWNER_UID, &owner), 0);
    assert_int_equal(owner, BASE + CAY_USERNS_COUNT - 1);

    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char map[128] = {};
        if (setns(fd, CLONE_NEWUSER) < 0)
            _exit(1);
        int map_fd = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
        if (map_fd < 0 || read(map_fd, map, sizeof(map) - 1) <= 0)
            _exit(2);
        unsigned int inside = 1;
        unsigned int outside = 0;
        unsigned int count = 0;
        if (sscanf(map, "%u %u %u", &inside, &outside, &count) != 3)
            _exit(3);
        _exit(inside == 0 && count == CAY_USERNS_COUNT ? 0 : 4);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void no_process_is_left_and_the_caller_stays_dumpable(void **)
{
    need_root();
    int before = prctl(PR_GET_DUMPABLE);
    for (int i = 0; i < 20; i++) {
        cay_autoclose int fd = cay_userns_open(BASE, CAY_USERNS_COUNT);
        assert_true(fd >= 0);
    }
    assert_int_equal(prctl(PR_GET_DUMPABLE), before);
    assert_int_equal(waitpid(-1, NULL, WNOHANG | __WALL), -1);
    assert_int_equal(errno, ECHILD);
}

static void an_inner_namespace_nests_in_the_outer_one(void **)
{
    need_root();
    cay_autoclose int outer = cay_userns_open(BASE, CAY_USERNS_COUNT);
    assert_true(outer >= 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const uid_t init = CAY_USERNS_COUNT - 1;
        if (setns(outer, CLONE_NEWUSER) < 0 || setresgid(init, init, init) < 0 ||
            setresuid(init, init, init) < 0)
            _exit(1);
        int inner = cay_userns_open_inner(CAY_USERNS_INNER_COUNT);
        if (inner < 0)
            _exit(2);
        int parent = ioctl(inner, NS_GET_PARENT);
        struct stat a;
        struct stat b;
        if (parent < 0 || fstat(parent, &a) < 0 || fstat(outer, &b) < 0 || a.st_ino != b.st_ino)
            _exit(3);
        /* Nobody there may become the id that init has. */
        if (setns(inner, CLONE_NEWUSER) < 0 || setresuid(0, 0, 0) < 0)
            _exit(4);
        _exit(setresuid(init, init, init) < 0 ? 0 : 5);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void an_idmapped_mount_shows_natural_ids_as_the_range(void **)
{
    need_root();
    cay_autoclose int userns = cay_userns_open(BASE, CAY_USERNS_COUNT);
    assert_true(userns >= 0);
    char dir[] = "/tmp/cay-userns-XXXXXX";
    assert_non_null(mkdtemp(dir));
    cay_autoclose int mount = cay_mount_clone(AT_FDCWD, dir, false);
    assert_true(mount >= 0);
    assert_int_equal(cay_mount_set_idmap(mount, userns), 0);
    struct stat stat_info;
    assert_int_equal(fstat(mount, &stat_info), 0);
    assert_int_equal(stat_info.st_uid, BASE);
    rmdir(dir);
}

static void a_range_that_wraps_is_refused(void **)
{
    assert_int_equal(cay_userns_open(UINT32_MAX - 5, 100), -EINVAL);
    assert_int_equal(cay_userns_open(BASE, 0), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_namespace_maps_the_range_and_belongs_to_its_last_id),
        cmocka_unit_test(no_process_is_left_and_the_caller_stays_dumpable),
        cmocka_unit_test(an_inner_namespace_nests_in_the_outer_one),
        cmocka_unit_test(an_idmapped_mount_shows_natural_ids_as_the_range),
        cmocka_unit_test(a_range_that_wraps_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
