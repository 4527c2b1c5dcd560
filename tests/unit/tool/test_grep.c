/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/tool/world.h"

#include "base/clock.h"

static void grep_names_file_line_and_text(void **state)
{
    struct world *world = *state;
    world_mkdir(world, "/workspace/src");
    world_mkdir(world, "/workspace/.git");
    world_put(world, "/workspace/src/a.c", "int x;\nint main(void)\n{\n}\n");
    world_put(world, "/workspace/src/b.h", "int main;");
    world_put(world, "/workspace/src.txt", "main\r\n");
    world_put(world, "/workspace/.env", "main=1\n");
    world_put(world, "/workspace/.git/config", "main\n");
    world_put_bytes(world, "/workspace/binary", "main\0", 5);
    assert_string_equal(world_run(world, "grep", "{\"pattern\":\"main\"}"),
                        "4 matches\n\n.env:1: main=1\nsrc.txt:1: main\n"
                        "src/a.c:2: int main(void)\nsrc/b.h:1: int main;\n");
    assert_int_equal(world_fact(world, "match_count"), 4);
    assert_int_equal(world_fact(world, "binary_files"), 1);
    assert_null(world->result.truncation);
    assert_string_equal(world_run(world, "grep", "{\"pattern\":\"main\",\"path\":\"src\"}"),
                        "2 matches\n\nsrc/a.c:2: int main(void)\nsrc/b.h:1: int main;\n");
    assert_string_equal(
        world_run(world, "grep", "{\"pattern\":\"x;\",\"path\":\"/workspace/src/a.c\"}"),
        "1 match\n\n/workspace/src/a.c:1: int x;\n");
    assert_string_equal(world_run(world, "grep", "{\"pattern\":\"nowhere\"}"), "no matches\n");
    assert_text_has(world_run(world, "grep", "{\"pattern\":\"main\",\"hidden\":true}"),
                    ".git/config:1: main\n");
    assert_string_equal(
        world_run(world, "grep", "{\"pattern\":\"main\",\"include\":\"*.{c,txt}\"}"),
        "2 matches\n\nsrc.txt:1: main\nsrc/a.c:2: int main(void)\n");
    assert_string_equal(
        world_run(world, "grep",
                  "{\"pattern\":\"main\",\"include\":\"src/*\",\"exclude\":\"*.h\"}"),
        "1 match\n\nsrc/a.c:2: int main(void)\n");
    assert_string_equal(world_run(world, "grep", "{\"pattern\":\"main\",\"exclude\":\"src\"}"),
                        "2 matches\n\n.env:1: main=1\nsrc.txt:1: main\n");
    assert_string_equal(world_run(world, "grep", "{\"pattern\":\"n(v\",\"literal\":true}"),
                        "1 match\n\nsrc/a.c:2: int main(void)\n");
    assert_string_equal(world_run(world, "grep", "{\"pattern\":\"INT X\",\"ignore_case\":true}"),
                        "1 match\n\nsrc/a.c:1: int x;\n");
}

static void grep_shows_context_once(void **state)
{
    struct world *world = *state;
    world_put(world, "/workspace/a", "1\n2 x\n3\n4\n5 x\n6\n7\n8\n9\n10 x\n");
    assert_string_equal(world_run(world, "grep", "{\"pattern\":\"x\",\"context_lines\":1}"),
                        "3 matches\n\n    1- 1\na:2: 2 x\n    3- 3\n    4- 4\na:5: 5 x\n    6- 6\n"
                        "--\n    9- 9\na:10: 10 x\n");
    assert_string_equal(
        world_run(world, "grep", "{\"pattern\":\"^9\",\"context_lines\":50}"),
        "1 match\n\n    1- 1\n    2- 2 x\n    3- 3\n    4- 4\n    5- 5 x\n    6- 6\n"
        "    7- 7\n    8- 8\na:9: 9\n    10- 10 x\n");
}

static void grep_counts_what_it_does_not_show(void **state)
{
    struct world *world = *state;
    for (int file = 0; file < 200; file++) {
        char path[64];
        char text[400] = "";
        size_t len = 0;
        for (int line = 0; line < 10; line++)
            len += (size_t)snprintf(text + len, sizeof(text) - len, "hit %d in %d\n", line, file);
        snprintf(path, sizeof(path), "/workspace/f%03d", file);
        world_put(world, path, text);
    }
    const char *first = world_run(world, "grep", "{\"pattern\":\"hit\"}");
    assert_text_has(first,
                    "2000 matches (truncated: the first 100 are shown)\n\nf000:1: hit 0 in 0\n");
    assert_text_has(first, "f009:10: hit 9 in 9\n");
    assert_null(strstr(first, "f010"));
    assert_int_equal(world->result.truncation->total_items, 2000);
    assert_int_equal(world->result.truncation->shown_items, 100);
    for (int round = 0; round < 20; round++) /* two threads, one answer */
        assert_string_equal(world_run(world, "grep", "{\"pattern\":\"hit\"}"), first);
    const char *text = world_run(world, "grep", "{\"pattern\":\"hit\",\"max_results\":5}");
    assert_text_has(text, "f000:5: hit 4 in 0\n");
    assert_null(strstr(text, "f000:6"));
    text = world_run_limited(world, "grep", "{\"pattern\":\"hit\",\"max_results\":2000}", 1000);
    assert_true(strlen(text) < 1200);
    assert_int_equal(world->result.truncation->total_items, 2000);
    assert_in_range(world->result.truncation->shown_items, 20, 60);
}

static void grep_cuts_long_lines(void **state)
{
    struct world *world = *state;
    char line[3000];
    memset(line, 'y', sizeof(line));
    line[0] = 'x';
    world_put_bytes(world, "/workspace/a", line, sizeof(line));
    const char *text = world_run(world, "grep", "{\"pattern\":\"x\"}");
    assert_int_equal(strlen(text), strlen("1 match\n\na:1: ") + 500 + strlen("... (truncated)\n"));
    assert_int_equal(world->result.truncation->cut_lines, 1);
}

/* Files larger than a block: numbers, context and matches at the seams stay right. */
static void grep_sees_no_seams_in_large_files(void **state)
{
    struct world *world = *state;
    struct cay_buf text;
    cay_buf_init(&text, 8 << 20);
    for (int line = 1; line <= 200'000; line++)
        cay_buf_printf(&text, "row %d%s\n", line, line % 20'000 == 0 ? " MARK" : "");
    world_put_bytes(world, "/workspace/big", text.data, text.len);
    cay_buf_finish(&text);
    const char *found = world_run(world, "grep", "{\"pattern\":\"MARK\",\"context_lines\":2}");
    assert_int_equal(world_fact(world, "match_count"), 10);
    for (int line = 20'000; line <= 200'000; line += 20'000) {
        char expected[200];
        snprintf(expected, sizeof(expected),
                 "    %d- row %d\n    %d- row %d\nbig:%d: row %d MARK\n", line - 2, line - 2,
                 line - 1, line - 1, line, line);
        assert_text_has(found, expected);
    }
    world_run(world, "grep", "{\"pattern\":\"^row [0-9]+$\"}");
    assert_int_equal(world_fact(world, "match_count"), 199'990);
    world_run(world, "grep", "{\"pattern\":\"[^Q]$\",\"max_results\":1,\"context_lines\":3}");
    assert_int_equal(world_fact(world, "match_count"), 200'000);
    /* One line longer than a block ends somewhere. */
    char *wide = malloc(3 << 20);
    assert_non_null(wide);
    memset(wide, 'w', 3 << 20);
    memcpy(wide + (3 << 20) - 5, "\nend\n", 5);
    world_put_bytes(world, "/workspace/wide", wide, 3 << 20);
    free(wide);
    world_run(world, "grep", "{\"pattern\":\"end\",\"path\":\"wide\",\"context_lines\":2}");
    assert_int_equal(world_fact(world, "match_count"), 1);
}

static void grep_fails_with_a_reason(void **state)
{
    struct world *world = *state;
    char full[600];
    const char *text = world_run_failing(world, "grep", "{\"pattern\":\"(a\"}", "invalid_pattern");
    assert_text_has(text, "missing closing parenthesis");
    world_run_failing(world, "grep", "{\"pattern\":\"a\\\\C\"}", "invalid_pattern");
    world_run_failing(world, "grep", "{\"pattern\":\"a\\nb\",\"literal\":true}", "invalid_pattern");
    world_run_failing(world, "grep", "{\"pattern\":\"a\",\"include\":\"{\"}", "invalid_pattern");
    world_run_failing(world, "grep", "{\"pattern\":\"a\",\"path\":\"none\"}", "file_not_found");
    world_path(world, "/workspace/fifo", full);
    assert_int_equal(mkfifo(full, 0666), 0);
    world_run_failing(world, "grep", "{\"pattern\":\"a\",\"path\":\"fifo\"}", "not_a_regular_file");
    assert_string_equal(world_run(world, "grep", "{\"pattern\":\"a\"}"), "no matches\n");
}

static void grep_says_when_a_pattern_is_too_much_work(void **state)
{
    struct world *world = *state;
    char line[3000];
    memset(line, 'a', sizeof(line));
    line[sizeof(line) - 1] = '\n';
    world_put_bytes(world, "/workspace/a", line, sizeof(line));
    int64_t start = cay_clock_ms();
    const char *text = world_run(world, "grep", "{\"pattern\":\"(a+)+(?!.)b|(a|aa)+c\"}");
    assert_true(cay_clock_ms() - start < 5000);
    assert_int_equal(world_fact(world, "match_count"), 0);
    assert_text_has(text, "too much work");
}

static void deep_trees_are_walked_as_far_as_paths_reach(void **state)
{
    struct world *world = *state;
    int fd = open(world->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int depth = 0; depth < 10'000; depth++) {
        assert_int_equal(mkdirat(fd, "d", 0777), 0);
        int next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(next >= 0);
        if (depth == 100) {
            int file = openat(next, "f", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
            assert_int_equal(write(file, "needle\n", 7), 7);
            close(file);
        }
        close(fd);
        fd = next;
    }
    close(fd);
    world_run(world, "grep", "{\"pattern\":\"needle\",\"path\":\"/d\"}");
    assert_int_equal(world_fact(world, "match_count"), 1);
    assert_true(world_fact(world, "unreadable") >= 1);
    world_run(world, "glob", "{\"pattern\":\"**/f\",\"path\":\"/d\"}");
    assert_int_equal(world_fact(world, "match_count"), 1);
    world_run(world, "ls", "{\"path\":\"/d\",\"depth\":64}");
    assert_int_equal(world_fact(world, "entry_count"), 64);
    /* The teardown removes all of it. */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(grep_names_file_line_and_text),
        world_test(grep_shows_context_once),
        world_test(grep_counts_what_it_does_not_show),
        world_test(grep_cuts_long_lines),
        world_test(grep_sees_no_seams_in_large_files),
        world_test(grep_fails_with_a_reason),
        world_test(grep_says_when_a_pattern_is_too_much_work),
        world_test(deep_trees_are_walked_as_far_as_paths_reach),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
