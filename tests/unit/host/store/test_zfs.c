/* SPDX-License-Identifier: Apache-2.0 */

/* What the zfs store leaves in the pool, seen from outside. Runs on a zfs of its own, see on_store.
 */

#include "tests/conform/store_world.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "host/store/record.h"
#include "host/store/zfs/zfs_internal.h"
#include "sys/run.h"

enum { ROOT_SIZE = 256, LIST_BYTES_MAX = 64 * 1024 };

static unsigned seed = 1;

static unsigned dice(unsigned sides)
{
    seed = seed * 1103515245u + 12345u;
    return (seed >> 12) % sides;
}

static char *zfs(const char *const *argv)
{
    struct cay_buf text;
    cay_buf_init(&text, LIST_BYTES_MAX);
    const struct cay_program run = {.argv = argv, .timeout_ms = 60'000, .out = &text};
    int status = cay_run(&run);
    cay_buf_append_byte(&text, '\0');
    if (status != 0)
        fail_msg("zfs %s: %s", argv[1], text.data);
    return text.data;
}

static void read_root(const struct world *world, char out[static ROOT_SIZE])
{
    cay_autoclose int fd = open(world->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_return_code(cay_record_read(fd, "dataset", out, ROOT_SIZE), 0);
}

/* All datasets and snapshots below the store's, one a line. */
static char *list_pool(const struct world *world)
{
    char root[ROOT_SIZE];
    read_root(world, root);
    return zfs((const char *[]){"zfs", "list", "-H", "-r", "-t", "filesystem,snapshot", "-o",
                                "name", root, NULL});
}

static void start_again(struct world *world)
{
    const struct cay_store_config config = {world_kind, world->directory};
    cay_store_close(world->store);
    MUST(world, cay_store_open(&config, &world->store, &world->err));
}

/* As one that dies between the two steps of a clone leaves it. */
static void a_snapshot_that_nobody_was_cloned_from_goes(void **state)
{
    struct world *world = *state;
    struct session session = world_from_base(world);
    char snapshot[ROOT_SIZE];
    cay_autofree char *before = list_pool(world);
    char *last = strrchr(before, '/');
    assert_non_null(last);
    last[strcspn(last, "@\n")] = '\0';
    const char *line = memrchr(before, '\n', (size_t)(last - before));
    snprintf(snapshot, sizeof(snapshot), "%s@0123456789abcdef", line ? line + 1 : before);
    free(zfs((const char *[]){"zfs", "snapshot", snapshot, NULL}));
    cay_autofree char *between = list_pool(world);
    assert_non_null(strstr(between, snapshot));
    close(session.root_fd);
    start_again(world);
    cay_autofree char *after = list_pool(world);
    assert_null(strstr(after, snapshot));
    MUST(world,
         cay_store_mount(world->store, session.id, &tree_owner, &session.root_fd, &world->err));
    world_end(world, &session);
}

struct point {
    char id[CAY_STORE_ID_SIZE];
    char *dump;
};

static void check_and_delete(struct world *world, struct point *point)
{
    struct session session = world_session(world, (struct cay_store_source){.snapshot = point->id});
    char *dump = tree_dump(session.root_fd, world->id_base);
    assert_string_equal(dump, point->dump);
    free(dump);
    free(point->dump);
    world_end(world, &session);
    MUST(world, cay_store_delete_snapshot(world->store, point->id, &world->err));
    if (dice(2))
        world_collect(world);
    if (dice(4) == 0)
        start_again(world);
}

/* A history with branches is taken down, from any end, and so are the trees that stand on others.
 */
static void whatever_goes_first_nothing_stays(void **state)
{
    enum { TURNS = 8 };
    struct world *world = *state;
    struct session session = world_from_base(world);
    struct point points[TURNS];
    for (int i = 0; i < TURNS; i++) {
        char name[16];
        snprintf(name, sizeof(name), "turn-%d", i);
        tree_enter(world->id_base);
        tree_write(session.root_fd, name, name);
        tree_leave();
        points[i].dump = tree_dump(session.root_fd, world->id_base);
        (void)world_take(world, &session, CAY_STORE_QUIET, points[i].id);
        if (i % 3 == 2) {
            struct cay_store_point result;
            const char *to = points[dice((unsigned)i)].id;
            MUST(world, cay_store_rollback(world->store, session.id, to, &tree_owner, &result,
                                           &world->err));
            world_follow(&session, &result);
        }
    }
    world_end(world, &session);
    for (size_t left = TURNS; left; left--) {
        size_t at = dice((unsigned)left);
        struct point point = points[at];
        points[at] = points[left - 1];
        check_and_delete(world, &point);
    }
    MUST(world, cay_store_base_remove(world->store, "base", &world->err));
    world_collect(world);
    char root[ROOT_SIZE];
    read_root(world, root);
    cay_autofree char *after = list_pool(world);
    cay_autofree char *wanted = cay_asprintf("%s\n", root);
    assert_string_equal(after, wanted);
}

static void health_is_what_zpool_says(void **state)
{
    static const struct {
        const char *text;
        enum cay_store_health health;
    } cases[] = {
        {"ONLINE\n", CAY_STORE_ONLINE},         {"DEGRADED\n", CAY_STORE_DEGRADED},
        {"FAULTED\n", CAY_STORE_FAULTED},       {"OFFLINE\n", CAY_STORE_OFFLINE},
        {"UNAVAIL\n", CAY_STORE_UNAVAIL},       {"REMOVED\n", CAY_STORE_REMOVED},
        {"SUSPENDED\n", CAY_STORE_FAULTED},     {"", CAY_STORE_HEALTH_UNKNOWN},
        {"online\n", CAY_STORE_HEALTH_UNKNOWN}, {"ONLINE?\n", CAY_STORE_HEALTH_UNKNOWN},
    };
    struct world *world = *state;
    enum cay_store_health now = CAY_STORE_HEALTH_UNKNOWN;
    for (size_t i = 0; i < CAY_COUNT(cases); i++)
        assert_int_equal(zfs_read_health(cay_str(cases[i].text)), cases[i].health);
    MUST(world, cay_store_health(world->store, &now, &world->err));
    assert_int_equal(now, CAY_STORE_ONLINE);
    assert_false(zfs_pool_health("no-such-pool/dataset", &now, &world->err));
    assert_int_equal(world->err.reason, CAY_R_STORE_FAILED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_snapshot_that_nobody_was_cloned_from_goes, world_setup,
                                        world_teardown),
        cmocka_unit_test_setup_teardown(whatever_goes_first_nothing_stays, world_setup,
                                        world_teardown),
        cmocka_unit_test_setup_teardown(health_is_what_zpool_says, world_setup, world_teardown),
    };
    world_kind = "zfs";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
