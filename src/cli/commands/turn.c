/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command.h"
#include "cli/offer.h"
#include "cli/values.h"

static void print_name(struct cay_output *out, const struct cay_v1_snapshot *snapshot)
{
    if (snapshot)
        cay_output_text(out, CAY_STYLE_PLAIN, snapshot->name);
    cay_output_printf(out, "\n");
}

static bool run_turn(struct cay_cli *cli, struct cay_error *err)
{
    struct cay_v1_turn_complete_response response = {};
    struct cay_v1_turn_complete_request request = {
        .session_id = cay_str(cli->args.words[0]),
        .message = cay_values_text(cli, "message"),
        .durable = cay_args_has(&cli->args, "durable"),
    };
    if (!cay_values_wait(cli, "drain", &request.drain_timeout, err))
        return false;
    if (!cay_cli_call(cli, CAY_V1_SANDBOX_SERVICE_TURN_COMPLETE, &request, &response, err))
        return false;
    if (cli->out.is_json)
        return cay_output_message(&cli->out, &cay_v1_turn_complete_response_desc, &response, err);
    print_name(&cli->out, response.snapshot);
    return true;
}

static bool run_snapshot(struct cay_cli *cli, struct cay_error *err)
{
    struct cay_v1_create_snapshot_response response = {};
    struct cay_v1_create_snapshot_request request = {
        .session_id = cay_str(cli->args.words[0]),
        .name = cay_str(cli->args.word_count > 1 ? cli->args.words[1] : ""),
        .message = cay_values_text(cli, "message"),
        .durable = cay_args_has(&cli->args, "durable"),
        .publish_base = cay_values_text(cli, "publish"),
    };
    if (!cay_values_wait(cli, "drain", &request.drain_timeout, err))
        return false;
    if (!cay_cli_call(cli, CAY_V1_SANDBOX_SERVICE_CREATE_SNAPSHOT, &request, &response, err))
        return false;
    if (cli->out.is_json)
        return cay_output_message(&cli->out, &cay_v1_create_snapshot_response_desc, &response, err);
    print_name(&cli->out, response.snapshot);
    return true;
}

static const struct cay_flag turn_flags[] = {
    {.name = "message",
     .letter = 'm',
     .value = "TEXT",
     .help = "a line about the snapshot, for 'cay log'"},
    {.name = "durable",
     .help = "sync the snapshot to disk first, so that it survives a power loss"},
    {.name = "drain",
     .value = "DURATION",
     .help = "wait at most this long for running tools, and fail if some still run then"},
    {},
};

static const struct cay_flag snapshot_flags[] = {
    {.name = "message",
     .letter = 'm',
     .value = "TEXT",
     .help = "a line about the snapshot, for 'cay log'"},
    {.name = "durable",
     .help = "sync the snapshot to disk first, so that it survives a power loss"},
    {.name = "drain",
     .value = "DURATION",
     .help = "wait at most this long for running tools, and fail if some still run then"},
    {.name = "publish",
     .value = "BASE",
     .help = "also make it a base of this name, which outlives the session"},
    {},
};

const struct cay_command cay_command_turn = {
    .name = "turn",
    .arguments = "SESSION",
    .summary = "End a turn: take its snapshot and print the snapshot's name",
    .details = "Every turn can be looked at, compared, forked and gone back to.",
    .examples = "  cay turn demo -m 'tests pass'",
    .flags = turn_flags,
    .group = CAY_GROUP_HISTORY,
    .words_min = 1,
    .words_max = 1,
    .run = run_turn,
    .complete = cay_session_offer,
};

const struct cay_command cay_command_snapshot = {
    .name = "snapshot",
    .arguments = "SESSION [NAME]",
    .summary = "Take a snapshot with a name of your own",
    .details =
        "Unlike turns, named snapshots are never pruned. Without NAME the snapshot gets one, which "
        "is\n"
        "printed. With --publish other sessions can start from it: 'cay create --base BASE'.",
    .examples = "  cay snapshot demo works\n"
                "  cay snapshot demo --publish demo-ready",
    .flags = snapshot_flags,
    .group = CAY_GROUP_HISTORY,
    .words_min = 1,
    .words_max = 2,
    .run = run_snapshot,
    .complete = cay_session_offer,
};
