/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "sys/cgroup.h"
#include "sys/clone.h"

static struct cay_cgroup_host host;
static char name[64];

static void hybrid_mounts_are_told_apart(void **)
{
    static const char text[] =
        "30 24 0:26 / /sys/fs/cgroup rw shared:9 - tmpfs tmpfs rw,mode=755\n"
        "31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        "32 30 0:28 / /sys/fs/cgroup/memory rw shared:1 master:2 - cgroup cgroup rw,memory\n"
        "33 30 0:29 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
        "34 30 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
        "35 30 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n"
        "36 30 0:31 / /elsewhere rw - cgroup2 cgroup2 rw\n";
    struct cay_cgroup_host found;
    assert_int_equal(cay_cgroup_parse_mounts(cay_str(text), &found), 0);
    assert_string_equal(found.unified, "/sys/fs/cgroup/unified");
    assert_string_equal(found.v1[CAY_CGROUP_MEMORY], "/sys/fs/cgroup/memory");
    assert_string_equal(found.v1[CAY_CGROUP_CPU], "/sys/fs/cgroup/cpu,cpuacct");
    assert_string_equal(found.v1[CAY_CGROUP_PIDS], "/sys/fs/cgroup/pids");
    assert_string_equal(found.v1[CAY_CGROUP_FREEZER], "");
}

static void version_2_alone_and_nothing_are_told_apart(void **)
{
    struct cay_cgroup_host found;
    assert_int_equal(
        cay_cgroup_parse_mounts(
            CAY_STR("35 30 0:31 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"), &found),
        0);
    assert_string_equal(found.unified, "/sys/fs/cgroup");
    assert_string_equal(found.v1[CAY_CGROUP_MEMORY], "");
    assert_int_equal(cay_cgroup_parse_mounts(CAY_STR("garbage\n1 2 3 -\n- - -\n"), &found),
                     -ENOENT);
    assert_int_equal(cay_cgroup_parse_mounts(CAY_STR(""), &found), -ENOENT);
}

static void need_groups(void)
{
    if (geteuid() != 0 || cay_cgroup_detect(&host) < 0) {
        print_message("skipped: needs root and mounted control groups\n");
        skip();
    }
    snprintf(name, sizeof(name), "cay-test-%d/one", (int)getpid());
}

static void drop_parent(void)
{
    char parent[64];
    snprintf(parent, sizeof(parent), "cay-test-%d", (int)getpid());
    assert_int_equal(cay_cgroup_remove(&host, parent, 1000), 0);
}

static void limits_hold_and_the_group_can_be_opened_again_and_removed(void **)
{
    need_groups();
    struct cay_cgroup_limits limits = {.memory_bytes = 64 << 20, .pids = 17, .cpu_millis = 500};
    struct cay_cgroup group;
    assert_int_equal(cay_cgroup_create(&host, name, &limits, 1073807360, &group), 0);
    assert_true(group.applied & 1u << CAY_CGROUP_MEMORY);
    assert_true(group.applied & 1u << CAY_CGROUP_PIDS);
    assert_true(group.applied & 1u << CAY_CGROUP_CPU);
    struct cay_cgroup twice;
    assert_int_equal(cay_cgroup_create(&host, name, &limits, 0, &twice), -EEXIST);
    struct cay_cgroup again;
    assert_int_equal(cay_cgroup_open(&host, name, 0, &again), 0);
    assert_false(cay_cgroup_is_populated(&again));
    struct cay_cgroup_slot slot;
    assert_int_equal(cay_cgroup_open_slot(&again, 3, &slot), 0);
    assert_true(slot.procs_fd >= 0 && slot.oom_fd >= 0);
    assert_int_equal(cay_cgroup_open_slot(&again, CAY_CGROUP_SLOTS_MAX, &slot), -ERANGE);
    cay_cgroup_close_slot(&slot);
    cay_cgroup_close(&again);
    cay_cgroup_close(&group);
    assert_int_equal(cay_cgroup_remove(&host, name, 0), 0);
    assert_int_equal(cay_cgroup_open(&host, name, 0, &again), -ENOENT);
    drop_parent();
}

static int sleep_forever(void *)
{
    for (;;)
        pause();
    return 0;
}

static void born_in_a_group_frozen_thawed_and_killed(void **)
{
    need_groups();
    if (!host.unified[0]) {
        print_message("skipped: no version 2 control groups\n");
        skip();
    }
    struct cay_cgroup group;
    assert_int_equal(cay_cgroup_create(&host, name, &(struct cay_cgroup_limits){}, 0, &group), 0);
    int pidfd = -1;
    struct cay_clone how = {
        .exit_signal = SIGCHLD, .cgroup_fd = group.init_fd, .out_pidfd = &pidfd};
    pid_t pid = cay_clone_call(&how, sleep_forever, NULL);
    assert_true(pid > 0);
    assert_true(cay_cgroup_is_populated(&group));
    assert_int_equal(cay_cgroup_remove(&host, name, 0), -EBUSY);
    assert_int_equal(cay_cgroup_freeze(&group, 2000), 0);
    assert_int_equal(cay_cgroup_thaw(&group), 0);
    assert_int_equal(cay_cgroup_freeze(&group, 2000), 0);
    assert_int_equal(cay_cgroup_kill(&group), 0);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    close(pidfd);
    cay_cgroup_close(&group);
    assert_int_equal(cay_cgroup_remove(&host, name, 1000), 0);
    drop_parent();
}

static void names_that_leave_the_tree_are_refused(void **)
{
    struct cay_cgroup group;
    struct cay_cgroup_limits none = {};
    assert_int_equal(cay_cgroup_create(&host, "../x", &none, 0, &group), -EINVAL);
    assert_int_equal(cay_cgroup_create(&host, "/x", &none, 0, &group), -EINVAL);
    assert_int_equal(cay_cgroup_create(&host, "", &none, 0, &group), -EINVAL);
    assert_int_equal(cay_cgroup_remove(&host, "a/../../b", 0), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hybrid_mounts_are_told_apart),
        cmocka_unit_test(version_2_alone_and_nothing_are_told_apart),
        cmocka_unit_test(limits_hold_and_the_group_can_be_opened_again_and_removed),
        cmocka_unit_test(born_in_a_group_frozen_thawed_and_killed),
        cmocka_unit_test(names_that_leave_the_tree_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
