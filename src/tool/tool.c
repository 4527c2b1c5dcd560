/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/tool.h"

#include <assert.h>

#include "base/clock.h"
#include "base/nearest.h"
#include "tool/command.h"

enum {
    FILE_TIMEOUT_MS = 30'000,
    COMMAND_TIMEOUT_MS = 120'000,
    NETWORK_TIMEOUT_MS = 300'000,
    NAMES_MAX = 64,
};

#define PATH_RULE "\"type\":\"string\",\"minLength\":1,\"maxLength\":4095"
#define WORD_RULE "\"type\":\"string\",\"minLength\":1,\"maxLength\":4096"
/* Of every git tool, and of those that talk to another host. */
#define REPO               \
    "\"repo\":{" PATH_RULE \
    ",\"description\":\"Directory in the repository. Default: the working directory.\"}"
#define NETWORK_TIMEOUT                                                         \
    "\"timeout_ms\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":604800000," \
    "\"description\":\"Milliseconds after which it is killed. Default: the tool's own.\"}"
#define OBJECT(required, properties)                                                   \
    "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[" required "]," \
    "\"properties\":{" properties "}}"

/* clang-format off */
static const struct cay_tool tools[] = {
    {
        .name = "bash",
        .tier = CAY_V1_TOOL_TIER_SANDBOX,
        .description = "Runs a command with bash in the sandbox and returns its output and exit code.",
        .schema = OBJECT("\"cmd\"",
            "\"cmd\":{\"type\":\"string\",\"minLength\":1,\"description\":\"The command line.\"},"
            "\"timeout_ms\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":604800000,"
                "\"description\":\"Milliseconds after which it is killed. Default: the tool's own; in the background none.\"},"
            "\"no_output_timeout_ms\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":604800000,"
                "\"description\":\"Milliseconds without output after which it is killed.\"},"
            "\"stdin\":{\"type\":\"string\",\"description\":\"Its standard input; empty unless given.\"},"
            "\"background\":{\"type\":\"boolean\",\"default\":false,"
                "\"description\":\"Start it and return its process id at once.\"}"),
        .streaming = true,
        .timeout_ms = COMMAND_TIMEOUT_MS,
        .command = cay_tool_bash,
    },
    {
        .name = "edit_file",
        .aliases = (const char *const[]){"edit", NULL},
        .tier = CAY_V1_TOOL_TIER_DAEMON,
        .description = "Replaces text in a file. old_string must be in the file exactly once, unless replace_all is set.",
        .schema = OBJECT("\"path\",\"old_string\",\"new_string\"",
            "\"path\":{" PATH_RULE ",\"description\":\"The file.\"},"
            "\"old_string\":{\"type\":\"string\",\"minLength\":1,\"description\":\"The text to replace, exactly as it is in the file.\"},"
            "\"new_string\":{\"type\":\"string\",\"description\":\"The text to put there.\"},"
            "\"replace_all\":{\"type\":\"boolean\",\"default\":false,\"description\":\"Replace every occurrence.\"}"),
        .timeout_ms = FILE_TIMEOUT_MS,
        .run = cay_tool_edit_file,
    },
    {
        .name = "git_add",
        .tier = CAY_V1_TOOL_TIER_SANDBOX,
        .description = "Stages files for the next commit.",
        .schema = OBJECT("\"paths\"",
            "\"paths\":{\"type\":\"array\",\"maxItems\":1000,\"items\":{" PATH_RULE "},\"description\":\"Files and directories; [\\\".\\\"] for all below the working directory.\"},"
            REPO),
        .streaming = true,
        .timeout_ms = FILE_TIMEOUT_MS,
        .command = cay_tool_git,
    },
    {
        .name = "git_clone",
        .tier = CAY_V1_TOOL_TIER_SANDBOX,
        .description = "Clones a repository into a new directory.",
        .schema = OBJECT("\"url\"",
            "\"url\":{" WORD_RULE ",\"description\":\"Address or path of the repository.\"},"
            "\"directory\":{" PATH_RULE ",\"description\":\"Where to. Default: named after the repository.\"},"
            "\"branch\":{" WORD_RULE ",\"description\":\"Branch or tag to check out.\"},"
            "\"depth\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":1000000,\"description\":\"Only so many commits of the past.\"},"
            NETWORK_TIMEOUT),
        .streaming = true,
        .timeout_ms = NETWORK_TIMEOUT_MS,
        .command = cay_tool_git,
    },
    {
        .name = "git_commit",
        .tier = CAY_V1_TOOL_TIER_SANDBOX,
        .description = "Commits what is staged.",
        .schema = OBJECT("\"message\"",
            "\"message\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":65536,\"description\":\"The commit message.\"},"
            "\"all\":{\"type\":\"boolean\",\"default\":false,\"description\":\"Also commit changes of tracked files that are not staged.\"},"
            "\"author_name\":{" WORD_RULE ",\"description\":\"Who commits. Default: as configured in the sandbox.\"},"
            "\"author_email\":{" WORD_RULE ",\"description\":\"Its address.\"},"
            REPO),
        .streaming = true,
        .timeout_ms = FILE_TIMEOUT_MS,
        .command = cay_tool_git,
    },
    {
        .name = "git_diff",
        .tier = CAY_V1_TOOL_TIER_SANDBOX,
        .description = "Shows changes: of the working tree, of what is staged, or against a commit.",
        .schema = OBJECT("",
            "\"ref\":{" WORD_RULE ",\"description\":\"Commit, branch or range (a..b) to compare with.\"},"
            "\"staged\":{\"type\":\"boolean\",\"default\":false,\"description\":\"What is staged instead of the working tree.\"},"
            "\"path\":{" PATH_RULE ",\"description\":\"Only this file or directory.\"},"
            REPO),
        .read_only = true,
        .streaming = true,
        .timeout_ms = FILE_TIMEOUT_MS,
        .command = cay_tool_git,
    },
    {
        .name = "git_fetch",
        .tier = CAY_V1_TOOL_TIER_SANDBOX,
        .description = "Fetches from another repository.",
        .schema = OBJECT("",
            "\"remote\":{" WORD_RULE ",\"description\":\"Name or address. Default: origin, or what the branch follows.\"},"
            "\"ref\":{" WORD_RULE ",\"description\":\"Branch, tag or refspec. Default: as configured.\"},"
            "\"prune\":{\"type\":\"boolean\",\"default\":false,\"description\":\"Forget branches that are gone there.\"},"
            "\"depth\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":1000000},"
            REPO ","
            NETWORK_TIMEOUT),
        .streaming = true,
        .timeout_ms = NETWORK_TIMEOUT_MS,
        .command = cay_tool_git,
    },
    {
        .name = "git_log",
        .tier = CAY_V1_TOOL_TIER_SANDBOX,
        .description = "Lists commits, newest first: hash, author, date and subject, with tabs between.",
        .schema = OBJECT("",
            "\"n\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":100,\"default\":10,\"description\":\"Most commits to list.\"},"
            "\"ref\":{" WORD_RULE ",\"description\":\"Commit, branch or range to begin at. Default: HEAD.\"},"
            "\"path\":{" PATH_RULE ",\"description\":\"Only commits that touch this file or directory.\"},"
            REPO),
        .read_only = true,
        .streaming = true,
        .timeout_ms = FILE_TIMEOUT_MS,
        .command = cay_tool_git,
    },
    {
        .name = "git_pull",
        .tier = CAY_V1_TOOL_TIER_SANDBOX,
        .description = "Fetches and merges (or rebases on) what was fetched.",
        .schema = OBJECT("",
            "\"remote\":{" WORD_RULE ",\"description\":\"Name or address. Default: what the branch follows.\"},"
            "\"ref\":{" WORD_RULE ",\"description\":\"Branch there.\"},"
            "\"rebase\":{\"type\":\"boolean\",\"default\":false,\"description\":\"Rebase instead of merge.\"},"
            REPO ","
            NETWORK_TIMEOUT),
        .streaming = true,
        .timeout_ms = NETWORK_TIMEOUT_MS,
        .command = cay_tool_git,
    },
    {
        .name = "git_push",
        .tier = CAY_V1_TOOL_TIER_SANDBOX,
        .description = "Pushes commits to another repository.",
        .schema = OBJECT("",
            "\"remote\":{" WORD_RULE ",\"description\":\"Name or address. Default: what the branch follows.\"},"
            "\"ref\":{" WORD_RULE ",\"description\":\"Branch, tag or refspec. Default: as configured.\"},"
            "\"set_upstream\":{\"type\":\"boolean\",\"default\":false,\"description\":\"The branch follows it from now on.\"},"
            "\"force\":{\"type\":\"boolean\",\"default\":false,\"description\":\"Overwrite what is there, unless it changed since the last fetch (--force-with-lease).\"},"
            REPO ","
            NETWORK_TIMEOUT),
        .streaming = true,
        .timeout_ms = NETWORK_TIMEOUT_MS,
        .command = cay_tool_git,
    },
    {
        .name = "git_show",
        .tier = CAY_V1_TOOL_TIER_SANDBOX,
        .description = "Shows a commit with its changes, or a file of it (ref=COMMIT:PATH).",
        .schema = OBJECT("",
            "\"ref\":{" WORD_RULE ",\"description\":\"Commit, tag or COMMIT:PATH. Default: HEAD.\"},"
            "\"path\":{" PATH_RULE ",\"description\":\"Only this file or directory.\"},"
            REPO),
        .read_only = true,
        .streaming = true,
        .timeout_ms = FILE_TIMEOUT_MS,
        .command = cay_tool_git,
    },
    {
        .name = "git_status",
        .tier = CAY_V1_TOOL_TIER_SANDBOX,
        .description = "Lists changed, staged and untracked files (porcelain v1).",
        .schema = OBJECT("",
            REPO),
        .read_only = true,
        .streaming = true,
        .timeout_ms = FILE_TIMEOUT_MS,
        .command = cay_tool_git,
        .facts = cay_tool_git_status_facts,
    },
    {
        .name = "glob",
        .is_search = true,
        .tier = CAY_V1_TOOL_TIER_DAEMON,
        .description = "Lists the files whose path matches a pattern (* ? [] {a,b} and ** for any directories), sorted. "
                       "A pattern that ends in / lists directories.",
        .schema = OBJECT("\"pattern\"",
            "\"pattern\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":4096,\"description\":\"For example src/**/*.c\"},"
            "\"path\":{" PATH_RULE ",\"description\":\"Directory to begin at. Default: the working directory.\"},"
            "\"max_results\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":10000,\"default\":200},"
            "\"hidden\":{\"type\":\"boolean\",\"default\":false,\"description\":\"Also look into directories whose name begins with a dot.\"}"),
        .read_only = true,
        .timeout_ms = FILE_TIMEOUT_MS,
        .run = cay_tool_glob,
    },
    {
        .name = "grep",
        .is_search = true,
        .tier = CAY_V1_TOOL_TIER_DAEMON,
        .description = "Searches files line by line for a regular expression (PCRE2). Binary files are left out.",
        .schema = OBJECT("\"pattern\"",
            "\"pattern\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":65536,\"description\":\"The regular expression.\"},"
            "\"path\":{" PATH_RULE ",\"description\":\"File or directory to search. Default: the working directory.\"},"
            "\"include\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":4096,\"description\":\"Only files that match this glob, for example *.{c,h}\"},"
            "\"exclude\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":4096,\"description\":\"No files or directories that match this glob.\"},"
            "\"literal\":{\"type\":\"boolean\",\"default\":false,\"description\":\"The pattern is plain text.\"},"
            "\"ignore_case\":{\"type\":\"boolean\",\"default\":false},"
            "\"max_results\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":10000,\"default\":100},"
            "\"context_lines\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":50,\"default\":0,\"description\":\"Lines to show around each match.\"},"
            "\"hidden\":{\"type\":\"boolean\",\"default\":false,\"description\":\"Also search directories whose name begins with a dot.\"}"),
        .read_only = true,
        .timeout_ms = FILE_TIMEOUT_MS,
        .run = cay_tool_grep,
    },
    {
        .name = "list_dir",
        .aliases = (const char *const[]){"ls", NULL},
        .tier = CAY_V1_TOOL_TIER_DAEMON,
        .description = "Lists a directory: kind, size and name of each entry, by name.",
        .schema = OBJECT("",
            "\"path\":{" PATH_RULE ",\"description\":\"The directory. Default: the working directory.\"},"
            "\"depth\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":64,\"default\":1,\"description\":\"Levels to list.\"},"
            "\"max_results\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":10000,\"default\":1000}"),
        .read_only = true,
        .timeout_ms = FILE_TIMEOUT_MS,
        .run = cay_tool_list_dir,
    },
    {
        .name = "read_file",
        .aliases = (const char *const[]){"read", NULL},
        .tier = CAY_V1_TOOL_TIER_DAEMON,
        .description = "Reads a text file; each line comes with its number. An image (PNG, JPEG, GIF, WebP) is shown.",
        .schema = OBJECT("\"path\"",
            "\"path\":{" PATH_RULE ",\"description\":\"The file.\"},"
            "\"offset\":{\"type\":\"integer\",\"minimum\":0,\"default\":0,\"description\":\"Lines to skip.\"},"
            "\"limit\":{\"type\":\"integer\",\"minimum\":1,\"default\":2000,\"description\":\"Most lines to return.\"}"),
        .read_only = true,
        .timeout_ms = FILE_TIMEOUT_MS,
        .run = cay_tool_read_file,
    },
    {
        .name = "write_file",
        .aliases = (const char *const[]){"write", NULL},
        .tier = CAY_V1_TOOL_TIER_DAEMON,
        .description = "Writes a file: makes it, or replaces its content and keeps its mode and owner.",
        .schema = OBJECT("\"path\",\"content\"",
            "\"path\":{" PATH_RULE ",\"description\":\"The file.\"},"
            "\"content\":{\"type\":\"string\",\"description\":\"The whole new content.\"},"
            "\"create_dirs\":{\"type\":\"boolean\",\"default\":true,\"description\":\"Make missing directories.\"}"),
        .timeout_ms = FILE_TIMEOUT_MS,
        .run = cay_tool_write_file,
    },
};
/* clang-format on */

static bool answers_to(const struct cay_tool *tool, struct cay_str name)
{
    if (cay_str_is(name, tool->name))
        return true;
    for (const char *const *alias = tool->aliases; alias && *alias; alias++)
        if (cay_str_is(name, *alias))
            return true;
    return false;
}

const struct cay_tool *cay_tool_find(struct cay_str name)
{
    for (size_t i = 0; i < CAY_COUNT(tools); i++)
        if (answers_to(&tools[i], name))
            return &tools[i];
    return NULL;
}

const char *cay_tool_nearest(struct cay_str name)
{
    const char *names[NAMES_MAX];
    size_t count = 0;
    for (size_t i = 0; i < CAY_COUNT(tools); i++) {
        names[count++] = tools[i].name;
        for (const char *const *alias = tools[i].aliases; alias && *alias; alias++)
            names[count++] = *alias;
    }
    assert(count <= NAMES_MAX);
    return cay_nearest(name, names, count);
}

bool cay_tool_is_search(const struct cay_tool *tool, const struct google_protobuf_struct *params)
{
    const struct cay_tool_run run = {.params = params};
    return tool->is_search ||
           (tool->run == cay_tool_list_dir && cay_run_number(&run, "depth", 1) > 1);
}

size_t cay_tool_count(void)
{
    return CAY_COUNT(tools);
}

const struct cay_tool *cay_tool_at(size_t index)
{
    assert(index < CAY_COUNT(tools));
    return &tools[index];
}

int64_t cay_tool_timeout_ms(const struct cay_tool *tool, int64_t command_ms)
{
    return tool->command && command_ms ? command_ms : tool->timeout_ms;
}

bool cay_tool_describe(const struct cay_tool *tool, int64_t command_ms, struct cay_arena *arena,
                       struct cay_v1_tool *out_tool, struct cay_error *err)
{
    int64_t timeout_ms = cay_tool_timeout_ms(tool, command_ms);
    size_t aliases = 0;
    while (tool->aliases && tool->aliases[aliases])
        aliases++;
    struct cay_str *names = cay_arena_array(arena, aliases + 1, sizeof(*names));
    struct google_protobuf_struct *schema = cay_arena_new(arena, struct google_protobuf_struct);
    struct google_protobuf_duration *timeout =
        cay_arena_new(arena, struct google_protobuf_duration);
    const struct google_protobuf_struct *known = cay_tool_schema(tool);
    if (!names || !schema || !timeout || !known)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, NULL);
    for (size_t i = 0; i < aliases; i++)
        names[i] = cay_str(tool->aliases[i]);
    *schema = *known;
    *timeout = (struct google_protobuf_duration){.seconds = timeout_ms / 1000,
                                                 .nanos = (int32_t)(timeout_ms % 1000) *
                                                          (int32_t)CAY_NS_PER_MS};
    *out_tool = (struct cay_v1_tool){
        .name = cay_str(tool->name),
        .aliases = {names, aliases},
        .description = cay_str(tool->description),
        .tier = tool->tier,
        .input_schema = schema,
        .read_only = tool->read_only,
        .streaming = tool->streaming,
        .default_timeout = timeout,
    };
    return true;
}

bool cay_tool_command(struct cay_tool_run *run, struct cay_tool_command *out_command)
{
    assert(run->tool->command);
    return run->tool->command(run, out_command);
}

bool cay_tool_run(const struct cay_tool *tool, const struct cay_tool_tree *tree,
                  const struct google_protobuf_struct *params, int64_t timeout_ms,
                  int64_t result_bytes_max, struct cay_arena *arena,
                  struct cay_v1_tool_result *out_result, struct cay_error *err)
{
    assert(tool->run);
    if (result_bytes_max < 0 || result_bytes_max > CAY_TOOL_TEXT_BYTES_MAX)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "max_result_bytes is at most %d",
                        CAY_TOOL_TEXT_BYTES_MAX);
    if (!cay_tool_check_params(tool, params, err))
        return false;
    int64_t started_ns = cay_clock_ns();
    struct google_protobuf_duration *duration =
        cay_arena_new(arena, struct google_protobuf_duration);
    if (!duration)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, NULL);
    struct cay_v1_tool_result result = {
        .tool_name = cay_str(tool->name), .tier = tool->tier, .duration = duration};
    struct cay_tool_run run = {
        .tool = tool,
        .tree = tree,
        .params = params,
        .text_bytes_max = result_bytes_max ? (size_t)result_bytes_max : CAY_TOOL_TEXT_BYTES_DEFAULT,
        .deadline_ms = cay_clock_ms() + (timeout_ms ? CAY_MIN(timeout_ms, (int64_t)tool->timeout_ms)
                                                    : (int64_t)tool->timeout_ms),
        .arena = arena,
        .out = &result,
        .err = err,
    };
    cay_auto(cay_tree_leave) struct cay_tree_visit visit = {};
    if (!cay_tree_enter(tree, &visit, err) || !tool->run(&run))
        return false;
    int64_t took_ns = cay_clock_ns() - started_ns;
    *duration = (struct google_protobuf_duration){.seconds = took_ns / CAY_NS_PER_SEC,
                                                  .nanos = (int32_t)(took_ns % CAY_NS_PER_SEC)};
    *out_result = result;
    return true;
}
