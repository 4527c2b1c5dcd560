/* SPDX-License-Identifier: Apache-2.0 */
#include "api/limits.h"
#include "api/noun.h"
#include "base/clock.h"
#include "front/e2b/control/handlers.h"
#include "front/e2b/control/network.h"
#include "front/e2b/control/shape.h"
#include "front/e2b/control/snapshot.h"
#include "front/e2b/control/template.h"
#include "front/rest/call.h"
#include "wire/e2b/e2b.h"

enum {
    TIMEOUT_DEFAULT_S = 300,
    METADATA_MAX = CAY_LIMIT_LABELS - 4, /* snapshots have labels of ours, too */
};
static_assert(METADATA_MAX == 60);

/* What the hallway calls labels, clients know as metadata. */
static void reply_error(struct cay_rest_request *request, const struct cay_error *err)
{
    struct cay_error told;
    if (!cay_rest_error_is_of(err, "labels")) {
        cay_rest_reply_error(request, err);
        return;
    }
    cay_fail(&told, err->reason,
             "metadata: a key has 1 to %d bytes and is none of Cay's own, a value has at most %d "
             "bytes, and neither has control characters",
             CAY_LIMIT_LABEL_KEY_BYTES, CAY_LIMIT_LABEL_VALUE_BYTES);
    cay_rest_reply_error(request, &told);
}

/* Said before anything else is found fault with. */
static const char *missing(const struct e2b_new_sandbox *wanted)
{
    if (wanted->mcp || cay_str_is(cay_e2b_template_name(wanted->template_id), "mcp-gateway"))
        return "mcp: this host has no MCP gateway; start MCP servers in the sandbox by a command, "
               "or in a template by its start command";
    if (wanted->iam && wanted->iam->fields.count)
        return "iam is not available on this host";
    if (wanted->volume_mounts.count)
        return "volumes are not available on this host";
    return NULL;
}

/* The protocol has no word for what isolates a sandbox: a pair of its metadata says it. Empty: it
 * is the host's choice. */
static struct cay_str runtime_of(const struct e2b_new_sandbox *wanted)
{
    for (size_t i = 0; i < wanted->metadata.count; i++) {
        if (cay_str_is(wanted->metadata.items[i].key, CAY_E2B_LABEL_RUNTIME))
            return wanted->metadata.items[i].value;
    }
    return (struct cay_str){};
}

static const char *refusal(const struct e2b_new_sandbox *wanted)
{
    bool keeps_memory = !wanted->has_auto_pause_memory || wanted->auto_pause_memory;
    if (wanted->has_timeout && wanted->timeout <= 0)
        return "Timeout must be greater than 0";
    if (wanted->has_timeout && wanted->timeout > CAY_LIMIT_SPAN_S)
        return "Timeout is too long";
    if (!keeps_memory && !wanted->auto_pause)
        return "autoPauseMemory goes with autoPause only";
    if (!keeps_memory && wanted->auto_resume && wanted->auto_resume->enabled)
        return "a sandbox that is paused without its memory is not resumed by traffic";
    if (wanted->metadata.count > METADATA_MAX)
        return "metadata: 60 pairs at most";
    for (size_t i = 0; i < wanted->metadata.count; i++) {
        if (cay_e2b_is_own_label(wanted->metadata.items[i].key))
            return "metadata: " CAY_LABEL_HIDDEN " and what begins with " CAY_E2B_LABEL
                   " are Cay's own";
    }
    if (wanted->network && wanted->network->has_allow_public_traffic &&
        !wanted->network->allow_public_traffic && wanted->has_secure && !wanted->secure)
        return "allowPublicTraffic: only a secure sandbox can have private ports";
    return NULL;
}

static struct cay_v1_lifecycle *lifecycle_of(const struct e2b_new_sandbox *wanted,
                                             struct cay_arena *arena)
{
    struct cay_v1_lifecycle *lifecycle = cay_arena_new(arena, struct cay_v1_lifecycle);
    int64_t timeout_s = wanted->has_timeout ? wanted->timeout : TIMEOUT_DEFAULT_S;
    bool keeps_memory = !wanted->has_auto_pause_memory || wanted->auto_pause_memory;
    if (!lifecycle)
        return NULL;
    lifecycle->timeout = cay_noun_duration(arena, timeout_s * CAY_NS_PER_SEC);
    lifecycle->on_expiry = !wanted->auto_pause ? CAY_V1_EXPIRY_ACTION_DESTROY
                           : keeps_memory      ? CAY_V1_EXPIRY_ACTION_PAUSE
                                               : CAY_V1_EXPIRY_ACTION_STOP;
    lifecycle->auto_resume = wanted->auto_resume && wanted->auto_resume->enabled;
    return lifecycle;
}

/* What is to be made, between two calls. */
struct plan {
    const struct e2b_new_sandbox *wanted;
    struct cay_v1_network_policy *network;
    struct cay_e2b_names names; /* of the base */
    size_t at;                  /* the one that is tried */
};

static void create_from_base(struct cay_rest_request *request, struct plan *plan);

/* What it is called is tried, not looked for: that is one call where a template is called by its
 * name, and what is not there costs no more than to ask for it. */
static void created(struct cay_rest_request *request, struct cay_rest_call *, const void *response,
                    const struct cay_error *err)
{
    const struct cay_v1_create_session_response *made = response;
    struct plan *plan = request->state;
    bool is_missing = err && err->reason == CAY_R_BASE_NOT_FOUND;
    if (is_missing && ++plan->at < plan->names.count)
        create_from_base(request, plan);
    else if (err)
        reply_error(request, err);
    else
        cay_e2b_reply_sandbox_made(request, 201, made->session, made->tokens);
}

static void create_from_base(struct cay_rest_request *request, struct plan *plan)
{
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_SANDBOX_SERVICE_CREATE_SESSION);
    struct cay_v1_create_session_request *ask = cay_rest_call_message(call);
    ask->base = plan->names.items[plan->at];
    ask->labels = plan->wanted->metadata;
    ask->runtime = runtime_of(plan->wanted);
    ask->env = plan->wanted->env_vars;
    ask->network = plan->network;
    ask->lifecycle = lifecycle_of(plan->wanted, &call->errand.call.arena);
    cay_rest_call_start(call, created);
}

static void forked(struct cay_rest_request *request, struct cay_rest_call *, const void *response,
                   const struct cay_error *err)
{
    const struct cay_v1_fork_session_response *made = response;
    if (err)
        reply_error(request, err);
    else
        cay_e2b_reply_sandbox_made(request, 201, made->forks.items[0].session,
                                   made->forks.items[0].tokens);
}

static void create_from_snapshot(struct cay_rest_request *request, const struct plan *plan,
                                 struct cay_str session_id)
{
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_SANDBOX_SERVICE_FORK_SESSION);
    struct cay_v1_fork_session_request *ask = cay_rest_call_message(call);
    /* A fork has the labels of what it was forked from; this one must not be taken for another
     * snapshot. */
    struct cay_pb_pair mark = {CAY_STR(CAY_LABEL_HIDDEN), CAY_STR("")};
    ask->session_id = session_id;
    ask->env = plan->wanted->env_vars;
    ask->network = plan->network;
    ask->lifecycle = lifecycle_of(plan->wanted, &call->errand.call.arena);
    /* Not merged only when the arena is full: then it is too large for the verb, too. */
    if (!cay_noun_merge(&call->errand.call.arena, plan->wanted->metadata,
                        (struct cay_pb_pairs){&mark, 1}, &ask->labels))
        ask->labels = plan->wanted->metadata;
    cay_rest_call_start(call, forked);
}

static void template_found(struct cay_rest_request *request, struct cay_str session_id)
{
    struct plan *plan = request->state;
    if (session_id.len && runtime_of(plan->wanted).len) {
        cay_rest_reply_fault(request, 400,
                             "metadata: " CAY_E2B_LABEL_RUNTIME
                             " goes with templates only; what is made of a snapshot has that of "
                             "the snapshot");
        return;
    }
    if (session_id.len) {
        create_from_snapshot(request, plan, session_id);
        return;
    }
    struct cay_str name = plan->wanted->template_id;
    cay_e2b_template_names(request, name.len ? name : CAY_STR("base"), &plan->names);
    create_from_base(request, plan);
}

void cay_e2b_create(struct cay_rest_request *request)
{
    const struct e2b_new_sandbox *wanted = cay_rest_read(request, &e2b_new_sandbox_desc);
    if (!wanted)
        return;
    const char *fault = missing(wanted);
    if (!fault)
        fault = refusal(wanted);
    struct plan *plan = cay_arena_new(&request->arena, struct plan);
    if (!fault && plan) {
        plan->wanted = wanted;
        /* Some clients allow the internet without being asked to: that is no more than not to
         * deny it. */
        bool is_denied = wanted->has_allow_internet_access && !wanted->allow_internet_access;
        int mode = is_denied ? CAY_V1_NETWORK_MODE_NONE
                             : cay_e2b_visit(request)->e2b->options->network_mode;
        plan->network = cay_e2b_network_policy(wanted->network, mode, &request->arena, &fault);
    }
    if (fault || !plan) {
        cay_rest_reply_fault(request, 400, fault ? fault : "the request is too large");
        return;
    }
    request->state = plan;
    if (!wanted->template_id.len || cay_str_is(wanted->template_id, "base"))
        template_found(request, (struct cay_str){});
    else
        cay_e2b_snapshot_find(request, wanted->template_id, template_found);
}
