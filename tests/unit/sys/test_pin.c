/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/base.h"
#include "sys/pin.h"
#include "sys/remove.h"

static char dir[64];
static int root = -1;

static int make_root(void **)
{
    snprintf(dir, sizeof(dir), "/tmp/cay-pin-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cay_autoclose int fd = openat(root, "prize", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    return fd < 0 || symlinkat("prize", root, "link") < 0 ||
           mknodat(root, "fifo", S_IFIFO | 0600, 0) < 0;
}

static int drop_root(void **)
{
    cay_autoclose int above = openat(root, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    close(root);
    return cay_remove_tree(above, strrchr(dir, '/') + 1, NULL);
}

static struct stat look(const char *name)
{
    struct stat st = {};
    assert_int_equal(fstatat(root, name, &st, AT_SYMLINK_NOFOLLOW), 0);
    return st;
}

static void what_is_done_to_a_link_stays_with_it(void **)
{
    const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    struct stat before = look("prize");
    cay_autoclose int fd = cay_pin_open(root, "link");
    assert_true(fd >= 0);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_not_equal(cay_pin_chmod(fd, 0777), 0);
    assert_int_equal(cay_pin_set_times(fd, old), 0);
    if (geteuid() == 0)
        assert_int_equal(cay_pin_chown(fd, 1234, 1234), 0);
    (void)cay_pin_set_xattr(fd, "user.a", "b", 1);
    struct stat after = look("prize");
    assert_int_equal(after.st_mode, before.st_mode);
    assert_int_equal(after.st_uid, before.st_uid);
    assert_int_equal(after.st_mtim.tv_sec, before.st_mtim.tv_sec);
    assert_int_equal(look("link").st_mtim.tv_sec, 1000);
    char path[128];
    snprintf(path, sizeof(path), "%s/prize", dir);
    assert_int_equal(listxattr(path, NULL, 0), 0);
}

static void it_is_the_same_under_another_name(void **)
{
    cay_autoclose int fd = cay_pin_open_type(root, "fifo", S_IFIFO);
    assert_true(fd >= 0);
    assert_int_equal(renameat(root, "fifo", root, "moved"), 0);
    assert_int_equal(symlinkat("prize", root, "fifo"), 0);
    assert_int_equal(cay_pin_chmod(fd, 0640), 0);
    assert_int_equal(look("moved").st_mode & 07777, 0640);
    assert_int_equal(look("prize").st_mode & 07777, 0600);
    assert_int_equal(cay_pin_link(fd, root, "again"), 0);
    assert_int_equal(look("again").st_ino, look("moved").st_ino);
    assert_int_equal(cay_pin_open_type(root, "fifo", S_IFIFO), -EAGAIN);
    assert_int_equal(cay_pin_open_type(root, "nothing", S_IFIFO), -EAGAIN);
    assert_int_equal(cay_pin_open(root, "nothing"), -ENOENT);
}

static void attributes_of_pins_and_of_open_files(void **)
{
    char list[256];
    char value[16];
    cay_autoclose int fd = cay_pin_open(root, "prize");
    int rc = cay_pin_set_xattr(fd, "user.a", "1", 1);
    if (rc == -EOPNOTSUPP) {
        print_message("no extended attributes in /tmp\n");
        skip();
    }
    assert_int_equal(rc, 0);
    cay_autoclose int open_fd = cay_pin_reopen(fd, O_RDONLY);
    assert_true(open_fd >= 0);
    for (int i = 0; i < 2; i++) {
        int each = i ? open_fd : fd;
        assert_int_equal(cay_pin_list_xattrs(each, list, sizeof(list)), sizeof("user.a"));
        assert_string_equal(list, "user.a");
        assert_int_equal(cay_pin_get_xattr(each, "user.a", value, sizeof(value)), 1);
        assert_int_equal(cay_pin_get_xattr(each, "user.b", value, sizeof(value)), -ENODATA);
    }
}

static void directories_get_their_mode(void **)
{
    assert_int_equal(cay_pin_make_dir(root, "made", 01777, geteuid(), getegid()), 0);
    assert_int_equal(look("made").st_mode, S_IFDIR | 01777);
    assert_int_equal(cay_pin_make_dir(root, "made", 0700, geteuid(), getegid()), -EEXIST);
    assert_int_equal(cay_pin_make_dir(root, "link", 0700, geteuid(), getegid()), -EEXIST);
    assert_int_equal(look("made").st_mode, S_IFDIR | 01777);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_done_to_a_link_stays_with_it, make_root, drop_root),
        cmocka_unit_test_setup_teardown(it_is_the_same_under_another_name, make_root, drop_root),
        cmocka_unit_test_setup_teardown(attributes_of_pins_and_of_open_files, make_root, drop_root),
        cmocka_unit_test_setup_teardown(directories_get_their_mode, make_root, drop_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
