/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sized.h"
#include "lib/entry.h"
#include "lib/env/env_internal.h"

/*
 * What is done with the session of an environment. Each of these checks what it was given, then
 * whether the environment is in a state for it, then asks the kind.
 */

#define CAPABILITY(name)                                   \
    &(const struct capability)                             \
    {                                                      \
#name, offsetof(struct cay_env_capabilities, name) \
    }

struct capability {
    const char *name;
    size_t offset;
};

static bool check_capability(struct cay_env_visit *visit, const struct capability *wanted,
                             struct cay_error *err)
{
    struct cay_env *env = visit->env;
    const struct cay_env_capabilities *capabilities = NULL;
    bool is_there = false;
    if (!env->ops->capabilities(env, &visit->options, &capabilities, err))
        return false;
    memcpy(&is_there, (const char *)capabilities + wanted->offset, sizeof(is_there));
    return is_there || cay_fail(err, CAY_R_CAPABILITY_NOT_SUPPORTED,
                                "this environment has not the capability '%s'", wanted->name);
}

/* In this order: what was destroyed, then what can never be done, then what cannot be done yet. */
static bool check_state(struct cay_env_visit *visit, const struct capability *wanted,
                        struct cay_error *err)
{
    struct cay_env *env = visit->env;
    enum cay_env_phase phase = cay_env_phase(env);
    if (phase == CAY_ENV_ENDED)
        return cay_env_fail_ended(env, err);
    if (wanted && !check_capability(visit, wanted, err))
        return false;
    return phase == CAY_ENV_BOUND ||
           cay_fail(err, CAY_R_NOT_ACTIVE,
                    "the environment has no session yet; call cay_env_create or cay_env_attach");
}

/* A call that another thread's destroy has overtaken says so, in the words for it. */
static bool outcome(struct cay_env *env, bool is_done, struct cay_error *err)
{
    if (!is_done && err->reason == CAY_R_SESSION_NOT_FOUND && cay_env_phase(env) == CAY_ENV_ENDED)
        cay_env_fail_ended(env, err);
    return is_done;
}

bool cay_env_pause(struct cay_env *env, const struct cay_call_options *options,
                   struct cay_error *err)
{
    struct cay_error spare = {};
    err = cay_entry_error(err, &spare);
    cay_auto(cay_env_visit_end) struct cay_env_visit visit = {};
    if (!cay_env_enter(env, options, &visit, err) || !check_state(&visit, CAPABILITY(pause), err))
        return false;
    return outcome(env, env->ops->pause(env, &visit.options, err), err);
}

bool cay_env_resume(struct cay_env *env, const struct cay_call_options *options,
                    struct cay_error *err)
{
    struct cay_error spare = {};
    err = cay_entry_error(err, &spare);
    cay_auto(cay_env_visit_end) struct cay_env_visit visit = {};
    if (!cay_env_enter(env, options, &visit, err) || !check_state(&visit, CAPABILITY(pause), err))
        return false;
    return outcome(env, env->ops->resume(env, &visit.options, err), err);
}

static bool check_request(const struct cay_tool_request *request, struct cay_error *err)
{
    if (request->tool_timeout_ms < 0 || request->result_bytes_max < 0)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "tool_timeout_ms, result_bytes_max: 0 or more");
    return cay_entry_text(request->tool_name, "tool_name", err) &&
           cay_entry_word(request->params, "params", err) &&
           cay_entry_word(request->tool_call_id, "tool_call_id", err) &&
           cay_entry_word(request->cwd, "cwd", err) && cay_entry_word(request->user, "user", err) &&
           cay_entry_pairs(request->environment, request->environment_count, "environment", err);
}

bool cay_env_execute_tool(struct cay_env *env, const struct cay_tool_request *given,
                          const struct cay_call_options *options,
                          struct cay_tool_response **out_response, struct cay_error *err)
{
    struct cay_error spare = {};
    err = cay_entry_error(err, &spare);
    cay_auto(cay_env_visit_end) struct cay_env_visit visit = {};
    struct cay_tool_request request;
    struct cay_tool_response *response = NULL;
    if (!cay_env_enter(env, options, &visit, err) ||
        !cay_sized_take(given, &request, sizeof(request), "request", err) ||
        !check_request(&request, err) || !check_state(&visit, NULL, err))
        return false;
    if (!outcome(env, env->ops->execute_tool(env, &request, &visit.options, &response, err), err))
        return false;
    if (out_response)
        *out_response = response;
    else
        cay_tool_response_free(response);
    return true;
}

/* Gives a snapshot to a caller who may not want it. */
static bool give_snapshot(struct cay_env_snapshot *snapshot, struct cay_env_snapshot **out_snapshot)
{
    if (out_snapshot)
        *out_snapshot = snapshot;
    else
        cay_env_snapshot_free(snapshot);
    return true;
}

bool cay_env_create_snapshot(struct cay_env *env, const char *name,
                             const struct cay_call_options *options,
                             struct cay_env_snapshot **out_snapshot, struct cay_error *err)
{
    struct cay_error spare = {};
    err = cay_entry_error(err, &spare);
    cay_auto(cay_env_visit_end) struct cay_env_visit visit = {};
    struct cay_env_snapshot *snapshot = NULL;
    if (!cay_env_enter(env, options, &visit, err) || !cay_entry_word(name, "name", err) ||
        !check_state(&visit, CAPABILITY(snapshots), err))
        return false;
    return outcome(env, env->ops->create_snapshot(env, name, &visit.options, &snapshot, err),
                   err) &&
           give_snapshot(snapshot, out_snapshot);
}

bool cay_env_turn(struct cay_env *env, const char *message, const struct cay_call_options *options,
                  struct cay_env_snapshot **out_snapshot, struct cay_error *err)
{
    struct cay_error spare = {};
    err = cay_entry_error(err, &spare);
    cay_auto(cay_env_visit_end) struct cay_env_visit visit = {};
    struct cay_env_snapshot *snapshot = NULL;
    if (!cay_env_enter(env, options, &visit, err) || !cay_entry_word(message, "message", err) ||
        !check_state(&visit, CAPABILITY(turn), err))
        return false;
    return outcome(env, env->ops->turn(env, message, &visit.options, &snapshot, err), err) &&
           give_snapshot(snapshot, out_snapshot);
}

bool cay_env_rollback(struct cay_env *env, const char *snapshot_id,
                      const struct cay_call_options *options, struct cay_error *err)
{
    struct cay_error spare = {};
    err = cay_entry_error(err, &spare);
    cay_auto(cay_env_visit_end) struct cay_env_visit visit = {};
    if (!cay_env_enter(env, options, &visit, err) ||
        !cay_entry_text(snapshot_id, "snapshot_id", err) ||
        !check_state(&visit, CAPABILITY(rollback), err))
        return false;
    return outcome(env, env->ops->rollback(env, snapshot_id, &visit.options, err), err);
}

bool cay_env_fork(struct cay_env *env, const char *snapshot_id, const char *session_id,
                  const struct cay_call_options *options, struct cay_env **out_fork,
                  struct cay_error *err)
{
    struct cay_error spare = {};
    err = cay_entry_error(err, &spare);
    cay_auto(cay_env_visit_end) struct cay_env_visit visit = {};
    char made_up[CAY_ID_SIZE] = "";
    const bool is_made_up = !session_id || !*session_id;
    if (!out_fork)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "out_fork: it is missing");
    if (!cay_env_enter(env, options, &visit, err) ||
        !cay_entry_word(snapshot_id, "snapshot_id", err))
        return false;
    if (!is_made_up && !cay_id_valid(cay_str(session_id)))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "no session can have this session_id");
    if (!check_state(&visit, CAPABILITY(fork), err) ||
        (is_made_up && !cay_entry_id(made_up, sizeof(made_up), "s", err)))
        return false;
    const struct cay_env_birth birth = {
        .session_id = is_made_up ? made_up : session_id,
        .is_made_up = is_made_up,
    };
    return outcome(env, env->ops->fork(env, snapshot_id, &birth, &visit.options, out_fork, err),
                   err);
}

bool cay_env_diff(struct cay_env *env, const char *from, const char *to,
                  const struct cay_call_options *options, struct cay_env_diff **out_diff,
                  struct cay_error *err)
{
    struct cay_error spare = {};
    err = cay_entry_error(err, &spare);
    cay_auto(cay_env_visit_end) struct cay_env_visit visit = {};
    if (!out_diff)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "out_diff: it is missing");
    if (!cay_env_enter(env, options, &visit, err) || !cay_entry_word(from, "from", err) ||
        !cay_entry_word(to, "to", err) || !check_state(&visit, CAPABILITY(diff), err))
        return false;
    return outcome(env, env->ops->diff(env, from, to, &visit.options, out_diff, err), err);
}

bool cay_env_restore(struct cay_env *env, const char *snapshot_id, const char *const *paths,
                     size_t path_count, const struct cay_call_options *options,
                     struct cay_error *err)
{
    struct cay_error spare = {};
    err = cay_entry_error(err, &spare);
    cay_auto(cay_env_visit_end) struct cay_env_visit visit = {};
    if (!cay_env_enter(env, options, &visit, err) ||
        !cay_entry_text(snapshot_id, "snapshot_id", err))
        return false;
    if (!path_count || !paths)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "paths: which?");
    for (size_t i = 0; i < path_count; i++) {
        if (!cay_entry_text(paths[i], "paths", err))
            return cay_wrap(err, "number %zu", i + 1);
    }
    if (!check_state(&visit, CAPABILITY(restore), err))
        return false;
    return outcome(env, env->ops->restore(env, snapshot_id, paths, path_count, &visit.options, err),
                   err);
}
