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

bool cay_may_know_base(const struct cay_caller *caller, const char *name,
                       const struct cay_v1_base *record)
{
    if (is_admin(caller))
        return true;
    if (!record)
        return strncmp(name, "host-", 5) == 0;
    return !record->owner.len || cay_may_know_owned(caller, record->owner);
}
