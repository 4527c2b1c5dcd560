/* SPDX-License-Identifier: Apache-2.0 */
#include "base/quantity.h"
#include "cli/command.h"
#include "cli/offer.h"
#include "cli/values.h"

static bool read_rule(struct cay_cli *cli, struct cay_v1_prune_rule *rule, bool *out_is_given,
                      struct cay_error *err)
{
    if (!cay_values_number(cli, "keep-turns", 0, INT32_MAX, &rule->has_keep_turns,
                           &rule->keep_turns, err) ||
        !cay_values_number(cli, "keep-tools", 0, INT32_MAX, &rule->has_keep_tools,
                           &rule->keep_tools, err) ||
        !cay_values_wait(cli, "branches-older", &rule->branches_older_than, err))
        return false;
    *out_is_given = rule->has_keep_turns || rule->has_keep_tools || rule->branches_older_than;
    return true;
}

static bool run_prune(struct cay_cli *cli, struct cay_error *err)
{
    const struct cay_args *args = &cli->args;
    struct cay_v1_prune_rule rule = {};
    struct cay_v1_delete_snapshot_response response = {};
    struct cay_v1_delete_snapshot_request request = {
        .session_id = cay_str(args->words[0]),
        .dry_run = cay_args_has(args, "dry-run"),
    };
    bool has_rule = false;
    if (!read_rule(cli, &rule, &has_rule, err) ||
        !cay_values_words(cli, args->words + 1, args->word_count - 1, &request.snapshots, err))
        return false;
    if (!has_rule && !request.snapshots.count)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "name snapshots, or say what to keep: --keep-turns 10");
    request.prune = has_rule ? &rule : NULL;
    if (!cay_cli_call(cli, CAY_V1_SANDBOX_SERVICE_DELETE_SNAPSHOT, &request, &response, err))
        return false;
    if (cli->out.is_json)
        return cay_output_message(&cli->out, &cay_v1_delete_snapshot_response_desc, &response, err);
    char size[CAY_SIZE_BYTES];
    cay_size_format((uint64_t)response.freed_bytes, size);
    cay_output_names(&cli->out, request.dry_run ? "would delete" : "deleted", response.deleted);
    if (response.deleted.count)
        cay_output_printf(&cli->out, "%s %s\n", request.dry_run ? "would free" : "frees", size);
    else
        cay_output_printf(&cli->out, "there is nothing to delete\n");
    return true;
}

static bool set_hold(struct cay_cli *cli, bool is_release, struct cay_error *err)
{
    struct cay_v1_hold_snapshot_response response = {};
    struct cay_v1_hold_snapshot_request request = {
        .session_id = cay_str(cli->args.words[0]),
        .snapshot = cay_str(cli->args.words[1]),
        .release = is_release,
    };
    if (!cay_cli_call(cli, CAY_V1_SANDBOX_SERVICE_HOLD_SNAPSHOT, &request, &response, err))
        return false;
    return !cli->out.is_json ||
           cay_output_message(&cli->out, &cay_v1_hold_snapshot_response_desc, &response, err);
}

static bool run_hold(struct cay_cli *cli, struct cay_error *err)
{
    return set_hold(cli, false, err);
}

static bool run_release(struct cay_cli *cli, struct cay_error *err)
{
    return set_hold(cli, true, err);
}

static const struct cay_flag prune_flags[] = {
    {.name = "keep-turns", .value = "N", .help = "delete turns older than the newest N"},
    {.name = "keep-tools",
     .value = "N",
     .help = "delete snapshots taken after tool calls, but for the newest N"},
    {.name = "branches-older",
     .value = "DURATION",
     .help = "delete branches that rollbacks left behind longer ago than this; 0s: all of them"},
    {.name = "dry-run", .letter = 'n', .help = "only say what would be deleted"},
    {},
};

const struct cay_command cay_command_prune = {
    .name = "prune",
    .arguments = "SESSION [SNAPSHOT...]",
    .summary = "Delete snapshots, by name or by rule",
    .details =
        "All of them are deleted, or none. A rule never takes snapshots that are\n"
        "named, held or forked from, nor the one that the live files stand on. The live files\n"
        "and other snapshots do not change.",
    .examples = "  cay prune demo --keep-turns 10 --branches-older 24h\n"
                "  cay prune demo turn-0003",
    .flags = prune_flags,
    .group = CAY_GROUP_HISTORY,
    .words_min = 1,
    .words_max = UINT32_MAX,
    .run = run_prune,
    .complete = cay_session_offer_snapshots,
};

const struct cay_command cay_command_hold = {
    .name = "hold",
    .arguments = "SESSION SNAPSHOT",
    .summary = "Keep a snapshot from being deleted or pruned",
    .group = CAY_GROUP_HISTORY,
    .words_min = 2,
    .words_max = 2,
    .run = run_hold,
    .complete = cay_session_offer_snapshots,
};

const struct cay_command cay_command_release = {
    .name = "release",
    .arguments = "SESSION SNAPSHOT",
    .summary = "Let a held snapshot go",
    .group = CAY_GROUP_HISTORY,
    .words_min = 2,
    .words_max = 2,
    .run = run_release,
    .complete = cay_session_offer_snapshots,
};
