/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What every store promises. Run once per kind (the argument); a store that lacks a capability
 * must refuse with the right reason where the suite would use it.
 */

#include "tests/conform/store_world.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void history_is_kept(struct world *world, const enum cay_store_activity *activities)
{
    if (!tree_has_snapshots(world->store))
        return;
    struct session session = world_from_base(world);
    char ids[TREE_STEPS][CAY_STORE_ID_SIZE];
    char *dumps[TREE_STEPS];
    for (int i = 0; i < TREE_STEPS; i++) {
        tree_change(session.root_fd, i, world->id_base);
        char *before = tree_dump(session.root_fd, world->id_base);
        assert_true(world_take(world, &session, activities[i], ids[i]));
        dumps[i] = tree_dump(session.root_fd, world->id_base);
        assert_string_equal(before, dumps[i]); /* the session does not notice */
        free(before);
    }
    for (int i = 0; i < TREE_STEPS; i++) {
        char *dump = world_dump_snapshot(world, ids[i]);
        assert_string_equal(dump, dumps[i]);
        free(dump);
    }
    for (int i = TREE_STEPS - 1; i >= 0; i--) {
        struct cay_store_point point;
        MUST(world, cay_store_rollback(world->store, session.id, ids[i], &tree_owner, &point,
                                       &world->err));
        assert_true(point.root_fd >= 0);
        world_follow(&session, &point);
        char *dump = tree_dump(session.root_fd, world->id_base);
        assert_string_equal(dump, dumps[i]);
        free(dump);
        free(dumps[i]);
        MUST(world, cay_store_delete_snapshot(world->store, ids[i], &world->err));
    }
    world_end(world, &session);
}

static void quiet_history_is_kept_byte_for_byte(void **state)
{
    const enum cay_store_activity activities[TREE_STEPS] = {CAY_STORE_QUIET, CAY_STORE_QUIET,
                                                            CAY_STORE_QUIET, CAY_STORE_QUIET,
                                                            CAY_STORE_QUIET, CAY_STORE_QUIET};
    history_is_kept(*state, activities);
}

static void history_under_frozen_processes_is_kept_byte_for_byte(void **state)
{
    const enum cay_store_activity activities[TREE_STEPS] = {CAY_STORE_FROZEN, CAY_STORE_FROZEN,
                                                            CAY_STORE_FROZEN, CAY_STORE_FROZEN,
                                                            CAY_STORE_FROZEN, CAY_STORE_FROZEN};
    history_is_kept(*state, activities);
}

static void history_with_both_kinds_of_snapshot_is_kept_byte_for_byte(void **state)
{
    const enum cay_store_activity activities[TREE_STEPS] = {CAY_STORE_FROZEN, CAY_STORE_QUIET,
                                                            CAY_STORE_FROZEN, CAY_STORE_FROZEN,
                                                            CAY_STORE_QUIET,  CAY_STORE_FROZEN};
    history_is_kept(*state, activities);
}

static void a_snapshot_does_not_change_with_its_session(void **state)
{
    struct world *world = *state;
    if (!tree_has_snapshots(world->store))
        return;
    for (int activity = CAY_STORE_QUIET; activity <= CAY_STORE_FROZEN; activity++) {
        struct session session = world_from_base(world);
        char id[CAY_STORE_ID_SIZE];
        tree_change(session.root_fd, 0, world->id_base);
        assert_true(world_take(world, &session, (enum cay_store_activity)activity, id));
        char *before = world_dump_snapshot(world, id);
        for (int i = 1; i < TREE_STEPS; i++)
            tree_change(session.root_fd, i, world->id_base);
        char *after = world_dump_snapshot(world, id);
        assert_string_equal(before, after);
        free(before);
        free(after);
        world_end(world, &session);
        after = world_dump_snapshot(world, id); /* nor does it die with it */
        free(after);
        MUST(world, cay_store_delete_snapshot(world->store, id, &world->err));
    }
}

/* What a view shows is what a session made of the point shows. */
static void points_can_be_looked_at(void **state)
{
    struct world *world = *state;
    if (!tree_has_snapshots(world->store))
        return;
    struct session session = world_from_base(world);
    char id[CAY_STORE_ID_SIZE];
    for (int i = 0; i < TREE_STEPS; i++)
        tree_change(session.root_fd, i, world->id_base);
    (void)world_take(world, &session, CAY_STORE_QUIET, id);
    char *expected = world_dump_snapshot(world, id);
    const struct cay_store_owner *const owners[] = {&tree_owner, NULL};
    const struct cay_store_ref point = {.snapshot = id};
    for (size_t i = 0; i < CAY_COUNT(owners); i++) {
        int fd = -1;
        MUST(world, cay_store_view(world->store, &point, owners[i], &fd, &world->err));
        char *seen = tree_dump(fd, owners[i] ? world->id_base : 0);
        assert_string_equal(seen, expected);
        free(seen);
        assert_int_equal(mkdirat(fd, "new", 0755), -1);
        assert_int_equal(errno, EROFS);
        close(fd);
    }
    free(expected);
    const struct cay_store_ref base = {.base = "base"};
    int fd = -1;
    MUST(world, cay_store_view(world->store, &base, NULL, &fd, &world->err));
    assert_int_equal(faccessat(fd, "workspace", F_OK, 0), 0);
    assert_int_equal(mkdirat(fd, "new", 0755), -1);
    close(fd);
    world_end(world, &session);
    MUST(world, cay_store_delete_snapshot(world->store, id, &world->err));
    assert_false(cay_store_view(world->store, &point, NULL, &fd, &world->err));
    assert_int_equal(world->err.reason, CAY_R_SNAPSHOT_NOT_FOUND);
}

static uint64_t history_bytes(struct world *world, const char *session)
{
    struct cay_store_usage usage;
    struct cay_store_ref ref = {.session = session};
    MUST(world, cay_store_usage(world->store, &ref, &usage, &world->err));
    return usage.history_bytes;
}

static void an_unchanged_turn_shares_its_predecessor(void **state)
{
    struct world *world = *state;
    if (!tree_has_snapshots(world->store))
        return;
    if (!(cay_store_caps(world->store) & CAY_STORE_SEES_UNCHANGED)) {
        print_message("skipped: %s cannot tell here\n", world_kind);
        skip();
    }
    struct session session = world_from_base(world);
    char id[CAY_STORE_ID_SIZE];
    assert_false(world_take(world, &session, CAY_STORE_QUIET, id));
    assert_false(world_take(world, &session, CAY_STORE_FROZEN, id));
    tree_enter(world->id_base);
    tree_write(session.root_fd, "workspace/file", "1");
    tree_leave();
    assert_true(world_take(world, &session, CAY_STORE_QUIET, id));
    uint64_t bytes = history_bytes(world, session.id);
    char *before = tree_dump(session.root_fd, world->id_base);
    for (int i = 0; i < 5; i++)
        assert_false(world_take(world, &session, CAY_STORE_QUIET, id));
    assert_int_equal(history_bytes(world, session.id), bytes);
    char *after = world_dump_snapshot(world, id);
    assert_string_equal(before, after);
    free(before);
    free(after);
    world_end(world, &session);
}

/* Files changed in the last instants are copied twice to be sure; after that nothing is. */
static void an_unchanged_turn_with_processes_shares_too(void **state)
{
    struct world *world = *state;
    if (!tree_has_snapshots(world->store))
        return;
    if (!(cay_store_caps(world->store) & CAY_STORE_SEES_UNCHANGED)) {
        print_message("skipped: %s cannot tell here\n", world_kind);
        skip();
    }
    struct session session = world_from_base(world);
    char id[CAY_STORE_ID_SIZE];
    tree_change(session.root_fd, 0, world->id_base);
    assert_true(world_take(world, &session, CAY_STORE_FROZEN, id));
    int tries = 0;
    while (world_take(world, &session, CAY_STORE_FROZEN, id))
        assert_true(++tries < 10000);
    char *live = tree_dump(session.root_fd, world->id_base);
    char *kept = world_dump_snapshot(world, id);
    assert_string_equal(live, kept);
    free(kept);
    assert_false(world_take(world, &session, CAY_STORE_QUIET, id));
    kept = world_dump_snapshot(world, id);
    assert_string_equal(live, kept);
    free(kept);
    free(live);
    tree_enter(world->id_base);
    tree_append(session.root_fd, "workspace/new.txt", "x");
    tree_leave();
    assert_true(world_take(world, &session, CAY_STORE_FROZEN, id));
    world_end(world, &session);
}

/* A second store to a dirty page changes no time of the file. */
static void stores_through_a_mapping_are_never_missed(void **state)
{
    struct world *world = *state;
    if (!tree_has_snapshots(world->store))
        return;
    struct session session = world_from_base(world);
    tree_enter(world->id_base);
    tree_write(session.root_fd, "workspace/mapped", "0000000000000000");
    tree_leave();
    int fd = openat(session.root_fd, "workspace/mapped", O_RDWR | O_CLOEXEC);
    assert_return_code(fd, errno);
    char *map = mmap(NULL, 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    for (int i = 0; i < 60; i++) {
        char id[CAY_STORE_ID_SIZE];
        map[i % 16] = (char)('A' + i % 26);
        world_take(world, &session, CAY_STORE_FROZEN, id);
        struct session copy = world_session(world, (struct cay_store_source){.snapshot = id});
        char *text = tree_read(copy.root_fd, "workspace/mapped");
        assert_memory_equal(text, map, 16);
        free(text);
        world_end(world, &copy);
        MUST(world, cay_store_delete_snapshot(world->store, id, &world->err));
        /* Past the grain of the clock, without a fixed sleep: the work above takes its time. */
        if (i % 3 == 0)
            world_collect(world);
    }
    munmap(map, 16);
    close(fd);
    world_end(world, &session);
}

static void forks_do_not_see_each_other(void **state)
{
    struct world *world = *state;
    if (!tree_has_snapshots(world->store))
        return;
    for (int activity = CAY_STORE_QUIET; activity <= CAY_STORE_FROZEN; activity++) {
        struct session session = world_from_base(world);
        tree_change(session.root_fd, 0, world->id_base);
        char *origin = tree_dump(session.root_fd, world->id_base);
        struct session forks[8];
        for (size_t i = 0; i < CAY_COUNT(forks); i++) {
            cay_store_new_id(forks[i].id);
            struct cay_store_fork_request request = {
                session.id, forks[i].id, (enum cay_store_activity)activity, &tree_owner};
            struct cay_store_point point;
            MUST(world, cay_store_fork(world->store, &request, &point, &world->err));
            world_follow(&session, &point);
            MUST(world, cay_store_mount(world->store, forks[i].id, &tree_owner, &forks[i].root_fd,
                                        &world->err));
            char *dump = tree_dump(forks[i].root_fd, world->id_base);
            assert_string_equal(dump, origin);
            free(dump);
        }
        for (size_t i = 0; i < CAY_COUNT(forks); i++) {
            char name[8];
            snprintf(name, sizeof(name), "%zu", i);
            tree_enter(world->id_base);
            tree_write(forks[i].root_fd, "workspace/who", name);
            tree_leave();
        }
        for (size_t i = 0; i < CAY_COUNT(forks); i++) {
            char name[8];
            snprintf(name, sizeof(name), "%zu", i);
            char *text = tree_read(forks[i].root_fd, "workspace/who");
            assert_string_equal(text, name);
            free(text);
            world_end(world, &forks[i]);
        }
        char *after = tree_dump(session.root_fd, world->id_base);
        assert_string_equal(after, origin);
        free(after);
        free(origin);
        world_end(world, &session);
    }
}

static bool take_after(struct world *world, struct session *session, const char *previous_id,
                       char out_id[static CAY_STORE_ID_SIZE])
{
    cay_store_new_id(out_id);
    struct cay_store_snapshot_request request = {.session_id = session->id,
                                                 .snapshot_id = out_id,
                                                 .activity = CAY_STORE_QUIET,
                                                 .owner = &tree_owner,
                                                 .previous_id = previous_id};
    struct cay_store_point point = {.root_fd = -1};
    MUST(world, cay_store_snapshot(world->store, &request, &point, &world->err));
    world_follow(session, &point);
    return point.changed;
}

/* What was written before a fork is still no part of any snapshot. */
static void a_fork_does_not_hide_a_change(void **state)
{
    struct world *world = *state;
    if (!tree_has_snapshots(world->store))
        return;
    struct session session = world_from_base(world);
    struct session fork = {.root_fd = -1};
    char ids[3][CAY_STORE_ID_SIZE];
    bool sees = (cay_store_caps(world->store) & CAY_STORE_SEES_UNCHANGED) != 0;
    assert_int_equal(take_after(world, &session, "", ids[0]), !sees);
    tree_enter(world->id_base);
    tree_write(session.root_fd, "workspace/file", "1");
    tree_leave();
    cay_store_new_id(fork.id);
    struct cay_store_fork_request request = {session.id, fork.id, CAY_STORE_QUIET, &tree_owner};
    struct cay_store_point point = {.root_fd = -1};
    MUST(world, cay_store_fork(world->store, &request, &point, &world->err));
    world_follow(&session, &point);
    assert_true(take_after(world, &session, ids[0], ids[1]));
    assert_int_equal(take_after(world, &session, ids[1], ids[2]), !sees);
    MUST(world, cay_store_destroy(world->store, fork.id, &world->err));
    world_end(world, &session);
}

static void verbs_can_be_repeated(void **state)
{
    struct world *world = *state;
    if (!tree_has_snapshots(world->store))
        return;
    struct session session = world_from_base(world);
    struct cay_store_source source = {.base = "base"};
    tree_enter(world->id_base);
    tree_write(session.root_fd, "workspace/file", "1");
    tree_leave();
    MUST(world, cay_store_create(world->store, session.id, &source, &world->err));
    char *text = tree_read(session.root_fd, "workspace/file");
    assert_string_equal(text, "1");
    free(text);
    char id[CAY_STORE_ID_SIZE];
    assert_true(world_take(world, &session, CAY_STORE_QUIET, id));
    struct cay_store_snapshot_request request = {.session_id = session.id,
                                                 .snapshot_id = id,
                                                 .activity = CAY_STORE_QUIET,
                                                 .owner = &tree_owner};
    struct cay_store_point point;
    MUST(world, cay_store_snapshot(world->store, &request, &point, &world->err));
    assert_true(point.changed);
    assert_int_equal(point.root_fd, -1);
    assert_int_equal(world_count(world, CAY_STORE_ITEM_SNAPSHOT), 1);
    world_end(world, &session);
    MUST(world, cay_store_destroy(world->store, session.id, &world->err));
    MUST(world, cay_store_delete_snapshot(world->store, id, &world->err));
    MUST(world, cay_store_delete_snapshot(world->store, id, &world->err));
    assert_int_equal(world_count(world, CAY_STORE_ITEM_SESSION), 0);
    assert_int_equal(world_count(world, CAY_STORE_ITEM_SNAPSHOT), 0);
}

static void mistakes_have_their_reasons(void **state)
{
    struct world *world = *state;
    struct cay_error err = {};
    struct cay_store_point point;
    int fd = -1;
    char id[CAY_STORE_ID_SIZE];
    cay_store_new_id(id);
    struct session session = world_from_base(world);
    struct cay_store_source none = {.base = "none"};
    struct cay_store_source no_snapshot = {.snapshot = id};
    assert_false(cay_store_create(world->store, id, &none, &err));
    assert_int_equal(err.reason, CAY_R_BASE_NOT_FOUND);
    bool has_snapshots = (cay_store_caps(world->store) & CAY_STORE_SNAPSHOTS) != 0;
    enum cay_reason absent =
        has_snapshots ? CAY_R_SNAPSHOT_NOT_FOUND : CAY_R_SNAPSHOTS_NOT_AVAILABLE;
    assert_false(cay_store_create(world->store, id, &no_snapshot, &err));
    assert_int_equal(err.reason, absent);
    assert_false(cay_store_mount(world->store, id, &tree_owner, &fd, &err));
    assert_int_equal(err.reason, CAY_R_SESSION_NOT_FOUND);
    tree_change(session.root_fd, 0, world->id_base);
    char *before = tree_dump(session.root_fd, world->id_base);
    assert_false(cay_store_rollback(world->store, session.id, id, &tree_owner, &point, &err));
    assert_int_equal(err.reason, absent);
    char *after = tree_dump(session.root_fd, world->id_base);
    assert_string_equal(before, after);
    free(before);
    free(after);
    static const char *const bad_ids[] = {"",
                                          "..",
                                          "0000000000000000",
                                          "ABCDEF0123456789",
                                          "abc",
                                          "../../../../etc0",
                                          "0123456789abcdef0"};
    struct cay_store_source base = {.base = "base"};
    for (size_t i = 0; i < CAY_COUNT(bad_ids); i++) {
        assert_false(cay_store_create(world->store, bad_ids[i], &base, &err));
        assert_int_equal(err.reason, CAY_R_INVALID_ARGUMENT);
        assert_false(cay_store_destroy(world->store, bad_ids[i], &err));
        assert_int_equal(err.reason, CAY_R_INVALID_ARGUMENT);
    }
    static const char *const bad_names[] = {"", ".", "..", "a/b", "-x", "a..b", "a\n", "\xf0\x9f"};
    for (size_t i = 0; i < CAY_COUNT(bad_names); i++) {
        assert_false(cay_store_base_alias(world->store, bad_names[i], "base", &err));
        assert_int_equal(err.reason, CAY_R_INVALID_ARGUMENT);
    }
    world_end(world, &session);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(quiet_history_is_kept_byte_for_byte, world_setup,
                                        world_teardown),
        cmocka_unit_test_setup_teardown(history_under_frozen_processes_is_kept_byte_for_byte,
                                        world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(history_with_both_kinds_of_snapshot_is_kept_byte_for_byte,
                                        world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(a_snapshot_does_not_change_with_its_session, world_setup,
                                        world_teardown),
        cmocka_unit_test_setup_teardown(points_can_be_looked_at, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(an_unchanged_turn_shares_its_predecessor, world_setup,
                                        world_teardown),
        cmocka_unit_test_setup_teardown(an_unchanged_turn_with_processes_shares_too, world_setup,
                                        world_teardown),
        cmocka_unit_test_setup_teardown(stores_through_a_mapping_are_never_missed, world_setup,
                                        world_teardown),
        cmocka_unit_test_setup_teardown(forks_do_not_see_each_other, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(a_fork_does_not_hide_a_change, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(verbs_can_be_repeated, world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(mistakes_have_their_reasons, world_setup, world_teardown),
    };
    return world_may_run(argc, argv) ? cmocka_run_group_tests_name(world_kind, tests, NULL, NULL)
                                     : WORLD_SKIPPED;
}
