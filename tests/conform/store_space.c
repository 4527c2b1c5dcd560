/* SPDX-License-Identifier: Apache-2.0 */

/* Disk space, over every store: what is measured, and what the kernel refuses where it keeps
 * limits. */

#include "tests/conform/store_world.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* Writes as the sandbox's root until it is refused; the bytes that went through. */
static size_t fill(struct world *world, int root_fd, const char *name, size_t bytes_max)
{
    static const char block[64 * 1024] = {1};
    size_t done = 0;
    tree_enter(world->id_base);
    int fd = openat(root_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    /* Synced now and then: what is refused only on the way to the disk is refused, too. */
    while (fd >= 0 && done < bytes_max) {
        ssize_t len = write(fd, block, sizeof(block));
        if (len < 0 || (done % (1 << 20) == 0 && fsync(fd) < 0))
            break;
        done += (size_t)len;
    }
    assert_true(done >= bytes_max || errno == EDQUOT || errno == ENOSPC);
    if (fd >= 0)
        close(fd);
    tree_leave();
    return done;
}

static void the_kernel_refuses_what_is_too_much(void **state)
{
    enum { QUOTA_BYTES = 8 << 20, MUCH_BYTES = 24 << 20 };
    struct world *world = *state;
    struct session session = world_from_base(world);
    if (!(cay_store_caps(world->store) & CAY_STORE_KERNEL_QUOTA)) {
        assert_false(cay_store_set_quota(world->store, session.id, QUOTA_BYTES, &world->err));
        assert_int_equal(world->err.reason, CAY_R_NOT_SUPPORTED);
        world_end(world, &session);
        return;
    }
    char id[CAY_STORE_ID_SIZE];
    struct cay_store_point point;
    (void)world_take(world, &session, CAY_STORE_QUIET, id);
    for (int round = 0; round < 2; round++)
        MUST(world, cay_store_set_quota(world->store, session.id, QUOTA_BYTES, &world->err));
    assert_true(fill(world, session.root_fd, "workspace/much", MUCH_BYTES) < MUCH_BYTES);
    MUST(world, cay_store_rollback(world->store, session.id, id, &tree_owner, &point, &world->err));
    world_follow(&session, &point);
    assert_true(fill(world, session.root_fd, "workspace/much", MUCH_BYTES) < MUCH_BYTES);
    MUST(world, cay_store_set_quota(world->store, session.id, 0, &world->err));
    assert_int_equal(fill(world, session.root_fd, "workspace/more", MUCH_BYTES), MUCH_BYTES);
    struct cay_store_usage usage;
    struct cay_store_ref ref = {.session = session.id};
    MUST(world, cay_store_sync(world->store, &world->err));
    MUST(world, cay_store_usage(world->store, &ref, &usage, &world->err));
    assert_true(usage.own_bytes + usage.history_bytes >= MUCH_BYTES);
    world_end(world, &session);
    cay_store_new_id(id);
    assert_false(cay_store_set_quota(world->store, id, 1, &world->err));
    assert_int_equal(world->err.reason, CAY_R_SESSION_NOT_FOUND);
}

static uint64_t own_bytes(struct world *world, struct cay_store_ref ref)
{
    struct cay_store_usage usage;
    MUST(world, cay_store_usage(world->store, &ref, &usage, &world->err));
    assert_true(usage.fs_total_bytes >= usage.fs_free_bytes && usage.layers > 0);
    return usage.own_bytes;
}

/* Also after the base was cloned again, and again. */
static void usage_is_what_came_after_the_base(void **state)
{
    enum { MUCH_BYTES = 2 << 20 };
    struct world *world = *state;
    struct session session = world_from_base(world);
    char id[CAY_STORE_ID_SIZE] = "";
    assert_int_equal(fill(world, session.root_fd, "workspace/much", MUCH_BYTES), MUCH_BYTES);
    bool has_snapshots = (cay_store_caps(world->store) & CAY_STORE_SNAPSHOTS) != 0;
    if (has_snapshots)
        (void)world_take(world, &session, CAY_STORE_FROZEN, id);
    for (int i = 0; i < 3; i++) {
        struct session other = world_from_base(world);
        assert_true(own_bytes(world, (struct cay_store_ref){.session = other.id}) < MUCH_BYTES);
        world_end(world, &other);
        world_collect(world);
    }
    assert_true(own_bytes(world, (struct cay_store_ref){.session = session.id}) >= MUCH_BYTES);
    if (has_snapshots)
        assert_true(own_bytes(world, (struct cay_store_ref){.snapshot = id}) >= MUCH_BYTES);
    world_end(world, &session);
}

static uint64_t whole_bytes(struct world *world, const struct session *session,
                            const char (*snapshots)[CAY_STORE_ID_SIZE], size_t count)
{
    struct cay_store_usage usage;
    MUST(world, cay_store_sync(world->store, &world->err));
    MUST(world,
         cay_store_usage_whole(world->store, session->id, snapshots, count, &usage, &world->err));
    return usage.own_bytes + usage.history_bytes;
}

static void go_back(struct world *world, struct session *session, const char *id)
{
    struct cay_store_point point;
    MUST(world,
         cay_store_rollback(world->store, session->id, id, &tree_owner, &point, &world->err));
    world_follow(session, &point);
    world_collect(world);
}

/* What a rollback left behind counts while its snapshots are there; what is shared counts once. */
static void branches_count(void **state)
{
    enum { START, A, AFTER_A, B, SNAPSHOTS, MUCH_BYTES = 4 << 20, SLACK = 1 << 20 };
    struct world *world = *state;
    struct session session = world_from_base(world);
    char ids[SNAPSHOTS][CAY_STORE_ID_SIZE];
    const char(*all)[CAY_STORE_ID_SIZE] = ids;
    if (!(cay_store_caps(world->store) & CAY_STORE_SHARING)) {
        world_end(world, &session);
        print_message("%s: has no snapshots that share\n", world_kind);
        skip();
    }
    (void)world_take(world, &session, CAY_STORE_QUIET, ids[START]);
    assert_int_equal(fill(world, session.root_fd, "workspace/a", MUCH_BYTES), MUCH_BYTES);
    (void)world_take(world, &session, CAY_STORE_QUIET, ids[A]);
    assert_int_equal(fill(world, session.root_fd, "workspace/small", 64 << 10), 64 << 10);
    (void)world_take(world, &session, CAY_STORE_QUIET, ids[AFTER_A]);
    uint64_t one = whole_bytes(world, &session, all, SNAPSHOTS - 1);
    assert_true(one >= MUCH_BYTES && one < MUCH_BYTES + SLACK);
    go_back(world, &session, ids[START]);
    assert_int_equal(fill(world, session.root_fd, "workspace/b", MUCH_BYTES), MUCH_BYTES);
    (void)world_take(world, &session, CAY_STORE_QUIET, ids[B]);
    uint64_t two = whole_bytes(world, &session, all, SNAPSHOTS);
    assert_true(two >= 2 * MUCH_BYTES && two < 2 * MUCH_BYTES + SLACK);
    go_back(world, &session, ids[AFTER_A]); /* everything is a snapshot's now */
    uint64_t same = whole_bytes(world, &session, all, SNAPSHOTS);
    assert_true(same >= 2 * MUCH_BYTES && same < 2 * MUCH_BYTES + SLACK);
    MUST(world, cay_store_delete_snapshot(world->store, ids[B], &world->err));
    world_collect(world);
    uint64_t less = whole_bytes(world, &session, all, SNAPSHOTS - 1);
    assert_true(less >= MUCH_BYTES && less < MUCH_BYTES + SLACK);
    for (size_t i = 0; i < SNAPSHOTS - 1; i++)
        MUST(world, cay_store_delete_snapshot(world->store, ids[i], &world->err));
    world_end(world, &session);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_kernel_refuses_what_is_too_much, world_setup,
                                        world_teardown),
        cmocka_unit_test_setup_teardown(usage_is_what_came_after_the_base, world_setup,
                                        world_teardown),
        cmocka_unit_test_setup_teardown(branches_count, world_setup, world_teardown),
    };
    return world_may_run(argc, argv) ? cmocka_run_group_tests_name(world_kind, tests, NULL, NULL)
                                     : WORLD_SKIPPED;
}
