/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An agent loop, in any environment: ./agent ENVIRONMENT [BASE]
 *
 * A model is asked what to do, its tool is called, and it is told what came of it. This one is a
 * script: it writes a program, tests it, breaks it, looks at what it did, goes back, and tries
 * three ways to make it better. What an environment cannot do, the loop says, and goes on without.
 */
#include <cay/cay.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARAMS_BYTES = 4096, ATTEMPTS = 3 };

/* What the model says: a tool, and what it is called with. */
struct step {
    const char *why;
    const char *tool;
    const char *path; /* of write_file */
    const char *text; /* the content, or the command */
};

static const struct step writes[] = {
    {"a program that turns titles into names", "write_file", "slug.sh",
     "printf '%s\\n' \"$1\" | tr 'A-Z' 'a-z'\n"},
    {"a test for it", "write_file", "test.sh",
     "[ \"$(sh slug.sh 'Hello World')\" = hello-world ] || exit 1\n"
     "[ \"$(sh slug.sh 'A  B c')\" = a-b-c ] || exit 2\necho all good\n"},
    {"does it work?", "bash", NULL, "sh test.sh"},
    {"blanks become dashes", "write_file", "slug.sh",
     "printf '%s\\n' \"$1\" | tr 'A-Z' 'a-z' | tr -s ' ' '-'\n"},
    {"and now?", "bash", NULL, "sh test.sh"},
};

static const struct step breaks[] = {
    {"this must be faster without tr", "write_file", "slug.sh", "echo \"$1\"\n"},
    {"nobody needs a test", "bash", NULL, "rm test.sh"},
    {"what have I done?", "bash", NULL, "sh test.sh"},
};

static const char *const attempts[ATTEMPTS] = {
    "printf '%s\\n' \"$1\" | sed 's/ /-/g' | tr 'A-Z' 'a-z'\n",
    "printf '%s\\n' \"$1\" | tr 'A-Z ' 'a-z-' | tr -s '-'\n",
    "printf '%s\\n' \"$1\" | awk '{ $1 = $1; gsub(/ /, \"-\"); print tolower($0) }'\n",
};

static void complain(const char *what, const struct cay_error *err)
{
    printf("   %s: %s (%s)\n", what, err->text, cay_error_reason(err));
}

/* What a tool printed, a little to the right. */
static void show(const char *text)
{
    for (size_t len; *text; text += len + (text[len] == '\n')) {
        len = strcspn(text, "\n");
        printf("   | %.*s\n", (int)len, text);
    }
}

static void add(char params[PARAMS_BYTES], const char *text)
{
    size_t len = strlen(params);
    snprintf(params + len, PARAMS_BYTES - len, "%s", text);
}

/* As a string of JSON. */
static void add_quoted(char params[PARAMS_BYTES], const char *text)
{
    add(params, "\"");
    for (; *text; text++) {
        const char one[] = {*text, '\0'};
        add(params, *text == '"' ? "\\\"" : *text == '\\' ? "\\\\" : *text == '\n' ? "\\n" : one);
    }
    add(params, "\"");
}

/* One call of a tool. True when it could be made; *out_failed says whether the tool is content. */
static bool act(struct cay_env *env, const struct step *step, bool *out_failed)
{
    char params[PARAMS_BYTES] = "{";
    struct cay_tool_request request = CAY_TOOL_REQUEST;
    struct cay_tool_response *response;
    struct cay_error err;
    if (step->path) {
        add(params, "\"path\":");
        add_quoted(params, step->path);
        add(params, ",");
    }
    add(params, step->path ? "\"content\":" : "\"cmd\":");
    add_quoted(params, step->text);
    add(params, "}");
    request.tool_name = step->tool;
    request.params = params;
    printf(" > %s\n   %s %s\n", step->why, step->tool, step->path ? step->path : step->text);
    if (!cay_env_execute_tool(env, &request, NULL, &response, &err)) {
        complain(step->tool, &err);
        return false;
    }
    if (!step->path)
        show(response->text);
    *out_failed = response->is_error || (response->has_exit_code && response->exit_code != 0);
    cay_tool_response_free(response);
    return true;
}

/* True when all steps could be made; *out_failed is what came of the last one. */
static bool act_all(struct cay_env *env, const struct step *steps, size_t count, bool *out_failed)
{
    for (size_t i = 0; i < count; i++)
        if (!act(env, &steps[i], out_failed))
            return false;
    return true;
}

static void show_diff(struct cay_env *env, const char *since)
{
    static const char letters[] = "?AMDR";
    struct cay_env_diff *diff;
    struct cay_error err;
    if (!cay_env_diff(env, since, NULL, NULL, &diff, &err)) {
        complain("diff", &err);
        return;
    }
    for (size_t i = 0; i < diff->change_count; i++)
        printf("   %c %s\n", letters[diff->changes[i]->kind], diff->changes[i]->path);
    cay_env_diff_free(diff);
}

/* Ends with the files as they were when all was good, whatever the environment can. */
static bool undo(struct cay_env *env, const struct cay_env_capabilities *can,
                 const struct cay_env_snapshot *good)
{
    struct cay_error err;
    bool failed = true;
    if (good && can->diff)
        show_diff(env, good->id);
    if (!good || !can->rollback) {
        printf(" - no rollback here: the model writes everything again\n");
        return act_all(env, writes + 1, 4, &failed) && !failed;
    }
    printf(" - back to %s\n", good->name);
    if (!cay_env_rollback(env, good->id, NULL, &err)) {
        complain("rollback", &err);
        return false;
    }
    return act(env, &writes[4], &failed) && !failed;
}

/* Tries one way in an environment; its size if the test likes it, 0 if not. */
static size_t try_one(struct cay_env *env, int number)
{
    const struct step steps[] = {{"another way", "write_file", "slug.sh", attempts[number]},
                                 {"is it right?", "bash", NULL, "sh test.sh"}};
    bool failed = true;
    printf("attempt %d\n", number + 1);
    return act_all(env, steps, 2, &failed) && !failed ? strlen(attempts[number]) : 0;
}

/* Each attempt begins where the environment is. With forks they do not see each other; without, one
 * comes after the other and the best one is written again. Returns where the best one is. */
static struct cay_env *try_all(struct cay_env *env, bool can_fork)
{
    struct cay_env *places[ATTEMPTS] = {env, env, env};
    struct cay_error err;
    size_t best_size = 0;
    int best = -1;
    if (!can_fork)
        printf(" - no forks here: the attempts take turns\n");
    for (int i = 0; i < ATTEMPTS; i++) {
        if (can_fork && !cay_env_fork(env, NULL, NULL, NULL, &places[i], &err)) {
            complain("fork", &err);
            places[i] = env;
            continue;
        }
        size_t size = try_one(places[i], i);
        if (size && (!best_size || size < best_size)) {
            best_size = size;
            best = i;
        }
    }
    if (best >= 0)
        printf("the best is attempt %d: %zu bytes\n", best + 1, best_size);
    for (int i = 0; i < ATTEMPTS; i++) {
        if (places[i] != env && i != best) {
            cay_env_destroy(places[i], NULL, NULL);
            cay_env_close(places[i]);
        }
    }
    if (best >= 0 && places[best] == env)
        try_one(env, best);
    return best >= 0 ? places[best] : env;
}

static bool run(struct cay_env *env, const struct cay_env_capabilities *can)
{
    struct cay_env_snapshot *good = NULL;
    struct cay_error err;
    bool failed = true;
    bool done = act_all(env, writes, 5, &failed) && !failed;
    if (done && !can->turn) {
        printf(" - no turns here: there is nothing to go back to\n");
    } else if (done) {
        if (!cay_env_turn(env, "it works", NULL, &good, &err)) {
            complain("turn", &err);
            return false;
        }
        printf(" - %s: it works\n", good->name);
    }
    done = done && act_all(env, breaks, 3, &failed) && failed && undo(env, can, good);
    cay_env_snapshot_free(good);
    if (!done)
        return false;
    struct cay_env *best = try_all(env, can->fork);
    done = act(best, &writes[4], &failed) && !failed;
    if (best != env) {
        cay_env_destroy(best, NULL, NULL);
        cay_env_close(best);
    }
    return done;
}

int main(int argc, char **argv)
{
    struct cay_env *env = NULL;
    struct cay_env_options options = CAY_ENV_OPTIONS;
    struct cay_env_config config = CAY_ENV_CONFIG;
    const struct cay_env_capabilities *can;
    struct cay_error err;
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: agent ENVIRONMENT [BASE], e.g. native:unix:/run/cay/cayd.sock\n");
        return 2;
    }
    options.key = getenv("CAY_API_KEY");
    config.base = argv[2];
    if (!cay_env_open(argv[1], &options, &env, &err) ||
        !cay_env_capabilities(env, NULL, &can, &err) || !cay_env_create(env, &config, NULL, &err)) {
        fprintf(stderr, "agent: %s (%s)\n", err.text, cay_error_reason(&err));
        cay_env_close(env);
        return 1;
    }
    bool done = run(env, can);
    cay_env_destroy(env, NULL, NULL);
    cay_env_close(env);
    printf(done ? "done\n" : "failed\n");
    return done ? 0 : 1;
}
