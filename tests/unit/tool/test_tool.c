/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/tool/world.h"

#include "base/id.h"

static void every_tool_is_found_by_its_names(void **)
{
    for (size_t i = 0; i < cay_tool_count(); i++) {
        const struct cay_tool *tool = cay_tool_at(i);
        assert_ptr_equal(cay_tool_find(cay_str(tool->name)), tool);
        assert_int_equal(tool->run != NULL, tool->tier == CAY_V1_TOOL_TIER_DAEMON);
        assert_true(tool->timeout_ms > 0);
        assert_true(strlen(tool->description) > 10);
        if (i > 0)
            assert_true(strcmp(cay_tool_at(i - 1)->name, tool->name) < 0);
    }
    assert_string_equal(cay_tool_find(CAY_STR("read"))->name, "read_file");
    assert_string_equal(cay_tool_find(CAY_STR("write"))->name, "write_file");
    assert_string_equal(cay_tool_find(CAY_STR("edit"))->name, "edit_file");
    assert_string_equal(cay_tool_find(CAY_STR("ls"))->name, "list_dir");
    assert_null(cay_tool_find(CAY_STR("raed_file")));
    assert_string_equal(cay_tool_nearest(CAY_STR("raed_file")), "read_file");
    assert_null(cay_tool_nearest(CAY_STR("frobnicate")));
}

static void every_tool_describes_itself(void **state)
{
    struct world *world = *state;
    for (size_t i = 0; i < cay_tool_count(); i++) {
        struct cay_v1_tool tool;
        assert_true(cay_tool_describe(cay_tool_at(i), 0, &world->arena, &tool, &world->err));
        assert_true(tool.input_schema->fields.count >= 4);
        assert_true(tool.default_timeout->seconds >= 30);
        struct cay_buf buf;
        cay_buf_init(&buf, 1 << 20);
        assert_int_equal(cay_pb_json_write(&cay_v1_tool_desc, &tool, NULL, &buf), 0);
        cay_buf_finish(&buf);
    }
}

static void parameters_are_checked_with_a_sentence(void **state)
{
    struct world *world = *state;
    static const struct {
        const char *tool, *json, *sentence;
    } cases[] = {
        {"read_file", "{}", "read_file needs the parameter 'path'"},
        {"read_file", "{\"path\":null}", "read_file needs the parameter 'path'"},
        {"read_file", "{\"path\":7}", "path: expected a string, found a number"},
        {"read_file", "{\"path\":\"\"}", "path: must not be empty"},
        {"read_file", "{\"path\":\"a\",\"offset\":-1}", "offset: expected 0 to"},
        {"read_file", "{\"path\":\"a\",\"limit\":1.5}", "limit: expected an integer, found 1.5"},
        {"read_file", "{\"path\":\"a\",\"limit\":\"5\"}",
         "limit: expected an integer, found a string"},
        {"read_file", "{\"path\":\"a\",\"ofset\":1}", "did you mean 'offset'?"},
        {"read_file", "{\"path\":\"a\",\"zzz\":1}", "it takes path, offset, limit"},
        {"grep", "{\"pattern\":\"a\",\"max_results\":20000}", "max_results: expected 1 to 10000"},
        {"grep", "{\"pattern\":\"a\",\"literal\":\"yes\"}", "literal: expected a boolean"},
        {"edit_file", "{\"path\":\"a\",\"old_string\":\"\",\"new_string\":\"b\"}", "old_string"},
        {"bash", "{\"timeout_ms\":5}", "bash needs the parameter 'cmd'"},
        {"write_file", "{\"path\":\"a\",\"content\":[]}",
         "content: expected a string, found an array"},
    };
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        const struct cay_tool *tool = cay_tool_find(cay_str(cases[i].tool));
        assert_false(cay_tool_check_params(tool, world_params(world, cases[i].json), &world->err));
        assert_int_equal(world->err.reason, CAY_R_INVALID_ARGUMENT);
        assert_text_has(world->err.text, cases[i].sentence);
    }
    const struct cay_tool *bash = cay_tool_find(CAY_STR("bash"));
    assert_true(cay_tool_check_params(
        bash, world_params(world, "{\"cmd\":\"ls\",\"timeout_ms\":null}"), &world->err));
    assert_false(cay_tool_check_params(bash, NULL, &world->err));
}

/* ---- read_file ---- */

static void read_numbers_the_lines(void **state)
{
    struct world *world = *state;
    world_put(world, "/workspace/a.txt", "one\ntwo\nthree");
    assert_string_equal(world_run(world, "read", "{\"path\":\"a.txt\"}"),
                        "     1\tone\n     2\ttwo\n     3\tthree\n");
    assert_true(cay_str_is(world->result.tool_name, "read_file"));
    assert_int_equal(world->result.tier, CAY_V1_TOOL_TIER_DAEMON);
    assert_null(world->result.truncation);
    assert_int_equal(world_fact(world, "total_lines"), 3);
    assert_int_equal(world_fact(world, "ends_with_newline"), 0);
    world_put(world, "/workspace/empty", "");
    assert_string_equal(world_run(world, "read_file", "{\"path\":\"/workspace/empty\"}"),
                        "(the file is empty)\n");
}

static void read_tells_in_numbers_what_it_left_out(void **state)
{
    struct world *world = *state;
    struct cay_buf text;
    cay_buf_init(&text, 1 << 20);
    for (int i = 1; i <= 2500; i++)
        cay_buf_printf(&text, "line %d\n", i);
    world_put_bytes(world, "/workspace/long", text.data, text.len);
    const char *shown = world_run(world, "read_file", "{\"path\":\"long\"}");
    assert_text_has(shown, "  2000\tline 2000\n(lines 1 to 2000 of 2500; offset=2000 goes on)\n");
    const struct cay_v1_truncation *cut = world->result.truncation;
    assert_int_equal(cut->total_items, 2500);
    assert_int_equal(cut->shown_items, 2000);
    assert_int_equal(cut->total_bytes, (int64_t)text.len);
    assert_true(cut->has_next_offset);
    assert_int_equal(cut->next_offset, 2000);
    shown = world_run(world, "read_file", "{\"path\":\"long\",\"offset\":2000}");
    assert_text_has(shown, "  2001\tline 2001\n");
    assert_text_has(shown, "(lines 2001 to 2500 of 2500)\n");
    assert_false(world->result.truncation->has_next_offset);
    shown = world_run(world, "read_file", "{\"path\":\"long\",\"offset\":3,\"limit\":2}");
    assert_string_equal(
        shown, "     4\tline 4\n     5\tline 5\n(lines 4 to 5 of 2500; offset=5 goes on)\n");
    world_run_failing(world, "read_file", "{\"path\":\"long\",\"offset\":2500}",
                      "offset_out_of_range");
    cay_buf_finish(&text);
}

static void read_stays_below_the_bytes_asked_for(void **state)
{
    struct world *world = *state;
    struct cay_buf text;
    cay_buf_init(&text, 1 << 20);
    for (int i = 1; i <= 1000; i++)
        cay_buf_printf(&text, "line \xFF\xFF\xFF %d\n", i);
    world_put_bytes(world, "/workspace/long", text.data, text.len);
    cay_buf_finish(&text);
    for (int64_t max = 300; max < 9000; max += 700) {
        const char *shown = world_run_limited(world, "read_file", "{\"path\":\"long\"}", max);
        assert_true((int64_t)strlen(shown) <= max);
        const struct cay_v1_truncation *cut = world->result.truncation;
        assert_true(cut->has_next_offset && cut->next_offset == cut->shown_items);
        assert_true(cut->shown_items > 0);
    }
}

static void read_cuts_long_lines_and_repairs_bad_utf8(void **state)
{
    struct world *world = *state;
    char line[7001];
    for (size_t i = 0; i + 1 < sizeof(line); i += 2)
        memcpy(line + i, "\xC3\xBC", 2);
    line[7000] = '\n';
    world_put_bytes(world, "/workspace/wide", line, sizeof(line));
    const char *shown = world_run(world, "read_file", "{\"path\":\"wide\"}");
    assert_int_equal(strlen(shown), 7 + 4000 + strlen("... (truncated)\n"));
    assert_int_equal(world->result.truncation->cut_lines, 1);
    world_put(world, "/workspace/latin", "caf\xE9\n");
    assert_string_equal(world_run(world, "read_file", "{\"path\":\"latin\"}"),
                        "     1\tcaf\xEF\xBF\xBD\n");
}

static void read_fails_with_a_reason(void **state)
{
    struct world *world = *state;
    char full[600];
    world_put_bytes(world, "/workspace/binary", "a\0b", 3);
    world_run_failing(world, "read_file", "{\"path\":\"binary\"}", "binary_file");
    world_run_failing(world, "read_file", "{\"path\":\"nothing\"}", "file_not_found");
    world_run_failing(world, "read_file", "{\"path\":\".\"}", "is_a_directory");
    world_run_failing(world, "read_file", "{\"path\":\"binary/x\"}", "not_a_directory");
    world_run_failing(world, "read_file", "{\"path\":\"a\\u0000b\"}", "invalid_path");
    world_path(world, "/workspace/fifo", full);
    assert_int_equal(mkfifo(full, 0666), 0);
    world_run_failing(world, "read_file", "{\"path\":\"fifo\"}", "not_a_regular_file");
    world_path(world, "/workspace/loop", full);
    assert_int_equal(symlink("loop", full), 0);
    world_run_failing(world, "read_file", "{\"path\":\"loop\"}", "invalid_path");
    world_path(world, "/workspace/huge", full);
    int fd = open(full, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(ftruncate(fd, 1LL << 40), 0);
    close(fd);
    world_run_failing(world, "read_file", "{\"path\":\"huge\"}", "file_too_large");
}

static void links_never_lead_outside(void **state)
{
    struct world *world = *state;
    char full[600];
    char target[400];
    snprintf(target, sizeof(target), "%s/secret", world->outer);
    const char *const links[][2] = {{"/workspace/absolute", target},
                                    {"/workspace/above", "../../../../../../secret"},
                                    {"/workspace/proc", "/proc/self/root/etc/hostname"},
                                    {"/workspace/dir", "../../.."}};
    for (size_t i = 0; i < CAY_COUNT(links); i++) {
        world_path(world, links[i][0], full);
        assert_int_equal(symlink(links[i][1], full), 0);
        char json[700];
        snprintf(json, sizeof(json), "{\"path\":\"%s\"}", links[i][0]);
        if (i < 3)
            world_run_failing(world, "read_file", json, "file_not_found");
    }
    world_run_failing(world, "read_file", "{\"path\":\"../../secret\"}", "file_not_found");
    world_run_failing(world, "read_file", "{\"path\":\"dir/secret\"}", "file_not_found");
    assert_text_has(world_run(world, "list_dir", "{\"path\":\"dir\"}"), "workspace/");
    world_run(world, "grep", "{\"pattern\":\"SECRET\",\"path\":\"/\"}");
    assert_int_equal(world_fact(world, "match_count"), 0);
    /* An absolute link means the session's root: this one is fine. */
    world_put(world, "/etc/motd", "hello\n");
    world_path(world, "/workspace/motd", full);
    assert_int_equal(symlink("/etc/motd", full), 0);
    assert_text_has(world_run(world, "read_file", "{\"path\":\"motd\"}"), "hello");
}

/* ---- list_dir and glob ---- */

static void list_shows_kind_size_and_name(void **state)
{
    struct world *world = *state;
    char full[600];
    world_mkdir(world, "/workspace/d");
    world_put(world, "/workspace/d/inner", "12345");
    world_put(world, "/workspace/.hidden", "");
    world_put(world, "/workspace/d.txt", "abc");
    world_put(world, "/workspace/new\nline\xFF", "");
    world_path(world, "/workspace/link", full);
    assert_int_equal(symlink("d/inner", full), 0);
    assert_string_equal(world_run(world, "ls", "{}"), "5 entries in /workspace\n\n"
                                                      "file          0  .hidden\n"
                                                      "dir           -  d/\n"
                                                      "file          3  d.txt\n"
                                                      "link          -  link -> d/inner\n"
                                                      "file          0  new\\nline\xEE\xBF\xBF\n");
    assert_text_has(world_run(world, "ls", "{\"depth\":2}"), "file          5  d/inner\n");
    const char *shown = world_run(world, "ls", "{\"max_results\":2}");
    assert_text_has(shown, "5 entries in /workspace (the first 2 are shown)");
    assert_int_equal(world->result.truncation->total_items, 5);
    assert_int_equal(world->result.truncation->shown_items, 2);
    shown = world_run_limited(world, "ls", "{}", 60);
    assert_true(world->result.truncation->shown_items < 5);
    world_run_failing(world, "ls", "{\"path\":\"d.txt\"}", "not_a_directory");
    world_run_failing(world, "ls", "{\"path\":\"none\"}", "file_not_found");
}

static void glob_lists_files_in_order(void **state)
{
    struct world *world = *state;
    world_mkdir(world, "/workspace/a");
    world_mkdir(world, "/workspace/a/b");
    world_mkdir(world, "/workspace/.git");
    world_put(world, "/workspace/a.c", "");
    world_put(world, "/workspace/a/x.c", "");
    world_put(world, "/workspace/a/b/y.c", "");
    world_put(world, "/workspace/.git/z.c", "");
    world_put(world, "/workspace/.dot.c", "");
    world_put(world, "/etc/q.c", "");
    assert_string_equal(world_run(world, "glob", "{\"pattern\":\"**/*.c\"}"),
                        "4 files\n\n.dot.c\na.c\na/b/y.c\na/x.c\n");
    assert_string_equal(world_run(world, "glob", "{\"pattern\":\"*.c\"}"),
                        "2 files\n\n.dot.c\na.c\n");
    assert_string_equal(world_run(world, "glob", "{\"pattern\":\"a/**/*.c\"}"),
                        "2 files\n\na/b/y.c\na/x.c\n");
    assert_text_has(world_run(world, "glob", "{\"pattern\":\"**/*.c\",\"hidden\":true}"),
                    ".git/z.c\n");
    assert_string_equal(world_run(world, "glob", "{\"pattern\":\"*.c\",\"path\":\"a\"}"),
                        "1 file\n\nx.c\n");
    assert_string_equal(world_run(world, "glob", "{\"pattern\":\"/etc/*.c\"}"),
                        "1 file\n\n/etc/q.c\n");
    assert_string_equal(world_run(world, "glob", "{\"pattern\":\"../etc/*.c\"}"),
                        "1 file\n\n../etc/q.c\n");
    assert_string_equal(world_run(world, "glob", "{\"pattern\":\"**/b/\"}"),
                        "1 directory\n\na/b/\n");
    assert_string_equal(world_run(world, "glob", "{\"pattern\":\"*.zig\"}"), "no files match\n");
    assert_string_equal(world_run(world, "glob", "{\"pattern\":\"**/*.c\",\"max_results\":2}"),
                        "4 files (the first 2 are shown)\n\n.dot.c\na.c\n");
    assert_int_equal(world->result.truncation->total_items, 4);
    world_run_failing(world, "glob", "{\"pattern\":\"[a\"}", "invalid_pattern");
    world_run_failing(world, "glob", "{\"pattern\":\"*\",\"path\":\"none\"}", "file_not_found");
}

static void a_full_arena_is_an_error_of_the_call(void **state)
{
    struct world *world = *state;
    world_put(world, "/workspace/a", "text\n");
    struct cay_arena small;
    for (size_t bytes = 0; bytes < 4000; bytes += 200) {
        cay_arena_init(&small, bytes);
        struct cay_v1_tool_result result = {};
        bool ran = cay_tool_run(cay_tool_find(CAY_STR("read")), &world->tree,
                                world_params(world, "{\"path\":\"a\"}"), 0, 0, &small, &result,
                                &world->err);
        if (!ran)
            assert_int_equal(world->err.reason, CAY_R_RESOURCE_EXHAUSTED);
        else
            assert_int_equal(result.content.count, 1);
        cay_arena_finish(&small);
    }
    assert_false(cay_tool_run(cay_tool_find(CAY_STR("read")), &world->tree,
                              world_params(world, "{\"path\":\"a\"}"), 0, 9 << 20, &world->arena,
                              &world->result, &world->err));
    assert_int_equal(world->err.reason, CAY_R_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tool_is_found_by_its_names),
        world_test(every_tool_describes_itself),
        world_test(parameters_are_checked_with_a_sentence),
        world_test(read_numbers_the_lines),
        world_test(read_tells_in_numbers_what_it_left_out),
        world_test(read_stays_below_the_bytes_asked_for),
        world_test(read_cuts_long_lines_and_repairs_bad_utf8),
        world_test(read_fails_with_a_reason),
        world_test(links_never_lead_outside),
        world_test(list_shows_kind_size_and_name),
        world_test(glob_lists_files_in_order),
        world_test(a_full_arena_is_an_error_of_the_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
