/* SPDX-License-Identifier: Apache-2.0 */
/* What every environment promises: its life, its states, its tools, its past. */
#include "tests/conform/env_world.h"

/* --- the five subtests of compliance --- */

static void capabilities_are_the_same_at_any_time(void **)
{
    struct cay_error err = {};
    struct cay_env *env = world_open();
    const struct cay_env_capabilities first = world_capabilities(env);
    assert_true(first.max_session_duration_ms >= 0 && first.concurrent_sessions >= 0);
    assert_false(first.rollback && !first.snapshots);
    assert_done(cay_env_create(env, NULL, NULL, &err), &err);
    const struct cay_env_capabilities second = world_capabilities(env);
    assert_done(cay_env_destroy(env, NULL, &err), &err);
    const struct cay_env_capabilities third = world_capabilities(env);
    assert_memory_equal(&first, &second, sizeof(first));
    assert_memory_equal(&first, &third, sizeof(first));
    cay_env_close(env);
    /* Those that are known by design are what they are. */
    const char *colon = strchr(world_address, ':');
    char kind[16] = "";
    snprintf(kind, sizeof(kind), "%.*s", (int)(colon - world_address), world_address);
    const struct cay_env_capabilities *known = cay_env_kind_capabilities(kind);
    if (known)
        assert_memory_equal(&first, known, sizeof(first));
}

static void a_whole_life_is_lived(void **)
{
    struct cay_error err = {};
    struct cay_env *env = world_open();
    const char *name = world_name("life");
    assert_int_equal(cay_env_state(env), CAY_ENV_CREATING);
    assert_string_equal(cay_env_session_id(env), "");
    assert_done(cay_env_create(env, NULL, NULL, &err), &err);
    assert_int_equal(cay_env_state(env), CAY_ENV_ACTIVE);
    assert_true(cay_env_session_id(env)[0]);
    world_write(env, name, "one\\ntwo\\n");
    struct cay_tool_response *response =
        world_tool(env, "read_file", "{\"path\":\"%s\",\"offset\":1}", name);
    assert_false(response->is_error);
    assert_string_equal(response->reason, "");
    assert_non_null(strstr(response->text, "two"));
    assert_null(strstr(response->text, "one"));
    assert_false(response->has_exit_code);
    assert_int_equal(strlen(response->text), response->text_len);
    assert_int_equal(strlen(response->json), response->json_len);
    assert_non_null(strstr(response->json, "\"toolName\":\"read_file\""));
    assert_null(strstr(response->json, "toolCallId"));
    cay_tool_response_free(response);
    response = world_tool(env, "bash", "{\"cmd\":\"wc -l < %s; echo on 2 >&2; exit 3\"}", name);
    assert_true(response->is_error && response->has_exit_code);
    assert_int_equal(response->exit_code, 3);
    assert_string_equal(response->reason, "exit_code");
    assert_non_null(strstr(response->text, "2"));
    assert_non_null(strstr(response->text, "on 2"));
    assert_true(response->duration_us > 0);
    cay_tool_response_free(response);
    assert_done(cay_env_destroy(env, NULL, &err), &err);
    assert_int_equal(cay_env_state(env), CAY_ENV_DESTROYED);
    cay_env_close(env);
}

struct counting {
    struct cay_env *env;
    const char *name;
};

static long count_of(struct cay_env *env, const char *name)
{
    struct cay_tool_response *response =
        world_tool(env, "bash", "{\"cmd\":\"cat %s 2>/dev/null || echo 0\"}", name);
    long count = strtol(response->text, NULL, 10);
    cay_tool_response_free(response);
    return count;
}

static bool has_counted(void *context)
{
    const struct counting *counting = context;
    return count_of(counting->env, counting->name) > 2;
}

static void a_pause_stops_what_runs(void **)
{
    struct cay_error err = {};
    struct cay_env *env = world_make();
    if (!world_capabilities(env).pause) {
        assert_refused(cay_env_pause(env, NULL, &err), &err,
                       CAY_ENV_ERROR_CAPABILITY_NOT_SUPPORTED);
        assert_refused(cay_env_resume(env, NULL, &err), &err,
                       CAY_ENV_ERROR_CAPABILITY_NOT_SUPPORTED);
        world_end(env);
        return;
    }
    struct counting counting = {env, world_name("count")};
    struct cay_tool_response *response =
        world_tool(env, "bash",
                   "{\"cmd\":\"i=0; while true; do i=$((i+1)); echo $i > %s.new; mv %s.new %s; "
                   "sleep 0.01; done\",\"background\":true}",
                   counting.name, counting.name, counting.name);
    assert_false(response->is_error);
    assert_true(response->process_id[0]);
    cay_tool_response_free(response);
    assert_true(world_awaits(has_counted, &counting));
    assert_refused(cay_env_resume(env, NULL, &err), &err, CAY_ENV_ERROR_NOT_ACTIVE);
    assert_done(cay_env_pause(env, NULL, &err), &err);
    assert_int_equal(cay_env_state(env), CAY_ENV_PAUSED);
    assert_refused(cay_env_pause(env, NULL, &err), &err, CAY_ENV_ERROR_NOT_ACTIVE);
    struct cay_tool_request request = CAY_TOOL_REQUEST;
    request.tool_name = "bash";
    request.params = "{\"cmd\":\"true\"}";
    assert_refused(cay_env_execute_tool(env, &request, NULL, &response, &err), &err,
                   CAY_ENV_ERROR_NOT_ACTIVE);
    assert_done(cay_env_resume(env, NULL, &err), &err);
    assert_int_equal(cay_env_state(env), CAY_ENV_ACTIVE);
    /* It goes on from where it was. */
    long before = count_of(env, counting.name);
    assert_true(before > 2);
    assert_true(world_awaits(has_counted, &counting));
    world_end(env);
}

static void a_rollback_brings_files_back(void **)
{
    struct cay_error err = {};
    struct cay_env *env = world_make();
    struct cay_env_snapshot *snapshot = NULL;
    const char *name = world_name("file");
    if (!world_capabilities(env).snapshots) {
        assert_refused(cay_env_create_snapshot(env, "first", NULL, &snapshot, &err), &err,
                       CAY_ENV_ERROR_CAPABILITY_NOT_SUPPORTED);
        assert_refused(cay_env_rollback(env, "first", NULL, &err), &err,
                       CAY_ENV_ERROR_CAPABILITY_NOT_SUPPORTED);
        assert_null(snapshot);
        world_end(env);
        return;
    }
    world_write(env, name, "old");
    assert_done(cay_env_create_snapshot(env, "first", NULL, &snapshot, &err), &err);
    assert_true(snapshot->id[0]);
    assert_string_equal(snapshot->name, "first");
    assert_true(snapshot->created_ms > INT64_C(1600000000000));
    assert_true(snapshot->space_used_bytes >= 0);
    world_write(env, name, "new");
    world_expect_file(env, name, "new");
    assert_done(cay_env_rollback(env, snapshot->id, NULL, &err), &err);
    world_expect_file(env, name, "old");
    assert_false(cay_env_rollback(env, "no-such-snapshot", NULL, &err));
    assert_true(cay_error_is(&err, "snapshot_not_found"));
    assert_false(cay_env_create_snapshot(env, "first", NULL, NULL, &err));
    assert_true(cay_error_is(&err, "snapshot_exists"));
    assert_done(cay_env_create_snapshot(env, NULL, NULL, NULL, &err), &err);
    cay_env_snapshot_free(snapshot);
    world_end(env);
}

/* All that needs a session, and is allowed by its capabilities or not. */
static void expect_all_refused(struct cay_env *env, bool is_ended)
{
    const struct cay_env_capabilities can = world_capabilities(env);
    struct cay_error err = {};
    struct cay_env *fork = NULL;
    struct cay_env_diff *diff = NULL;
    struct cay_env_snapshot *snapshot = NULL;
    struct cay_tool_response *response = NULL;
    struct cay_tool_request request = CAY_TOOL_REQUEST;
    const char *const paths[] = {"file"};
    request.tool_name = "bash";
    request.params = "{\"cmd\":\"true\"}";
#define WANTED(capability) \
    (is_ended || can.capability ? CAY_ENV_ERROR_NOT_ACTIVE : CAY_ENV_ERROR_CAPABILITY_NOT_SUPPORTED)
    assert_refused(cay_env_execute_tool(env, &request, NULL, &response, &err), &err,
                   CAY_ENV_ERROR_NOT_ACTIVE);
    assert_refused(cay_env_pause(env, NULL, &err), &err, WANTED(pause));
    assert_refused(cay_env_resume(env, NULL, &err), &err, WANTED(pause));
    assert_refused(cay_env_create_snapshot(env, "x", NULL, &snapshot, &err), &err,
                   WANTED(snapshots));
    assert_refused(cay_env_turn(env, "x", NULL, &snapshot, &err), &err, WANTED(turn));
    assert_refused(cay_env_rollback(env, "x", NULL, &err), &err, WANTED(rollback));
    assert_refused(cay_env_fork(env, NULL, NULL, NULL, &fork, &err), &err, WANTED(fork));
    assert_refused(cay_env_diff(env, NULL, NULL, NULL, &diff, &err), &err, WANTED(diff));
    assert_refused(cay_env_restore(env, "x", paths, 1, NULL, &err), &err, WANTED(restore));
#undef WANTED
    assert_true(!response && !snapshot && !fork && !diff);
}

static void a_destroyed_environment_does_nothing_more(void **)
{
    struct cay_error err = {};
    struct cay_env *env = world_make();
    char *session_id = strdup(cay_env_session_id(env));
    assert_done(cay_env_destroy(env, NULL, &err), &err);
    assert_int_equal(cay_env_state(env), CAY_ENV_DESTROYED);
    expect_all_refused(env, true);
    assert_refused(cay_env_create(env, NULL, NULL, &err), &err, CAY_ENV_ERROR_NOT_ACTIVE);
    assert_refused(cay_env_attach(env, "x", NULL, &err), &err, CAY_ENV_ERROR_NOT_ACTIVE);
    assert_done(cay_env_destroy(env, NULL, &err), &err);
    assert_done(cay_env_destroy(env, NULL, NULL), &err);
    assert_int_equal(cay_env_state(env), CAY_ENV_DESTROYED);
    assert_string_equal(cay_env_session_id(env), session_id);
    free(session_id);
    cay_env_close(env);
}

static void nothing_is_done_before_create(void **)
{
    struct cay_error err = {};
    struct cay_env *env = world_open();
    expect_all_refused(env, false);
    assert_int_equal(cay_env_state(env), CAY_ENV_CREATING);
    assert_done(cay_env_destroy(env, NULL, &err), &err);
    assert_int_equal(cay_env_state(env), CAY_ENV_DESTROYED);
    expect_all_refused(env, true);
    cay_env_close(env);
    env = world_make();
    assert_false(cay_env_create(env, NULL, NULL, &err));
    assert_true(cay_error_is(&err, "failed_precondition"));
    assert_false(cay_env_attach(env, cay_env_session_id(env), NULL, &err));
    world_end(env);
}

/* --- properties --- */

static void expect_past(struct cay_env *env, const char *name)
{
    struct cay_error err = {};
    struct cay_env_snapshot *turn = NULL;
    struct cay_env_snapshot *next = NULL;
    struct cay_env_diff *diff = NULL;
    world_write(env, name, "first\\n");
    assert_done(cay_env_turn(env, "a turn", NULL, &turn, &err), &err);
    world_write(env, name, "second\\n");
    assert_done(cay_env_turn(env, NULL, NULL, &next, &err), &err);
    assert_string_not_equal(turn->id, next->id);
    assert_done(cay_env_diff(env, turn->id, next->id, NULL, &diff, &err), &err);
    assert_int_equal(diff->change_count, 1);
    assert_int_equal(diff->changes[0]->kind, CAY_ENV_MODIFIED);
    assert_non_null(strstr(diff->changes[0]->path, name));
    assert_string_equal(diff->changes[0]->old_path, "");
    assert_non_null(strstr(diff->patch, "+second"));
    assert_int_equal(strlen(diff->patch), diff->patch_len);
    cay_env_diff_free(diff);
    assert_done(cay_env_diff(env, next->id, NULL, NULL, &diff, &err), &err);
    assert_int_equal(diff->change_count, 0);
    assert_string_equal(diff->patch, "");
    cay_env_diff_free(diff);
    assert_done(cay_env_restore(env, turn->id, &name, 1, NULL, &err), &err);
    world_expect_file(env, name, "first");
    struct cay_env *fork = NULL;
    assert_done(cay_env_fork(env, next->id, NULL, NULL, &fork, &err), &err);
    assert_string_not_equal(cay_env_session_id(fork), cay_env_session_id(env));
    assert_int_equal(cay_env_state(fork), CAY_ENV_ACTIVE);
    world_expect_file(fork, name, "second");
    world_write(fork, name, "third\\n");
    world_expect_file(env, name, "first");
    world_end(fork);
    cay_env_snapshot_free(turn);
    cay_env_snapshot_free(next);
}

/* P1: what is true works, what is not is refused. */
static void capabilities_are_real(void **)
{
    struct cay_error err = {};
    struct cay_env *env = world_make();
    const struct cay_env_capabilities can = world_capabilities(env);
    struct cay_env_snapshot *snapshot = NULL;
    struct cay_env_diff *diff = NULL;
    struct cay_env *fork = NULL;
    const char *name = world_name("past");
    if (can.turn && can.diff && can.restore && can.fork)
        expect_past(env, name);
    if (!can.turn)
        assert_refused(cay_env_turn(env, NULL, NULL, &snapshot, &err), &err,
                       CAY_ENV_ERROR_CAPABILITY_NOT_SUPPORTED);
    if (!can.fork)
        assert_refused(cay_env_fork(env, NULL, NULL, NULL, &fork, &err), &err,
                       CAY_ENV_ERROR_CAPABILITY_NOT_SUPPORTED);
    if (!can.restore)
        assert_refused(cay_env_restore(env, "x", &name, 1, NULL, &err), &err,
                       CAY_ENV_ERROR_CAPABILITY_NOT_SUPPORTED);
    if (!can.diff)
        assert_refused(cay_env_diff(env, NULL, NULL, NULL, &diff, &err), &err,
                       CAY_ENV_ERROR_CAPABILITY_NOT_SUPPORTED);
    else if (!can.snapshots) { /* the base and the live files are points, too */
        world_write(env, name, "x");
        assert_done(cay_env_diff(env, NULL, NULL, NULL, &diff, &err), &err);
        bool is_there = false;
        for (size_t i = 0; i < diff->change_count; i++)
            is_there |= strstr(diff->changes[i]->path, name) != NULL;
        assert_true(is_there);
        cay_env_diff_free(diff);
    }
    world_end(env);
}

/* P2: a random walk beside a model. */
static void states_follow_the_model(void **)
{
    unsigned seed = 7;
    struct cay_error err = {};
    struct cay_env *env = world_open();
    const bool can_pause = world_capabilities(env).pause;
    enum cay_env_state model = CAY_ENV_CREATING;
    for (int step = 0; step < 60; step++) {
        unsigned roll = (unsigned)rand_r(&seed) % 10;
        struct cay_tool_request request = CAY_TOOL_REQUEST;
        request.tool_name = "list_dir";
        request.params = "{\"path\":\".\"}";
        if (roll < 3) {
            bool is_done = cay_env_execute_tool(env, &request, NULL, NULL, &err);
            assert_int_equal(is_done, model == CAY_ENV_ACTIVE);
        } else if (roll < 5) {
            bool is_done = cay_env_pause(env, NULL, &err);
            assert_int_equal(is_done, can_pause && model == CAY_ENV_ACTIVE);
            model = is_done ? CAY_ENV_PAUSED : model;
        } else if (roll < 7) {
            bool is_done = cay_env_resume(env, NULL, &err);
            assert_int_equal(is_done, can_pause && model == CAY_ENV_PAUSED);
            model = is_done ? CAY_ENV_ACTIVE : model;
        } else if (roll < 9) {
            bool is_done = cay_env_create(env, NULL, NULL, &err);
            assert_int_equal(is_done, model == CAY_ENV_CREATING);
            model = is_done ? CAY_ENV_ACTIVE : model;
        } else if (step % 4 == 0) {
            assert_done(cay_env_destroy(env, NULL, &err), &err);
            assert_int_equal(cay_env_state(env), CAY_ENV_DESTROYED);
            cay_env_close(env);
            env = world_open();
            model = CAY_ENV_CREATING;
        }
        assert_int_equal(cay_env_state(env), model);
        assert_true(cay_env_state_name(model)[0]);
    }
    world_end(env);
}

/* The same calls on any environment. */
static const struct {
    const char *tool;
    const char *params; /* '@' stands for a name of the case's own */
} golden[] = {
    {"write_file", "{\"path\":\"@/a.txt\",\"content\":\"one\\ntwo\\nthree\\n\"}"},
    {"write", "{\"path\":\"@/b/c.txt\",\"content\":\"needle\\n\"}"},
    {"read_file", "{\"path\":\"@/a.txt\"}"},
    {"read", "{\"path\":\"@/a.txt\",\"offset\":1,\"limit\":1}"},
    {"read_file", "{\"path\":\"@/missing\"}"},
    {"edit_file", "{\"path\":\"@/a.txt\",\"old_string\":\"two\",\"new_string\":\"2\"}"},
    {"edit", "{\"path\":\"@/a.txt\",\"old_string\":\"nowhere\",\"new_string\":\"x\"}"},
    {"grep", "{\"pattern\":\"needle\",\"path\":\"@\"}"},
    {"glob", "{\"pattern\":\"@/**/*.txt\"}"},
    {"list_dir", "{\"path\":\"@\",\"depth\":2}"},
    {"read_file", "{\"path\":\"@\"}"},
    {"bash", "{\"cmd\":\"cd @ && cat a.txt && echo bad >&2\"}"},
    {"bash", "{\"cmd\":\"exit 7\"}"},
    {"bash", "{\"cmd\":\"kill -9 $$\"}"},
    {"bash", "{\"cmd\":\"cat\",\"stdin\":\"fed\\n\"}"},
    {"bash", "{\"cmd\":\"echo begun; sleep 30\",\"timeout_ms\":100}"},
    {"bash", "{\"cmd\":\"printf 'a\\\\377b'\"}"},
};

static struct cay_tool_response *golden_run(struct cay_env *env, size_t index, const char *name)
{
    char params[512] = "";
    for (const char *at = golden[index].params; *at; at++) {
        size_t len = strlen(params);
        snprintf(params + len, sizeof(params) - len, "%.*s", *at == '@' ? 64 : 1,
                 *at == '@' ? name : at);
    }
    return world_tool(env, golden[index].tool, "%s", params);
}

/* How long a command ran before its timeout ended it is the machine's affair. */
static void forget_time(char *text)
{
    static const char before[] = "timed out after ";
    char *time = strstr(text, before);
    if (!time)
        return;
    time += strlen(before);
    size_t len = strspn(time, "0123456789.");
    assert_true(len > 0);
    memmove(time, time + len, strlen(time + len) + 1);
}

static void expect_same(struct cay_env *left_env, struct cay_env *right_env)
{
    const char *left_name = world_name("same");
    char right_name[128];
    snprintf(right_name, sizeof(right_name), "%s", left_name);
    right_name[0] = 'S'; /* of the same length, where environments share their files */
    for (size_t i = 0; i < sizeof(golden) / sizeof(golden[0]); i++) {
        struct cay_tool_response *left = golden_run(left_env, i, left_name);
        struct cay_tool_response *right = golden_run(right_env, i, right_name);
        char *right_text = strdup(right->text);
        for (char *at; (at = strstr(right_text, right_name));)
            *at = left_name[0];
        char *left_text = strdup(left->text);
        forget_time(left_text);
        forget_time(right_text);
        if (strcmp(left_text, right_text) != 0)
            print_error("%s %s\n", golden[i].tool, golden[i].params);
        assert_string_equal(left_text, right_text);
        free(left_text);
        assert_string_equal(left->reason, right->reason);
        assert_int_equal(left->is_error, right->is_error);
        assert_int_equal(left->has_exit_code, right->has_exit_code);
        assert_int_equal(left->exit_code, right->exit_code);
        free(right_text);
        cay_tool_response_free(left);
        cay_tool_response_free(right);
    }
}

/* P3 */
static void the_same_call_gives_the_same(void **)
{
    struct cay_env *one = world_make();
    struct cay_env *two = world_make();
    expect_same(one, two);
    world_end(one);
    world_end(two);
}

/* P5 */
static void results_are_those_of_the_reference(void **)
{
    struct cay_error err = {};
    if (!world_reference)
        world_skip("there is no other kind to compare with");
    struct cay_env *env = world_make();
    struct cay_env *reference = world_open_at(world_reference, NULL);
    assert_done(cay_env_create(reference, NULL, NULL, &err), &err);
    expect_same(reference, env);
    world_end(reference);
    world_end(env);
}

/* --- sessions of one's own --- */

static void a_session_is_what_its_config_says(void **)
{
    struct cay_error err = {};
    struct cay_env *env = world_open();
    struct cay_env *other = world_open();
    struct cay_env_config config = CAY_ENV_CONFIG;
    const struct cay_pair labels[] = {{"team", "blue"}, {"empty", ""}, {"none", NULL}};
    const struct cay_pair environment[] = {{"COLOR", "blue"}, {"NOTHING", NULL}};
    config.session_id = world_name("named");
    config.labels = labels;
    config.label_count = 3;
    config.environment = environment;
    config.environment_count = 2;
    assert_done(cay_env_create(env, &config, NULL, &err), &err);
    assert_string_equal(cay_env_session_id(env), config.session_id);
    char *text = world_bash(env, "echo $COLOR,$NOTHING.");
    assert_non_null(strstr(text, "blue,."));
    free(text);
    if (cay_env_attach(other, config.session_id, NULL, &err)) {
        const char *name = world_name("shared");
        world_write(other, name, "x");
        world_expect_file(env, name, "x");
        assert_done(cay_env_destroy(other, NULL, &err), &err);
        assert_int_equal(cay_env_state(env), CAY_ENV_DESTROYED);
        struct cay_tool_request request = CAY_TOOL_REQUEST;
        request.tool_name = "list_dir";
        request.params = "{\"path\":\".\"}";
        assert_refused(cay_env_execute_tool(env, &request, NULL, NULL, &err), &err,
                       CAY_ENV_ERROR_SESSION_NOT_FOUND);
    } else {
        assert_int_equal(cay_env_error_of(&err), CAY_ENV_ERROR_CAPABILITY_NOT_SUPPORTED);
    }
    world_end(env);
    cay_env_close(other);
}

static void what_is_missing_cannot_be_attached_to(void **)
{
    struct cay_error err = {};
    struct cay_env *env = world_open();
    static const char *const names[] = {"no-such-session", "..", "a/b", "\xff"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_false(cay_env_attach(env, names[i], NULL, &err));
        enum cay_env_error error = cay_env_error_of(&err);
        assert_true(error == CAY_ENV_ERROR_SESSION_NOT_FOUND ||
                    error == CAY_ENV_ERROR_CAPABILITY_NOT_SUPPORTED ||
                    cay_error_is(&err, "invalid_argument"));
    }
    /* It is as new. */
    assert_int_equal(cay_env_state(env), CAY_ENV_CREATING);
    assert_done(cay_env_create(env, NULL, NULL, &err), &err);
    world_end(env);
}

static void expect_mismatch(const struct cay_env_options *options)
{
    struct cay_error err = {};
    struct cay_env *env = world_open_at(world_address, options);
    struct cay_env *other = world_open();
    struct cay_env_config config = CAY_ENV_CONFIG;
    config.session_id = world_name("mismatch");
    assert_false(cay_env_create(env, &config, NULL, &err));
    assert_true(cay_error_is(&err, "failed_precondition"));
    assert_string_equal(cay_env_session_id(env), "");
    assert_refused(cay_env_attach(other, config.session_id, NULL, &err), &err,
                   CAY_ENV_ERROR_SESSION_NOT_FOUND);
    /* What was there before stays. */
    assert_done(cay_env_create(other, &config, NULL, &err), &err);
    assert_false(cay_env_create(env, &config, NULL, &err));
    assert_false(cay_env_attach(env, config.session_id, NULL, &err));
    assert_true(cay_error_is(&err, "failed_precondition"));
    assert_int_equal(cay_env_state(other), CAY_ENV_ACTIVE);
    world_end(other);
    cay_env_close(env);
}

static void what_is_not_as_expected_is_not_left_behind(void **)
{
    struct cay_error err = {};
    struct cay_env_options options = CAY_ENV_OPTIONS;
    struct cay_env *env = world_open();
    bool has_sessions = cay_env_attach(env, "no-such-session", NULL, &err) ||
                        cay_env_error_of(&err) == CAY_ENV_ERROR_SESSION_NOT_FOUND;
    cay_env_close(env);
    options.store = "paper";
    if (!has_sessions) { /* nor anything else that could be expected of them */
        env = world_open_at(world_address, &options);
        assert_false(cay_env_create(env, NULL, NULL, &err));
        assert_true(cay_error_is(&err, "failed_precondition"));
        cay_env_close(env);
        return;
    }
    expect_mismatch(&options);
    options.store = NULL;
    options.runtime = "paper";
    expect_mismatch(&options);
}

/* What an environment cannot keep it does not promise. */
static void limits_are_kept_or_refused(void **)
{
    struct cay_error err = {};
    struct cay_env *env = world_open();
    struct cay_env_config config = CAY_ENV_CONFIG;
    config.memory_bytes = 64 << 20;
    config.process_count = 24;
    if (cay_env_create(env, &config, NULL, &err)) {
        struct cay_tool_response *response =
            world_tool(env, "bash", "{\"cmd\":\"for i in $(seq 60); do sleep 1 & done; wait\"}");
        bool is_isolating = world_capabilities(env).isolates;
        assert_true(!is_isolating || response->is_error || strstr(response->text, "fork"));
        cay_tool_response_free(response);
        world_end(env);
        return;
    }
    assert_int_equal(cay_env_error_of(&err), CAY_ENV_ERROR_CAPABILITY_NOT_SUPPORTED);
    cay_env_close(env);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(capabilities_are_the_same_at_any_time),
        cmocka_unit_test(a_whole_life_is_lived),
        cmocka_unit_test(a_pause_stops_what_runs),
        cmocka_unit_test(a_rollback_brings_files_back),
        cmocka_unit_test(a_destroyed_environment_does_nothing_more),
        cmocka_unit_test(nothing_is_done_before_create),
        cmocka_unit_test(capabilities_are_real),
        cmocka_unit_test(states_follow_the_model),
        cmocka_unit_test(the_same_call_gives_the_same),
        cmocka_unit_test(results_are_those_of_the_reference),
        cmocka_unit_test(a_session_is_what_its_config_says),
        cmocka_unit_test(what_is_missing_cannot_be_attached_to),
        cmocka_unit_test(what_is_not_as_expected_is_not_left_behind),
        cmocka_unit_test(limits_are_kept_or_refused),
    };
    world_begin(argc, argv);
    return cmocka_run_group_tests_name("env", tests, NULL, NULL);
}
