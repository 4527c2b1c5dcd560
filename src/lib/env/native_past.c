/* SPDX-License-Identifier: Apache-2.0 */
#include "api/limits.h"
#include "lib/entry.h"
#include "lib/env/native.h"
#include "lib/env/result.h"

/* The past of a session: snapshots, turns, the way back, forks and differences. */

bool cay_native_create_snapshot(struct cay_env *env, const char *name,
                                const struct cay_call_options *options,
                                struct cay_env_snapshot **out_snapshot, struct cay_error *err)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, CAY_LIMIT_CALL_ARENA_BYTES);
    const struct cay_v1_create_snapshot_request request = {.session_id = cay_native_session(env),
                                                           .name = cay_str(name)};
    struct cay_v1_create_snapshot_response response = {};
    return cay_native_call(cay_native_of(env)->origin, options,
                           &cay_v1_sandbox_service_create_snapshot_method, false, &request, &arena,
                           &response, err) &&
           cay_result_snapshot(response.snapshot, out_snapshot, err);
}

bool cay_native_turn(struct cay_env *env, const char *message,
                     const struct cay_call_options *options, struct cay_env_snapshot **out_snapshot,
                     struct cay_error *err)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, CAY_LIMIT_CALL_ARENA_BYTES);
    /* A repetition is answered with the turn that the first call made. */
    char request_id[CAY_ID_SIZE];
    if (!cay_entry_id(request_id, sizeof(request_id), "turn-", err))
        return false;
    const struct cay_v1_turn_complete_request request = {
        .session_id = cay_native_session(env),
        .message = cay_str(message),
        .request_id = cay_str(request_id),
    };
    struct cay_v1_turn_complete_response response = {};
    return cay_native_call(cay_native_of(env)->origin, options,
                           &cay_v1_sandbox_service_turn_complete_method, true, &request, &arena,
                           &response, err) &&
           cay_result_snapshot(response.snapshot, out_snapshot, err);
}

bool cay_native_rollback(struct cay_env *env, const char *snapshot_id,
                         const struct cay_call_options *options, struct cay_error *err)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, CAY_LIMIT_CALL_ARENA_BYTES);
    const struct cay_v1_rollback_session_request request = {.session_id = cay_native_session(env),
                                                            .snapshot = cay_str(snapshot_id)};
    struct cay_v1_rollback_session_response response;
    return cay_native_call(cay_native_of(env)->origin, options,
                           &cay_v1_sandbox_service_rollback_session_method, false, &request, &arena,
                           &response, err);
}

bool cay_native_fork(struct cay_env *env, const char *snapshot_id,
                     const struct cay_env_birth *birth, const struct cay_call_options *options,
                     struct cay_env **out_fork, struct cay_error *err)
{
    struct cay_origin *origin = cay_native_of(env)->origin;
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, CAY_LIMIT_CALL_ARENA_BYTES);
    const struct cay_v1_fork_session_request request = {
        .session_id = cay_native_session(env),
        .snapshot = cay_str(snapshot_id),
        .new_session_id = cay_str(birth->session_id),
    };
    struct cay_v1_fork_session_response response = {};
    /* It is there before the session is: nothing can fail once that exists. */
    struct cay_native *fork = cay_native_new(origin, err);
    if (!fork)
        return false;
    if (cay_native_call(origin, options, &cay_v1_sandbox_service_fork_session_method, false,
                        &request, &arena, &response, err)) {
        cay_env_bind(&fork->env, birth->session_id);
        *out_fork = &fork->env;
        return true;
    }
    cay_env_close(&fork->env);
    if (birth->is_made_up && cay_native_is_open_ended(err)) {
        const struct cay_call_options tidy = cay_native_tidy_options(cay_native_tidy_until());
        struct cay_error ignored = {};
        (void)cay_native_remove(origin, birth->session_id, &tidy, &ignored);
    }
    return false;
}

static bool on_entry(void *state, const void *message, struct cay_error *err)
{
    const struct cay_v1_diff_snapshots_response *response = message;
    if (response->which_frame != CAY_V1_DIFF_SNAPSHOTS_RESPONSE_FRAME_ENTRY)
        return true;
    return cay_result_diff_add(state, response->frame.entry, err);
}

bool cay_native_diff(struct cay_env *env, const char *from, const char *to,
                     const struct cay_call_options *options, struct cay_env_diff **out_diff,
                     struct cay_error *err)
{
    const struct cay_v1_diff_snapshots_request request = {
        .session_id = cay_native_session(env),
        .from_snapshot = from && *from ? cay_str(from) : CAY_STR("base"),
        .to_snapshot = cay_str(to),
        .patch = true,
    };
    struct cay_result_diff *diff = NULL;
    if (!cay_result_diff_create(&diff, err))
        return false;
    if (cay_client_call_stream_with(cay_native_of(env)->origin->client, options,
                                    &cay_v1_sandbox_service_diff_snapshots_method, &request,
                                    on_entry, diff, err) &&
        cay_result_diff_give(diff, out_diff, err))
        return true;
    cay_result_diff_destroy(diff);
    return false;
}

bool cay_native_restore(struct cay_env *env, const char *snapshot_id, const char *const *paths,
                        size_t path_count, const struct cay_call_options *options,
                        struct cay_error *err)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, CAY_LIMIT_CALL_ARENA_BYTES);
    struct cay_str *items = cay_arena_array(&arena, path_count, sizeof(*items));
    if (!items)
        return cay_fail(err, CAY_R_OUT_OF_MEMORY, NULL);
    for (size_t i = 0; i < path_count; i++)
        items[i] = cay_str(paths[i]);
    const struct cay_v1_restore_paths_request request = {
        .session_id = cay_native_session(env),
        .snapshot = cay_str(snapshot_id),
        .paths = {items, path_count},
    };
    struct cay_v1_restore_paths_response response;
    return cay_native_call(cay_native_of(env)->origin, options,
                           &cay_v1_sandbox_service_restore_paths_method, false, &request, &arena,
                           &response, err);
}
