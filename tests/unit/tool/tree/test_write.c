/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/tool/world.h"

#include <dirent.h>
#include <sys/xattr.h>

#include "base/id.h"

/* Nothing but what is named may be in a directory: no temporary file stays. */
static void assert_entries(const struct world *world, const char *path, int count)
{
    char full[600];
    world_path(world, path, full);
    DIR *dir = opendir(full);
    assert_non_null(dir);
    int found = -2;
    while (readdir(dir))
        found++;
    closedir(dir);
    assert_int_equal(found, count);
}

static void write_makes_files_and_directories(void **state)
{
    struct world *world = *state;
    assert_string_equal(world_run(world, "write", "{\"path\":\"a/b/c.txt\",\"content\":\"hi\\n\"}"),
                        "wrote 3 bytes to /workspace/a/b/c.txt\n");
    assert_file(world, "/workspace/a/b/c.txt", "hi\n");
    assert_int_equal(world_fact(world, "bytes_written"), 3);
    assert_int_equal(world_fact(world, "created"), 1);
    struct stat st = world_stat(world, "/workspace/a/b/c.txt");
    assert_int_equal(st.st_mode & 07777, 0644);
    assert_int_equal(st.st_uid, world->tree.id_base + world->tree.uid);
    assert_int_equal(st.st_gid, world->tree.id_base + world->tree.gid);
    st = world_stat(world, "/workspace/a");
    assert_int_equal(st.st_mode & 07777, 0755);
    assert_int_equal(st.st_uid, world->tree.id_base + world->tree.uid);
    assert_entries(world, "/workspace/a/b", 1);
    world_run_failing(world, "write", "{\"path\":\"x/y\",\"content\":\"\",\"create_dirs\":false}",
                      "file_not_found");
    world_run_failing(world, "write", "{\"path\":\"a/b/c.txt/d\",\"content\":\"\"}",
                      "not_a_directory");
    world_run_failing(world, "write", "{\"path\":\"a\",\"content\":\"\"}", "is_a_directory");
    world_run_failing(world, "write", "{\"path\":\"new/\",\"content\":\"\"}", "is_a_directory");
    world_run_failing(world, "write", "{\"path\":\"/\",\"content\":\"\"}", "is_a_directory");
    world_run_failing(world, "write", "{\"path\":\"n/../../x\",\"content\":\"\"}",
                      "file_not_found");
}

static void write_keeps_mode_owner_and_attributes(void **state)
{
    struct world *world = *state;
    char full[600];
    world_put(world, "/workspace/run.sh", "old");
    world_path(world, "/workspace/run.sh", full);
    assert_int_equal(chmod(full, 0751), 0);
    bool has_xattr = setxattr(full, "user.color", "red", 3, 0) == 0;
    struct stat before = world_stat(world, "/workspace/run.sh");
    world_run(world, "write", "{\"path\":\"run.sh\",\"content\":\"new\"}");
    struct stat after = world_stat(world, "/workspace/run.sh");
    assert_file(world, "/workspace/run.sh", "new");
    assert_int_equal(after.st_mode, before.st_mode);
    assert_int_equal(after.st_uid, before.st_uid);
    assert_int_not_equal(after.st_ino, before.st_ino); /* in one step */
    assert_int_equal(world_fact(world, "created"), 0);
    char value[8] = "";
    if (has_xattr)
        assert_int_equal(getxattr(full, "user.color", value, sizeof(value)), 3);
    assert_entries(world, "/workspace", 1);
    assert_int_equal(chmod(full, 04755), 0);
    world_run(world, "write", "{\"path\":\"run.sh\",\"content\":\"new\"}");
    assert_int_equal(world_stat(world, "/workspace/run.sh").st_mode & 07777, 0755);
}

static void write_keeps_the_names_of_a_file(void **state)
{
    struct world *world = *state;
    char full[600];
    char other[600];
    world_put(world, "/workspace/one", "a longer text than the new one");
    world_path(world, "/workspace/one", full);
    world_path(world, "/workspace/two", other);
    assert_int_equal(link(full, other), 0);
    world_run(world, "write", "{\"path\":\"two\",\"content\":\"both\"}");
    assert_file(world, "/workspace/one", "both");
    assert_int_equal(world_stat(world, "/workspace/one").st_nlink, 2);
    assert_entries(world, "/workspace", 2);
}

static void write_follows_links_inside_the_tree(void **state)
{
    struct world *world = *state;
    char full[600];
    char outside[400];
    snprintf(outside, sizeof(outside), "%s/secret", world->outer);
    const char *const links[][2] = {{"/workspace/a", "b"},
                                    {"/workspace/b", "/etc/made"},
                                    {"/workspace/out", outside},
                                    {"/workspace/loop1", "loop2"},
                                    {"/workspace/loop2", "loop1"}};
    for (size_t i = 0; i < CAY_COUNT(links); i++) {
        world_path(world, links[i][0], full);
        assert_int_equal(symlink(links[i][1], full), 0);
    }
    world_run(world, "write", "{\"path\":\"a\",\"content\":\"1\"}");
    assert_file(world, "/etc/made", "1");
    assert_true(S_ISLNK(world_stat(world, "/workspace/a").st_mode));
    world_run_failing(world, "write", "{\"path\":\"loop1\",\"content\":\"1\"}", "invalid_path");
    /* The link's path means one inside the root: there it is made. */
    world_run_limited(world, "write", "{\"path\":\"out\",\"content\":\"1\"}", 0);
    char *secret = calloc(1, 100);
    int fd = open(outside, O_RDONLY | O_CLOEXEC);
    assert_true(read(fd, secret, 99) > 0);
    close(fd);
    assert_string_equal(secret, "TOP SECRET\n");
    free(secret);
}

static void write_refuses_what_is_not_a_file(void **state)
{
    struct world *world = *state;
    char full[600];
    world_path(world, "/workspace/fifo", full);
    assert_int_equal(mkfifo(full, 0666), 0);
    world_run_failing(world, "write", "{\"path\":\"fifo\",\"content\":\"1\"}",
                      "not_a_regular_file");
    char json[600];
    char name[300];
    memset(name, 'n', 255);
    name[255] = '\0';
    snprintf(json, sizeof(json), "{\"path\":\"%s\",\"content\":\"1\"}", name);
    world_run(world, "write", json);
    name[255] = 'n';
    name[256] = '\0';
    snprintf(json, sizeof(json), "{\"path\":\"%s\",\"content\":\"1\"}", name);
    world_run_failing(world, "write", json, "invalid_path");
}

static void names_of_any_bytes_can_be_written_and_read(void **state)
{
    struct world *world = *state;
    /* new<newline>line<FF> */
    world_run(world, "write", "{\"path\":\"new\\nline\\uefff\",\"content\":\"odd\"}");
    assert_file(world, "/workspace/new\nline\xFF", "odd");
    assert_text_has(world_run(world, "read", "{\"path\":\"new\\nline\\uefff\"}"), "odd");
    assert_text_has(world_run(world, "grep", "{\"pattern\":\"odd\"}"),
                    "new\\nline\xEE\xBF\xBF:1: odd");
}

/* ---- edit_file ---- */

static void edit_replaces_what_stands_there_once(void **state)
{
    struct world *world = *state;
    char full[600];
    world_put(world, "/workspace/a", "one two\nthree\xFF two\n");
    world_path(world, "/workspace/a", full);
    assert_int_equal(chmod(full, 0755), 0);
    world_run(world, "edit", "{\"path\":\"a\",\"old_string\":\"one\",\"new_string\":\"1\"}");
    assert_file(world, "/workspace/a", "1 two\nthree\xFF two\n");
    assert_int_equal(world_stat(world, "/workspace/a").st_mode & 0777, 0755);
    const char *text = world_run_failing(
        world, "edit", "{\"path\":\"a\",\"old_string\":\"two\",\"new_string\":\"2\"}",
        "ambiguous_match");
    assert_text_has(text, "2 times (lines 1, 2)");
    world_run(world, "edit",
              "{\"path\":\"a\",\"old_string\":\"two\",\"new_string\":\"\",\"replace_all\":true}");
    assert_file(world, "/workspace/a", "1 \nthree\xFF \n");
    assert_int_equal(world_fact(world, "replacements"), 2);
    world_run_failing(world, "edit", "{\"path\":\"a\",\"old_string\":\"x\",\"new_string\":\"x\"}",
                      "no_change");
    world_run_failing(world, "edit", "{\"path\":\"b\",\"old_string\":\"x\",\"new_string\":\"y\"}",
                      "file_not_found");
    world_put_bytes(world, "/workspace/bin", "x\0", 2);
    world_run_failing(world, "edit", "{\"path\":\"bin\",\"old_string\":\"x\",\"new_string\":\"y\"}",
                      "binary_file");
    world_put(world, "/workspace/empty", "");
    world_run_failing(world, "edit",
                      "{\"path\":\"empty\",\"old_string\":\"x\",\"new_string\":\"y\"}", "no_match");
}

static void edit_shows_where_it_nearly_matched(void **state)
{
    struct world *world = *state;
    world_put(world, "/workspace/short", "alpha\r\nbeta\r\n");
    const char *text = world_run_failing(
        world, "edit", "{\"path\":\"short\",\"old_string\":\"alpha\\nbeta\",\"new_string\":\"\"}",
        "no_match");
    assert_text_has(text, "CR LF");
    assert_text_has(text, "     2\tbeta");
    struct cay_buf lines;
    cay_buf_init(&lines, 1 << 20);
    for (int i = 1; i <= 100; i++)
        cay_buf_printf(&lines, "number %d here\n", i);
    world_put_bytes(world, "/workspace/long", lines.data, lines.len);
    cay_buf_finish(&lines);
    text = world_run_failing(
        world, "edit",
        "{\"path\":\"long\",\"old_string\":\"  number 57 gone\\nx\",\"new_string\":\"\"}",
        "no_match");
    assert_text_has(text, "line 57");
    assert_text_has(text, "    55\tnumber 55 here\n");
    assert_text_has(text, "    62\tnumber 62 here\n");
    assert_null(strstr(text, "number 54"));
    assert_null(strstr(text, "number 63"));
    text = world_run_failing(world, "edit",
                             "{\"path\":\"long\",\"old_string\":\"qqqqqq\",\"new_string\":\"\"}",
                             "no_match");
    assert_text_has(text, "no line of it");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(write_makes_files_and_directories),
        world_test(write_keeps_mode_owner_and_attributes),
        world_test(write_keeps_the_names_of_a_file),
        world_test(write_follows_links_inside_the_tree),
        world_test(write_refuses_what_is_not_a_file),
        world_test(names_of_any_bytes_can_be_written_and_read),
        world_test(edit_replaces_what_stands_there_once),
        world_test(edit_shows_where_it_nearly_matched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
