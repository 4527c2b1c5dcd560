/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/tool/world.h"

#include <grp.h>
#include <sys/syscall.h>

/* What this thread is, as the kernel says. */
static void identity(char out[2000])
{
    FILE *file = fopen("/proc/thread-self/status", "re");
    assert_non_null(file);
    char line[400];
    out[0] = '\0';
    size_t len = 0;
    while (fgets(line, sizeof(line), file))
        if (strncmp(line, "Uid", 3) == 0 || strncmp(line, "Gid", 3) == 0 ||
            strncmp(line, "Groups", 6) == 0 || strncmp(line, "Cap", 3) == 0)
            len += (size_t)snprintf(out + len, 2000 - len, "%s", line);
    fclose(file);
}

static bool needs_root(const struct world *world)
{
    if (!world->is_root)
        print_message("skipped: needs root to be another user\n");
    return !world->is_root;
}

static void a_visit_leaves_the_thread_as_it_was(void **state)
{
    struct world *world = *state;
    if (needs_root(world))
        skip();
    gid_t groups[] = {0, 7, 12};
    assert_int_equal(syscall(SYS_setgroups, 3, groups), 0);
    char before[2000];
    char inside[2000];
    char after[2000];
    identity(before);
    for (uint32_t uid = 0; uid <= WORLD_UID; uid += WORLD_UID) {
        world->tree.uid = world->tree.gid = uid;
        struct cay_tree_visit visit = {};
        assert_true(cay_tree_enter(&world->tree, &visit, &world->err));
        identity(inside);
        char expected[64];
        snprintf(expected, sizeof(expected), "\t%u\n", 100000 + uid);
        assert_text_has(inside, expected);
        assert_text_has(inside, "Groups:\t \n");
        cay_tree_leave(&visit);
        identity(after);
        assert_string_equal(before, after);
        cay_tree_leave(&visit); /* twice does nothing */
    }
    assert_int_equal(syscall(SYS_setgroups, 0, NULL), 0);
}

static void the_kernel_judges_by_the_user_and_root_may_more(void **state)
{
    struct world *world = *state;
    if (needs_root(world))
        skip();
    char full[600];
    world_put(world, "/etc/shadow", "hash\n");
    world_path(world, "/etc/shadow", full);
    assert_int_equal(chown(full, 100000, 100000), 0);
    assert_int_equal(chmod(full, 0600), 0);
    world_path(world, "/etc", full);
    assert_int_equal(chown(full, 100000, 100000), 0);
    world_mkdir(world, "/workspace/closed");
    world_put(world, "/workspace/closed/f", "needle\n");
    world_path(world, "/workspace/closed", full);
    assert_int_equal(chown(full, 100000, 100000), 0);
    assert_int_equal(chmod(full, 0700), 0);

    world_run_failing(world, "read", "{\"path\":\"/etc/shadow\"}", "access_denied");
    world_run_failing(world, "write", "{\"path\":\"/etc/shadow\",\"content\":\"x\"}",
                      "access_denied");
    world_run_failing(world, "write", "{\"path\":\"/etc/new\",\"content\":\"x\"}", "access_denied");
    world_run_failing(world, "ls", "{\"path\":\"closed\"}", "access_denied");
    world_run(world, "grep", "{\"pattern\":\"needle\"}");
    assert_int_equal(world_fact(world, "match_count"), 0);
    assert_int_equal(world_fact(world, "unreadable"), 1);
    int64_t removed = 0;
    assert_false(cay_files_remove(&world->tree, CAY_STR("/etc/shadow"), false, false, &removed,
                                  &world->err));
    assert_int_equal(world->err.reason, CAY_R_ACCESS_DENIED);

    world->tree.uid = world->tree.gid = 0;
    assert_text_has(world_run(world, "read", "{\"path\":\"/etc/shadow\"}"), "hash");
    world_run(world, "write", "{\"path\":\"/etc/new\",\"content\":\"x\"}");
    assert_int_equal(world_stat(world, "/etc/new").st_uid, 100000);
    world_run(world, "grep", "{\"pattern\":\"needle\"}");
    assert_int_equal(world_fact(world, "match_count"), 1);
    /* Root writes a user's file, which stays the user's; also a closed one. */
    world_put(world, "/workspace/own", "old");
    world_path(world, "/workspace/own", full);
    assert_int_equal(chmod(full, 0400), 0);
    world_run(world, "write", "{\"path\":\"own\",\"content\":\"new\"}");
    assert_int_equal(world_stat(world, "/workspace/own").st_uid, 100000 + WORLD_UID);
    assert_int_equal(world_stat(world, "/workspace/own").st_mode & 07777, 0400);
}

static void a_file_of_somebody_else_keeps_its_owner(void **state)
{
    struct world *world = *state;
    if (needs_root(world))
        skip();
    char full[600];
    world_put(world, "/workspace/shared", "a long old text");
    world_path(world, "/workspace/shared", full);
    assert_int_equal(chown(full, 100000 + 5, 100000 + 6), 0);
    assert_int_equal(chmod(full, 0666), 0);
    world_run(world, "write", "{\"path\":\"shared\",\"content\":\"new\"}");
    assert_file(world, "/workspace/shared", "new");
    struct stat st = world_stat(world, "/workspace/shared");
    assert_int_equal(st.st_uid, 100000 + 5);
    assert_int_equal(st.st_gid, 100000 + 6);
    /* A directory that may not be written to, with a file that may. */
    world_path(world, "/workspace", full);
    assert_int_equal(chown(full, 100000, 100000), 0);
    world_run(world, "edit", "{\"path\":\"shared\",\"old_string\":\"new\",\"new_string\":\"x\"}");
    assert_file(world, "/workspace/shared", "x");
    /* Read-only for this user: refused, though the directory might allow a rename. */
    world_path(world, "/workspace/shared", full);
    assert_int_equal(chmod(full, 0644), 0);
    world_run_failing(world, "write", "{\"path\":\"shared\",\"content\":\"y\"}", "access_denied");
}

static void nobody_acts_for_another_user_without_the_right_to(void **state)
{
    struct world *world = *state;
    if (world->is_root) {
        print_message("skipped: root may\n");
        skip();
    }
    world->tree.uid = world->tree.uid + 1;
    struct cay_tree_visit visit = {};
    assert_false(cay_tree_enter(&world->tree, &visit, &world->err));
    assert_int_equal(world->err.reason, CAY_R_INTERNAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(a_visit_leaves_the_thread_as_it_was),
        world_test(the_kernel_judges_by_the_user_and_root_may_more),
        world_test(a_file_of_somebody_else_keeps_its_owner),
        world_test(nobody_acts_for_another_user_without_the_right_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
