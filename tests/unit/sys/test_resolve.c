/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "sys/resolve.h"

static char dir[64];
static int root = -1;

static int make_root(void **)
{
    snprintf(dir, sizeof(dir), "/tmp/cay-resolve-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    root = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int failed = mkdirat(root, "etc", 0755) | symlinkat("/etc", root, "absolute") |
                 symlinkat("../../../../etc", root, "upward") |
                 symlinkat("/proc/self/root", root, "magic");
    int fd = openat(root, "etc/hostname", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    failed |= write(fd, "inside", 6) != 6;
    close(fd);
    return failed;
}

static int drop_root(void **)
{
    static const char *const files[] = {"etc/hostname", "absolute", "upward", "magic"};
    for (size_t i = 0; i < CAY_COUNT(files); i++)
        unlinkat(root, files[i], 0);
    unlinkat(root, "etc", AT_REMOVEDIR);
    close(root);
    return rmdir(dir);
}

static void every_way_up_stays_inside(void **)
{
    static const char *const paths[] = {"etc/hostname", "/etc/hostname", "../../etc/hostname",
                                        "absolute/hostname", "upward/hostname"};
    for (size_t i = 0; i < CAY_COUNT(paths); i++) {
        char text[8] = {};
        cay_autoclose int fd = cay_resolve_open(root, paths[i], O_RDONLY, 0);
        assert_true(fd >= 0);
        assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        assert_int_equal(read(fd, text, sizeof(text) - 1), 6);
        assert_string_equal(text, "inside");
    }
}

static void links_are_refused_where_none_may_be(void **)
{
    assert_int_equal(cay_resolve_open_plain(root, "absolute/hostname", O_RDONLY, 0), -ELOOP);
    assert_int_equal(cay_resolve_open_plain(root, "upward", O_PATH | O_DIRECTORY, 0), -ELOOP);
    cay_autoclose int fd = cay_resolve_open_plain(root, "etc/hostname", O_RDONLY, 0);
    assert_true(fd >= 0);
}

static void links_of_proc_are_refused(void **)
{
    assert_int_equal(cay_resolve_open(root, "magic/etc", O_PATH, 0), -ENOENT);
    assert_int_equal(cay_resolve_open_here("/proc/self/root/etc", O_PATH | O_DIRECTORY), -ELOOP);
    assert_int_equal(cay_resolve_open_here("/proc/self/cwd", O_PATH | O_DIRECTORY), -ELOOP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_up_stays_inside),
        cmocka_unit_test(links_are_refused_where_none_may_be),
        cmocka_unit_test(links_of_proc_are_refused),
    };
    return cmocka_run_group_tests(tests, make_root, drop_root);
}
