/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "api/limits.h"
#include "base/quantity.h"
#include "cli/command.h"
#include "cli/commands/diff.h"
#include "cli/names.h"
#include "cli/offer.h"
#include "cli/values.h"
#include "client/rpc/client.h"

/* What changed, as `git diff` would say it: --name-status by default, or a patch, or a stat. */

enum { BAR_MAX = 40 }; /* plus and minus signs of a stat */

#define LINES_MAX (INT64_C(1) << 48) /* of one file */

struct diff {
    struct cay_cli *cli;
    bool wants_patch;
    bool wants_stat;
    bool has_entries;
};

static char letter_of(enum cay_v1_diff_kind kind)
{
    switch (kind) {
    case CAY_V1_DIFF_KIND_ADDED: return 'A';
    case CAY_V1_DIFF_KIND_MODIFIED: return 'M';
    case CAY_V1_DIFF_KIND_DELETED: return 'D';
    case CAY_V1_DIFF_KIND_TYPE_CHANGED: return 'T';
    case CAY_V1_DIFF_KIND_MODE_CHANGED: return 'm';
    case CAY_V1_DIFF_KIND_UNSPECIFIED: break;
    }
    return '?';
}

static enum cay_style style_of(enum cay_v1_diff_kind kind)
{
    if (kind == CAY_V1_DIFF_KIND_ADDED)
        return CAY_STYLE_GOOD;
    return kind == CAY_V1_DIFF_KIND_DELETED ? CAY_STYLE_BAD : CAY_STYLE_WARN;
}

static bool is_dir(const struct cay_v1_diff_entry *entry)
{
    return ((entry->new_mode ? entry->new_mode : entry->old_mode) & 0170000) == 0040000;
}

static void print_path(struct cay_output *out, const struct cay_v1_diff_entry *entry)
{
    cay_output_text(out, CAY_STYLE_PLAIN, entry->path);
    if (is_dir(entry))
        cay_output_printf(out, "/");
    if (entry->old_path.len) {
        cay_output_printf(out, " (was ");
        cay_output_text(out, CAY_STYLE_PLAIN, entry->old_path);
        cay_output_printf(out, ")");
    }
}

void cay_diff_print(struct cay_output *out, const struct cay_v1_diff_entry *entry)
{
    char letter[] = {letter_of(entry->kind), '\0'};
    cay_output_text(out, style_of(entry->kind), cay_str(letter));
    cay_output_printf(out, "\t");
    print_path(out, entry);
    if (entry->kind == CAY_V1_DIFF_KIND_MODE_CHANGED && entry->old_mode != entry->new_mode)
        cay_output_printf(out, " (%04o, was %04o)", entry->new_mode & 07777u,
                          entry->old_mode & 07777u);
    cay_output_printf(out, entry->too_deep ? " (too deep to look into)\n" : "\n");
}

static void print_bar(struct cay_output *out, int64_t added, int64_t removed)
{
    int64_t total = added + removed;
    int64_t most = CAY_MIN(total, (int64_t)BAR_MAX);
    size_t plus = (size_t)((added * most + total - 1) / total);
    char bar[BAR_MAX + 1];
    memset(bar, '+', plus);
    memset(bar + plus, '-', (size_t)most - plus);
    cay_output_text(out, CAY_STYLE_GOOD, (struct cay_str){bar, plus});
    cay_output_text(out, CAY_STYLE_BAD, (struct cay_str){bar + plus, (size_t)most - plus});
}

/* A daemon may tell any number; with these there is room to calculate. */
static int64_t lines_of(int64_t told)
{
    return CAY_MIN(CAY_MAX(told, (int64_t)0), (int64_t)LINES_MAX);
}

void cay_diff_print_stat(struct cay_output *out, const struct cay_v1_diff_entry *entry)
{
    char letter[] = {letter_of(entry->kind), '\0'};
    int64_t added = lines_of(entry->lines_added);
    int64_t removed = lines_of(entry->lines_removed);
    cay_output_text(out, style_of(entry->kind), cay_str(letter));
    cay_output_printf(out, "\t");
    print_path(out, entry);
    if (entry->binary || entry->patch_truncated) {
        cay_output_printf(out, " | %" PRId64 " -> %" PRId64 " bytes", entry->old_size,
                          entry->new_size);
    } else if (added || removed) {
        cay_output_printf(out, " | %" PRId64 " ", added + removed);
        print_bar(out, added, removed);
    }
    cay_output_printf(out, "\n");
}

static enum cay_style line_style(struct cay_str line, bool is_in_hunk)
{
    if (cay_str_starts(line, "@@"))
        return CAY_STYLE_DIM;
    if (!is_in_hunk)
        return CAY_STYLE_BOLD;
    if (cay_str_starts(line, "+"))
        return CAY_STYLE_GOOD;
    return cay_str_starts(line, "-") ? CAY_STYLE_BAD : CAY_STYLE_PLAIN;
}

/* For a file or a program the bytes as they are, so that `patch` and `git apply` take them. */
static void print_patch(struct cay_output *out, const struct cay_v1_diff_entry *entry)
{
    cay_auto(cay_buf_finish) struct cay_buf bytes;
    cay_buf_init(&bytes, CAY_LIMIT_MESSAGE_BYTES);
    cay_names_decode(&bytes, entry->patch);
    if (!out->is_terminal) {
        fwrite(bytes.data, 1, bytes.len, out->file);
        return;
    }
    struct cay_str rest = cay_buf_str(&bytes);
    struct cay_str line;
    bool is_in_hunk = false;
    if (rest.len && rest.ptr[rest.len - 1] == '\n')
        rest.len--;
    while (rest.ptr && cay_str_split(&rest, '\n', &line)) {
        is_in_hunk = is_in_hunk || cay_str_starts(line, "@@");
        cay_output_lines(out, line_style(line, is_in_hunk), line);
        cay_output_printf(out, "\n");
    }
}

static void print_stats(struct diff *diff, const struct cay_v1_diff_stats *stats)
{
    struct cay_output *out = &diff->cli->out;
    const struct {
        int64_t count;
        const char *what;
    } parts[] = {
        {stats->added, "added"},
        {stats->modified, "modified"},
        {stats->deleted, "deleted"},
        {stats->type_changed, "of another type"},
        {stats->mode_changed, "with another mode or owner"},
    };
    bool has_part = false;
    if (stats->truncated)
        fprintf(stderr, "cay: there are more changes than are shown; name paths after '--'\n");
    if (stats->too_deep)
        fprintf(stderr,
                "cay: changes in %" PRId64
                " directories are not shown, because they are nested more "
                "than 400 deep\n",
                stats->too_deep);
    if (!diff->wants_stat && (diff->wants_patch || !out->is_terminal))
        return;
    for (size_t i = 0; i < CAY_COUNT(parts); i++) {
        if (!parts[i].count)
            continue;
        cay_output_printf(out, "%s%" PRId64 " %s", has_part ? ", " : "", parts[i].count,
                          parts[i].what);
        has_part = true;
    }
    if (diff->wants_stat && has_part)
        cay_output_printf(out, "; %" PRId64 " lines added, %" PRId64 " removed", stats->lines_added,
                          stats->lines_removed);
    cay_output_printf(out, has_part ? "\n" : "nothing changed\n");
}

static bool on_frame(void *state, const void *message, struct cay_error *err)
{
    struct diff *diff = state;
    struct cay_output *out = &diff->cli->out;
    const struct cay_v1_diff_snapshots_response *response = message;
    if (out->is_json) {
        if (!cay_output_message(out, &cay_v1_diff_snapshots_response_desc, message, err))
            return false;
    } else if (response->which_frame == CAY_V1_DIFF_SNAPSHOTS_RESPONSE_FRAME_STATS) {
        print_stats(diff, response->frame.stats);
    } else if (response->which_frame == CAY_V1_DIFF_SNAPSHOTS_RESPONSE_FRAME_ENTRY) {
        const struct cay_v1_diff_entry *entry = response->frame.entry;
        if (diff->wants_stat)
            cay_diff_print_stat(out, entry);
        else if (diff->wants_patch && entry->patch.len)
            print_patch(out, entry);
        else
            cay_diff_print(out, entry);
    }
    return !ferror(out->file) ||
           cay_fail(err, CAY_R_CANCELED, "the output could not be written any more");
}

/* Relative paths begin where the session's commands do. */
static bool resolve_paths(struct cay_cli *cli, struct cay_pb_strs *paths, struct cay_error *err)
{
    struct cay_v1_get_session_request request = {.session_id = cay_str(cli->args.words[0])};
    struct cay_v1_get_session_response response = {};
    for (size_t i = 0; i < paths->count; i++) {
        struct cay_str path = paths->items[i];
        if (cay_str_starts(path, "/"))
            continue;
        if (!response.session &&
            (!cay_cli_call(cli, CAY_V1_SANDBOX_SERVICE_GET_SESSION, &request, &response, err) ||
             (!response.session && !cay_fail(err, CAY_R_INTERNAL, "the answer has no session"))))
            return false;
        while (cay_str_starts(path, "./"))
            path = (struct cay_str){path.ptr + 2, path.len - 2};
        if (cay_str_is(path, "."))
            path.len = 0;
        struct cay_str cwd = response.session->default_cwd;
        const char *joined =
            cay_arena_printf(&cli->arena, "%.*s/%.*s", (int)cwd.len, cwd.len ? cwd.ptr : "",
                             (int)path.len, path.len ? path.ptr : "");
        if (!joined)
            return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
        paths->items[i] = cay_str(joined);
    }
    return true;
}

static bool run_diff(struct cay_cli *cli, struct cay_error *err)
{
    const struct cay_args *args = &cli->args;
    struct diff diff = {
        .cli = cli,
        .wants_patch = cay_args_has(args, "patch"),
        .wants_stat = cay_args_has(args, "stat"),
    };
    struct cay_client *client = NULL;
    if (args->dash_at < 1 || args->dash_at > 3)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "before '--' stand SESSION, FROM and TO, no more; paths stand after it");
    struct cay_v1_diff_snapshots_request request = {
        .session_id = cay_str(args->words[0]),
        .from_snapshot = cay_str(args->dash_at > 1 ? args->words[1] : NULL),
        .to_snapshot = cay_str(args->dash_at > 2 ? args->words[2] : NULL),
        .patch = diff.wants_patch || diff.wants_stat,
    };
    return cay_values_words(cli, args->words + args->dash_at, args->word_count - args->dash_at,
                            &request.paths, err) &&
           resolve_paths(cli, &request.paths, err) &&
           cay_cli_client(cli, CAY_CALL_STREAM, &client, err) &&
           cay_client_call_stream(client, &cay_v1_methods[CAY_V1_SANDBOX_SERVICE_DIFF_SNAPSHOTS],
                                  &request, on_frame, &diff, err);
}

static const struct cay_flag diff_flags[] = {
    {.name = "patch", .letter = 'p', .help = "show how text files differ, as git does"},
    {.name = "stat", .help = "count the lines that were added and removed"},
    {},
};

const struct cay_command cay_command_diff = {
    .name = "diff",
    .arguments = "SESSION [FROM [TO]] [-- PATH...]",
    .summary = "Show what changed since a snapshot, or between two",
    .details =
        "FROM is a snapshot, or 'base'; when it is left out, it is the snapshot that the live\n"
        "files stand on. TO is a snapshot; when it is left out, the live files are compared.\n"
        "There is one line per path: A added, M modified, D deleted, T of another type, m with\n"
        "another mode or owner. The cost grows with what changed, not with the size of the tree.",
    .examples = "  cay diff demo\n"
                "  cay diff demo turn-0001 turn-0002 -p\n"
                "  cay diff demo base -- src /etc",
    .flags = diff_flags,
    .group = CAY_GROUP_HISTORY,
    .words_min = 1,
    .words_max = UINT32_MAX,
    .run = run_diff,
    .complete = cay_session_offer_snapshots,
};
