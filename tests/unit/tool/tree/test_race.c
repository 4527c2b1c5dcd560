/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/tool/world.h"

#include <pthread.h>
#include <sys/syscall.h>

#include "base/clock.h"

/*
 * Threads play the hostile program in the sandbox: as fast as they can they swap a directory for a
 * link to the outside, a file for a link to the secret, and a file for a fifo. Meanwhile each verb
 * is called over and over. Whatever it answers, no byte of the secret may come out, nothing outside
 * may change, and no call may hang.
 */

enum { SWAP = 2 /* RENAME_EXCHANGE */ };

struct race {
    struct world *world;
    bool stop;
    int64_t swaps;
};

static int64_t duration_ms(void)
{
    const char *full = getenv("CAY_TEST_FULL");
    return full && *full == '1' ? 10'000 : 2'000;
}

static void *swap_for_ever(void *data)
{
    struct race *race = data;
    int fd = open(race->world->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    static const char *const pairs[][2] = {{"workspace/d", "workspace/d_link"},
                                           {"workspace/d/f", "workspace/f_link"},
                                           {"workspace/g", "workspace/g_fifo"},
                                           {"workspace/t", "workspace/t_link"},
                                           {"workspace", "workspace_link"}};
    for (size_t i = 0; !__atomic_load_n(&race->stop, __ATOMIC_RELAXED); i++) {
        const char *const *pair = pairs[i % CAY_COUNT(pairs)];
        syscall(SYS_renameat2, fd, pair[0], fd, pair[1], SWAP);
        __atomic_fetch_add(&race->swaps, 1, __ATOMIC_RELAXED);
    }
    close(fd);
    return NULL;
}

/* Every link leads to the directory that holds the secret, or to the secret. */
static void prepare(struct world *world)
{
    char full[600];
    char secret[400];
    snprintf(secret, sizeof(secret), "%s/secret", world->outer);
    world_mkdir(world, "/workspace/d");
    world_put(world, "/workspace/d/f", "plain\n");
    world_put(world, "/workspace/d/secret", "plain\n");
    world_put(world, "/workspace/g", "plain\n");
    world_mkdir(world, "/workspace/t");
    world_put(world, "/workspace/t/x", "plain\n");
    const char *const links[][2] = {{"/workspace/d_link", world->outer},
                                    {"/workspace/f_link", secret},
                                    {"/workspace/t_link", "../.."},
                                    {"/workspace_link", ".."}};
    for (size_t i = 0; i < CAY_COUNT(links); i++) {
        world_path(world, links[i][0], full);
        assert_int_equal(symlink(links[i][1], full), 0);
    }
    world_path(world, "/workspace/g_fifo", full);
    assert_int_equal(mkfifo(full, 0666), 0);
}

static void race_tools(struct world *world)
{
    static const char *const calls[][2] = {
        {"read_file", "{\"path\":\"d/f\"}"},
        {"read_file", "{\"path\":\"d/secret\"}"},
        {"read_file", "{\"path\":\"/workspace/t/secret\"}"},
        {"read_file", "{\"path\":\"g\"}"},
        {"write_file", "{\"path\":\"d/f\",\"content\":\"mine\"}"},
        {"write_file", "{\"path\":\"d/secret\",\"content\":\"mine\"}"},
        {"write_file", "{\"path\":\"t/new/deep\",\"content\":\"mine\"}"},
        {"write_file", "{\"path\":\"g\",\"content\":\"mine\"}"},
        {"edit_file", "{\"path\":\"d/f\",\"old_string\":\"mine\",\"new_string\":\"ours\"}"},
        {"edit_file", "{\"path\":\"d/secret\",\"old_string\":\"TOP\",\"new_string\":\"NOT\"}"},
        {"list_dir", "{\"path\":\"d\",\"depth\":3}"},
        {"grep", "{\"pattern\":\"[A-Z]\",\"path\":\"/\",\"exclude\":\"etc\"}"},
        {"grep", "{\"pattern\":\"SECRET\",\"path\":\"d\"}"},
        {"glob", "{\"pattern\":\"**/*\",\"path\":\"/\"}"},
    };
    for (size_t i = 0; i < CAY_COUNT(calls); i++)
        world_run_limited(world, calls[i][0], calls[i][1], 0); /* looks for the secret itself */
}

static void race_files(struct world *world)
{
    struct cay_tool_tree *tree = &world->tree;
    struct cay_arena *arena = &world->arena;
    struct cay_error *err = &world->err;
    struct cay_v1_file_info info;
    struct cay_v1_list_dir_response listed;
    struct cay_v1_make_dir_response made;
    struct cay_v1_move_file_response moved;
    struct cay_v1_write_file_response written;
    int64_t removed = 0;
    int fd = -1;
    if (cay_files_stat(tree, CAY_STR("d/secret"), true, arena, &info, err))
        assert_int_not_equal(info.size, strlen("TOP SECRET\n"));
    (void)cay_files_list(tree, &(struct cay_v1_list_dir_request){.path = CAY_STR("."), .depth = 9},
                         arena, &listed, err);
    (void)cay_files_make_dir(
        tree, &(struct cay_v1_make_dir_request){.path = CAY_STR("d/m/n"), .create_parents = true},
        arena, &made, err);
    (void)cay_files_move(tree,
                         &(struct cay_v1_move_file_request){.source = CAY_STR("d/secret"),
                                                            .destination = CAY_STR("t/secret")},
                         arena, &moved, err);
    (void)cay_files_move(tree,
                         &(struct cay_v1_move_file_request){.source = CAY_STR("t/secret"),
                                                            .destination = CAY_STR("d/secret")},
                         arena, &moved, err);
    if (cay_files_open(tree, CAY_STR("d/f"), arena, NULL, &fd, err)) {
        char text[64] = "";
        assert_true(read(fd, text, sizeof(text) - 1) >= 0);
        assert_null(strstr(text, "SECRET"));
        close(fd);
    }
    struct cay_write write;
    if (cay_files_write_open(tree, CAY_STR("d/secret"), &(struct cay_write_options){.size = -1},
                             &write, err)) {
        assert_true(cay_write_data(&write, CAY_STR("mine"), err));
        (void)cay_files_write_commit(tree, CAY_STR("d/secret"), &write, arena, &written, err);
    }
    (void)cay_files_remove(tree, CAY_STR("d/m"), true, true, &removed, err);
    (void)cay_files_remove(tree, CAY_STR("t/new"), true, true, &removed, err);
}

static void nothing_gets_out_while_links_are_swapped(void **state)
{
    struct world *world = *state;
    prepare(world);
    struct race race = {.world = world};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, swap_for_ever, &race), 0);
    int64_t end = cay_clock_ms() + duration_ms();
    int64_t rounds = 0;
    for (; cay_clock_ms() < end; rounds++) {
        int64_t start = cay_clock_ms();
        race_tools(world);
        race_files(world);
        assert_true(cay_clock_ms() - start < 20'000);
        cay_arena_finish(&world->arena);
        cay_arena_init(&world->arena, WORLD_ARENA_BYTES);
    }
    __atomic_store_n(&race.stop, true, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    print_message("%lld rounds, %lld swaps\n", (long long)rounds, (long long)race.swaps);
    assert_true(rounds > 0 && race.swaps > 100);
    /* Outside is as it was: the secret, the root and nothing else. */
    char path[400];
    snprintf(path, sizeof(path), "%s/secret", world->outer);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char text[64] = "";
    assert_int_equal(read(fd, text, sizeof(text)), strlen("TOP SECRET\n"));
    assert_string_equal(text, "TOP SECRET\n");
    close(fd);
    fd = open(world->outer, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct cay_tool_tree outer = {.root_fd = fd, .uid = geteuid(), .gid = getegid()};
    struct cay_v1_list_dir_response listed;
    assert_true(cay_files_list(&outer, &(struct cay_v1_list_dir_request){.path = CAY_STR("/")},
                               &world->arena, &listed, &world->err));
    assert_int_equal(listed.entries.count, 2);
    close(fd);
}

/* A tree is moved to another place while it is being removed: what is there is not touched. */
static void *move_for_ever(void *data)
{
    struct race *race = data;
    int fd = open(race->world->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    while (!__atomic_load_n(&race->stop, __ATOMIC_RELAXED)) {
        (void)renameat(fd, "workspace/r/a/b", fd, "workspace/safe/b");
        (void)renameat(fd, "workspace/safe/b", fd, "workspace/r/a/b");
        __atomic_fetch_add(&race->swaps, 1, __ATOMIC_RELAXED);
    }
    close(fd);
    return NULL;
}

static void a_removal_never_strays_from_its_tree(void **state)
{
    struct world *world = *state;
    world_mkdir(world, "/workspace/safe");
    world_put(world, "/workspace/safe/precious", "precious");
    struct race race = {.world = world};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, move_for_ever, &race), 0);
    int64_t end = cay_clock_ms() + duration_ms() / 2;
    while (cay_clock_ms() < end) {
        char full[600];
        for (const char *const *dir =
                 (const char *const[]){"/workspace/r", "/workspace/r/a", "/workspace/r/a/b",
                                       "/workspace/r/a/b/c", "/workspace/r/a/b/c/d", NULL};
             *dir; dir++) {
            world_path(world, *dir, full);
            if (mkdir(full, 0777) == 0)
                (void)chmod(full, 0777);
        }
        int64_t removed = 0;
        (void)cay_files_remove(&world->tree, CAY_STR("r"), true, true, &removed, &world->err);
        assert_file(world, "/workspace/safe/precious", "precious");
    }
    __atomic_store_n(&race.stop, true, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(nothing_gets_out_while_links_are_swapped),
        world_test(a_removal_never_strays_from_its_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
