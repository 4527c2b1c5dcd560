/* SPDX-License-Identifier: Apache-2.0 */
#include "api/noun.h"
#include "base/clock.h"
#include "cli/command.h"
#include "cli/offer.h"
#include "cli/values.h"

/* New rules without a deadline leave the one that there is, and what happens then. */
static bool keep_deadline(struct cay_cli *cli, struct cay_v1_update_session_request *request,
                          struct cay_error *err)
{
    const struct cay_v1_get_session_request ask = {.session_id = request->session_id};
    struct cay_v1_get_session_response told = {};
    if (!cay_cli_call(cli, CAY_V1_SANDBOX_SERVICE_GET_SESSION, &ask, &told, err))
        return false;
    if (!told.session || !told.session->deadline)
        return true;
    const struct cay_v1_lifecycle *old = told.session->lifecycle;
    int64_t left_ns = cay_noun_time_ns(told.session->deadline) - cay_clock_wall_ns();
    request->expire_in = cay_noun_duration(&cli->arena, CAY_MAX(left_ns, 0));
    if (old && !request->lifecycle->on_expiry)
        request->lifecycle->on_expiry = old->on_expiry;
    if (old)
        request->lifecycle->timeout = old->timeout;
    return true;
}

static bool read_rules(struct cay_cli *cli, struct cay_v1_update_session_request *request,
                       struct cay_error *err)
{
    struct cay_v1_lifecycle *rules = NULL;
    if (!cay_values_lifecycle(cli, &rules, err))
        return false;
    /* A new deadline alone leaves the other rules as they are. */
    bool is_deadline = rules && rules->timeout && !rules->on_expiry && !rules->idle_timeout &&
                       !rules->on_idle && !rules->auto_resume;
    if (is_deadline)
        request->expire_in = rules->timeout;
    else
        request->lifecycle = rules;
    return is_deadline || !rules || rules->timeout || keep_deadline(cli, request, err);
}

static bool run_update(struct cay_cli *cli, struct cay_error *err)
{
    struct cay_v1_update_session_response response = {};
    struct cay_v1_update_session_request request = {
        .session_id = cay_str(cli->args.words[0]),
        .extend_only = cay_args_has(&cli->args, "extend-only"),
    };
    if (!cay_values_pairs(cli, "label", &request.set_labels, err) ||
        !cay_values_switch(cli, "tool-snapshots", &request.has_tool_snapshots,
                           &request.tool_snapshots, err) ||
        !cay_values_pairs(cli, "env", &request.set_env, err) ||
        !cay_values_names(cli, "unlabel", &request.remove_labels, err) ||
        !cay_values_names(cli, "unset", &request.remove_env, err) ||
        !cay_values_network(cli, request.session_id, &request.network, err) ||
        !cay_values_secrets(cli, &request.set_secrets, err) ||
        !cay_values_names(cli, "unbind", &request.remove_secrets, err) ||
        !cay_values_limits(cli, &request.limits, err) || !read_rules(cli, &request, err) ||
        !cay_values_number(cli, "max-snapshots", 0, INT32_MAX, &request.has_max_snapshots,
                           &request.max_snapshots, err) ||
        !cay_values_number(cli, "max-tools", 0, INT32_MAX, &request.has_max_concurrent_tools,
                           &request.max_concurrent_tools, err) ||
        !cay_cli_call(cli, CAY_V1_SANDBOX_SERVICE_UPDATE_SESSION, &request, &response, err))
        return false;
    return !cli->out.is_json ||
           cay_output_message(&cli->out, &cay_v1_update_session_response_desc, &response, err);
}

static const struct cay_flag update_flags[] = {
    {.name = "label",
     .letter = 'l',
     .value = "NAME=VALUE",
     .help = "a label to add or replace; may be given again"},
    {.name = "unlabel", .value = "NAME", .help = "a label to remove; may be given again"},
    {.name = "env",
     .letter = 'e',
     .value = "NAME=VALUE",
     .help = "a variable to add or replace, for commands from now on"},
    {.name = "unset", .value = "NAME", .help = "a variable to remove; may be given again"},
    CAY_FLAGS_LIMITS,
    CAY_FLAGS_DISK,
    CAY_FLAG_NETWORK,
    CAY_FLAG_PORTS,
    CAY_FLAG_SECRET,
    {.name = "unbind",
     .value = "VARIABLE",
     .help = "a variable of --secret to remove; may be given again"},
    CAY_FLAGS_LIFECYCLE,
    {.name = "extend-only", .help = "never bring the deadline forward"},
    {.name = "max-snapshots", .value = "N", .help = "keep the newest N turns only; 0: all"},
    {.name = "max-tools",
     .value = "N",
     .help = "let at most N tools run at the same time; 0: any number"},
    CAY_FLAG_TOOL_SNAPSHOTS,
    {},
};

const struct cay_command cay_command_update = {
    .name = "update",
    .arguments = "SESSION",
    .summary = "Change labels, variables, limits, network and end of a session",
    .details =
        "All changes are made, or none. What no flag names stays as it is. --expire-in alone\n"
        "moves the deadline. Other rules for the end are replaced all together, but for a\n"
        "deadline, which stays until --expire-in names another.",
    .examples = "  cay update demo --expire-in 1h\n"
                "  cay update demo --memory 4G --label job=43",
    .flags = update_flags,
    .group = CAY_GROUP_SANDBOX,
    .words_min = 1,
    .words_max = 1,
    .run = run_update,
    .complete = cay_session_offer,
};
