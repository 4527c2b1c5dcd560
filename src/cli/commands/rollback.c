/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command.h"
#include "cli/offer.h"
#include "cli/values.h"

static void print_rollback(struct cay_output *out, const char *snapshot,
                           const struct cay_v1_rollback_session_response *response)
{
    cay_output_printf(out, "back at ");
    cay_output_text(out, CAY_STYLE_GOOD, cay_str(snapshot));
    cay_output_printf(out, "\n");
    if (response->branch.len) {
        cay_output_printf(out, "what was not saved is kept as ");
        cay_output_text(out, CAY_STYLE_BOLD, response->branch);
        cay_output_printf(out, "\n");
    }
    cay_output_names(out, "discarded", response->discarded);
    for (size_t i = 0; i < response->killed.count; i++) {
        const struct cay_v1_leftover_process *process = &response->killed.items[i];
        cay_output_printf(out, "killed process %d", process->pid);
        if (process->command.len)
            cay_output_printf(out, ": ");
        cay_output_text(out, CAY_STYLE_PLAIN, process->command);
        cay_output_printf(out, "\n");
    }
}

static bool run_rollback(struct cay_cli *cli, struct cay_error *err)
{
    const struct cay_args *args = &cli->args;
    struct cay_v1_rollback_session_response response = {};
    struct cay_v1_rollback_session_request request = {
        .session_id = cay_str(args->words[0]),
        .snapshot = cay_str(args->words[1]),
        .discard = cay_args_has(args, "discard"),
        .branch = cay_values_text(cli, "branch"),
        .processes = cay_args_has(args, "refuse-processes") ? CAY_V1_PROCESS_POLICY_REFUSE
                                                            : CAY_V1_PROCESS_POLICY_KILL,
        .kill_tools = cay_args_has(args, "kill-tools"),
    };
    if (!cay_values_wait(cli, "drain", &request.drain_timeout, err))
        return false;
    if (request.discard && request.branch.len)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "--discard keeps nothing, so there is nothing to call --branch '%.40s'",
                        request.branch.ptr);
    if (!cay_cli_call(cli, CAY_V1_SANDBOX_SERVICE_ROLLBACK_SESSION, &request, &response, err))
        return false;
    if (cli->out.is_json)
        return cay_output_message(&cli->out, &cay_v1_rollback_session_response_desc, &response,
                                  err);
    print_rollback(&cli->out, args->words[1], &response);
    return true;
}

static const struct cay_flag rollback_flags[] = {
    {.name = "discard", .help = "delete what came after the snapshot, instead of keeping it"},
    {.name = "branch", .value = "NAME", .help = "what to call the unsaved changes that are kept"},
    {.name = "refuse-processes", .help = "fail when commands run, instead of killing them"},
    {.name = "drain", .value = "DURATION", .help = "wait at most this long for running tools"},
    {.name = "kill-tools", .help = "kill tools that still run then, instead of failing"},
    {},
};

const struct cay_command cay_command_rollback = {
    .name = "rollback",
    .arguments = "SESSION SNAPSHOT",
    .summary = "Take a session's files back to a snapshot",
    .details =
        "It happens as a whole or not at all. What came after the snapshot is kept: later\n"
        "snapshots stay, and changes that were in none become one (branch-0001, …), so that\n"
        "a rollback can be rolled back. Commands that run are killed; while tool calls run, it\n"
        "fails unless it is told to wait for them or to kill them. What they printed is not lost.",
    .examples = "  cay rollback demo turn-0001",
    .flags = rollback_flags,
    .group = CAY_GROUP_HISTORY,
    .words_min = 2,
    .words_max = 2,
    .run = run_rollback,
    .complete = cay_session_offer_snapshots,
};
