/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * May this caller know of this thing, and may it use it? Asked here, once per noun, and nowhere
 * else. What is not known to be the caller's is not: a verb that hears no answers as it does when
 * there is no such thing. The holder of a session's token knows of that session and of nothing
 * else; an admin knows of everything.
 */

#include "api/call.h"
#include "api/cay_v1.h"
#include "host/runtime/runtimes.h"

/* Keys, builds, events: what has an owner and belongs to no single session. */
[[nodiscard]] bool cay_may_know_owned(const struct cay_caller *caller, struct cay_str owner);

/* A session that is there, or was. */
[[nodiscard]] bool cay_may_know_session(const struct cay_caller *caller, struct cay_str id,
                                        const char *owner);

/* Who knows of a session may call this verb on it? Not where its runtime isolates nothing: whoever
 * acts in there does to this machine whatever the daemon can, so that it takes an administrator,
 * whoever made the session, unless that runtime is the default. Reason: PERMISSION_DENIED. */
[[nodiscard]] bool cay_may_use_runtime(const struct cay_call *call,
                                       const struct cay_runtimes *runtimes,
                                       const struct cay_runtime *runtime, struct cay_error *err);

/* A base, by the store's own name for it and its record. Without a record (NULL) nobody knows whose
 * it is: only those that are made of the host's own programs are for everybody then. */
[[nodiscard]] bool cay_may_know_base(const struct cay_caller *caller, const char *name,
                                     const struct cay_v1_base *record);
