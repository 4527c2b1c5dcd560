/* SPDX-License-Identifier: Apache-2.0 */

/* What is the overlay store's own: depth, both ways of mounting, the lock, space, threads. */

#include "tests/conform/store_tree.h"
#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/store/dir_list.h"
#include "host/store/overlay/overlay_internal.h"
#include "sys/layer_mount.h"
#include "sys/remove.h"
#include "sys/userns.h"

struct world {
    struct cay_store *store;
    char directory[64];
    struct cay_error err;
};

static void add_base(struct world *world)
{
    struct cay_store_base_draft draft;
    assert_true(cay_store_base_begin(world->store, &draft, &world->err));
    tree_fill_base(draft.root_fd);
    assert_true(cay_store_base_commit(world->store, &draft, "base", &world->err));
}

static int setup(void **state)
{
    struct world *world = cay_new(struct world);
    snprintf(world->directory, sizeof(world->directory), "/tmp/cay-overlay-XXXXXX");
    if (!mkdtemp(world->directory))
        return -1;
    struct cay_store_config config = {"overlay", world->directory};
    assert_true(cay_store_open(&config, &world->store, &world->err));
    add_base(world);
    *state = world;
    return 0;
}

static int teardown(void **state)
{
    struct world *world = *state;
    cay_store_close(world->store);
    int tmp_fd = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_return_code(cay_remove_tree(tmp_fd, world->directory + strlen("/tmp/"), NULL), 0);
    close(tmp_fd);
    free(world);
    return 0;
}

static size_t count_in(struct world *world, const char *name)
{
    char path[96];
    snprintf(path, sizeof(path), "%s/%s", world->directory, name);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct cay_dir_list names = {};
    assert_return_code(cay_dir_list_read(&names, fd), 0);
    size_t count = names.count;
    cay_dir_list_finish(&names);
    close(fd);
    return count;
}

static void collect_all(struct world *world)
{
    bool more = true;
    while (more)
        assert_true(cay_store_collect(world->store, 50, &more, &world->err));
}

static int start(struct world *world, char id[static CAY_STORE_ID_SIZE])
{
    struct cay_store_source source = {.base = "base"};
    int fd = -1;
    cay_store_new_id(id);
    assert_true(cay_store_create(world->store, id, &source, &world->err));
    assert_true(cay_store_mount(world->store, id, &tree_owner, &fd, &world->err));
    return fd;
}

static int take(struct world *world, const char *session, int root_fd,
                char out_id[static CAY_STORE_ID_SIZE])
{
    struct cay_store_point point;
    cay_store_new_id(out_id);
    struct cay_store_snapshot_request request = {session, out_id, CAY_STORE_QUIET, &tree_owner,
                                                 false};
    if (!cay_store_snapshot(world->store, &request, &point, &world->err))
        fail_msg("%s", world->err.text);
    if (point.root_fd < 0)
        return root_fd;
    close(root_fd);
    return point.root_fd;
}

static void a_hundred_and_fifty_turns_stack_up(void **state)
{
    struct world *world = *state;
    enum { TURNS = 150 };
    char session[CAY_STORE_ID_SIZE];
    char turns[TURNS][CAY_STORE_ID_SIZE];
    int fd = start(world, session);
    for (int i = 0; i < TURNS; i++) {
        char path[48];
        snprintf(path, sizeof(path), "workspace/turn-%d", i);
        tree_enter(TREE_ID_BASE);
        tree_write(fd, path, path);
        tree_write(fd, "workspace/last", path);
        tree_leave();
        fd = take(world, session, fd, turns[i]);
    }
    char *text = tree_read(fd, "workspace/turn-0");
    assert_string_equal(text, "workspace/turn-0");
    free(text);
    struct cay_store_point point;
    assert_true(
        cay_store_rollback(world->store, session, turns[70], &tree_owner, &point, &world->err));
    close(fd);
    fd = point.root_fd;
    text = tree_read(fd, "workspace/last");
    assert_string_equal(text, "workspace/turn-70");
    free(text);
    assert_null(tree_read(fd, "workspace/turn-71"));
    close(fd);
    /* Layers go when the last that needs them goes, not before. */
    for (int i = 0; i < TURNS; i++)
        assert_true(cay_store_delete_snapshot(world->store, turns[i], &world->err));
    collect_all(world);
    assert_int_equal(count_in(world, "l"), 1 + 71 + 1 + 1); /* the last is their flat form */
    assert_true(cay_store_mount(world->store, session, &tree_owner, &fd, &world->err));
    text = tree_read(fd, "workspace/last");
    assert_string_equal(text, "workspace/turn-70");
    free(text);
    close(fd);
    assert_true(cay_store_destroy(world->store, session, &world->err));
    collect_all(world);
    assert_int_equal(count_in(world, "l"), 1);
    assert_int_equal(count_in(world, "t"), 0);
    assert_int_equal(count_in(world, "s"), 0);
}

static void move_about(int fd, int turn)
{
    char path[48];
    char old[48];
    char name[48];
    tree_enter(TREE_ID_BASE);
    snprintf(path, sizeof(path), "workspace/turn-%d", turn);
    tree_write(fd, path, path);
    snprintf(path, sizeof(path), "workspace/turn-%d", turn - 3);
    (void)unlinkat(fd, path, 0);
    snprintf(old, sizeof(old), turn ? "workspace/dir-%d" : "usr", turn - 1);
    snprintf(name, sizeof(name), "workspace/dir-%d", turn);
    assert_return_code(renameat(fd, old, fd, name), errno);
    snprintf(path, sizeof(path), "workspace/dir-%d/lib/file-%02d", turn, turn % 50);
    (void)unlinkat(fd, path, 0);
    tree_leave();
}

static void deep_histories_are_made_flat(void **state)
{
    struct world *world = *state;
    enum { TURNS = 60, DEPTH = 8 };
    char session[CAY_STORE_ID_SIZE];
    char turns[TURNS][CAY_STORE_ID_SIZE];
    char *dumps[TURNS];
    uint32_t usual = ov_flatten_depth;
    ov_flatten_depth = DEPTH;
    int fd = start(world, session);
    for (int i = 0; i < TURNS; i++) {
        move_about(fd, i);
        dumps[i] = tree_dump(fd, TREE_ID_BASE);
        fd = take(world, session, fd, turns[i]);
        char *after = tree_dump(fd, TREE_ID_BASE);
        assert_string_equal(after, dumps[i]);
        free(after);
        collect_all(world);
        struct cay_store_usage usage;
        struct cay_store_ref ref = {.session = session};
        assert_true(cay_store_usage(world->store, &ref, &usage, &world->err));
        assert_in_range(usage.layers, 2, DEPTH + 2);
    }
    close(fd);
    for (int i = 0; i < TURNS; i++) {
        const struct cay_store_ref ref = {.snapshot = turns[i]};
        assert_true(cay_store_view(world->store, &ref, NULL, &fd, &world->err));
        char *dump = tree_dump(fd, 0);
        assert_string_equal(dump, dumps[i]);
        close(fd);
        free(dump);
        free(dumps[i]);
        assert_true(cay_store_delete_snapshot(world->store, turns[i], &world->err));
    }
    assert_true(cay_store_destroy(world->store, session, &world->err));
    collect_all(world);
    assert_int_equal(count_in(world, "l"), 1);
    ov_flatten_depth = usual;
}

/* Kernels before 6.15 take no descriptors of detached mounts. */
static void both_ways_of_mounting_show_the_same(void **)
{
    char directory[] = "/tmp/cay-mount-XXXXXX";
    assert_non_null(mkdtemp(directory));
    int top = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    tree_mkdir(top, "l", 0700);
    int layers = openat(top, "l", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum { LOWER = 120 };
    static char paths[LOWER][24];
    const char *lower[LOWER];
    for (int i = 0; i < LOWER; i++) {
        snprintf(paths[i], sizeof(paths[i]), "%016x", (unsigned)i + 1);
        tree_mkdir(layers, paths[i], 0700);
        snprintf(paths[i], sizeof(paths[i]), "%016x/d", (unsigned)i + 1);
        tree_mkdir(layers, paths[i], 0755);
        char file[40];
        snprintf(file, sizeof(file), "%s/f%d", paths[i], i);
        tree_write(layers, file, "x");
        lower[i] = paths[i];
    }
    int userns = cay_userns_open(TREE_ID_BASE, TREE_ID_COUNT);
    assert_true(userns >= 0);
    char *dumps[2] = {};
    for (int way = CAY_LAYER_BY_FD; way <= CAY_LAYER_BY_PATH; way++) {
        char upper[8];
        char tree[16];
        char work[16];
        snprintf(upper, sizeof(upper), "u%d", way);
        snprintf(tree, sizeof(tree), "%s/d", upper);
        snprintf(work, sizeof(work), "%s/w", upper);
        tree_mkdir(layers, upper, 0700);
        tree_mkdir(layers, tree, 0755);
        tree_mkdir(layers, work, 0700);
        struct timespec times[2] = {{1, 0}, {1, 0}};
        assert_return_code(utimensat(layers, tree, times, 0), errno);
        struct cay_layer_stack stack = {layers, lower, LOWER, tree, work, userns, TREE_ID_BASE};
        int fd = cay_layer_mount(&stack, (enum cay_layer_way)way);
        if (fd == -EINVAL && way == CAY_LAYER_BY_FD) {
            print_message("this kernel takes no descriptors as layers\n");
            continue;
        }
        assert_true(fd >= 0);
        dumps[way - 1] = tree_dump(fd, TREE_ID_BASE);
        tree_enter(TREE_ID_BASE);
        tree_append(fd, "f0", "written");
        tree_leave();
        char *text = tree_read(fd, "f0");
        assert_string_equal(text, "xwritten");
        free(text);
        close(fd);
    }
    assert_non_null(dumps[1]);
    if (dumps[0])
        assert_string_equal(dumps[0], dumps[1]);
    free(dumps[0]);
    free(dumps[1]);
    close(userns);
    close(layers);
    close(top);
    int tmp_fd = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_return_code(cay_remove_tree(tmp_fd, directory + strlen("/tmp/"), NULL), 0);
    close(tmp_fd);
}

static void a_second_daemon_is_kept_out(void **state)
{
    struct world *world = *state;
    struct cay_store *second = NULL;
    struct cay_store_config config = {"overlay", world->directory};
    assert_false(cay_store_open(&config, &second, &world->err));
    assert_int_equal(world->err.reason, CAY_R_UNAVAILABLE);
}

static void a_directory_of_another_format_is_refused(void **state)
{
    struct world *world = *state;
    cay_store_close(world->store);
    int fd = open(world->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_return_code(unlinkat(fd, "format", 0), errno);
    assert_return_code(symlinkat("overlay 99", fd, "format"), errno);
    struct cay_store_config config = {"overlay", world->directory};
    assert_false(cay_store_open(&config, &world->store, &world->err));
    assert_int_equal(world->err.reason, CAY_R_NOT_SUPPORTED);
    assert_return_code(unlinkat(fd, "format", 0), errno);
    close(fd);
    assert_true(cay_store_open(&config, &world->store, &world->err));
}

static void nobody_else_may_look_into_the_store(void **state)
{
    struct world *world = *state;
    struct stat st;
    assert_return_code(stat(world->directory, &st), errno);
    assert_int_equal(st.st_mode & 07777, 0700);
}

static void a_restarted_daemon_mounts_what_was_there(void **state)
{
    struct world *world = *state;
    char session[CAY_STORE_ID_SIZE];
    char turn[CAY_STORE_ID_SIZE];
    int fd = start(world, session);
    tree_change(fd, 0, TREE_ID_BASE);
    fd = take(world, session, fd, turn);
    tree_change(fd, 1, TREE_ID_BASE);
    char *before = tree_dump(fd, TREE_ID_BASE);
    close(fd);
    cay_store_close(world->store);
    struct cay_store_config config = {"overlay", world->directory};
    assert_true(cay_store_open(&config, &world->store, &world->err));
    for (int i = 0; i < 3; i++) {
        assert_true(cay_store_mount(world->store, session, &tree_owner, &fd, &world->err));
        char *after = tree_dump(fd, TREE_ID_BASE);
        assert_string_equal(before, after);
        free(after);
        close(fd);
    }
    free(before);
}

static void usage_counts_what_the_session_wrote(void **state)
{
    struct world *world = *state;
    char session[CAY_STORE_ID_SIZE];
    char turn[CAY_STORE_ID_SIZE];
    int fd = start(world, session);
    struct cay_store_usage usage;
    struct cay_store_ref ref = {.session = session};
    assert_true(cay_store_usage(world->store, &ref, &usage, &world->err));
    assert_int_equal(usage.own_bytes, 0);
    assert_int_equal(usage.layers, 2);
    assert_true(usage.fs_free_bytes > 0 && usage.fs_total_bytes > usage.fs_free_bytes);
    char *large = cay_alloc(60'001);
    memset(large, 'x', 60'000);
    tree_enter(TREE_ID_BASE);
    tree_write(fd, "workspace/large", large);
    tree_leave();
    assert_true(cay_store_usage(world->store, &ref, &usage, &world->err));
    assert_in_range(usage.own_bytes, 60'000, 100'000);
    assert_int_equal(usage.entries, 2);
    fd = take(world, session, fd, turn);
    assert_true(cay_store_usage(world->store, &ref, &usage, &world->err));
    assert_int_equal(usage.own_bytes, 0);
    assert_in_range(usage.history_bytes, 60'000, 100'000);
    free(large);
    close(fd);
}

static void *churn(void *arg)
{
    struct world *world = arg;
    struct cay_error err;
    for (int i = 0; i < 15; i++) {
        char session[CAY_STORE_ID_SIZE];
        char turn[CAY_STORE_ID_SIZE];
        struct cay_store_source source = {.base = "base"};
        struct cay_store_point point;
        bool more = false;
        cay_store_new_id(session);
        cay_store_new_id(turn);
        struct cay_store_snapshot_request request = {session, turn, CAY_STORE_FROZEN, NULL, false};
        if (!cay_store_create(world->store, session, &source, &err) ||
            !cay_store_snapshot(world->store, &request, &point, &err) ||
            !cay_store_rollback(world->store, session, turn, NULL, &point, &err) ||
            !cay_store_collect(world->store, 20, &more, &err) ||
            !cay_store_destroy(world->store, session, &err) ||
            !cay_store_delete_snapshot(world->store, turn, &err))
            return arg;
    }
    return NULL;
}

static void sessions_on_many_threads_do_not_disturb_each_other(void **state)
{
    struct world *world = *state;
    pthread_t threads[8];
    for (size_t i = 0; i < CAY_COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn, world), 0);
    for (size_t i = 0; i < CAY_COUNT(threads); i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    collect_all(world);
    assert_int_equal(count_in(world, "l"), 1);
    assert_int_equal(count_in(world, "t"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_hundred_and_fifty_turns_stack_up, setup, teardown),
        cmocka_unit_test_setup_teardown(deep_histories_are_made_flat, setup, teardown),
        cmocka_unit_test(both_ways_of_mounting_show_the_same),
        cmocka_unit_test_setup_teardown(a_second_daemon_is_kept_out, setup, teardown),
        cmocka_unit_test_setup_teardown(a_directory_of_another_format_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(nobody_else_may_look_into_the_store, setup, teardown),
        cmocka_unit_test_setup_teardown(a_restarted_daemon_mounts_what_was_there, setup, teardown),
        cmocka_unit_test_setup_teardown(usage_counts_what_the_session_wrote, setup, teardown),
        cmocka_unit_test_setup_teardown(sessions_on_many_threads_do_not_disturb_each_other, setup,
                                        teardown),
    };
    if (geteuid() != 0) {
        print_message("skipped: the overlay store needs root\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
