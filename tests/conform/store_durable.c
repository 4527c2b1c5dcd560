/* SPDX-License-Identifier: Apache-2.0 */

/* What every store promises of snapshots that are on the disk before they are acknowledged. */

#include "tests/conform/store_world.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static void a_snapshot_can_be_made_durable(void **state)
{
    struct world *world = *state;
    if (!tree_has_snapshots(world->store))
        return;
    struct session session = world_from_base(world);
    char id[CAY_STORE_ID_SIZE];
    cay_store_new_id(id);
    tree_change(session.root_fd, 0, world->id_base);
    struct cay_store_snapshot_request request = {session.id, id, CAY_STORE_QUIET, &tree_owner,
                                                 true};
    struct cay_store_point point;
    MUST(world, cay_store_snapshot(world->store, &request, &point, &world->err));
    assert_true(point.changed);
    world_follow(&session, &point);
    MUST(world, cay_store_sync(world->store, &world->err));
    world_end(world, &session);
}

static bool is_sync_broken;

/* Instead of the C library's: the stores of this program call this one. */
int syncfs(int fd)
{
    if (!is_sync_broken)
        return (int)syscall(SYS_syncfs, fd);
    errno = EIO;
    return -1;
}

static void a_snapshot_that_is_not_durable_is_not_written_to(void **state)
{
    struct world *world = *state;
    if (!tree_has_snapshots(world->store))
        return;
    struct session session = world_from_base(world);
    char id[CAY_STORE_ID_SIZE];
    cay_store_new_id(id);
    tree_change(session.root_fd, 0, world->id_base);
    struct cay_store_snapshot_request request = {session.id, id, CAY_STORE_QUIET, &tree_owner,
                                                 true};
    struct cay_store_point point = {.root_fd = -1};
    is_sync_broken = true;
    bool is_taken = cay_store_snapshot(world->store, &request, &point, &world->err);
    is_sync_broken = false;
    world_follow(&session, &point);
    /* One that has to write before it can take a point has not taken any. */
    if (!is_taken && world_count(world, CAY_STORE_ITEM_SNAPSHOT) == 0) {
        assert_int_equal(world->err.reason, CAY_R_DISK_FAILED);
        MUST(world, cay_store_snapshot(world->store, &request, &point, &world->err));
        world_follow(&session, &point);
    }
    char *before = world_dump_snapshot(world, id);
    tree_change(session.root_fd, 1, world->id_base);
    char *after = world_dump_snapshot(world, id);
    assert_string_equal(before, after);
    free(before);
    free(after);
    world_end(world, &session);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_snapshot_that_is_not_durable_is_not_written_to,
                                        world_setup, world_teardown),
        cmocka_unit_test_setup_teardown(a_snapshot_can_be_made_durable, world_setup,
                                        world_teardown),
    };
    return world_may_run(argc, argv) ? cmocka_run_group_tests_name(world_kind, tests, NULL, NULL)
                                     : WORLD_SKIPPED;
}
