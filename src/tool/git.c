/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "tool/command.h"

/*
 * Git, always as a program in the sandbox: a repository is code (hooks, filters, its
 * configuration), and the daemon must not run it. A command line is a list of steps. No value of a
 * caller can become an option: it is glued to its option, stands after `--`, or must not begin with
 * a dash.
 */

enum { ARGS_MAX = 24, PATHS_MAX = 1000 };

enum kind {
    END,
    TEXT,   /* `text` */
    FLAG,   /* `text` when the parameter is true, else `other` unless that is NULL */
    OPTION, /* `text`, then `other` with the value glued to it; when it is given */
    GLUED,  /* `text` with the value glued to it; when it is given */
    COUNT,  /* the same for a number */
    WORD,   /* the value, which must not begin with a dash; when it is given */
    PATHS,  /* the values, after `--` */
};

struct step {
    enum kind kind;
    const char *name; /* of the parameter */
    const char *text;
    const char *other;
};

#define BEGIN                                            \
    {TEXT, .text = "git"}, {TEXT, .text = "--no-pager"}, \
    {                                                    \
        OPTION, "repo", "-C", ""                         \
    }
#define DASHES             \
    {                      \
        TEXT, .text = "--" \
    }

/* clang-format off */
static const struct step status[] = {BEGIN, {TEXT, .text = "status"}, {TEXT, .text = "--porcelain=v1"}, {END}};
static const struct step diff[] = {
    BEGIN, {TEXT, .text = "diff"}, {TEXT, .text = "--no-color"}, {TEXT, .text = "--no-ext-diff"},
    {FLAG, "staged", "--cached"}, {WORD, "ref"}, DASHES, {PATHS, "path"}, {END}};
static const struct step history[] = {
    BEGIN, {TEXT, .text = "log"}, {TEXT, .text = "--no-color"}, {COUNT, "n", "--max-count=", "10"},
    {TEXT, .text = "--format=%H%x09%an%x09%aI%x09%s"}, {WORD, "ref"}, DASHES, {PATHS, "path"}, {END}};
static const struct step show[] = {
    BEGIN, {TEXT, .text = "show"}, {TEXT, .text = "--no-color"}, {TEXT, .text = "--no-ext-diff"},
    {WORD, "ref", .other = "HEAD"}, DASHES, {PATHS, "path"}, {END}};
static const struct step add[] = {BEGIN, {TEXT, .text = "add"}, DASHES, {PATHS, "paths"}, {END}};
static const struct step commit[] = {
    BEGIN, {OPTION, "author_name", "-c", "user.name="}, {OPTION, "author_email", "-c", "user.email="},
    {TEXT, .text = "commit"}, {FLAG, "all", "--all"}, {GLUED, "message", "--message="}, {END}};
static const struct step clone[] = {
    BEGIN, {TEXT, .text = "clone"}, {GLUED, "branch", "--branch="}, {COUNT, "depth", "--depth="}, DASHES,
    {WORD, "url"}, {WORD, "directory"}, {END}};
static const struct step fetch[] = {
    BEGIN, {TEXT, .text = "fetch"}, {FLAG, "prune", "--prune"}, {COUNT, "depth", "--depth="}, DASHES,
    {WORD, "remote"}, {WORD, "ref"}, {END}};
static const struct step pull[] = {
    BEGIN, {TEXT, .text = "pull"}, {TEXT, .text = "--no-edit"}, {FLAG, "rebase", "--rebase", "--no-rebase"}, DASHES,
    {WORD, "remote"}, {WORD, "ref"}, {END}};
static const struct step push[] = {
    BEGIN, {TEXT, .text = "push"}, {FLAG, "force", "--force-with-lease"}, {FLAG, "set_upstream", "--set-upstream"}, DASHES,
    {WORD, "remote"}, {WORD, "ref"}, {END}};
/* clang-format on */

static const struct {
    const char *name;
    const struct step *steps;
} lines[] = {
    {"git_add", add},     {"git_clone", clone},   {"git_commit", commit}, {"git_diff", diff},
    {"git_fetch", fetch}, {"git_log", history},   {"git_pull", pull},     {"git_push", push},
    {"git_show", show},   {"git_status", status},
};

struct line {
    struct cay_tool_run *run;
    struct cay_pb_strs argv;
    size_t cap;
};

static bool put(struct line *line, struct cay_str arg)
{
    if (!line->argv.items || line->argv.count == line->cap)
        return cay_fail(line->run->err, CAY_R_RESOURCE_EXHAUSTED, NULL);
    line->argv.items[line->argv.count++] = arg;
    return true;
}

static bool put_glued(struct line *line, const char *text, struct cay_str value)
{
    char *arg = cay_arena_alloc(line->run->arena, strlen(text) + value.len + 1);
    if (!arg)
        return cay_fail(line->run->err, CAY_R_RESOURCE_EXHAUSTED, NULL);
    memcpy(arg, text, strlen(text));
    if (value.len)
        memcpy(arg + strlen(text), value.ptr, value.len);
    return put(line, (struct cay_str){arg, strlen(text) + value.len});
}

static bool put_word(struct line *line, const struct step *step, struct cay_str value)
{
    if (!value.len)
        return true;
    if (value.ptr[0] == '-')
        return cay_fail(line->run->err, CAY_R_INVALID_ARGUMENT,
                        "%s: must not begin with '-': it is no option", step->name);
    return put(line, value);
}

static bool put_count(struct line *line, const struct step *step)
{
    struct cay_tool_run *run = line->run;
    int64_t number = cay_run_number(run, step->name, -1);
    char digits[24];
    snprintf(digits, sizeof(digits), "%lld", (long long)number);
    const char *value = number >= 0 ? digits : step->other;
    return !value || put_glued(line, step->text, cay_str(value));
}

static bool put_paths(struct line *line, const struct step *step)
{
    const struct google_protobuf_list_value *list = cay_run_list(line->run, step->name);
    struct cay_str one = list ? CAY_STR("") : cay_run_text(line->run, step->name, CAY_STR(""));
    for (size_t i = 0; list && i < list->values.count; i++) {
        if (!put(line, list->values.items[i].kind.string_value))
            return false;
    }
    if (list && !list->values.count)
        return cay_fail(line->run->err, CAY_R_INVALID_ARGUMENT, "%s: at least one is needed",
                        step->name);
    return !one.len || put(line, one);
}

static bool put_step(struct line *line, const struct step *step)
{
    struct cay_tool_run *run = line->run;
    struct cay_str value = {};
    if (step->kind == OPTION || step->kind == GLUED || step->kind == WORD)
        value = cay_run_text(run, step->name, cay_str(step->kind == WORD ? step->other : NULL));
    const char *chosen = step->text;
    switch (step->kind) {
    case TEXT: return put(line, cay_str(step->text));
    case FLAG:
        chosen = cay_run_flag(run, step->name, false) ? step->text : step->other;
        return !chosen || put(line, cay_str(chosen));
    case OPTION:
        return !value.len ||
               (put(line, cay_str(step->text)) && put_glued(line, step->other, value));
    case GLUED: return !value.len || put_glued(line, step->text, value);
    case COUNT: return put_count(line, step);
    case WORD: return put_word(line, step, value);
    case PATHS: return put_paths(line, step);
    case END:
    default: return true;
    }
}

/* `git fetch -- REF` would take it for the remote. */
static bool check_remote(struct cay_tool_run *run, const struct step *steps)
{
    bool has_remote = false;
    for (const struct step *step = steps; step->kind != END; step++)
        has_remote = has_remote || (step->name && strcmp(step->name, "remote") == 0);
    if (!has_remote || cay_run_text(run, "remote", CAY_STR("")).len ||
        !cay_run_text(run, "ref", CAY_STR("")).len)
        return true;
    return cay_fail(run->err, CAY_R_INVALID_ARGUMENT, "ref: of which remote? give remote, too");
}

bool cay_tool_git(struct cay_tool_run *run, struct cay_tool_command *out_command)
{
    /* Nothing may wait for somebody at a terminal; what only looks takes no locks. */
    static struct cay_pb_pair env[] = {
        {CAY_STR("GIT_TERMINAL_PROMPT"), CAY_STR("0")},
        {CAY_STR("GIT_EDITOR"), CAY_STR("true")},
        {CAY_STR("GIT_OPTIONAL_LOCKS"), CAY_STR("0")},
    };
    const struct step *steps = NULL;
    for (size_t i = 0; i < CAY_COUNT(lines); i++) {
        if (strcmp(lines[i].name, run->tool->name) == 0)
            steps = lines[i].steps;
    }
    const struct google_protobuf_list_value *paths = cay_run_list(run, "paths");
    struct line line = {.run = run, .cap = ARGS_MAX + (paths ? paths->values.count : 0)};
    line.argv.items = cay_arena_array(run->arena, line.cap, sizeof(struct cay_str));
    if (!check_remote(run, steps))
        return false;
    for (const struct step *step = steps; step->kind != END; step++) {
        if (!put_step(&line, step))
            return false;
    }
    *out_command = (struct cay_tool_command){
        .argv = line.argv,
        .env = {env, CAY_COUNT(env)},
        .timeout_ms = cay_run_number(run, "timeout_ms", run->timeout_ms),
    };
    return true;
}

void cay_tool_git_status_facts(struct cay_tool_run *run, struct cay_str output)
{
    int64_t changes = 0;
    for (size_t i = 0; i < output.len; i++)
        changes += output.ptr[i] == '\n';
    cay_run_fact_number(run, "change_count", changes);
    cay_run_fact_flag(run, "clean", changes == 0);
}
