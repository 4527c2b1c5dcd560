/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay_v1.h"
#include "cli/command.h"
#include "cli/offer.h"

/* The tokens of a session: what opens it, and nothing else, to whoever has no key. */

static void print_tokens(struct cay_output *out, const struct cay_v1_session_tokens *tokens)
{
    static const struct cay_v1_session_tokens none;
    const struct cay_v1_session_tokens *shown = tokens ? tokens : &none;
    cay_output_printf(out, "access   ");
    cay_output_text(out, CAY_STYLE_GOOD, shown->access_token);
    cay_output_printf(out, "\n");
    if (!shown->traffic_token.len)
        return;
    cay_output_printf(out, "traffic  ");
    cay_output_text(out, CAY_STYLE_GOOD, shown->traffic_token);
    cay_output_printf(out, "\n");
}

static bool run_show(struct cay_cli *cli, struct cay_error *err)
{
    const struct cay_v1_get_session_request request = {.session_id = cay_str(cli->args.words[0]),
                                                       .include_tokens = true};
    struct cay_v1_get_session_response response = {};
    if (!cay_cli_call(cli, CAY_V1_SANDBOX_SERVICE_GET_SESSION, &request, &response, err))
        return false;
    if (cli->out.is_json && response.tokens)
        return cay_output_message(&cli->out, &cay_v1_session_tokens_desc, response.tokens, err);
    print_tokens(&cli->out, response.tokens);
    return true;
}

static bool run_revoke(struct cay_cli *cli, struct cay_error *err)
{
    const struct cay_v1_revoke_tokens_request request = {.session_id = cay_str(cli->args.words[0])};
    struct cay_v1_revoke_tokens_response response = {};
    if (!cay_cli_call(cli, CAY_V1_SANDBOX_SERVICE_REVOKE_TOKENS, &request, &response, err))
        return false;
    if (cli->out.is_json && response.tokens)
        return cay_output_message(&cli->out, &cay_v1_session_tokens_desc, response.tokens, err);
    print_tokens(&cli->out, response.tokens);
    return true;
}

const struct cay_command cay_command_token_show = {
    .name = "token show",
    .arguments = "SESSION",
    .summary = "Print the tokens of a session",
    .details =
        "The access token stands for a key in calls on this session. The traffic token opens\n"
        "its private ports through the daemon.",
    .group = CAY_GROUP_SANDBOX,
    .words_min = 1,
    .words_max = 1,
    .run = run_show,
    .complete = cay_session_offer,
};

const struct cay_command cay_command_token_revoke = {
    .name = "token revoke",
    .arguments = "SESSION",
    .summary = "Make the tokens of a session useless, and print new ones",
    .details = "What is open by the old tokens ends. What is open by a key goes on.",
    .group = CAY_GROUP_SANDBOX,
    .words_min = 1,
    .words_max = 1,
    .run = run_revoke,
    .complete = cay_session_offer,
};
