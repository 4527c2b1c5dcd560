/* SPDX-License-Identifier: Apache-2.0 */
#include "api/limits.h"
#include "cli/command.h"
#include "cli/offer.h"
#include "cli/values.h"

static bool run_fork(struct cay_cli *cli, struct cay_error *err)
{
    const struct cay_args *args = &cli->args;
    struct cay_v1_fork_session_response response = {};
    struct cay_v1_fork_session_request request = {
        .session_id = cay_str(args->words[0]),
        .snapshot = cay_str(args->word_count > 1 ? args->words[1] : NULL),
        .new_session_id = cay_values_text(cli, "name"),
        .lazy_start = cay_args_has(args, "lazy"),
    };
    bool is_given = false;
    if (!cay_values_number(cli, "count", 1, CAY_LIMIT_FORKS, &is_given, &request.count, err) ||
        !cay_values_lifecycle(cli, &request.lifecycle, err) ||
        !cay_values_pairs(cli, "label", &request.labels, err) ||
        !cay_values_pairs(cli, "env", &request.env, err) ||
        !cay_values_network(cli, request.session_id, &request.network, err) ||
        !cay_values_limits(cli, &request.limits, err) ||
        !cay_cli_call(cli, CAY_V1_SANDBOX_SERVICE_FORK_SESSION, &request, &response, err))
        return false;
    if (cli->out.is_json)
        return cay_output_message(&cli->out, &cay_v1_fork_session_response_desc, &response, err);
    for (size_t i = 0; i < response.forks.count; i++) {
        if (!response.forks.items[i].session)
            continue;
        cay_output_text(&cli->out, CAY_STYLE_PLAIN, response.forks.items[i].session->id);
        cay_output_printf(&cli->out, "\n");
    }
    return true;
}

static const struct cay_flag fork_flags[] = {
    {.name = "name",
     .value = "NAME",
     .help = "the new session's id; with --count: NAME-1, NAME-2, …"},
    {.name = "count", .letter = 'n', .value = "N", .help = "make this many, all from one instant"},
    {.name = "label",
     .letter = 'l',
     .value = "NAME=VALUE",
     .help = "a label to add; may be given again"},
    {.name = "env",
     .letter = 'e',
     .value = "NAME=VALUE",
     .help = "a variable to add; may be given again"},
    CAY_FLAGS_LIMITS,
    CAY_FLAGS_DISK,
    CAY_FLAG_NETWORK,
    CAY_FLAG_PORTS,
    CAY_FLAGS_LIFECYCLE,
    {.name = "lazy", .help = "start the sandboxes with their first command, not now"},
    {},
};

const struct cay_command cay_command_fork = {
    .name = "fork",
    .arguments = "SESSION [SNAPSHOT]",
    .summary = "Make sessions that begin where another one is, or was",
    .details =
        "They begin with the session's files as they are now, or with those of a snapshot,\n"
        "and share their data. Processes are not forked. Limits, and rules for the end, are\n"
        "those of the original unless flags name others. The new ids are printed.",
    .examples = "  cay fork demo turn-0001 --name b\n"
                "  cay fork demo --count 8",
    .flags = fork_flags,
    .group = CAY_GROUP_HISTORY,
    .words_min = 1,
    .words_max = 2,
    .run = run_fork,
    .complete = cay_session_offer_snapshots,
};
