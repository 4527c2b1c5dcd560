/* SPDX-License-Identifier: Apache-2.0 */
#include "front/e2b/control/network.h"

#include <stdio.h>

#include "base/subnet.h"

static bool is_everything(struct cay_str rule)
{
    return cay_str_is(rule, "0.0.0.0/0") || cay_str_is(rule, "::/0") || cay_str_is(rule, "*");
}

static bool denies_everything(struct cay_pb_strs rules)
{
    for (size_t i = 0; i < rules.count; i++) {
        if (is_everything(rules.items[i]))
            return true;
    }
    return false;
}

/* A name of a host has a letter that no hexadecimal number has, or no colon at all. */
static bool has_name(struct cay_pb_strs rules)
{
    for (size_t i = 0; i < rules.count; i++) {
        struct cay_str rule = rules.items[i];
        bool is_six = rule.len && memchr(rule.ptr, ':', rule.len);
        for (size_t j = 0; j < rule.len && !is_six; j++) {
            char c = (char)(rule.ptr[j] | 0x20);
            if (c >= 'a' && c <= 'z')
                return true;
        }
    }
    return false;
}

/* Do some of them have an address in common? With E2B the rule that allows wins then, here the one
 * that denies. */
static bool overlap(struct cay_pb_strs some, struct cay_pb_strs others)
{
    for (size_t i = 0; i < some.count; i++) {
        for (size_t j = 0; j < others.count; j++) {
            char text[CAY_SUBNET_TEXT_SIZE];
            struct cay_subnet ranges[2];
            const struct cay_str both[2] = {some.items[i], others.items[j]};
            size_t read = 0;
            for (size_t k = 0; k < 2; k++) {
                snprintf(text, sizeof(text), "%.*s", (int)CAY_MIN(both[k].len, sizeof(text) - 1),
                         both[k].len ? both[k].ptr : "");
                read += cay_subnet_parse(text, &ranges[k]);
            }
            if (read == 2 && (cay_subnet_covers(&ranges[0], &ranges[1]) ||
                              cay_subnet_covers(&ranges[1], &ranges[0])))
                return true;
        }
    }
    return false;
}

static const char *refusal(const struct e2b_network *network)
{
    if (network->rules && network->rules->fields.count)
        return "network.rules: requests are not rewritten on this host";
    if (network->egress_proxy && network->egress_proxy->fields.count)
        return "network.egressProxy: not available on this host";
    if (network->https_ports && network->https_ports->values.count)
        return "network.httpsPorts: not available on this host";
    if (has_name(network->allow_out) && !denies_everything(network->deny_out))
        return "network.allowOut: names of hosts need '0.0.0.0/0' in denyOut";
    if (!denies_everything(network->deny_out) && overlap(network->allow_out, network->deny_out))
        return "network: what denyOut denies cannot be allowed by allowOut here; deny less";
    return NULL;
}

struct cay_v1_network_policy *cay_e2b_network_policy(const struct e2b_network *network, int mode,
                                                     struct cay_arena *arena,
                                                     const char **out_fault)
{
    static struct cay_str everything[] = {{"*", 1}, {"0.0.0.0/0", 9}, {"::/0", 4}};
    static const struct e2b_network nothing;
    network = network ? network : &nothing;
    struct cay_v1_network_policy *policy = cay_arena_new(arena, struct cay_v1_network_policy);
    *out_fault = policy ? refusal(network) : "the request is too large";
    if (*out_fault)
        return NULL;
    bool is_closed = mode == CAY_V1_NETWORK_MODE_NONE || denies_everything(network->deny_out);
    if (is_closed && network->allow_out.count) {
        policy->mode = CAY_V1_NETWORK_MODE_FILTERED;
        policy->allow = network->allow_out;
    } else if (is_closed) {
        policy->mode = CAY_V1_NETWORK_MODE_NONE;
    } else if (mode == CAY_V1_NETWORK_MODE_UNSPECIFIED) {
        policy->deny = network->deny_out;
    } else if (network->deny_out.count) { /* what is allowed besides is so anyway */
        policy->mode = CAY_V1_NETWORK_MODE_FILTERED;
        policy->allow = (struct cay_pb_strs){everything, CAY_COUNT(everything)};
        policy->deny = network->deny_out;
    } else {
        policy->mode = CAY_V1_NETWORK_MODE_OPEN;
    }
    policy->private_ports = network->has_allow_public_traffic && !network->allow_public_traffic;
    policy->public_ports = !policy->private_ports;
    policy->mask_request_host = network->mask_request_host;
    return policy;
}

bool cay_e2b_network_is_wide(const struct cay_v1_network_policy *policy)
{
    bool is_filtered = policy->mode == CAY_V1_NETWORK_MODE_FILTERED;
    for (size_t i = 0; is_filtered && i < policy->allow.count; i++) {
        if (cay_str_is(policy->allow.items[i], "0.0.0.0/0"))
            return true;
    }
    return policy->mode == CAY_V1_NETWORK_MODE_OPEN;
}

static void got_session(struct cay_rest_request *request,
                        const struct cay_v1_get_session_response *got, void *state)
{
    struct cay_v1_network_policy *policy = state;
    if (got->session->state != CAY_V1_SESSION_STATE_ACTIVE) {
        cay_rest_reply_fault(request, 409, "the sandbox does not run");
        return;
    }
    /* Who may reach its ports was settled when it was made. */
    if (got->session->network) {
        policy->private_ports = got->session->network->private_ports;
        policy->public_ports = got->session->network->public_ports;
        policy->mask_request_host =
            cay_arena_str(&request->arena, got->session->network->mask_request_host);
    }
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_SANDBOX_SERVICE_UPDATE_SESSION);
    struct cay_v1_update_session_request *ask = cay_rest_call_message(call);
    ask->session_id = cay_e2b_id_cut(request->params[0]);
    ask->network = policy;
    cay_rest_call_start(call, cay_e2b_done_empty);
}

void cay_e2b_set_network(struct cay_rest_request *request)
{
    const char *fault = NULL;
    const struct e2b_network *wanted = cay_rest_read(request, &e2b_network_desc);
    if (!wanted)
        return;
    /* Nobody says this but who means it, unlike on create. What is not said is as it was made. */
    int mode = !wanted->has_allow_internet_access
                   ? cay_e2b_visit(request)->e2b->options->network_mode
               : wanted->allow_internet_access ? CAY_V1_NETWORK_MODE_OPEN
                                               : CAY_V1_NETWORK_MODE_NONE;
    struct cay_v1_network_policy *policy =
        cay_e2b_network_policy(wanted, mode, &request->arena, &fault);
    if (!policy) {
        cay_rest_reply_fault(request, 400, fault);
        return;
    }
    cay_e2b_get_sandbox(request, got_session, policy);
}
