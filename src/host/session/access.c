/* SPDX-License-Identifier: Apache-2.0 */
#include "host/session/access.h"

static bool is_admin(const struct cay_caller *caller)
{
    return caller->role == CAY_ROLE_ADMIN;
}

bool cay_may_know_owned(const struct cay_caller *caller, struct cay_str owner)
{
    return is_admin(caller) ||
           (!caller->session_id[0] && owner.len && cay_str_is(owner, caller->owner));
}

bool cay_may_know_session(const struct cay_caller *caller, struct cay_str id, const char *owner)
{
    if (caller->session_id[0] && !cay_str_is(id, caller->session_id))
        return false;
    return is_admin(caller) || (owner[0] && strcmp(caller->owner, owner) == 0);
}

/* What is asked of a session from outside: it does nothing in there and tells nothing of what is
 * there. A verb that is not in this list acts inside. */
static bool is_outside(const struct cay_pb_method *method)
{
    static const unsigned methods[] = {
        CAY_V1_SANDBOX_SERVICE_GET_SESSION,     CAY_V1_SANDBOX_SERVICE_LIST_SNAPSHOTS,
        CAY_V1_SANDBOX_SERVICE_GET_USAGE,       CAY_V1_SANDBOX_SERVICE_CHECK_NETWORK,
        CAY_V1_SANDBOX_SERVICE_DESTROY_SESSION,
    };
    for (size_t i = 0; i < CAY_COUNT(methods); i++) {
        if (method->index == methods[i])
            return true;
    }
    return false;
}

bool cay_may_use_runtime(const struct cay_call *call, const struct cay_runtimes *runtimes,
                         const struct cay_runtime *runtime, struct cay_error *err)
{
    const struct cay_runtime *usual = cay_runtimes_default(runtimes);
    if (runtime == usual || cay_runtime_can(runtime, CAY_RUNTIME_ISOLATES) ||
        call->caller.is_host || is_admin(&call->caller) || is_outside(call->method))
        return true;
    const char *name = cay_runtime_name(runtime);
    cay_fail(err, CAY_R_PERMISSION_DENIED,
             "the runtime '%s' isolates nothing, and only an administrator may use a session that "
             "has it; ask one, or create a session with '%s'",
             name, cay_runtime_name(usual));
    return cay_error_fact(err, "runtime", "%s", name);
}

bool cay_may_know_base(const struct cay_caller *caller, const char *name,
                       const struct cay_v1_base *record)
{
    if (is_admin(caller))
        return true;
    if (!record)
        return strncmp(name, "host-", 5) == 0;
    return !record->owner.len || cay_may_know_owned(caller, record->owner);
}
