/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What env.c and env_verbs.c share: how a call comes in and goes out. */

#include "lib/env/env_ops.h"

/* A call that uses an environment, which lives at least until the visit has ended. */
struct cay_env_visit {
    struct cay_env *env;
    struct cay_call_options options;
};

/* Takes what every function is given. `given` may be NULL, and so may `env`, which is an error. */
[[nodiscard]] bool cay_env_enter(struct cay_env *env, const struct cay_call_options *given,
                                 struct cay_env_visit *out_visit, struct cay_error *err);

void cay_env_ref(struct cay_env *env);
void cay_env_unref(struct cay_env *env);
void cay_env_leave(struct cay_env **env); /* for cay_auto */

static inline void cay_env_visit_end(struct cay_env_visit *visit)
{
    cay_env_leave(&visit->env);
}

[[nodiscard]] enum cay_env_phase cay_env_phase(struct cay_env *env);

/* not_active; returns false. */
bool cay_env_fail_ended(const struct cay_env *env, struct cay_error *err);
