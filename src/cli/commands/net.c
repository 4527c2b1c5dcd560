/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command.h"
#include "cli/offer.h"
#include "cli/values.h"

static void print_rules(struct cay_output *out, const char *name, struct cay_pb_strs rules)
{
    for (size_t i = 0; i < rules.count; i++)
        cay_output_field(out, i ? "" : name, CAY_STYLE_PLAIN, rules.items[i]);
}

static bool run_show(struct cay_cli *cli, struct cay_error *err)
{
    struct cay_v1_get_session_request request = {.session_id = cay_str(cli->args.words[0])};
    struct cay_v1_get_session_response response = {};
    struct cay_v1_network_policy none = {.mode = CAY_V1_NETWORK_MODE_NONE};
    if (!cay_cli_call(cli, CAY_V1_SANDBOX_SERVICE_GET_SESSION, &request, &response, err))
        return false;
    const struct cay_v1_network_policy *policy =
        response.session && response.session->network ? response.session->network : &none;
    if (cli->out.is_json)
        return cay_output_message(&cli->out, &cay_v1_network_policy_desc, policy, err);
    cay_output_field(&cli->out, "network", CAY_STYLE_PLAIN,
                     cay_str(cay_values_network_name(policy)));
    print_rules(&cli->out, "allow", policy->allow);
    print_rules(&cli->out, "deny", policy->deny);
    cay_output_field(&cli->out, "ports", CAY_STYLE_PLAIN, cay_str(cay_values_ports_name(policy)));
    if (policy->mask_request_host.len)
        cay_output_field(&cli->out, "mask host", CAY_STYLE_PLAIN, policy->mask_request_host);
    return true;
}

/* A policy to try; NULL when no flag names one. */
static bool read_policy(struct cay_cli *cli, struct cay_v1_network_policy *out,
                        struct cay_v1_network_policy **out_given, struct cay_error *err)
{
    out->mode = CAY_V1_NETWORK_MODE_FILTERED;
    if (!cay_values_texts(cli, "allow", &out->allow, err) ||
        !cay_values_texts(cli, "deny", &out->deny, err))
        return false;
    *out_given = out->allow.count || out->deny.count ? out : NULL;
    return true;
}

static void print_verdicts(struct cay_output *out, const struct cay_v1_network_verdict_array *all)
{
    static const char *const titles[] = {"DESTINATION", "VERDICT", "WHY"};
    cay_auto(cay_table_finish) struct cay_table table;
    cay_table_init(&table, titles, CAY_COUNT(titles));
    for (size_t i = 0; i < all->count; i++) {
        const struct cay_v1_network_verdict *verdict = &all->items[i];
        cay_table_cell(&table, CAY_STYLE_BOLD, verdict->endpoint);
        cay_table_cell(&table,
                       verdict->allowed ? CAY_STYLE_GOOD
                       : verdict->asked ? CAY_STYLE_WARN
                                        : CAY_STYLE_BAD,
                       cay_str(verdict->allowed ? "allowed"
                               : verdict->asked ? "asked"
                                                : "refused"));
        cay_table_cell(&table, CAY_STYLE_PLAIN, verdict->why);
    }
    cay_table_print(&table, out);
}

static bool run_check(struct cay_cli *cli, struct cay_error *err)
{
    struct cay_v1_network_policy policy = {};
    struct cay_v1_check_network_request request = {.session_id = cay_str(cli->args.words[0])};
    struct cay_v1_check_network_response response = {};
    if (!read_policy(cli, &policy, &request.policy, err) ||
        !cay_values_words(cli, cli->args.words + 1, cli->args.word_count - 1, &request.destinations,
                          err) ||
        !cay_cli_call(cli, CAY_V1_SANDBOX_SERVICE_CHECK_NETWORK, &request, &response, err))
        return false;
    if (cli->out.is_json)
        return cay_output_message(&cli->out, &cay_v1_check_network_response_desc, &response, err);
    print_verdicts(&cli->out, &response.verdicts);
    return true;
}

static bool has_rule(struct cay_pb_strs rules, struct cay_str rule)
{
    for (size_t i = 0; i < rules.count; i++) {
        if (cay_str_equal(rules.items[i], rule))
            return true;
    }
    return false;
}

/* The list with the words in it, or without them; of words that are there (or not) nothing is
 * said. */
static bool change_list(struct cay_cli *cli, struct cay_pb_strs *list, struct cay_error *err)
{
    struct cay_pb_strs words;
    bool is_removal = cay_args_has(&cli->args, "rm");
    if (!cay_values_words(cli, cli->args.words + 1, cli->args.word_count - 1, &words, err))
        return false;
    struct cay_pb_strs changed = {
        cay_arena_array(&cli->arena, list->count + words.count, sizeof(*changed.items)), 0};
    if (!changed.items)
        return cay_fail(err, CAY_R_OUT_OF_MEMORY, NULL);
    for (size_t i = 0; i < list->count; i++) {
        if (!is_removal || !has_rule(words, list->items[i]))
            changed.items[changed.count++] = list->items[i];
    }
    for (size_t i = 0; i < words.count && !is_removal; i++) {
        if (!has_rule(changed, words.items[i]))
            changed.items[changed.count++] = words.items[i];
    }
    *list = changed;
    return true;
}

/* Open connections that the new rules do not allow are cut by the daemon. */
static bool change(struct cay_cli *cli, bool is_deny, struct cay_error *err)
{
    struct cay_v1_get_session_request ask = {.session_id = cay_str(cli->args.words[0])};
    struct cay_v1_get_session_response got = {};
    struct cay_v1_update_session_request request = {.session_id = ask.session_id};
    struct cay_v1_update_session_response response = {};
    if (!cay_cli_call(cli, CAY_V1_SANDBOX_SERVICE_GET_SESSION, &ask, &got, err))
        return false;
    request.network = got.session ? got.session->network : NULL;
    if (!request.network || request.network->mode != CAY_V1_NETWORK_MODE_FILTERED)
        return cay_fail(err, CAY_R_FAILED_PRECONDITION,
                        "the network of session '%s' is not filtered and has no rules; 'cay update "
                        "%s --network filtered --allow RULE' makes it so",
                        cli->args.words[0], cli->args.words[0]);
    if (!change_list(cli, is_deny ? &request.network->deny : &request.network->allow, err) ||
        !cay_cli_call(cli, CAY_V1_SANDBOX_SERVICE_UPDATE_SESSION, &request, &response, err))
        return false;
    return !cli->out.is_json ||
           cay_output_message(&cli->out, &cay_v1_update_session_response_desc, &response, err);
}

static bool run_allow(struct cay_cli *cli, struct cay_error *err)
{
    return change(cli, false, err);
}

static bool run_deny(struct cay_cli *cli, struct cay_error *err)
{
    return change(cli, true, err);
}

static const struct cay_flag change_flags[] = {
    {.name = "rm", .help = "take these rules away"},
    {},
};

const struct cay_command cay_command_net_allow = {
    .name = "net allow",
    .arguments = "SESSION RULE...",
    .summary = "Let a filtered network reach more, while the session runs",
    .details = "What is reached is what some rule allows and none denies. With --rm the rules go,\n"
               "and what only they allowed is cut.",
    .examples = "  cay net allow demo example.org:443 @npm\n"
                "  cay net allow demo --rm @npm",
    .flags = change_flags,
    .group = CAY_GROUP_SANDBOX,
    .words_min = 2,
    .words_max = 1001,
    .run = run_allow,
    .complete = cay_session_offer,
};

const struct cay_command cay_command_net_deny = {
    .name = "net deny",
    .arguments = "SESSION RULE...",
    .summary = "Keep a filtered network from what it reaches, while the session runs",
    .examples = "  cay net deny demo '*.example.org'",
    .flags = change_flags,
    .group = CAY_GROUP_SANDBOX,
    .words_min = 2,
    .words_max = 1001,
    .run = run_deny,
    .complete = cay_session_offer,
};

const struct cay_command cay_command_net_show = {
    .name = "net show",
    .arguments = "SESSION",
    .summary = "Show the network of a session and its rules",
    .examples = "  cay net show demo",
    .group = CAY_GROUP_SANDBOX,
    .words_min = 1,
    .words_max = 1,
    .run = run_show,
    .complete = cay_session_offer,
};

static const struct cay_flag check_flags[] = {
    {.name = "allow",
     .value = "RULE",
     .help = "try this rule, and the others given, in place of the session's"},
    {.name = "deny", .value = "RULE", .help = "the same, for what would be refused"},
    {},
};

const struct cay_command cay_command_net_check = {
    .name = "net check",
    .arguments = "SESSION DESTINATION...",
    .summary = "Say what would happen to connections of a session, and why",
    .details = "A destination is a name, an address or a URL. Nothing is connected and no name is\n"
               "looked up. With --allow or --deny the verdict is that of a filtered network with\n"
               "these rules; the session is not changed.",
    .examples = "  cay net check demo https://example.org 10.0.0.1:22\n"
                "  cay net check demo --allow '*.example.org:443' --allow @npm a.example.org",
    .flags = check_flags,
    .group = CAY_GROUP_SANDBOX,
    .words_min = 2,
    .words_max = 101,
    .run = run_check,
    .complete = cay_session_offer,
};
