/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/tool/local/place.h"

#include "tool/tool.h"

/* What paths mean in a directory of this host: the same names as in a session, and no way out. */

static void expect(struct place *place, const char *tool, const char *json, const char *reason,
                   const char *text)
{
    struct try try;
    try_init(&try, tool, json);
    (void)try_run(&try, place->local);
    assert_string_equal(try_text(&try), text);
    assert_string_equal(try.result.is_error ? try.result.error_reason.ptr : "", reason);
    try_finish(&try);
}

/* JSON with the directory's own path in place of %s. */
static void expect_at(struct place *place, const char *tool, const char *format, const char *reason,
                      const char *text)
{
    char json[1024];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(json, sizeof(json), format, place->dir);
#pragma GCC diagnostic pop
    expect(place, tool, json, reason, text);
}

static void the_directory_is_the_workspace(void **state)
{
    struct place *place = *state;
    expect(place, "write_file", "{\"path\":\"sub/a.txt\",\"content\":\"one\\n\"}", "",
           "wrote 4 bytes to /workspace/sub/a.txt\n");
    expect(place, "read_file", "{\"path\":\"sub/a.txt\"}", "", "     1\tone\n");
    expect(place, "read_file", "{\"path\":\"/workspace/sub/a.txt\"}", "", "     1\tone\n");
    expect_at(place, "read_file", "{\"path\":\"%s/sub/a.txt\"}", "", "     1\tone\n");
    expect(place, "list_dir", "{}", "", "1 entry in /workspace\n\ndir           -  sub/\n");
    expect_at(place, "list_dir", "{\"path\":\"%s\"}", "",
              "1 entry in /workspace\n\ndir           -  sub/\n");
    expect(place, "grep", "{\"pattern\":\"on.\"}", "", "1 match\n\nsub/a.txt:1: one\n");
    expect(place, "glob", "{\"pattern\":\"**/*.txt\"}", "", "1 file\n\nsub/a.txt\n");
    expect(place, "read_file", "{\"path\":\"b.txt\"}", "file_not_found",
           "'/workspace/b.txt': no such file or directory");
    expect(place, "write_file", "{\"path\":\"/workspace\",\"content\":\"\"}", "is_a_directory",
           "'/workspace': it is a directory");
}

static void nothing_leads_out_of_it(void **state)
{
    struct place *place = *state;
    static const char outside[] = "it is outside of the environment's directory";
    struct try try;
    expect_bash(place, "ln -s /etc/passwd out; ln -s ../.. up; ln -s a in; echo x > a", NULL,
                "(no output)\n");
    expect(place, "read_file", "{\"path\":\"in\"}", "", "     1\tx\n");
    static const char *const paths[] = {"/etc/passwd", "/workspace/../etc/passwd",
                                        "../x",        "out",
                                        "up/x",        "~/x",
                                        "/workspaces", "/"};
    for (size_t i = 0; i < CAY_COUNT(paths); i++) {
        static const char *const tools[] = {"read_file", "write_file", "list_dir", "grep"};
        for (size_t j = 0; j < CAY_COUNT(tools); j++) {
            char json[200];
            const char *more = j == 1 ? ",\"content\":\"x\"" : j == 3 ? ",\"pattern\":\"x\"" : "";
            snprintf(json, sizeof(json), "{\"path\":\"%s\"%s}", paths[i], more);
            try_init(&try, tools[j], json);
            (void)try_run(&try, place->local);
            if (!strstr(try_text(&try), outside))
                fail_msg("%s of %s says: %s", tools[j], paths[i], try_text(&try));
            assert_string_equal(try.result.error_reason.ptr, "access_denied");
            try_finish(&try);
        }
    }
}

static void a_working_directory_is_translated(void **state)
{
    struct place *place = *state;
    struct try try;
    char expected[400];
    expect(place, "write_file", "{\"path\":\"sub/a.txt\",\"content\":\"one\\n\"}", "",
           "wrote 4 bytes to /workspace/sub/a.txt\n");
    try_bash(&try, "pwd", NULL);
    try.tool.cwd = CAY_STR("/workspace/sub");
    assert_true(try_run(&try, place->local));
    snprintf(expected, sizeof(expected), "%s/sub\n", place->dir);
    assert_string_equal(try_text(&try), expected);
    try_finish(&try);
    try_init(&try, "read_file", "{\"path\":\"a.txt\"}");
    try.tool.cwd = CAY_STR("/workspace/sub");
    assert_true(try_run(&try, place->local));
    assert_string_equal(try_text(&try), "     1\tone\n");
    try_finish(&try);
    try_bash(&try, "pwd", NULL);
    try.tool.cwd = CAY_STR("/etc");
    assert_false(try_run(&try, place->local));
    assert_int_equal(try.err.reason, CAY_R_ACCESS_DENIED);
    try_finish(&try);
}

static void git_takes_the_names_of_the_workspace(void **state)
{
    struct place *place = *state;
    expect_bash(place, "mkdir r && cd r && git init -q . && echo x > f", NULL, "(no output)\n");
    expect(place, "git_status", "{\"repo\":\"/workspace/r\"}", "", "?? f\n");
    expect(place, "git_add", "{\"repo\":\"/workspace/r\",\"paths\":[\"/workspace/r/f\"]}", "",
           "(no output)\n");
    expect(place, "git_status", "{\"repo\":\"r\"}", "", "A  f\n");
}

static void what_only_a_sandbox_has_is_refused(void **state)
{
    struct place *place = *state;
    struct try try;
    struct cay_v1_resource_limits limits = {};
    try_bash(&try, "true", NULL);
    try.tool.user = CAY_STR("root");
    assert_false(try_run(&try, place->local));
    assert_int_equal(try.err.reason, CAY_R_NOT_SUPPORTED);
    try.tool.user = (struct cay_str){};
    try.policy.limits = &limits;
    assert_false(try_run(&try, place->local));
    assert_int_equal(try.err.reason, CAY_R_NOT_SUPPORTED);
    try_finish(&try);
}

static void a_place_that_is_none_is_refused(void **state)
{
    struct place *place = *state;
    struct cay_local *local = NULL;
    struct cay_error err = {};
    char path[400];
    place_write(place, "file", "x");
    snprintf(path, sizeof(path), "%s/nowhere", place->dir);
    assert_false(cay_local_open(path, NULL, &local, &err));
    assert_int_equal(err.reason, CAY_R_FILE_NOT_FOUND);
    snprintf(path, sizeof(path), "%s/file", place->dir);
    assert_false(cay_local_open(path, NULL, &local, &err));
    assert_int_equal(err.reason, CAY_R_NOT_A_DIRECTORY);
    assert_null(local);
}

static void commands_do_not_see_the_callers_environment(void **state)
{
    struct place *place = *state;
    struct try try;
    assert_int_equal(setenv("CAY_TEST_SECRET", "x", 1), 0);
    struct cay_pb_pair pair = {CAY_STR("OWN"), CAY_STR("mine")};
    try_bash(&try, "echo $CAY_TEST_SECRET-$OWN-$CAY_SESSION-$LANG-$TERM", NULL);
    try.tool.env = (struct cay_pb_pairs){&pair, 1};
    assert_true(try_run(&try, place->local));
    assert_string_equal(try_text(&try), "-mine-local-C.UTF-8-dumb\n");
    try_finish(&try);
    assert_int_equal(unsetenv("CAY_TEST_SECRET"), 0);
}

/* A call costs no more than 20 microseconds over the tool itself: the best of many. */
static void a_call_costs_little(void **state)
{
    enum { ROUNDS = 400 };
    struct place *place = *state;
    struct try try;
    int64_t best[2] = {INT64_MAX, INT64_MAX};
    place_write(place, "a.txt", "one\n");
    int dir_fd = open(place->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    const struct cay_tool_tree tree = {
        .root_fd = dir_fd, .is_own = true, .name = CAY_STR(CAY_LOCAL_NAME)};
    for (int i = 0; i < 2 * ROUNDS; i++) {
        try_init(&try, "read_file", "{\"path\":\"a.txt\"}");
        int64_t before = cay_clock_ns();
        if (i % 2)
            assert_true(try_run(&try, place->local));
        else
            assert_true(cay_tool_run(cay_tool_find(CAY_STR("read_file")), &tree, try.tool.params, 0,
                                     0, &try.arena, &try.result, &try.err));
        best[i % 2] = CAY_MIN(best[i % 2], cay_clock_ns() - before);
        try_finish(&try);
    }
    close(dir_fd);
    print_message("# the tool %lld ns, through local %lld ns\n", (long long)best[0],
                  (long long)best[1]);
    assert_true(best[1] - best[0] < 20'000);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, place_open, place_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_directory_is_the_workspace),
        CASE(nothing_leads_out_of_it),
        CASE(a_working_directory_is_translated),
        CASE(git_takes_the_names_of_the_workspace),
        CASE(what_only_a_sandbox_has_is_refused),
        CASE(a_place_that_is_none_is_refused),
        CASE(commands_do_not_see_the_callers_environment),
        CASE(a_call_costs_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
