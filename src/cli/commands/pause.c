/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command.h"
#include "cli/offer.h"
#include "cli/values.h"

static bool run_pause(struct cay_cli *cli, struct cay_error *err)
{
    const struct cay_args *args = &cli->args;
    struct cay_v1_pause_session_response response = {};
    struct cay_v1_pause_session_request request = {
        .session_id = cay_str(args->words[0]),
        .mode = cay_args_has(args, "stop") ? CAY_V1_PAUSE_MODE_STOP : CAY_V1_PAUSE_MODE_FREEZE,
        .freeze_tools = cay_args_has(args, "freeze-tools"),
    };
    if (!cay_values_wait(cli, "drain", &request.drain_timeout, err) ||
        !cay_cli_call(cli, CAY_V1_SANDBOX_SERVICE_PAUSE_SESSION, &request, &response, err))
        return false;
    if (cli->out.is_json)
        return cay_output_message(&cli->out, &cay_v1_pause_session_response_desc, &response, err);
    for (size_t i = 0; i < response.stopped.count; i++) {
        cay_output_printf(&cli->out, "ended process %d: ", response.stopped.items[i].pid);
        cay_output_text(&cli->out, CAY_STYLE_PLAIN, response.stopped.items[i].command);
        cay_output_printf(&cli->out, "\n");
    }
    return true;
}

static bool run_resume(struct cay_cli *cli, struct cay_error *err)
{
    const struct cay_args *args = &cli->args;
    struct cay_v1_resume_session_response response = {};
    struct cay_v1_resume_session_request request = {
        .session_id = cay_str(args->words[0]),
        .allow_active = cay_args_has(args, "active-ok"),
        .cold = cay_args_has(args, "cold"),
    };
    if (!cay_values_duration(cli, "expire-in", &request.expire_in, err) ||
        !cay_cli_call(cli, CAY_V1_SANDBOX_SERVICE_RESUME_SESSION, &request, &response, err))
        return false;
    return !cli->out.is_json ||
           cay_output_message(&cli->out, &cay_v1_resume_session_response_desc, &response, err);
}

static const struct cay_flag pause_flags[] = {
    {.name = "stop", .help = "end its processes instead of freezing them; files are kept"},
    {.name = "drain",
     .value = "DURATION",
     .help = "wait at most this long for running tools; 30s otherwise"},
    {.name = "freeze-tools", .help = "do not wait for running tools: freeze them too"},
    {},
};

static const struct cay_flag resume_flags[] = {
    {.name = "expire-in", .value = "DURATION", .help = "its new deadline, counted from now"},
    {.name = "active-ok", .help = "do not fail when it is not paused"},
    {.name = "cold", .help = "end the frozen processes and start the sandbox afresh"},
    {},
};

const struct cay_command cay_command_pause = {
    .name = "pause",
    .arguments = "SESSION",
    .summary = "Freeze a session with all its processes",
    .details = "Running tools may finish first; new ones, commands and copies are refused until\n"
               "'cay resume'.",
    .flags = pause_flags,
    .group = CAY_GROUP_SANDBOX,
    .words_min = 1,
    .words_max = 1,
    .run = run_pause,
    .complete = cay_session_offer,
};

const struct cay_command cay_command_resume = {
    .name = "resume",
    .arguments = "SESSION",
    .summary = "Let a paused session go on exactly where it was",
    .flags = resume_flags,
    .group = CAY_GROUP_SANDBOX,
    .words_min = 1,
    .words_max = 1,
    .run = run_resume,
    .complete = cay_session_offer,
};
