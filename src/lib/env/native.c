/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/env/native.h"

#include <stdlib.h>

#include "api/limits.h"
#include "api/noun.h"
#include "lib/env/order.h"

/*
 * A session of a cayd. All state is the daemon's; what is known here is which session it is. A
 * session that this environment made up a name for, and that it does not get, is removed again:
 * nobody else could find it.
 */

enum { STATE_TIMEOUT_MS = 5000 };

/* --- the daemon --- */

static void origin_unref(struct cay_origin *origin)
{
    if (atomic_fetch_sub(&origin->refs, 1) != 1)
        return;
    cay_client_close(origin->client);
    pthread_mutex_destroy(&origin->lock);
    free(origin->store);
    free(origin->runtime);
    free(origin);
}

/* False when there is no memory. NULL and "" are copied as NULL. */
static bool keep(const char *text, char **out_copy)
{
    if (text && *text)
        *out_copy = strdup(text);
    return !text || !*text || *out_copy;
}

static struct cay_origin *origin_new(const char *url, const struct cay_env_options *options,
                                     struct cay_error *err)
{
    struct cay_origin *origin = calloc(1, sizeof(*origin));
    if (!origin) {
        cay_fail(err, CAY_R_OUT_OF_MEMORY, NULL);
        return NULL;
    }
    atomic_init(&origin->refs, 1);
    pthread_mutex_init(&origin->lock, NULL);
    origin->timeout_ms = options->timeout_ms;
    struct cay_client_options client_options = CAY_CLIENT_OPTIONS;
    client_options.url = *url ? url : NULL;
    client_options.key = options->key;
    client_options.ca_file = options->ca_file && *options->ca_file ? options->ca_file : NULL;
    client_options.timeout_ms = options->timeout_ms;
    bool is_made =
        (keep(options->store, &origin->store) && keep(options->runtime, &origin->runtime)) ||
        cay_fail(err, CAY_R_OUT_OF_MEMORY, NULL);
    if (is_made && cay_client_open(&client_options, &origin->client, err))
        return origin;
    origin_unref(origin);
    return NULL;
}

struct cay_native *cay_native_new(struct cay_origin *origin, struct cay_error *err)
{
    struct cay_native *native = calloc(1, sizeof(*native));
    if (!native) {
        cay_fail(err, CAY_R_OUT_OF_MEMORY, NULL);
        return NULL;
    }
    cay_env_init(&native->env, &cay_env_native);
    atomic_fetch_add(&origin->refs, 1);
    native->origin = origin;
    return native;
}

static bool open_native(const char *where, const struct cay_env_options *options,
                        struct cay_env **out_env, struct cay_error *err)
{
    struct cay_origin *origin = origin_new(where, options, err);
    struct cay_native *native = origin ? cay_native_new(origin, err) : NULL;
    if (origin)
        origin_unref(origin);
    if (native)
        *out_env = &native->env;
    return native;
}

static void release(struct cay_env *env)
{
    struct cay_native *native = cay_native_of(env);
    origin_unref(native->origin);
    free(native);
}

/* --- what it can --- */

/* A promise that holds for every session this environment may get: with the runtime that is
 * expected, or with any that the daemon offers. */
static bool isolates(const struct cay_origin *origin, const struct cay_v1_capabilities *told)
{
    bool is_any = false;
    for (size_t i = 0; i < told->runtimes.count; i++) {
        const struct cay_v1_runtime_info *runtime = &told->runtimes.items[i];
        if (origin->runtime ? !cay_str_is(runtime->name, origin->runtime) : !runtime->available)
            continue;
        if (!runtime->isolated)
            return false;
        is_any = true;
    }
    return is_any;
}

static bool ask_capabilities(struct cay_origin *origin, const struct cay_call_options *options,
                             struct cay_env_capabilities *out_capabilities, struct cay_error *err)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, CAY_LIMIT_CALL_ARENA_BYTES);
    const struct cay_v1_get_capabilities_request request = {};
    struct cay_v1_get_capabilities_response response = {};
    if (!cay_native_call(origin, options, &cay_v1_sandbox_service_get_capabilities_method, false,
                         &request, &arena, &response, err))
        return false;
    const struct cay_v1_capabilities none = {};
    const struct cay_v1_capabilities *told = response.capabilities ? response.capabilities : &none;
    *out_capabilities = (struct cay_env_capabilities){
        .snapshots = told->snapshots,
        .rollback = told->rollback,
        .pause = told->pause,
        .streaming_progress = told->streaming,
        .tier_routing = told->tier_routing,
        .max_session_duration_ms = cay_noun_duration_ms(told->max_session_duration),
        .concurrent_sessions = told->max_sessions,
        .turn = told->snapshots,
        .fork = told->fork,
        .diff = told->diff,
        .restore = told->restore,
        .isolates = isolates(origin, told),
    };
    return true;
}

static bool capabilities(struct cay_env *env, const struct cay_call_options *options,
                         const struct cay_env_capabilities **out_capabilities,
                         struct cay_error *err)
{
    struct cay_origin *origin = cay_native_of(env)->origin;
    struct cay_env_capabilities asked;
    pthread_mutex_lock(&origin->lock);
    bool is_known = origin->has_capabilities;
    pthread_mutex_unlock(&origin->lock);
    /* Two threads may ask at the same time; the first answer stays. */
    if (!is_known && !ask_capabilities(origin, options, &asked, err))
        return false;
    pthread_mutex_lock(&origin->lock);
    if (!origin->has_capabilities)
        origin->capabilities = asked;
    origin->has_capabilities = true;
    pthread_mutex_unlock(&origin->lock);
    *out_capabilities = &origin->capabilities; /* which never change again */
    return true;
}

/* --- its life --- */

static bool get_session(struct cay_origin *origin, const char *session_id,
                        const struct cay_call_options *options, struct cay_arena *arena,
                        struct cay_v1_session **out_session, struct cay_error *err)
{
    const struct cay_v1_get_session_request request = {.session_id = cay_str(session_id)};
    struct cay_v1_get_session_response response = {};
    if (!cay_native_call(origin, options, &cay_v1_sandbox_service_get_session_method, false,
                         &request, arena, &response, err))
        return false;
    if (!response.session)
        return cay_fail(err, CAY_R_INTERNAL, "the daemon did not say what the session is");
    *out_session = response.session;
    return true;
}

static enum cay_env_state state(struct cay_env *env)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, CAY_LIMIT_CALL_ARENA_BYTES);
    const struct cay_call_options options = {.size = sizeof(options),
                                             .timeout_ms = STATE_TIMEOUT_MS};
    struct cay_v1_session *session = NULL;
    struct cay_error err = {};
    if (!get_session(cay_native_of(env)->origin, env->session_id, &options, &arena, &session, &err))
        return err.reason == CAY_R_SESSION_NOT_FOUND ? CAY_ENV_DESTROYED : CAY_ENV_FAILED;
    switch (session->state) {
    case CAY_V1_SESSION_STATE_CREATING: return CAY_ENV_CREATING;
    case CAY_V1_SESSION_STATE_ACTIVE: return CAY_ENV_ACTIVE;
    case CAY_V1_SESSION_STATE_PAUSED: return CAY_ENV_PAUSED;
    case CAY_V1_SESSION_STATE_DESTROYING: return CAY_ENV_DESTROYING;
    case CAY_V1_SESSION_STATE_FAILED:
    case CAY_V1_SESSION_STATE_UNSPECIFIED: break;
    }
    return CAY_ENV_FAILED;
}

static bool check_expected(const struct cay_origin *origin, const struct cay_v1_session *session,
                           struct cay_error *err)
{
    if (origin->store && !cay_str_is(session->store, origin->store))
        return cay_fail(err, CAY_R_FAILED_PRECONDITION,
                        "this daemon keeps sessions in the store '%.*s', and '%.40s' is expected",
                        (int)CAY_MIN(session->store.len, (size_t)40), session->store.ptr,
                        origin->store);
    if (origin->runtime && !cay_str_is(session->runtime, origin->runtime))
        return cay_fail(err, CAY_R_FAILED_PRECONDITION,
                        "the session has the runtime '%.*s', and '%.40s' is expected",
                        (int)CAY_MIN(session->runtime.len, (size_t)40), session->runtime.ptr,
                        origin->runtime);
    return true;
}

static bool network_mode(const char *network, enum cay_v1_network_mode *out_mode,
                         struct cay_error *err)
{
    static const struct {
        const char *name;
        enum cay_v1_network_mode mode;
    } modes[] = {
        {"", CAY_V1_NETWORK_MODE_UNSPECIFIED},
        {"none", CAY_V1_NETWORK_MODE_NONE},
        {"open", CAY_V1_NETWORK_MODE_OPEN},
        {"filtered", CAY_V1_NETWORK_MODE_FILTERED},
    };
    for (size_t i = 0; i < CAY_COUNT(modes); i++) {
        if (strcmp(network ? network : "", modes[i].name) == 0) {
            *out_mode = modes[i].mode;
            return true;
        }
    }
    return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                    "network: 'none', 'open' or 'filtered', not '%.40s'", network);
}

/* Sends the request, and says what came of it. */
static bool request_session(struct cay_origin *origin, const struct cay_env_birth *birth,
                            const struct cay_call_options *options, struct cay_arena *arena,
                            struct cay_v1_create_session_response *out_response,
                            struct cay_error *err)
{
    const struct cay_env_config *config = birth->config;
    struct cay_v1_resource_limits limits = {
        .cpus = config->cpus,
        .memory_bytes = config->memory_bytes,
        .pids = config->process_count,
        .disk_bytes = config->disk_bytes,
        .has_cpus = config->cpus > 0,
        .has_memory_bytes = config->memory_bytes > 0,
        .has_pids = config->process_count > 0,
        .has_disk_bytes = config->disk_bytes > 0,
    };
    struct cay_v1_network_policy network = {};
    struct cay_v1_create_session_request request = {
        .session_id = cay_str(birth->session_id),
        .base = cay_str(config->base),
        .limits = &limits,
        .runtime = cay_str(config->runtime),
    };
    if (!network_mode(config->network, &network.mode, err) ||
        !cay_env_order_pairs(config->labels, config->label_count, arena, &request.labels, err) ||
        !cay_env_order_pairs(config->environment, config->environment_count, arena, &request.env,
                             err))
        return false;
    if (network.mode)
        request.network = &network;
    return cay_native_call(origin, options, &cay_v1_sandbox_service_create_session_method, true,
                           &request, arena, out_response, err);
}

static bool create(struct cay_env *env, const struct cay_env_birth *birth,
                   const struct cay_call_options *options, struct cay_error *err)
{
    struct cay_origin *origin = cay_native_of(env)->origin;
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, CAY_LIMIT_CALL_ARENA_BYTES);
    struct cay_v1_create_session_response response = {};
    bool is_made = request_session(origin, birth, options, &arena, &response, err);
    /* One of a name that the caller chose may be somebody else's, or be asked for again. */
    bool is_ours = is_made ? birth->is_made_up || !response.existing
                           : birth->is_made_up && cay_native_is_open_ended(err);
    if (is_made && !response.session)
        is_made = cay_fail(err, CAY_R_INTERNAL, "the daemon did not say what session it made");
    if (is_made)
        is_made = check_expected(origin, response.session, err);
    if (!is_made && is_ours) {
        const struct cay_call_options tidy = cay_native_tidy_options(cay_native_tidy_until());
        struct cay_error ignored = {};
        (void)cay_native_remove(origin, birth->session_id, &tidy, &ignored);
    }
    return is_made;
}

static bool attach(struct cay_env *env, const char *session_id,
                   const struct cay_call_options *options, struct cay_error *err)
{
    struct cay_origin *origin = cay_native_of(env)->origin;
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, CAY_LIMIT_CALL_ARENA_BYTES);
    struct cay_v1_session *session = NULL;
    return get_session(origin, session_id, options, &arena, &session, err) &&
           check_expected(origin, session, err);
}

static bool destroy(struct cay_env *env, const struct cay_call_options *options,
                    struct cay_error *err)
{
    return cay_native_remove(cay_native_of(env)->origin, env->session_id, options, err);
}

static bool pause_session(struct cay_env *env, const struct cay_call_options *options,
                          struct cay_error *err)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, CAY_LIMIT_CALL_ARENA_BYTES);
    const struct cay_v1_pause_session_request request = {.session_id = cay_native_session(env)};
    struct cay_v1_pause_session_response response;
    return cay_native_call(cay_native_of(env)->origin, options,
                           &cay_v1_sandbox_service_pause_session_method, false, &request, &arena,
                           &response, err);
}

static bool resume_session(struct cay_env *env, const struct cay_call_options *options,
                           struct cay_error *err)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, CAY_LIMIT_CALL_ARENA_BYTES);
    const struct cay_v1_resume_session_request request = {.session_id = cay_native_session(env)};
    struct cay_v1_resume_session_response response;
    return cay_native_call(cay_native_of(env)->origin, options,
                           &cay_v1_sandbox_service_resume_session_method, false, &request, &arena,
                           &response, err);
}

const struct cay_env_ops cay_env_native = {
    .kind = "native",
    .open = open_native,
    .release = release,
    .capabilities = capabilities,
    .state = state,
    .create = create,
    .attach = attach,
    .destroy = destroy,
    .execute_tool = cay_native_execute_tool,
    .pause = pause_session,
    .resume = resume_session,
    .create_snapshot = cay_native_create_snapshot,
    .turn = cay_native_turn,
    .rollback = cay_native_rollback,
    .fork = cay_native_fork,
    .diff = cay_native_diff,
    .restore = cay_native_restore,
};
