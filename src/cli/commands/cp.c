/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/commands/cp.h"

#include <inttypes.h>

#include "api/cay_v1.h"
#include "api/limits.h"
#include "base/id.h"
#include "base/json.h"
#include "base/quantity.h"
#include "cli/command.h"
#include "cli/names.h"
#include "cli/offer.h"
#include "cli/values.h"
#include "client/rpc/client.h"

enum { SUMMARY_BYTES_MAX = 4096 };

void cay_cp_warn(struct cay_cp *cp, const char *path, const char *why)
{
    struct cay_output out = {.file = stderr, .is_terminal = true};
    if (cp->progress.is_shown)
        fputs("\r\033[K", stderr);
    fputs("cay: skipped ", stderr);
    cay_output_text(&out, CAY_STYLE_PLAIN, cay_str(path));
    fputs(": ", stderr);
    cay_output_text(&out, CAY_STYLE_PLAIN, cay_str(why));
    fputc('\n', stderr);
}

bool cay_cp_forgive(struct cay_cp *cp, const char *path, const struct cay_error *err)
{
    static const enum cay_reason forgivable[] = {
        CAY_R_FILE_NOT_FOUND,      CAY_R_FILE_EXISTS,   CAY_R_NOT_A_DIRECTORY,
        CAY_R_IS_A_DIRECTORY,      CAY_R_ACCESS_DENIED, CAY_R_NOT_A_REGULAR_FILE,
        CAY_R_FAILED_PRECONDITION,
    };
    for (size_t i = 0; i < CAY_COUNT(forgivable); i++) {
        if (err->reason == forgivable[i]) {
            cp->failed++;
            cay_cp_warn(cp, path, err->text);
            return true;
        }
    }
    return false;
}

bool cay_cp_stat(struct cay_cp *cp, struct cay_str path, const struct cay_v1_file_info **out_info,
                 struct cay_error *err)
{
    struct cay_v1_stat_file_request request = {.session_id = cp->session_id,
                                               .path = path,
                                               .user = cp->user,
                                               .snapshot = cp->snapshot,
                                               .follow = true};
    struct cay_v1_stat_file_response response = {};
    struct cay_error failure = {};
    if (!cay_cli_call(cp->cli, CAY_V1_FILE_SERVICE_STAT_FILE, &request, &response, &failure) &&
        failure.reason != CAY_R_FILE_NOT_FOUND) {
        *err = failure;
        return false;
    }
    *out_info = response.info;
    /* That had the patience of a single call; what follows takes as long as it takes. */
    return cay_cli_client(cp->cli, CAY_CALL_STREAM, &cp->client, err);
}

const char *cay_cp_encode(struct cay_arena *arena, const char *path)
{
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, CAY_LIMIT_MESSAGE_BYTES);
    cay_names_encode(&text, cay_str(path));
    return text.failed ? NULL : cay_arena_copy(arena, cay_buf_str(&text));
}

const char *cay_cp_join(struct cay_arena *arena, const char *directory, const char *name)
{
    size_t len = strlen(directory);
    bool has_slash = len && directory[len - 1] == '/';
    const char *text = cay_cp_encode(arena, name);
    return text ? cay_arena_printf(arena, "%s%s%s", directory, has_slash ? "" : "/", text) : NULL;
}

struct cay_str cay_cp_last_name(const char *path)
{
    size_t end = strlen(path);
    while (end && path[end - 1] == '/')
        end--;
    size_t begin = end;
    while (begin && path[begin - 1] != '/')
        begin--;
    struct cay_str name = {path + begin, end - begin};
    return cay_str_is(name, ".") || cay_str_is(name, "..") ? (struct cay_str){} : name;
}

const char *cay_cp_place(const char *word, struct cay_str *out_session,
                         struct cay_str *out_snapshot)
{
    const char *colon = strchr(word, ':');
    struct cay_str rest = {word, colon ? (size_t)(colon - word) : 0};
    struct cay_str session = {};
    if (!colon || !cay_str_split(&rest, '@', &session) || !cay_id_valid(session) ||
        (rest.ptr && !cay_id_valid(rest)))
        return NULL;
    *out_session = session;
    *out_snapshot = rest.ptr ? rest : CAY_STR("");
    return colon[1] ? colon + 1 : ".";
}

static bool report(struct cay_cp *cp)
{
    struct cay_output *out = &cp->cli->out;
    const struct cay_progress *progress = &cp->progress;
    char size[CAY_SIZE_BYTES];
    if (cp->failed)
        cp->cli->exit_status = CAY_EXIT_INCOMPLETE;
    if (out->is_json) {
        cay_auto(cay_buf_finish) struct cay_buf buf;
        cay_buf_init(&buf, SUMMARY_BYTES_MAX);
        struct cay_json_writer json = {.buf = &buf};
        cay_json_object_begin(&json);
        cay_json_key(&json, "files");
        cay_json_i64(&json, progress->files);
        cay_json_key(&json, "directories");
        cay_json_i64(&json, cp->directories);
        cay_json_key(&json, "links");
        cay_json_i64(&json, cp->links);
        cay_json_key(&json, "skipped");
        cay_json_i64(&json, cp->skipped);
        cay_json_key(&json, "failed");
        cay_json_i64(&json, cp->failed);
        cay_json_key(&json, "bytes");
        cay_json_i64(&json, progress->bytes);
        cay_json_object_end(&json);
        cay_output_json(out, cay_buf_str(&buf));
    } else if (out->is_terminal) {
        cay_size_format((uint64_t)progress->bytes, size);
        cay_output_printf(out, "copied %" PRId64 " file%s, %s", progress->files,
                          progress->files == 1 ? "" : "s", size);
        if (cp->skipped + cp->failed)
            cay_output_printf(out, "; skipped %" PRId64, cp->skipped + cp->failed);
        cay_output_printf(out, "\n");
    }
    return true;
}

static bool run_cp(struct cay_cli *cli, struct cay_error *err)
{
    const char *source = cli->args.words[0];
    const char *target = cli->args.words[1];
    struct cay_cp cp = {.cli = cli, .user = cay_values_text(cli, "user")};
    struct cay_str session = {};
    struct cay_str other = {};
    struct cay_str snapshot = {};
    const char *from = cay_cp_place(source, &session, &cp.snapshot);
    const char *to = cay_cp_place(target, from ? &other : &session, &snapshot);
    if (!from == !to)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "%s '%.60s' %s '%.60s' %s in a session; write exactly one as SESSION:PATH "
                        "(a local file with a colon as ./NAME)",
                        from ? "both" : "neither", source, from ? "and" : "nor", target,
                        from ? "are" : "is");
    if (snapshot.len)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "'%.60s' is in the past, which does not change; copy to the session itself",
                        target);
    cp.session_id = session;
    bool is_to_stdout = from && strcmp(target, "-") == 0;
    if (is_to_stdout && cli->out.is_json)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "--json and '-' both want standard output");
    if (!cay_cli_client(cli, CAY_CALL_STREAM, &cp.client, err))
        return false;
    cay_progress_begin(&cp.progress, !cli->out.is_json && !(is_to_stdout && cli->out.is_terminal),
                       0);
    bool done =
        from ? cay_cp_download(&cp, from, target, err) : cay_cp_upload(&cp, source, to, err);
    cay_progress_end(&cp.progress);
    return done && (is_to_stdout || report(&cp));
}

static const struct cay_flag cp_flags[] = {
    {.name = "user",
     .letter = 'u',
     .value = "USER",
     .help = "the user of the session whose rights count"},
    {},
};

const struct cay_command cay_command_cp = {
    .name = "cp",
    .arguments = "SOURCE TARGET",
    .summary = "Copy files and directories into a session, or out of it",
    .details =
        "One of the two is SESSION:PATH; relative paths begin where the session's commands\n"
        "do. SESSION@SNAPSHOT:PATH is the file as it was in that snapshot, without a rollback.\n"
        "'-' is standard input or output. Directories are copied with all they hold; into\n"
        "a directory that exists they go under their own name, as with cp(1). Modes are kept.\n"
        "Links are copied as links, in both directions; fifos, sockets and devices are left out.",
    .examples = "  cay cp ./tree demo:/workspace/tree\n"
                "  cay cp demo:build/out.txt .\n"
                "  cay cp demo@turn-0001:notes.txt -\n"
                "  tar -c . | cay cp - demo:all.tar",
    .flags = cp_flags,
    .group = CAY_GROUP_FILES,
    .words_min = 2,
    .words_max = 2,
    .run = run_cp,
    .complete = cay_session_offer_places,
};
