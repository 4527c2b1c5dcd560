/* SPDX-License-Identifier: Apache-2.0 */
#include "api/limits.h"
#include "api/noun.h"
#include "base/clock.h"
#include "front/e2b/control.h"
#include "front/e2b/control_shape.h"
#include "front/e2b/hall.h"
#include "wire/e2b/e2b.h"

enum { TIMEOUT_DEFAULT_S = 300 };

static void created(struct cay_e2b_request *request, struct cay_e2b_call *, const void *response,
                    const struct cay_error *err)
{
    const struct cay_v1_create_session_response *made = response;
    if (err) {
        cay_e2b_reply_error(request, err);
        return;
    }
    cay_e2b_reply_sandbox_made(request, 201, made->session, made->tokens);
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
    for (size_t i = 0; i < wanted->metadata.count; i++) {
        if (cay_str_starts(wanted->metadata.items[i].key, CAY_E2B_LABEL))
            return "metadata: keys that begin with " CAY_E2B_LABEL " are Cay's own";
    }
    if (wanted->volume_mounts.count)
        return "volumes are not available on this host";
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

struct cay_str cay_e2b_base_of(const struct cay_e2b_door *door, struct cay_str template)
{
    if (!template.len || cay_str_is(template, "base"))
        return cay_str(door->template);
    return template;
}

void cay_e2b_create(struct cay_e2b_request *request)
{
    const struct e2b_new_sandbox *wanted = cay_e2b_read(request, &e2b_new_sandbox_desc);
    if (!wanted)
        return;
    const char *fault = refusal(wanted);
    if (fault) {
        cay_e2b_reply_fault(request, 400, fault);
        return;
    }
    struct cay_e2b_call *call = cay_e2b_call_new(request, CAY_V1_SANDBOX_SERVICE_CREATE_SESSION);
    struct cay_v1_create_session_request *ask = cay_e2b_call_message(call);
    ask->base = cay_e2b_base_of(request->door, wanted->template_id);
    ask->labels = wanted->metadata;
    ask->env = wanted->env_vars;
    ask->lifecycle = lifecycle_of(wanted, &call->call.arena);
    cay_e2b_call_start(call, created);
}
