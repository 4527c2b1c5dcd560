/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Room-private: the environment `native`, a session of a cayd. native.c has its life, native_tool.c
 * its tools, native_past.c its snapshots; native_call.c is how all of them call the daemon.
 */

#include "api/cay_v1.h"
#include "client/rpc/client.h"
#include "lib/env/env_ops.h"

/* A daemon, and what is expected of it: shared by an environment and its forks. */
struct cay_origin {
    atomic_uint refs;
    struct cay_client *client;
    char *store; /* NULL: any */
    char *runtime;
    int64_t timeout_ms;

    pthread_mutex_t lock; /* of what follows */
    bool has_capabilities;
    struct cay_env_capabilities capabilities;
};

struct cay_native {
    struct cay_env env;
    struct cay_origin *origin;
};

static inline struct cay_native *cay_native_of(struct cay_env *env)
{
    return CAY_CONTAINER_OF(env, struct cay_native, env);
}

static inline struct cay_str cay_native_session(const struct cay_env *env)
{
    return cay_str(env->session_id);
}

/* A call made again when the connection breaks or the daemon restarts, a few times and within the
 * time of the whole. What is called must be safe to repeat. */
struct cay_native_repeat {
    struct cay_call_options options; /* of the attempt that comes */
    int64_t until_ms;                /* 0: no deadline */
    unsigned attempts;
};
void cay_native_repeat_begin(struct cay_native_repeat *repeat, const struct cay_origin *origin,
                             const struct cay_call_options *options);
/* After an attempt that failed with *err: true when another one is to be made, now. */
[[nodiscard]] bool cay_native_repeat_again(struct cay_native_repeat *repeat,
                                           const struct cay_error *err);

/* A unary method. With is_safe it is repeated. */
[[nodiscard]] bool cay_native_call(struct cay_origin *origin,
                                   const struct cay_call_options *options,
                                   const struct cay_pb_method *method, bool is_safe,
                                   const void *request, struct cay_arena *arena, void *out_response,
                                   struct cay_error *err);

/* The call may have done something, although it failed: nobody knows. */
[[nodiscard]] bool cay_native_is_open_ended(const struct cay_error *err);

/* Until when may be tidied up after a call that failed, and the options of a call that does so: it
 * is back by then. */
[[nodiscard]] int64_t cay_native_tidy_until(void);
[[nodiscard]] struct cay_call_options cay_native_tidy_options(int64_t until_ms);

/* Removes a session, if it is there. */
[[nodiscard]] bool cay_native_remove(struct cay_origin *origin, const char *session_id,
                                     const struct cay_call_options *options, struct cay_error *err);

/* Another environment on the same daemon. */
[[nodiscard]] struct cay_native *cay_native_new(struct cay_origin *origin, struct cay_error *err);

/* native_tool.c, native_past.c: slots of struct cay_env_ops. */
bool cay_native_execute_tool(struct cay_env *env, const struct cay_tool_request *request,
                             const struct cay_call_options *options,
                             struct cay_tool_response **out_response, struct cay_error *err);
bool cay_native_create_snapshot(struct cay_env *env, const char *name,
                                const struct cay_call_options *options,
                                struct cay_env_snapshot **out_snapshot, struct cay_error *err);
bool cay_native_turn(struct cay_env *env, const char *message,
                     const struct cay_call_options *options, struct cay_env_snapshot **out_snapshot,
                     struct cay_error *err);
bool cay_native_rollback(struct cay_env *env, const char *snapshot_id,
                         const struct cay_call_options *options, struct cay_error *err);
bool cay_native_fork(struct cay_env *env, const char *snapshot_id,
                     const struct cay_env_birth *birth, const struct cay_call_options *options,
                     struct cay_env **out_fork, struct cay_error *err);
bool cay_native_diff(struct cay_env *env, const char *from, const char *to,
                     const struct cay_call_options *options, struct cay_env_diff **out_diff,
                     struct cay_error *err);
bool cay_native_restore(struct cay_env *env, const char *snapshot_id, const char *const *paths,
                        size_t path_count, const struct cay_call_options *options,
                        struct cay_error *err);
