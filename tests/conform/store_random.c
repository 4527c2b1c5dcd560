/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Random histories: a small tree is changed in random ways, with snapshots of both kinds, forks and
 * rollbacks in between; every snapshot must hold what the session held, and every diff must be what
 * a comparison of the trees says. Usage: conform_store_random KIND [STEPS [SEED]]
 */

#include "tests/conform/store_tree.h"
#include "tests/unit/test.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "host/store/diff_walk.h"
#include "host/store/overlay/overlay_internal.h"

enum { SNAPSHOTS_MAX = 24 };

static const char *kind;
static unsigned steps = 500;
static unsigned seed = 1;

struct point {
    char id[CAY_STORE_ID_SIZE];
    char *dump;
};

struct world {
    struct cay_store *store;
    char directory[TREE_DIRECTORY_SIZE];
    uint32_t id_base;
    char session[CAY_STORE_ID_SIZE];
    int root_fd;
    struct point points[SNAPSHOTS_MAX];
    size_t count;
    struct cay_error err;
};

static void must(struct world *world, bool ok, const char *what)
{
    if (!ok)
        fail_msg("%s: %s", what, world->err.text);
}

static unsigned dice(unsigned sides)
{
    seed = seed * 1103515245u + 12345u;
    return (seed >> 12) % sides;
}

/* Few names, so that everything happens to every one of them. */
static void random_path(char out[static 64])
{
    static const char *const names[] = {"a", "b", "c", "d", "bad\n\xff"};
    size_t len = 0;
    for (unsigned i = 0, parts = 1 + dice(4); i < parts; i++)
        len += (size_t)snprintf(out + len, 64 - len, "%s%s", i ? "/" : "",
                                names[dice(CAY_COUNT(names))]);
}

static void write_random(int root_fd, const char *path, int flags)
{
    int fd = openat(root_fd, path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | flags,
                    0644);
    if (fd < 0)
        return;
    char text[32];
    int len = snprintf(text, sizeof(text), "%u", dice(1000));
    if (dice(8) == 0)
        (void)!pwrite(fd, text, (size_t)len, 1 << 20);
    else
        (void)!write(fd, text, (size_t)len);
    close(fd);
}

/* What fails (no such file, not empty, into itself) changes nothing; that is fine. */
static void change(struct world *world)
{
    char path[64];
    char other[64];
    char full[128];
    int root_fd = world->root_fd;
    random_path(path);
    random_path(other);
    tree_enter(world->id_base);
    switch (dice(14)) {
    case 0: (void)!mkdirat(root_fd, path, 0755); break;
    case 1: (void)!mkdirat(root_fd, path, 0700); break;
    case 2: write_random(root_fd, path, O_TRUNC); break;
    case 3: write_random(root_fd, path, O_APPEND); break;
    case 4: write_random(root_fd, path, 0); break;
    case 5: (void)!unlinkat(root_fd, path, 0); break;
    case 6: (void)!unlinkat(root_fd, path, AT_REMOVEDIR); break;
    case 7: (void)!renameat(root_fd, path, root_fd, other); break;
    case 8: (void)!renameat(root_fd, other, root_fd, path); break;
    case 9: (void)!linkat(root_fd, path, root_fd, other, 0); break;
    case 10: (void)!symlinkat(other, root_fd, path); break;
    case 11: (void)!fchmodat(root_fd, path, dice(2) ? 0711 : 0640, 0); break;
    case 12: {
        snprintf(full, sizeof(full), "/proc/self/fd/%d/%s", root_fd, path);
        (void)!lsetxattr(full, "user.x", other, 1, 0);
        break;
    }
    case 13:
        (void)!fchownat(root_fd, path, world->id_base + 1000, world->id_base, AT_SYMLINK_NOFOLLOW);
        break;
    default: abort();
    }
    tree_leave();
}

static int mount_from(struct world *world, const char *snapshot,
                      char out_id[static CAY_STORE_ID_SIZE])
{
    int fd = -1;
    struct cay_store_source source = {.snapshot = snapshot};
    cay_store_new_id(out_id);
    must(world, cay_store_create(world->store, out_id, &source, &world->err), "create");
    must(world, cay_store_mount(world->store, out_id, &tree_owner, &fd, &world->err), "mount");
    return fd;
}

static void check_tree(const struct world *world, int root_fd, const struct point *point)
{
    char *dump = tree_dump(root_fd, world->id_base);
    assert_string_equal(dump, point->dump);
    free(dump);
    close(root_fd);
}

static int view(struct world *world, const struct point *point)
{
    int fd = -1;
    const struct cay_store_ref ref = {.snapshot = point->id};
    must(world, cay_store_view(world->store, &ref, &tree_owner, &fd, &world->err), "view");
    return fd;
}

/* By looking at it, or by going on from it. */
static void check_point(struct world *world, const struct point *point)
{
    if (dice(4)) {
        check_tree(world, view(world, point), point);
        return;
    }
    char id[CAY_STORE_ID_SIZE];
    check_tree(world, mount_from(world, point->id, id), point);
    must(world, cay_store_destroy(world->store, id, &world->err), "destroy");
}

static void follow(struct world *world, const struct cay_store_point *point)
{
    if (point->root_fd < 0)
        return;
    close(world->root_fd);
    world->root_fd = point->root_fd;
}

static void forget_point(struct world *world, size_t at)
{
    must(world, cay_store_delete_snapshot(world->store, world->points[at].id, &world->err),
         "delete snapshot");
    free(world->points[at].dump);
    world->points[at] = world->points[--world->count];
}

static void take(struct world *world)
{
    if (world->count == SNAPSHOTS_MAX)
        forget_point(world, dice(SNAPSHOTS_MAX));
    struct point *point = &world->points[world->count];
    struct cay_store_point result;
    cay_store_new_id(point->id);
    point->dump = tree_dump(world->root_fd, world->id_base);
    struct cay_store_snapshot_request request = {world->session, point->id,
                                                 dice(2) ? CAY_STORE_QUIET : CAY_STORE_FROZEN,
                                                 &tree_owner, false};
    must(world, cay_store_snapshot(world->store, &request, &result, &world->err), "snapshot");
    follow(world, &result);
    world->count++;
}

static void roll_back(struct world *world)
{
    const struct point *point = &world->points[dice((unsigned)world->count)];
    struct cay_store_point result;
    must(world,
         cay_store_rollback(world->store, world->session, point->id, &tree_owner, &result,
                            &world->err),
         "rollback");
    follow(world, &result);
    char *dump = tree_dump(world->root_fd, world->id_base);
    assert_string_equal(dump, point->dump);
    free(dump);
}

/* Goes on in the fork; the old session ends. */
static void move_to_fork(struct world *world)
{
    char *before = tree_dump(world->root_fd, world->id_base);
    char id[CAY_STORE_ID_SIZE];
    struct cay_store_point result;
    cay_store_new_id(id);
    struct cay_store_fork_request request = {
        world->session, id, dice(2) ? CAY_STORE_QUIET : CAY_STORE_FROZEN, &tree_owner};
    must(world, cay_store_fork(world->store, &request, &result, &world->err), "fork");
    follow(world, &result);
    close(world->root_fd);
    must(world, cay_store_destroy(world->store, world->session, &world->err), "destroy");
    memcpy(world->session, id, sizeof(id));
    must(world, cay_store_mount(world->store, id, &tree_owner, &world->root_fd, &world->err),
         "mount");
    char *after = tree_dump(world->root_fd, world->id_base);
    assert_string_equal(before, after);
    free(before);
    free(after);
}

static bool note(void *ctx, const struct cay_diff_entry *entry)
{
    cay_buf_printf(ctx, "%d %s\n", (int)entry->kind, entry->path);
    return true;
}

static void compare_diff(struct world *world)
{
    const struct point *points[2] = {&world->points[dice((unsigned)world->count)],
                                     &world->points[dice((unsigned)world->count)]};
    struct cay_diff_layer layers[2];
    for (size_t i = 0; i < 2; i++)
        layers[i] = (struct cay_diff_layer){i + 1, view(world, points[i])};
    struct cay_buf seen;
    struct cay_buf told;
    cay_buf_init(&seen, 1 << 20);
    cay_buf_init(&told, 1 << 20);
    struct cay_diff_stack stacks[2] = {{&layers[0], 1}, {&layers[1], 1}};
    struct cay_diff_request request = {.from = {.snapshot = points[0]->id},
                                       .to = {.snapshot = points[1]->id},
                                       .expand_deleted = dice(2) != 0,
                                       .visit = note};
    struct cay_diff_stats stats;
    request.ctx = &seen;
    must(world, cay_diff_walk(&stacks[0], &stacks[1], &request, &stats, &world->err), "compare");
    request.ctx = &told;
    must(world, cay_store_diff(world->store, &request, &stats, &world->err), "diff");
    cay_buf_append_byte(&seen, '\0');
    cay_buf_append_byte(&told, '\0');
    assert_string_equal(told.data, seen.data);
    cay_buf_finish(&seen);
    cay_buf_finish(&told);
    for (size_t i = 0; i < 2; i++)
        close(layers[i].fd);
}

static void start_again(struct world *world)
{
    close(world->root_fd);
    cay_store_close(world->store);
    struct cay_store_config config = {kind, world->directory};
    must(world, cay_store_open(&config, &world->store, &world->err), "open");
    must(world,
         cay_store_mount(world->store, world->session, &tree_owner, &world->root_fd, &world->err),
         "mount");
}

static void act(struct world *world)
{
    bool survives = (cay_store_caps(world->store) & CAY_STORE_PERSISTENT) != 0;
    for (unsigned i = 0, changes = dice(12); i < changes; i++)
        change(world);
    unsigned what = dice(16);
    if (what < 8 || !world->count) {
        take(world);
    } else if (what < 10) {
        roll_back(world);
    } else if (what == 10) {
        move_to_fork(world);
    } else if (what < 13) {
        compare_diff(world);
    } else if (what == 13) {
        forget_point(world, dice((unsigned)world->count));
    } else if (what == 14) {
        bool more = true;
        must(world, cay_store_collect(world->store, 1 + dice(100), &more, &world->err), "collect");
    } else if (survives) {
        start_again(world);
    }
    if (world->count)
        check_point(world, &world->points[dice((unsigned)world->count)]);
}

/* All that is left to promise: what was written stays, and compares with its base. */
static void act_without_snapshots(struct world *world)
{
    for (unsigned i = 0, changes = dice(12); i < changes; i++)
        change(world);
    char *before = tree_dump(world->root_fd, world->id_base);
    bool more = true;
    if (dice(4) == 0)
        must(world, cay_store_collect(world->store, 1 + dice(50), &more, &world->err), "collect");
    start_again(world);
    char *after = tree_dump(world->root_fd, world->id_base);
    assert_string_equal(before, after);
    free(before);
    free(after);
    struct cay_buf told;
    cay_buf_init(&told, 1 << 20);
    struct cay_diff_stats stats;
    struct cay_diff_request request = {
        .from = {.base = "base"}, .to = {.session = world->session}, .visit = note, .ctx = &told};
    must(world, cay_store_diff(world->store, &request, &stats, &world->err), "diff");
    cay_buf_finish(&told);
}

static void random_histories_are_kept(void **)
{
    struct world *world = cay_new(struct world);
    tree_make_directory(world->directory);
    struct cay_store_config config = {kind, world->directory};
    must(world, cay_store_open(&config, &world->store, &world->err), "open");
    if (cay_store_caps(world->store) & CAY_STORE_ID_MAPPED)
        world->id_base = TREE_ID_BASE;
    struct cay_store_base_draft draft;
    must(world, cay_store_base_begin(world->store, &draft, &world->err), "begin");
    tree_mkdir(draft.root_fd, "a", 0755);
    tree_mkdir(draft.root_fd, "a/b", 0755);
    tree_mkdir(draft.root_fd, "a/b/c", 0755);
    tree_write(draft.root_fd, "a/b/c/d", "deep");
    tree_mkdir(draft.root_fd, "b", 0755);
    tree_write(draft.root_fd, "b/a", "file");
    tree_write(draft.root_fd, "c", "top");
    must(world, cay_store_base_commit(world->store, &draft, "base", &world->err), "commit");
    struct cay_store_source source = {.base = "base"};
    cay_store_new_id(world->session);
    must(world, cay_store_create(world->store, world->session, &source, &world->err), "create");
    must(world,
         cay_store_mount(world->store, world->session, &tree_owner, &world->root_fd, &world->err),
         "mount");
    bool has_snapshots = tree_has_snapshots(world->store);
    for (unsigned i = 0; i < steps; i++)
        (has_snapshots ? act : act_without_snapshots)(world);
    for (size_t i = 0; i < world->count; i++)
        check_point(world, &world->points[i]);
    while (world->count)
        forget_point(world, 0);
    close(world->root_fd);
    tree_empty_store(world->store);
    cay_store_close(world->store);
    tree_remove_directory(world->directory);
    free(world);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_histories_are_kept)};
    if (geteuid() != 0) {
        print_message("skipped: the stores need root\n");
        return 77;
    }
    assert(argc >= 2);
    kind = argv[1];
    if (!strcmp(kind, "overlay-flat")) {
        kind = "overlay";
        ov_flatten_depth = 4; /* else no history here is deep enough */
    }
    if (getenv("CAY_TEST_FULL"))
        steps = 10'000;
    if (argc > 2)
        steps = (unsigned)strtoul(argv[2], NULL, 10);
    if (argc > 3)
        seed = (unsigned)strtoul(argv[3], NULL, 10);
    print_message("%u steps, seed %u\n", steps, seed);
    return cmocka_run_group_tests_name(kind, tests, NULL, NULL);
}
