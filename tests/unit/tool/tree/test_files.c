/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/tool/world.h"

#include <dirent.h>
#include <sys/socket.h>
#include <sys/un.h>

static void assert_reason(const struct world *world, bool done, enum cay_reason reason)
{
    assert_false(done);
    if (world->err.reason != reason)
        fail_msg("expected %s, found %s: %s", cay_reason_info(reason)->name,
                 cay_reason_info(world->err.reason)->name, world->err.text);
}

static struct cay_v1_file_info stat_of(struct world *world, const char *path, bool follow)
{
    struct cay_v1_file_info info = {};
    if (!cay_files_stat(&world->tree, cay_str(path), follow, &world->arena, &info, &world->err))
        fail_msg("%s: %s", path, world->err.text);
    return info;
}

static void assert_str(struct cay_str text, const char *expected)
{
    if (!cay_str_is(text, expected))
        fail_msg("expected '%s', found '%.*s'", expected, (int)text.len, text.ptr);
}

static void stat_says_what_is_there(void **state)
{
    struct world *world = *state;
    char full[600];
    world_put(world, "/workspace/a", "12345");
    struct cay_v1_file_info info = stat_of(world, "a", false);
    assert_str(info.name, "a");
    assert_str(info.path, "/workspace/a");
    assert_int_equal(info.type, CAY_V1_FILE_TYPE_FILE);
    assert_int_equal(info.size, 5);
    assert_int_equal(info.mode, 0644);
    assert_int_equal(info.link_count, 1);
    assert_true(info.inode > 0);
    assert_true(info.modified_at->seconds > 1'600'000'000);
    if (world->is_root) {
        assert_int_equal(info.uid, WORLD_UID);
        assert_str(info.owner, "user");
        assert_str(info.group, "users");
        world_path(world, "/workspace/a", full);
        assert_int_equal(chown(full, 100000, 777), 0); /* one inside, one from elsewhere */
        info = stat_of(world, "a", false);
        assert_str(info.owner, "root");
        assert_int_equal(info.gid, CAY_TREE_ID_NOBODY);
        assert_str(info.group, "65534");
    }
    info = stat_of(world, "/", false);
    assert_int_equal(info.type, CAY_V1_FILE_TYPE_DIRECTORY);
    assert_str(info.path, "/");
    struct stat root;
    assert_int_equal(fstat(world->tree.root_fd, &root), 0);
    assert_int_equal(info.size, root.st_size);
    struct cay_v1_file_info none;
    assert_reason(
        world,
        cay_files_stat(&world->tree, CAY_STR("none"), false, &world->arena, &none, &world->err),
        CAY_R_FILE_NOT_FOUND);
    assert_reason(
        world,
        cay_files_stat(&world->tree, CAY_STR("a/b"), false, &world->arena, &none, &world->err),
        CAY_R_NOT_A_DIRECTORY);
    assert_reason(
        world, cay_files_stat(&world->tree, CAY_STR(""), false, &world->arena, &none, &world->err),
        CAY_R_INVALID_PATH);
}

static void stat_tells_links_from_where_they_lead(void **state)
{
    struct world *world = *state;
    char full[600];
    world_mkdir(world, "/workspace/d");
    const char *const links[][2] = {{"/workspace/to_d", "../workspace/./d"},
                                    {"/workspace/dangling", "/nowhere"},
                                    {"/workspace/up", "/../../.."}};
    for (size_t i = 0; i < CAY_COUNT(links); i++) {
        world_path(world, links[i][0], full);
        assert_int_equal(symlink(links[i][1], full), 0);
    }
    struct cay_v1_file_info info = stat_of(world, "to_d", false);
    assert_int_equal(info.type, CAY_V1_FILE_TYPE_SYMLINK);
    assert_str(info.symlink_target, "../workspace/./d");
    assert_str(info.resolved_path, "/workspace/d");
    assert_int_equal(info.target_type, CAY_V1_FILE_TYPE_DIRECTORY);
    assert_int_equal(stat_of(world, "to_d", true).type, CAY_V1_FILE_TYPE_DIRECTORY);
    info = stat_of(world, "dangling", false);
    assert_str(info.symlink_target, "/nowhere");
    assert_int_equal(info.resolved_path.len, 0);
    assert_str(stat_of(world, "up", false).resolved_path, "/");
}

static void every_kind_of_node_has_a_type(void **state)
{
    struct world *world = *state;
    char full[600];
    world_path(world, "/workspace/fifo", full);
    assert_int_equal(mkfifo(full, 0600), 0);
    assert_int_equal(stat_of(world, "fifo", false).type, CAY_V1_FILE_TYPE_FIFO);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int at = open(world->root, O_PATH | O_CLOEXEC);
    snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/sock", at);
    int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(sock, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(stat_of(world, "/sock", false).type, CAY_V1_FILE_TYPE_SOCKET);
    int fd = -1;
    assert_reason(
        world,
        cay_files_open(&world->tree, CAY_STR("/sock"), &world->arena, NULL, &fd, &world->err),
        CAY_R_NOT_A_REGULAR_FILE);
    close(sock);
    close(at);
    world_path(world, "/workspace/null", full);
    if (mknod(full, S_IFCHR | 0666, 0x103) == 0) {
        assert_int_equal(stat_of(world, "null", false).type, CAY_V1_FILE_TYPE_CHAR_DEVICE);
        assert_reason(
            world,
            cay_files_open(&world->tree, CAY_STR("null"), &world->arena, NULL, &fd, &world->err),
            CAY_R_NOT_A_REGULAR_FILE);
    }
}

static size_t list(struct world *world, struct cay_v1_list_dir_request request,
                   struct cay_v1_list_dir_response *out)
{
    if (!cay_files_list(&world->tree, &request, &world->arena, out, &world->err))
        fail_msg("%s", world->err.text);
    return out->entries.count;
}

static void list_goes_through_pages_without_loss(void **state)
{
    struct world *world = *state;
    static const char *const dirs[] = {"/workspace/a", "/workspace/a/a", "/workspace/b"};
    static const char *const files[] = {"/workspace/a/a/1", "/workspace/a/a/2",  "/workspace/a/z",
                                        "/workspace/a.c",   "/workspace/b/\xFF", "/workspace/c"};
    for (size_t i = 0; i < CAY_COUNT(dirs); i++)
        world_mkdir(world, dirs[i]);
    for (size_t i = 0; i < CAY_COUNT(files); i++)
        world_put(world, files[i], "");
    static const char *const expected[] = {
        "/workspace/a",   "/workspace/a/a", "/workspace/a/a/1", "/workspace/a/a/2",
        "/workspace/a/z", "/workspace/a.c", "/workspace/b",     "/workspace/b/\xEE\xBF\xBF",
        "/workspace/c"};
    for (int32_t page_size = 1; page_size <= 10; page_size++) {
        struct cay_v1_list_dir_request request = {
            .path = CAY_STR("."), .depth = 64, .page_size = page_size};
        size_t seen = 0;
        for (int page = 0; page < 20; page++) {
            struct cay_v1_list_dir_response response;
            size_t count = list(world, request, &response);
            for (size_t i = 0; i < count; i++)
                assert_str(response.entries.items[i].path, expected[seen++]);
            request.page_token = response.next_page_token;
            if (!request.page_token.len)
                break;
            assert_int_equal(count, page_size);
        }
        assert_int_equal(seen, CAY_COUNT(expected));
    }
    struct cay_v1_list_dir_response response;
    assert_int_equal(list(world, (struct cay_v1_list_dir_request){.path = CAY_STR("/")}, &response),
                     2);
    assert_int_equal(
        list(world, (struct cay_v1_list_dir_request){.path = CAY_STR("."), .depth = 2}, &response),
        7);
    struct cay_v1_list_dir_request bad[] = {{.path = CAY_STR("."), .depth = 65},
                                            {.path = CAY_STR("."), .page_size = 10001},
                                            {.path = CAY_STR("."), .page_size = -1}};
    for (size_t i = 0; i < CAY_COUNT(bad); i++)
        assert_reason(world,
                      cay_files_list(&world->tree, &bad[i], &world->arena, &response, &world->err),
                      CAY_R_INVALID_ARGUMENT);
    struct cay_v1_list_dir_request file = {.path = CAY_STR("c")};
    assert_reason(world, cay_files_list(&world->tree, &file, &world->arena, &response, &world->err),
                  CAY_R_NOT_A_DIRECTORY);
}

static void make_dir_makes_parents_when_asked(void **state)
{
    struct world *world = *state;
    struct cay_v1_make_dir_response response = {};
    struct cay_v1_make_dir_request request = {
        .path = CAY_STR("x/y/z"), .has_mode = true, .mode = 0700};
    assert_reason(world,
                  cay_files_make_dir(&world->tree, &request, &world->arena, &response, &world->err),
                  CAY_R_FILE_NOT_FOUND);
    request.create_parents = true;
    assert_true(cay_files_make_dir(&world->tree, &request, &world->arena, &response, &world->err));
    assert_true(response.created);
    assert_int_equal(response.info->mode, 0700);
    assert_int_equal(world_stat(world, "/workspace/x").st_mode & 07777, 0755);
    assert_reason(world,
                  cay_files_make_dir(&world->tree, &request, &world->arena, &response, &world->err),
                  CAY_R_FILE_EXISTS);
    request.exist_ok = true;
    assert_true(cay_files_make_dir(&world->tree, &request, &world->arena, &response, &world->err));
    assert_false(response.created);
    request.path = CAY_STR("write_only");
    request.mode = 01300;
    assert_true(cay_files_make_dir(&world->tree, &request, &world->arena, &response, &world->err));
    assert_int_equal(world_stat(world, "/workspace/write_only").st_mode & 07777, 01300);
    request.path = CAY_STR("/");
    assert_true(cay_files_make_dir(&world->tree, &request, &world->arena, &response, &world->err));
    world_put(world, "/workspace/f", "");
    request.path = CAY_STR("f");
    assert_reason(world,
                  cay_files_make_dir(&world->tree, &request, &world->arena, &response, &world->err),
                  CAY_R_FILE_EXISTS);
    request.path = CAY_STR("f/g");
    assert_reason(world,
                  cay_files_make_dir(&world->tree, &request, &world->arena, &response, &world->err),
                  CAY_R_NOT_A_DIRECTORY);
}

static bool move(struct world *world, const char *from, const char *to, bool parents, bool keep)
{
    struct cay_v1_move_file_request request = {.source = cay_str(from),
                                               .destination = cay_str(to),
                                               .create_parents = parents,
                                               .no_replace = keep};
    struct cay_v1_move_file_response response = {};
    return cay_files_move(&world->tree, &request, &world->arena, &response, &world->err);
}

static void move_renames_inside_the_tree(void **state)
{
    struct world *world = *state;
    char full[600];
    world_put(world, "/workspace/a", "a");
    world_put(world, "/workspace/b", "b");
    world_mkdir(world, "/workspace/d");
    world_put(world, "/workspace/d/in", "");
    assert_reason(world, move(world, "a", "b", false, true), CAY_R_FILE_EXISTS);
    assert_true(move(world, "a", "b", false, false));
    assert_file(world, "/workspace/b", "a");
    assert_false(world_exists(world, "/workspace/a"));
    assert_reason(world, move(world, "b", "n/b", false, false), CAY_R_FILE_NOT_FOUND);
    assert_true(move(world, "b", "n/b", true, false));
    assert_true(move(world, "d", "e/", false, true));
    assert_reason(world, move(world, "none", "x", false, false), CAY_R_FILE_NOT_FOUND);
    assert_reason(world, move(world, "e", "e/f", false, false), CAY_R_INVALID_PATH);
    assert_reason(world, move(world, "/", "x", false, false), CAY_R_INVALID_PATH);
    assert_reason(world, move(world, "n/b", "e", false, false), CAY_R_IS_A_DIRECTORY);
    assert_reason(world, move(world, "n", "e", false, false), CAY_R_FAILED_PRECONDITION);
    assert_reason(world, move(world, "n/b", "q/", false, false), CAY_R_NOT_A_DIRECTORY);
    /* A link itself is moved, and "outside" is inside. */
    world_path(world, "/workspace/link", full);
    assert_int_equal(symlink("../../secret", full), 0);
    assert_true(move(world, "link", "/../../../workspace/link2", false, false));
    assert_true(S_ISLNK(world_stat(world, "/workspace/link2").st_mode));
}

static bool removed(struct world *world, const char *path, bool recursive, bool missing, int64_t *n)
{
    return cay_files_remove(&world->tree, cay_str(path), recursive, missing, n, &world->err);
}

static void remove_takes_trees_and_never_follows(void **state)
{
    struct world *world = *state;
    char full[600];
    int64_t n = 0;
    world_put(world, "/workspace/keep", "keep");
    world_mkdir(world, "/workspace/d");
    world_mkdir(world, "/workspace/d/e");
    for (int i = 0; i < 1500; i++) {
        char path[64];
        snprintf(path, sizeof(path), "/workspace/d/e/%d", i);
        if (i % 3)
            world_put(world, path, "");
        else
            world_mkdir(world, path);
        if (i % 6 == 0) {
            snprintf(path, sizeof(path), "/workspace/d/e/%d/x", i);
            world_put(world, path, "");
        }
    }
    world_path(world, "/workspace/d/link", full);
    assert_int_equal(symlink("..", full), 0);
    assert_reason(world, removed(world, "d", false, false, &n), CAY_R_FAILED_PRECONDITION);
    assert_true(removed(world, "d", true, false, &n));
    assert_int_equal(n, 1500 + 250 + 3);
    assert_false(world_exists(world, "/workspace/d"));
    assert_file(world, "/workspace/keep", "keep");
    assert_reason(world, removed(world, "d", true, false, &n), CAY_R_FILE_NOT_FOUND);
    assert_true(removed(world, "d", true, true, &n));
    assert_int_equal(n, 0);
    assert_reason(world, removed(world, "/", true, false, &n), CAY_R_INVALID_PATH);
    assert_reason(world, removed(world, "..", true, false, &n), CAY_R_INVALID_PATH);
    assert_reason(world, removed(world, "keep/", true, false, &n), CAY_R_NOT_A_DIRECTORY);
    assert_true(removed(world, "keep", false, false, &n));
    assert_int_equal(n, 1);
}

static bool write_all(struct world *world, const char *path,
                      const struct cay_write_options *options, const char *text, bool commit)
{
    struct cay_write write;
    if (!cay_files_write_open(&world->tree, cay_str(path), options, &write, &world->err))
        return false;
    for (const char *at = text; *at; at++)
        assert_true(cay_write_data(&write, (struct cay_str){at, 1}, &world->err));
    struct cay_v1_write_file_response response;
    if (commit)
        return cay_files_write_commit(&world->tree, cay_str(path), &write, &world->arena, &response,
                                      &world->err);
    cay_files_write_abort(&world->tree, &write);
    return true;
}

static void streams_write_in_every_mode(void **state)
{
    struct world *world = *state;
    struct cay_write_options replace = {.size = -1};
    assert_true(write_all(world, "f", &replace, "0123456789", true));
    assert_true(write_all(world, "f", &replace, "half", false));
    assert_file(world, "/workspace/f", "0123456789");
    assert_true(write_all(world, "new", &replace, "half", false));
    assert_false(world_exists(world, "/workspace/new"));
    struct cay_write_options create = {.size = -1, .mode = CAY_V1_WRITE_MODE_CREATE};
    assert_reason(world, write_all(world, "f", &create, "x", true), CAY_R_FILE_EXISTS);
    assert_true(write_all(world, "g", &create, "x", true));
    struct cay_write_options append = {.size = -1, .mode = CAY_V1_WRITE_MODE_APPEND};
    assert_true(write_all(world, "f", &append, "ab", true));
    assert_file(world, "/workspace/f", "0123456789ab");
    struct cay_write_options at = {.size = -1, .mode = CAY_V1_WRITE_MODE_AT_OFFSET, .offset = 2};
    assert_true(write_all(world, "f", &at, "XY", true));
    assert_file(world, "/workspace/f", "01XY456789ab");
    struct stat before = world_stat(world, "/workspace/f");
    struct cay_write_options truncate = {.size = -1, .mode = CAY_V1_WRITE_MODE_TRUNCATE};
    assert_true(write_all(world, "f", &truncate, "short", true));
    assert_file(world, "/workspace/f", "short");
    assert_int_equal(world_stat(world, "/workspace/f").st_ino, before.st_ino);
    struct cay_write_options all = {.size = 3,
                                    .create_parents = true,
                                    .has_permissions = true,
                                    .permissions = 0600,
                                    .has_modified_at = true,
                                    .modified_at = {.tv_sec = 1'000'000'000},
                                    .durable = true};
    assert_true(write_all(world, "p/q", &all, "abc", true));
    assert_int_equal(world_stat(world, "/workspace/p/q").st_mode & 07777, 0600);
    assert_int_equal(world_stat(world, "/workspace/p/q").st_mtim.tv_sec, 1'000'000'000);
    assert_reason(world, write_all(world, "p/q", &all, "ab", true), CAY_R_DATA_LOSS);
    assert_file(world, "/workspace/p/q", "abc");
    struct cay_write_options huge = {.size = INT64_C(1) << 55};
    assert_reason(world, write_all(world, "huge", &huge, "", true), CAY_R_NO_SPACE);
    assert_false(world_exists(world, "/workspace/huge"));
}

static void metadata_is_kept_with_the_file(void **state)
{
    struct world *world = *state;
    struct cay_pb_pair entries[] = {{CAY_STR("kind"), CAY_STR("note")}};
    struct cay_write_options options = {.size = -1, .set_metadata = true, .metadata = {entries, 1}};
    if (!write_all(world, "f", &options, "x", true)) {
        print_message("no user attributes here: %s\n", world->err.text);
        skip();
    }
    assert_true(write_all(world, "f", &(struct cay_write_options){.size = -1}, "y", true));
    struct cay_v1_file_info info = stat_of(world, "f", false);
    assert_int_equal(info.metadata.count, 1);
    assert_str(info.metadata.items[0].key, "kind");
    assert_str(info.metadata.items[0].value, "note");
    options.metadata.count = 0;
    assert_true(write_all(world, "f", &options, "z", true));
    assert_int_equal(stat_of(world, "f", false).metadata.count, 0);
    entries[0].value = CAY_STR("\xC3\xBC");
    options.metadata.count = 1;
    assert_reason(world, write_all(world, "f", &options, "z", true), CAY_R_INVALID_ARGUMENT);
}

static void a_file_is_opened_for_reading_with_what_it_is(void **state)
{
    struct world *world = *state;
    world_put(world, "/workspace/f", "content");
    struct cay_v1_file_info info = {};
    int fd = -1;
    assert_true(cay_files_open(&world->tree, CAY_STR("f"), &world->arena, &info, &fd, &world->err));
    assert_int_equal(info.size, 7);
    char text[16] = "";
    assert_int_equal(read(fd, text, sizeof(text)), 7);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    close(fd);
    assert_reason(world,
                  cay_files_open(&world->tree, CAY_STR("/"), &world->arena, NULL, &fd, &world->err),
                  CAY_R_IS_A_DIRECTORY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(stat_says_what_is_there),
        world_test(stat_tells_links_from_where_they_lead),
        world_test(every_kind_of_node_has_a_type),
        world_test(list_goes_through_pages_without_loss),
        world_test(make_dir_makes_parents_when_asked),
        world_test(move_renames_inside_the_tree),
        world_test(remove_takes_trees_and_never_follows),
        world_test(streams_write_in_every_mode),
        world_test(metadata_is_kept_with_the_file),
        world_test(a_file_is_opened_for_reading_with_what_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
