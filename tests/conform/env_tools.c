/* SPDX-License-Identifier: Apache-2.0 */
/* Tools of an environment, and whoever calls them in ways that nobody meant. */
#include "tests/conform/env_world.h"

enum { LARGE_BYTES = 8 * 1024 * 1024 };

/* --- progress --- */

struct heard {
    char text[2][256];
    int64_t next;
    size_t bytes;
    bool is_out_of_order;
    struct cay_env *env;
    void (*act)(struct heard *heard); /* once */
};

static void hear(void *state, const struct cay_tool_progress *progress)
{
    struct heard *heard = state;
    heard->is_out_of_order |= progress->offset - progress->dropped_bytes != heard->next ||
                              progress->stream < 1 || progress->stream > 2;
    heard->next = progress->offset + (int64_t)progress->len;
    heard->bytes += progress->len;
    char *text = heard->text[progress->stream == 2];
    size_t len = strlen(text);
    snprintf(text + len, sizeof(heard->text[0]) - len, "%.*s", (int)progress->len, progress->data);
    void (*act)(struct heard * heard) = heard->act;
    heard->act = NULL;
    if (act)
        act(heard);
}

static struct cay_tool_request listening(struct heard *heard, const char *params)
{
    struct cay_tool_request request = CAY_TOOL_REQUEST;
    request.tool_name = "bash";
    request.params = params;
    request.progress = hear;
    request.state = heard;
    return request;
}

static void output_is_heard_as_it_comes(void **)
{
    struct cay_error err = {};
    struct cay_env *env = world_make();
    struct heard heard = {};
    struct cay_tool_response *response = NULL;
    struct cay_tool_request request = listening(
        &heard, "{\"cmd\":\"echo one; echo bad >&2; for i in 1 2 3; do echo $i; done; exit 4\"}");
    assert_done(cay_env_execute_tool(env, &request, NULL, &response, &err), &err);
    assert_int_equal(response->exit_code, 4);
    if (world_capabilities(env).streaming_progress) {
        assert_string_equal(heard.text[0], "one\n1\n2\n3\n");
        assert_string_equal(heard.text[1], "bad\n");
        assert_false(heard.is_out_of_order);
    }
    cay_tool_response_free(response);
    /* Tools that print nothing say nothing. */
    request.tool_name = "list_dir";
    request.params = "{\"path\":\".\"}";
    heard = (struct heard){};
    assert_done(cay_env_execute_tool(env, &request, NULL, NULL, &err), &err);
    assert_int_equal(heard.bytes, 0);
    world_end(env);
}

static void much_output_is_heard_in_order(void **)
{
    struct cay_error err = {};
    struct cay_env *env = world_make();
    struct heard heard = {};
    struct cay_tool_request request =
        listening(&heard, "{\"cmd\":\"yes 0123456789abcdef | head -c 4000000\"}");
    struct cay_tool_response *response = NULL;
    assert_done(cay_env_execute_tool(env, &request, NULL, &response, &err), &err);
    assert_false(response->is_error);
    assert_false(heard.is_out_of_order);
    if (world_capabilities(env).streaming_progress)
        assert_int_equal(heard.next, 4000000);
    cay_tool_response_free(response);
    world_end(env);
}

static void large_results_come_whole(void **)
{
    struct cay_error err = {};
    struct cay_env *env = world_make();
    const char *name = world_name("large");
    char params[256];
    free(world_bash(env, "yes 0123456789abcdef | head -c %d > %s", LARGE_BYTES, name));
    snprintf(params, sizeof(params), "{\"path\":\"%s\",\"limit\":10000000}", name);
    struct cay_tool_request request = CAY_TOOL_REQUEST;
    struct cay_tool_response *response = NULL;
    request.tool_name = "read_file";
    request.params = params;
    request.result_bytes_max = LARGE_BYTES;
    for (int round = 0; round < 2; round++) {
        struct heard heard = {};
        request.progress = round ? hear : NULL;
        request.state = &heard;
        assert_done(cay_env_execute_tool(env, &request, NULL, &response, &err), &err);
        assert_false(response->is_error);
        assert_true(response->text_len > LARGE_BYTES - 64 * 1024);
        assert_true(response->json_len > response->text_len);
        assert_int_equal(strlen(response->text), response->text_len);
        cay_tool_response_free(response);
    }
    request.result_bytes_max = INT64_C(1) << 40;
    assert_false(cay_env_execute_tool(env, &request, NULL, &response, &err));
    assert_true(cay_error_is(&err, "invalid_argument"));
    request.result_bytes_max = 100;
    assert_done(cay_env_execute_tool(env, &request, NULL, &response, &err), &err);
    assert_true(response->text_len < 2000);
    cay_tool_response_free(response);
    free(world_bash(env, "rm %s", name));
    world_end(env);
}

/* --- callbacks that do more than listen --- */

static void act_close(struct heard *heard)
{
    cay_env_close(heard->env);
}

static void an_environment_is_closed_while_it_speaks(void **)
{
    struct cay_error err = {};
    struct cay_env *env = world_make();
    struct cay_env *other = world_open();
    struct heard heard = {.env = env, .act = act_close};
    struct cay_tool_response *response = NULL;
    struct cay_tool_request request = listening(&heard, "{\"cmd\":\"echo one; echo two; exit 5\"}");
    bool is_attached = cay_env_attach(other, cay_env_session_id(env), NULL, &err);
    if (cay_env_execute_tool(env, &request, NULL, &response, &err)) {
        assert_true(response->exit_code == 5 || response->is_error);
        cay_tool_response_free(response);
    } else {
        assert_true(err.text[0]); /* what a local one runs is ended when it is closed */
    }
    if (is_attached)
        assert_done(cay_env_destroy(other, NULL, &err), &err);
    cay_env_close(other);
}

static void act_destroy(struct heard *heard)
{
    struct cay_error err = {};
    assert_done(cay_env_destroy(heard->env, NULL, &err), &err);
}

static void an_environment_is_destroyed_while_it_speaks(void **)
{
    struct cay_error err = {};
    struct cay_env *env = world_make();
    struct heard heard = {.env = env, .act = act_destroy};
    struct cay_tool_response *response = NULL;
    struct cay_tool_request request = listening(&heard, "{\"cmd\":\"echo one; sleep 1000\"}");
    int64_t begun_ms = world_now_ms();
    if (cay_env_execute_tool(env, &request, NULL, &response, &err)) {
        assert_true(response->is_error);
        cay_tool_response_free(response);
    } else {
        assert_true(err.text[0]);
    }
    assert_true(world_now_ms() - begun_ms < WORLD_PATIENCE_MS);
    assert_int_equal(cay_env_state(env), CAY_ENV_DESTROYED);
    cay_env_close(env);
}

static void act_use(struct heard *heard)
{
    struct cay_env_capabilities can = world_capabilities(heard->env);
    assert_int_equal(cay_env_state(heard->env), CAY_ENV_ACTIVE);
    char *text = world_bash(heard->env, "echo from inside");
    assert_non_null(strstr(text, "from inside"));
    free(text);
    if (can.snapshots)
        assert_true(cay_env_create_snapshot(heard->env, NULL, NULL, NULL, NULL));
}

static void an_environment_is_used_while_it_speaks(void **)
{
    struct cay_error err = {};
    struct cay_env *env = world_make();
    struct heard heard = {.env = env, .act = act_use};
    struct cay_tool_response *response = NULL;
    struct cay_tool_request request = listening(&heard, "{\"cmd\":\"echo one; echo two\"}");
    assert_done(cay_env_execute_tool(env, &request, NULL, &response, &err), &err);
    assert_false(response->is_error);
    cay_tool_response_free(response);
    world_end(env);
}

/* --- time --- */

struct pid_file {
    struct cay_env *env;
    const char *name;
};

static bool is_ended(void *context)
{
    const struct pid_file *file = context;
    struct cay_tool_response *response =
        world_tool(file->env, "bash", "{\"cmd\":\"kill -0 $(cat %s) 2>/dev/null\"}", file->name);
    bool has_ended = response->is_error;
    cay_tool_response_free(response);
    return has_ended;
}

static bool is_begun(void *context)
{
    const struct pid_file *file = context;
    struct cay_tool_response *response =
        world_tool(file->env, "bash", "{\"cmd\":\"test -s %s\"}", file->name);
    bool has_begun = !response->is_error;
    cay_tool_response_free(response);
    return has_begun;
}

static void a_deadline_ends_the_call_and_its_command(void **)
{
    struct cay_error err = {};
    struct cay_env *env = world_make();
    struct pid_file file = {env, world_name("pid")};
    char params[256];
    snprintf(params, sizeof(params), "{\"cmd\":\"echo $$ > %s; sleep 1000\"}", file.name);
    struct cay_tool_request request = CAY_TOOL_REQUEST;
    struct cay_call_options options = CAY_CALL_OPTIONS;
    request.tool_name = "bash";
    request.params = params;
    options.timeout_ms = 500;
    int64_t begun_ms = world_now_ms();
    assert_false(cay_env_execute_tool(env, &request, &options, NULL, &err));
    assert_true(cay_error_is(&err, "deadline_exceeded"));
    assert_true(world_now_ms() - begun_ms < 10000);
    if (is_begun(&file))
        assert_true(world_awaits(is_ended, &file));
    /* The tool's own time is a result. */
    struct cay_tool_response *response = NULL;
    request.tool_timeout_ms = 200;
    assert_done(cay_env_execute_tool(env, &request, NULL, &response, &err), &err);
    assert_true(response->is_error);
    assert_string_equal(response->reason, "timeout_wall");
    cay_tool_response_free(response);
    world_end(env);
}

static void a_call_with_an_id_happens_once(void **)
{
    struct cay_error err = {};
    struct cay_env *env = world_make();
    const char *name = world_name("log");
    char params[256];
    snprintf(params, sizeof(params), "{\"cmd\":\"echo x >> %s; sleep 0.6; echo said\"}", name);
    struct cay_tool_request request = CAY_TOOL_REQUEST;
    struct cay_call_options options = CAY_CALL_OPTIONS;
    struct cay_tool_response *response = NULL;
    request.tool_name = "bash";
    request.params = params;
    request.tool_call_id = "call-1";
    /* Whoever runs out of time asks again. */
    options.timeout_ms = 300;
    assert_false(cay_env_execute_tool(env, &request, &options, &response, &err));
    assert_true(cay_error_is(&err, "deadline_exceeded"));
    for (int round = 0; round < 2; round++) {
        assert_done(cay_env_execute_tool(env, &request, NULL, &response, &err), &err);
        assert_true(response->is_cached);
        assert_non_null(strstr(response->text, "said"));
        assert_non_null(strstr(response->json, "\"toolCallId\":\"call-1\""));
        cay_tool_response_free(response);
    }
    char *text = world_bash(env, "wc -l < %s", name);
    assert_int_equal(strtol(text, NULL, 10), 1);
    free(text);
    request.params = "{\"cmd\":\"echo something else\"}";
    assert_false(cay_env_execute_tool(env, &request, NULL, &response, &err));
    assert_true(cay_error_is(&err, "already_exists"));
    world_end(env);
}

static void a_call_says_where_and_as_what(void **)
{
    struct cay_error err = {};
    struct cay_env *env = world_make();
    const char *name = world_name("dir");
    const struct cay_pair environment[] = {{"SHAPE", "round"}};
    struct cay_tool_request request = CAY_TOOL_REQUEST;
    struct cay_tool_response *response = NULL;
    /* Where the work is done, as tools call it and as commands see it: the same in most kinds. */
    char workspace[160];
    snprintf(workspace, sizeof(workspace), "/workspace/%s", name);
    char *place = world_bash(env, "mkdir %s; cd %s; pwd", name, name);
    place[strcspn(place, "\n")] = '\0';
    request.tool_name = "bash";
    request.params = "{\"cmd\":\"echo $SHAPE $(basename $PWD)\"}";
    request.cwd = place;
    request.environment = environment;
    request.environment_count = 1;
    if (!cay_env_execute_tool(env, &request, NULL, &response, &err)) {
        assert_true(cay_error_is(&err, "invalid_argument"));
        request.cwd = workspace;
        assert_done(cay_env_execute_tool(env, &request, NULL, &response, &err), &err);
    }
    char wanted[160];
    snprintf(wanted, sizeof(wanted), "round %s", name);
    assert_non_null(strstr(response->text, wanted));
    cay_tool_response_free(response);
    free(place);
    world_end(env);
}

/* --- nonsense --- */

static bool is_invalid(const struct cay_error *err)
{
    if (!cay_error_is(err, "invalid_argument"))
        print_error("%s (%s)\n", err->text, cay_error_reason(err));
    return cay_error_is(err, "invalid_argument") && err->text[0];
}

static void nothing_is_an_error(void **)
{
    struct cay_error err = {};
    struct cay_env *env = NULL;
    const struct cay_env_capabilities *can = NULL;
    static const char *const addresses[] = {
        NULL, "", ":", "native", "paper:/x", "unix:/x", "native:ftp://x", "\xff:x"};
    for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++) {
        assert_false(cay_env_open(addresses[i], NULL, &env, &err));
        assert_true(is_invalid(&err));
        assert_false(cay_env_open(addresses[i], NULL, &env, NULL));
    }
    assert_null(env);
    assert_false(cay_env_open(world_address, NULL, NULL, &err));
    cay_env_close(NULL);
    assert_false(cay_env_capabilities(NULL, NULL, &can, NULL));
    assert_int_equal(cay_env_state(NULL), CAY_ENV_FAILED);
    assert_string_equal(cay_env_session_id(NULL), "");
    assert_false(cay_env_create(NULL, NULL, NULL, &err) || cay_env_create(NULL, NULL, NULL, NULL));
    assert_true(is_invalid(&err));
    assert_false(cay_env_attach(NULL, NULL, NULL, NULL) || cay_env_pause(NULL, NULL, NULL) ||
                 cay_env_resume(NULL, NULL, NULL) || cay_env_destroy(NULL, NULL, NULL) ||
                 cay_env_execute_tool(NULL, NULL, NULL, NULL, NULL) ||
                 cay_env_create_snapshot(NULL, NULL, NULL, NULL, NULL) ||
                 cay_env_turn(NULL, NULL, NULL, NULL, NULL) ||
                 cay_env_rollback(NULL, NULL, NULL, NULL) ||
                 cay_env_fork(NULL, NULL, NULL, NULL, NULL, NULL) ||
                 cay_env_diff(NULL, NULL, NULL, NULL, NULL, NULL) ||
                 cay_env_restore(NULL, NULL, NULL, 0, NULL, NULL));
    cay_tool_response_free(NULL);
    cay_env_snapshot_free(NULL);
    cay_env_diff_free(NULL);
    assert_int_equal(cay_env_error_of(NULL), CAY_ENV_ERROR_OTHER);
    assert_null(cay_env_kind_capabilities(NULL));
    assert_null(cay_env_kind_capabilities("paper"));
    assert_false(cay_is_file_op(NULL) || cay_is_file_op("") || cay_is_file_op("bash"));
    assert_true(cay_is_file_op("read") && cay_is_file_op("read_file") && cay_is_file_op("ls"));
    assert_string_equal(cay_env_state_name((enum cay_env_state)99), "");
}

static void expect_bad_request(struct cay_env *env, const struct cay_tool_request *request)
{
    struct cay_error err = {};
    struct cay_tool_response *response = NULL;
    assert_false(cay_env_execute_tool(env, request, NULL, &response, &err));
    assert_true(is_invalid(&err));
    assert_false(cay_env_execute_tool(env, request, NULL, NULL, NULL));
    assert_null(response);
}

static void bad_requests_are_refused(void **)
{
    struct cay_error err = {};
    struct cay_env *env = world_make();
    struct cay_tool_request request = CAY_TOOL_REQUEST;
    static const char *const params[] = {
        "{",    "[]", "null x",        "{\"cmd\":1}", "\"cmd\"", "{\"cmd\"}", "{\"cmd\":\"\xff\"}",
        "\xff", "{}", "{\"cmd\":\"\"}"};
    const struct cay_pair nameless[] = {{NULL, "x"}, {"", "x"}, {"a\xff", "x"}, {"a", "\xff"}};
    expect_bad_request(env, NULL);
    expect_bad_request(env, &request);
    request.tool_name = "";
    expect_bad_request(env, &request);
    request.tool_name = "bash";
    for (size_t i = 0; i < sizeof(params) / sizeof(params[0]); i++) {
        request.params = params[i];
        expect_bad_request(env, &request);
    }
    request.params = NULL; /* bash wants some */
    expect_bad_request(env, &request);
    request.params = "{\"cmd\":\"true\"}";
    for (size_t i = 0; i < 4; i++) {
        request.environment = &nameless[i];
        request.environment_count = 1;
        expect_bad_request(env, &request);
    }
    request.environment = NULL;
    expect_bad_request(env, &request);
    request.environment_count = 0;
    request.cwd = "a\xff";
    expect_bad_request(env, &request);
    request.cwd = "";
    request.user = "\xfe";
    expect_bad_request(env, &request);
    request.user = "";
    request.tool_timeout_ms = -1;
    expect_bad_request(env, &request);
    request.tool_timeout_ms = 0;
    request.tool_call_id = "";
    assert_done(cay_env_execute_tool(env, &request, NULL, NULL, &err), &err);
    request.tool_name = "bsah";
    assert_false(cay_env_execute_tool(env, &request, NULL, NULL, &err));
    assert_true(cay_error_is(&err, "tool_not_found"));
    assert_string_equal(cay_error_get(&err, "nearest"), "bash");
    world_end(env);
}

/* A struct of a caller that was built with another header. */
static void sizes_tell_versions_apart(void **)
{
    struct cay_error err = {};
    struct cay_env *env = world_make();
    struct {
        struct cay_tool_request request;
        char more[64];
    } newer = {};
    newer.request.tool_name = "bash";
    newer.request.params = "{\"cmd\":\"true\"}";
    static const size_t bad[] = {0, 1, sizeof(size_t) - 1, 1 << 20, SIZE_MAX};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        newer.request.size = bad[i];
        expect_bad_request(env, &newer.request);
    }
    newer.request.size = offsetof(struct cay_tool_request, tool_call_id);
    newer.request.tool_call_id = "\xff"; /* not there, for an older caller */
    newer.request.user = "nobody-there";
    assert_done(cay_env_execute_tool(env, &newer.request, NULL, NULL, &err), &err);
    newer.request.tool_call_id = NULL;
    newer.request.user = NULL;
    newer.request.size = sizeof(newer);
    assert_done(cay_env_execute_tool(env, &newer.request, NULL, NULL, &err), &err);
    newer.more[63] = 1;
    assert_false(cay_env_execute_tool(env, &newer.request, NULL, NULL, &err));
    assert_true(cay_error_is(&err, "not_supported"));
    struct cay_call_options options = {};
    assert_false(cay_env_pause(env, &options, &err));
    assert_true(is_invalid(&err));
    struct cay_env_config config = {};
    struct cay_env *other = world_open();
    assert_false(cay_env_create(other, &config, NULL, &err));
    assert_true(is_invalid(&err));
    config.size = sizeof(config);
    config.session_id = "not/an/id";
    assert_false(cay_env_create(other, &config, NULL, &err));
    assert_true(is_invalid(&err));
    config.session_id = "";
    config.cpus = -1;
    assert_false(cay_env_create(other, &config, NULL, &err));
    config.cpus = 0;
    config.label_count = 1;
    assert_false(cay_env_create(other, &config, NULL, &err));
    config.label_count = 0;
    config.base = "no such base";
    bool is_made = cay_env_create(other, &config, NULL, &err);
    assert_true(is_made || err.text[0]);
    world_end(other);
    world_end(env);
}

static void names_of_files_are_bytes(void **)
{
    struct cay_error err = {};
    struct cay_env *env = world_make();
    const char *name = world_name("bytes");
    struct cay_tool_response *response =
        world_tool(env, "write_file", "{\"path\":\"%s\\uefff\",\"content\":\"x\"}", name);
    assert_false(response->is_error);
    cay_tool_response_free(response);
    char *text = world_bash(env, "cat $(printf '%s\\\\377')", name);
    assert_non_null(strstr(text, "x"));
    free(text);
    response = world_tool(env, "read_file", "{\"path\":\"%s\\uefff\"}", name);
    assert_false(response->is_error);
    cay_tool_response_free(response);
    const struct cay_env_capabilities can = world_capabilities(env);
    if (can.diff && can.restore && can.snapshots) {
        struct cay_env_diff *diff = NULL;
        struct cay_env_snapshot *snapshot = NULL;
        char path[160];
        snprintf(path, sizeof(path), "%s\xee\xbf\xbf", name); /* U+EFFF */
        assert_done(cay_env_create_snapshot(env, NULL, NULL, &snapshot, &err), &err);
        assert_done(cay_env_diff(env, NULL, snapshot->id, NULL, &diff, &err), &err);
        bool is_there = false;
        for (size_t i = 0; i < diff->change_count; i++)
            is_there |= strstr(diff->changes[i]->path, path) != NULL;
        assert_true(is_there);
        cay_env_diff_free(diff);
        free(world_bash(env, "rm $(printf '%s\\\\377')", name));
        const char *paths[] = {path, "\xff"};
        assert_done(cay_env_restore(env, snapshot->id, paths, 1, NULL, &err), &err);
        free(world_bash(env, "cat $(printf '%s\\\\377')", name));
        assert_false(cay_env_restore(env, snapshot->id, paths, 2, NULL, &err));
        assert_true(is_invalid(&err));
        assert_false(cay_env_restore(env, snapshot->id, paths, 0, NULL, &err));
        assert_false(cay_env_restore(env, snapshot->id, NULL, 1, NULL, &err));
        cay_env_snapshot_free(snapshot);
    }
    free(world_bash(env, "rm $(printf '%s\\\\377')", name));
    world_end(env);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(output_is_heard_as_it_comes),
        cmocka_unit_test(much_output_is_heard_in_order),
        cmocka_unit_test(large_results_come_whole),
        cmocka_unit_test(an_environment_is_closed_while_it_speaks),
        cmocka_unit_test(an_environment_is_destroyed_while_it_speaks),
        cmocka_unit_test(an_environment_is_used_while_it_speaks),
        cmocka_unit_test(a_deadline_ends_the_call_and_its_command),
        cmocka_unit_test(a_call_with_an_id_happens_once),
        cmocka_unit_test(a_call_says_where_and_as_what),
        cmocka_unit_test(nothing_is_an_error),
        cmocka_unit_test(bad_requests_are_refused),
        cmocka_unit_test(sizes_tell_versions_apart),
        cmocka_unit_test(names_of_files_are_bytes),
    };
    world_begin(argc, argv);
    return cmocka_run_group_tests_name("env_tools", tests, NULL, NULL);
}
