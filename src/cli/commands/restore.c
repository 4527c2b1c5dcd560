/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "cli/command.h"
#include "cli/commands/diff.h"
#include "cli/offer.h"
#include "cli/values.h"

static void print_restored(struct cay_output *out,
                           const struct cay_v1_restore_paths_response *response)
{
    const struct cay_v1_change_counts *counts = response->changes;
    for (size_t i = 0; i < response->entries.count; i++)
        cay_diff_print(out, &response->entries.items[i]);
    int64_t total = counts ? counts->added + counts->modified + counts->deleted : 0;
    if (total > (int64_t)response->entries.count)
        cay_output_printf(out, "and %" PRId64 " more\n", total - (int64_t)response->entries.count);
    if (!total)
        cay_output_printf(out, "there is nothing to restore\n");
}

static bool run_restore(struct cay_cli *cli, struct cay_error *err)
{
    const struct cay_args *args = &cli->args;
    struct cay_v1_restore_paths_response response = {};
    struct cay_v1_restore_paths_request request = {
        .session_id = cay_str(args->words[0]),
        .snapshot = cay_str(args->words[1]),
        .dry_run = cay_args_has(args, "dry-run"),
        .keep_extra = cay_args_has(args, "keep-extra"),
    };
    if (!cay_values_words(cli, args->words + 2, args->word_count - 2, &request.paths, err) ||
        !cay_cli_call(cli, CAY_V1_SANDBOX_SERVICE_RESTORE_PATHS, &request, &response, err))
        return false;
    if (cli->out.is_json)
        return cay_output_message(&cli->out, &cay_v1_restore_paths_response_desc, &response, err);
    print_restored(&cli->out, &response);
    return true;
}

static const struct cay_flag restore_flags[] = {
    {.name = "dry-run", .letter = 'n', .help = "only say what would change"},
    {.name = "keep-extra", .help = "leave alone what the snapshot does not have"},
    {},
};

const struct cay_command cay_command_restore = {
    .name = "restore",
    .arguments = "SESSION SNAPSHOT -- PATH...",
    .summary = "Bring single paths back from a snapshot",
    .details = "Each path comes back as a whole: with what the snapshot has below it, and without\n"
               "what the snapshot does not have. Everything else stays as it is. The lines that "
               "are printed\n"
               "say what had been done to the paths since.",
    .examples = "  cay restore demo turn-0001 -- src/main.c",
    .flags = restore_flags,
    .group = CAY_GROUP_HISTORY,
    .words_min = 3,
    .words_max = UINT32_MAX,
    .run = run_restore,
    .complete = cay_session_offer_snapshots,
};
