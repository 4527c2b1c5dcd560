/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/sized.h"
#include "lib/entry.h"
#include "lib/env/env_internal.h"

/*
 * An environment's birth, life and end, whatever its kind. What is done with a session that is
 * there stands in env_verbs.c.
 */

void cay_env_init(struct cay_env *env, const struct cay_env_ops *ops)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&env->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&env->lock, NULL);
    env->ops = ops;
    atomic_init(&env->refs, 1);
    atomic_init(&env->has_session_id, false);
}

void cay_env_bind(struct cay_env *env, const char *session_id)
{
    pthread_mutex_lock(&env->lock);
    snprintf(env->session_id, sizeof(env->session_id), "%s", session_id);
    env->phase = CAY_ENV_BOUND;
    pthread_mutex_unlock(&env->lock);
    atomic_store(&env->has_session_id, true);
}

void cay_env_ref(struct cay_env *env)
{
    atomic_fetch_add(&env->refs, 1);
}

void cay_env_unref(struct cay_env *env)
{
    if (atomic_fetch_sub(&env->refs, 1) != 1)
        return;
    pthread_cond_destroy(&env->changed);
    pthread_mutex_destroy(&env->lock);
    env->ops->release(env);
}

void cay_env_leave(struct cay_env **env)
{
    if (*env)
        cay_env_unref(*env);
}

enum cay_env_phase cay_env_phase(struct cay_env *env)
{
    pthread_mutex_lock(&env->lock);
    enum cay_env_phase phase = env->phase;
    pthread_mutex_unlock(&env->lock);
    return phase;
}

bool cay_env_enter(struct cay_env *env, const struct cay_call_options *given,
                   struct cay_env_visit *out_visit, struct cay_error *err)
{
    if (!env)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "env: it is missing");
    if (!cay_sized_take(given, &out_visit->options, sizeof(out_visit->options), "options", err))
        return false;
    cay_env_ref(env);
    out_visit->env = env;
    return true;
}

bool cay_env_fail_ended(const struct cay_env *env, struct cay_error *err)
{
    return cay_fail(err, CAY_R_NOT_ACTIVE, "the environment was destroyed%s%.80s",
                    atomic_load(&env->has_session_id) ? ", with session " : "", env->session_id);
}

/* --- open and close --- */

static bool find_kind(const char *address, const struct cay_env_ops **out_ops,
                      const char **out_where, struct cay_error *err)
{
    struct cay_str rest = cay_str(address);
    struct cay_str kind;
    if (strchr(address, ':') && cay_str_split(&rest, ':', &kind) &&
        (*out_ops = cay_env_kind_find(kind))) {
        *out_where = strchr(address, ':') + 1;
        return true;
    }
    return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                    "there is no kind of environment for '%.60s'; write 'native:' and the URL of a "
                    "cayd, or 'local:' and a directory",
                    address);
}

bool cay_env_open(const char *address, const struct cay_env_options *given,
                  struct cay_env **out_env, struct cay_error *err)
{
    struct cay_error spare = {};
    err = cay_entry_error(err, &spare);
    struct cay_env_options options;
    const struct cay_env_ops *ops = NULL;
    const char *where = NULL;
    if (!out_env)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "out_env: it is missing");
    if (!cay_entry_text(address, "address", err) ||
        !cay_sized_take(given, &options, sizeof(options), "options", err) ||
        !find_kind(address, &ops, &where, err) || !cay_entry_word(options.key, "key", err) ||
        !cay_entry_word(options.store, "store", err) ||
        !cay_entry_word(options.runtime, "runtime", err))
        return false;
    if (options.timeout_ms < 0)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "timeout_ms: 0 or more");
    return ops->open(where, &options, out_env, err);
}

void cay_env_close(struct cay_env *env)
{
    if (!env)
        return;
    if (env->ops->let_go)
        env->ops->let_go(env);
    cay_env_unref(env);
}

/* --- what it is --- */

bool cay_env_capabilities(struct cay_env *env, const struct cay_call_options *options,
                          const struct cay_env_capabilities **out_capabilities,
                          struct cay_error *err)
{
    struct cay_error spare = {};
    err = cay_entry_error(err, &spare);
    cay_auto(cay_env_visit_end) struct cay_env_visit visit = {};
    if (!cay_env_enter(env, options, &visit, err))
        return false;
    if (!out_capabilities)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "out_capabilities: it is missing");
    return env->ops->capabilities(env, &visit.options, out_capabilities, err);
}

enum cay_env_state cay_env_state(struct cay_env *env)
{
    if (!env)
        return CAY_ENV_FAILED;
    pthread_mutex_lock(&env->lock);
    enum cay_env_phase phase = env->phase;
    bool is_destroying = env->destroyers > 0;
    cay_env_ref(env);
    pthread_mutex_unlock(&env->lock);
    cay_auto(cay_env_leave) struct cay_env *held = env;
    if (phase == CAY_ENV_FRESH || phase == CAY_ENV_MAKING)
        return CAY_ENV_CREATING;
    if (phase == CAY_ENV_BOUND && is_destroying)
        return CAY_ENV_DESTROYING;
    enum cay_env_state state = CAY_ENV_DESTROYED;
    if (phase == CAY_ENV_BOUND)
        state = env->ops->state(env);
    return cay_env_phase(held) == CAY_ENV_ENDED ? CAY_ENV_DESTROYED : state;
}

const char *cay_env_session_id(const struct cay_env *env)
{
    return env && atomic_load(&env->has_session_id) ? env->session_id : "";
}

/* --- create and attach --- */

static bool check_config(const struct cay_env_config *config, struct cay_error *err)
{
    if (config->session_id && *config->session_id &&
        !cay_id_check(cay_str(config->session_id), "session_id", err))
        return false;
    if (config->memory_bytes < 0 || config->disk_bytes < 0 || config->process_count < 0 ||
        !(config->cpus >= 0))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "a limit is negative; 0 is the default");
    return cay_entry_word(config->base, "base", err) &&
           cay_entry_word(config->network, "network", err) &&
           cay_entry_word(config->runtime, "runtime", err) &&
           cay_entry_pairs(config->labels, config->label_count, "labels", err) &&
           cay_entry_pairs(config->environment, config->environment_count, "environment", err);
}

/* From here on the caller makes the session, and nobody else. */
static bool begin_making(struct cay_env *env, struct cay_error *err)
{
    pthread_mutex_lock(&env->lock);
    enum cay_env_phase phase = env->phase;
    if (phase == CAY_ENV_FRESH)
        env->phase = CAY_ENV_MAKING;
    pthread_mutex_unlock(&env->lock);
    if (phase == CAY_ENV_ENDED)
        return cay_env_fail_ended(env, err);
    return phase == CAY_ENV_FRESH ||
           cay_fail(err, CAY_R_FAILED_PRECONDITION, "the environment has a session%s; open another",
                    phase == CAY_ENV_MAKING ? " that is being made" : "");
}

static void end_making(struct cay_env *env, const char *session_id)
{
    if (session_id)
        cay_env_bind(env, session_id);
    pthread_mutex_lock(&env->lock);
    if (!session_id)
        env->phase = CAY_ENV_FRESH;
    pthread_cond_broadcast(&env->changed);
    pthread_mutex_unlock(&env->lock);
}

bool cay_env_create(struct cay_env *env, const struct cay_env_config *given,
                    const struct cay_call_options *options, struct cay_error *err)
{
    struct cay_error spare = {};
    err = cay_entry_error(err, &spare);
    cay_auto(cay_env_visit_end) struct cay_env_visit visit = {};
    struct cay_env_config config;
    char made_up[CAY_ID_SIZE] = "";
    if (!cay_env_enter(env, options, &visit, err) ||
        !cay_sized_take(given, &config, sizeof(config), "config", err) ||
        !check_config(&config, err))
        return false;
    const bool is_made_up = !config.session_id || !*config.session_id;
    if ((is_made_up && !cay_entry_id(made_up, sizeof(made_up), "s", err)) ||
        !begin_making(env, err))
        return false;
    const struct cay_env_birth birth = {
        .session_id = is_made_up ? made_up : config.session_id,
        .is_made_up = is_made_up,
        .config = &config,
    };
    bool is_made = env->ops->create(env, &birth, &visit.options, err);
    end_making(env, is_made ? birth.session_id : NULL);
    return is_made;
}

bool cay_env_attach(struct cay_env *env, const char *session_id,
                    const struct cay_call_options *options, struct cay_error *err)
{
    struct cay_error spare = {};
    err = cay_entry_error(err, &spare);
    cay_auto(cay_env_visit_end) struct cay_env_visit visit = {};
    if (!cay_env_enter(env, options, &visit, err) || !cay_entry_text(session_id, "session_id", err))
        return false;
    if (!cay_id_valid(cay_str(session_id)))
        return cay_fail(err, CAY_R_SESSION_NOT_FOUND, "no session can be called '%.60s'",
                        session_id);
    if (cay_env_phase(env) == CAY_ENV_ENDED)
        return cay_env_fail_ended(env, err);
    if (!env->ops->attach)
        return cay_fail(err, CAY_R_CAPABILITY_NOT_SUPPORTED,
                        "an environment of the kind '%s' has no sessions to attach to",
                        env->ops->kind);
    if (!begin_making(env, err))
        return false;
    bool is_there = env->ops->attach(env, session_id, &visit.options, err);
    end_making(env, is_there ? session_id : NULL);
    return is_there;
}

/* --- destroy --- */

/* Until no session is being made. The lock is held. */
static bool await_making(struct cay_env *env, int64_t timeout_ms, struct cay_error *err)
{
    const int64_t limit_ms = timeout_ms > 0 ? CAY_MIN(timeout_ms, (int64_t)INT_MAX) : INT_MAX;
    const int64_t until_ns = cay_clock_ns() + limit_ms * CAY_NS_PER_MS;
    const struct timespec until = {.tv_sec = until_ns / CAY_NS_PER_SEC,
                                   .tv_nsec = until_ns % CAY_NS_PER_SEC};
    int status = 0;
    while (env->phase == CAY_ENV_MAKING && status == 0)
        status = pthread_cond_timedwait(&env->changed, &env->lock, &until);
    return env->phase != CAY_ENV_MAKING ||
           cay_fail(err, CAY_R_DEADLINE_EXCEEDED,
                    "the session is still being made; destroy it when that is over");
}

/* True when somebody has to remove the session, which is the caller then. */
static bool begin_destroying(struct cay_env *env, int64_t timeout_ms, bool *out_is_over,
                             struct cay_error *err)
{
    bool is_bound = false;
    pthread_mutex_lock(&env->lock);
    bool is_settled = await_making(env, timeout_ms, err);
    if (is_settled) {
        is_bound = env->phase == CAY_ENV_BOUND;
        if (is_bound)
            env->destroyers++;
        else
            env->phase = CAY_ENV_ENDED;
    }
    pthread_mutex_unlock(&env->lock);
    *out_is_over = is_settled && !is_bound;
    return is_bound;
}

bool cay_env_destroy(struct cay_env *env, const struct cay_call_options *options,
                     struct cay_error *err)
{
    struct cay_error spare = {};
    err = cay_entry_error(err, &spare);
    cay_auto(cay_env_visit_end) struct cay_env_visit visit = {};
    bool is_over = false;
    if (!cay_env_enter(env, options, &visit, err))
        return false;
    if (!begin_destroying(env, visit.options.timeout_ms, &is_over, err))
        return is_over;
    bool is_gone = env->ops->destroy(env, &visit.options, err);
    pthread_mutex_lock(&env->lock);
    env->destroyers--;
    if (is_gone)
        env->phase = CAY_ENV_ENDED;
    is_gone = env->phase == CAY_ENV_ENDED; /* or another call has done it meanwhile */
    pthread_mutex_unlock(&env->lock);
    return is_gone;
}
