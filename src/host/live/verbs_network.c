/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/rules/destination.h"
#include "egress/rules/guarded.h"
#include "host/live/asking.h"
#include "host/live/filtered.h"
#include "host/live/network.h"
#include "host/live/network_rules.h"
#include "host/live/verbs.h"
#include "host/session/host.h"

enum { DESTINATIONS_MAX = 100, WHY_BYTES_MAX = 1024 };

/* What an open network does, which has no rules of its own. */
static void decide_open(const struct cay_host *host, const struct cay_destination *destination,
                        struct cay_v1_network_verdict *out, struct cay_buf *why)
{
    const struct cay_ip *address = &destination->address;
    const struct cay_subnet range = {*address, (unsigned)cay_ip_bytes(address->family) * 8};
    const char *what = NULL;
    out->allowed = true;
    if (!destination->is_address) {
        cay_buf_append_text(why, "the network is open, to every name that leads to the internet");
        return;
    }
    for (size_t i = 0; i < host->gateway.allowed_count; i++) {
        if (cay_subnet_covers(&host->gateway.allowed[i], &range)) {
            cay_buf_append_text(why, "the host opens it with network_allow");
            return;
        }
    }
    out->allowed = cay_guard_of(&range, &what) == CAY_GUARD_NONE;
    if (out->allowed)
        cay_buf_append_text(why, "the network is open; only this host and networks that it is "
                                 "connected to are closed besides");
    else
        cay_buf_printf(why, "it is %s, which is closed to open networks", what);
}

static void decide(const struct cay_host *host, enum cay_v1_network_mode mode,
                   const struct cay_policy *policy, const struct cay_destination *destination,
                   struct cay_v1_network_verdict *out, struct cay_buf *why)
{
    struct cay_decision decision;
    if (mode == CAY_V1_NETWORK_MODE_OPEN) {
        decide_open(host, destination, out, why);
    } else if (policy) {
        cay_policy_decide(policy, destination, &decision);
        cay_decision_explain(&decision, why);
        out->allowed = decision.verdict == CAY_VERDICT_ALLOWED;
        out->asked = decision.verdict == CAY_VERDICT_ASKED;
        out->rule = decision.rule;
    } else {
        cay_buf_append_text(why, "the session has no network");
    }
}

static bool check_mode(const struct cay_v1_network_policy *policy, struct cay_error *err)
{
    bool has_rules = policy->allow.count || policy->deny.count || policy->ask;
    if (policy->mode != CAY_V1_NETWORK_MODE_NONE && policy->mode != CAY_V1_NETWORK_MODE_OPEN &&
        policy->mode != CAY_V1_NETWORK_MODE_FILTERED)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "policy: its mode is none, open or filtered");
    return policy->mode == CAY_V1_NETWORK_MODE_FILTERED || !has_rules ||
           cay_fail(err, CAY_R_INVALID_ARGUMENT,
                    "policy: allow, deny and ask are for the mode filtered");
}

static bool check_one(const struct cay_host *host, struct cay_call *call,
                      enum cay_v1_network_mode mode, const struct cay_policy *policy,
                      struct cay_str text, struct cay_v1_network_verdict *out,
                      struct cay_error *err)
{
    struct cay_destination destination;
    char endpoint[CAY_DESTINATION_TEXT_SIZE];
    cay_auto(cay_buf_finish) struct cay_buf why;
    cay_buf_init(&why, WHY_BYTES_MAX);
    if (!cay_destination_parse(text, &destination, err))
        return false;
    decide(host, mode, policy, &destination, out, &why);
    cay_destination_format(&destination, endpoint);
    out->destination = text;
    out->endpoint = cay_arena_str(&call->arena, cay_str(endpoint));
    out->why = cay_arena_str(&call->arena, cay_buf_str(&why));
    if (out->rule.len)
        out->rule = cay_arena_str(&call->arena, out->rule);
    return true;
}

static bool check(struct cay_host *host, struct cay_call *call,
                  struct cay_v1_check_network_response *out, struct cay_error *err)
{
    const struct cay_v1_check_network_request *request = call->request;
    struct cay_session *session = NULL;
    struct cay_policy *policy = NULL;
    struct cay_pb_strs asked = request->destinations;
    if (!cay_session_check(host, call, request->session_id, CAY_VERB_LOOK, &session, err))
        return false;
    if (asked.count == 0 || asked.count > DESTINATIONS_MAX)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "destinations: 1 to %d", DESTINATIONS_MAX);
    const struct cay_v1_network_policy *tried =
        request->policy ? request->policy : session->spec->network;
    enum cay_v1_network_mode mode = tried ? tried->mode : CAY_V1_NETWORK_MODE_NONE;
    if (tried && !check_mode(tried, err))
        return false;
    if (mode == CAY_V1_NETWORK_MODE_FILTERED &&
        !cay_network_rules_with(host, tried, &session->spec->secrets, &policy, err))
        return false;
    out->verdicts.items = cay_arena_array(&call->arena, asked.count, sizeof(*out->verdicts.items));
    bool is_good = out->verdicts.items || cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    for (size_t i = 0; is_good && i < asked.count; i++)
        is_good = check_one(host, call, mode, policy, asked.items[i],
                            &out->verdicts.items[out->verdicts.count++], err);
    cay_policy_destroy(policy);
    return is_good;
}

void cay_host_check_network(struct cay_service *service, struct cay_call *call)
{
    struct cay_v1_check_network_response response = {};
    struct cay_error err = {};
    if (check(cay_host_of(service), call, &response, &err))
        cay_call_done(call, &response);
    else
        cay_call_fail(call, &err);
}

void cay_host_list_network_questions(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_list_network_questions_request *request = call->request;
    struct cay_v1_list_network_questions_response response = {};
    struct cay_session *session = NULL;
    struct cay_error err = {};
    if (cay_session_check(cay_host_of(service), call, request->session_id, CAY_VERB_LOOK, &session,
                          &err) &&
        cay_asking_list(cay_filtered_asking(session->filtered), &call->arena, &response, &err))
        cay_call_done(call, &response);
    else
        cay_call_fail(call, &err);
}
