/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What an environment of a kind implements. env.c stands before all of them: it takes what callers
 * give (no function here sees a NULL or a struct of another version), knows whether there is a
 * session, refuses what capabilities exclude, and counts who uses the environment. The functions
 * are called by several threads at once, and block.
 *
 * struct cay_env is embedded first in a kind's own struct and holds nothing of a kind.
 */

#include <pthread.h>
#include <stdatomic.h>

#include "base/error.h"
#include "base/id.h"
#include "cay/env.h"

enum cay_env_phase {
    CAY_ENV_FRESH = 0, /* there is no session yet */
    CAY_ENV_MAKING,    /* a create or an attach is under way */
    CAY_ENV_BOUND,     /* it has a session, as far as is known here */
    CAY_ENV_ENDED,     /* destroyed, here */
};

struct cay_env {
    const struct cay_env_ops *ops;
    atomic_uint refs; /* the owner's, and one of each call under way */

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t changed;
    enum cay_env_phase phase;
    unsigned destroyers; /* calls of destroy that are under way */

    atomic_bool has_session_id; /* it is written once and does not change then */
    char session_id[CAY_ID_SIZE];
};

/* What a session is made with. */
struct cay_env_birth {
    const char *session_id; /* valid as an id */
    bool is_made_up;        /* by us: nobody else can have meant it */
    const struct cay_env_config *config;
};

struct cay_env_ops {
    const char *kind; /* what stands before the first colon of an address */

    /* Says nothing to anybody. `where` is what follows the colon; it may be empty. The environment
     * is prepared with cay_env_init, and owned by the caller. */
    bool (*open)(const char *where, const struct cay_env_options *options, struct cay_env **out_env,
                 struct cay_error *err);
    /* The owner has let go; calls may be under way. May be NULL. */
    void (*let_go)(struct cay_env *env);
    /* Nobody uses it any more. Frees it; what belongs to struct cay_env is finished by then. */
    void (*release)(struct cay_env *env);

    /* The same answer for as long as it lives; also before create and after destroy. It is the
     * environment's. */
    bool (*capabilities)(struct cay_env *env, const struct cay_call_options *options,
                         const struct cay_env_capabilities **out_capabilities,
                         struct cay_error *err);
    /* Of an environment that has a session, within 5 s. */
    enum cay_env_state (*state)(struct cay_env *env);

    /* All or nothing: one that fails leaves no session. Never two at a time. */
    bool (*create)(struct cay_env *env, const struct cay_env_birth *birth,
                   const struct cay_call_options *options, struct cay_error *err);
    /* May be NULL: capability_not_supported. */
    bool (*attach)(struct cay_env *env, const char *session_id,
                   const struct cay_call_options *options, struct cay_error *err);

    /* These are called with a session only. One that is gone already is destroyed. */
    bool (*destroy)(struct cay_env *env, const struct cay_call_options *options,
                    struct cay_error *err);
    bool (*execute_tool)(struct cay_env *env, const struct cay_tool_request *request,
                         const struct cay_call_options *options,
                         struct cay_tool_response **out_response, struct cay_error *err);

    /* These only with their capability, without which they may be NULL. Outputs are never NULL. */
    bool (*pause)(struct cay_env *env, const struct cay_call_options *options,
                  struct cay_error *err);
    bool (*resume)(struct cay_env *env, const struct cay_call_options *options,
                   struct cay_error *err);
    bool (*create_snapshot)(struct cay_env *env, const char *name,
                            const struct cay_call_options *options,
                            struct cay_env_snapshot **out_snapshot, struct cay_error *err);
    bool (*turn)(struct cay_env *env, const char *message, const struct cay_call_options *options,
                 struct cay_env_snapshot **out_snapshot, struct cay_error *err);
    bool (*rollback)(struct cay_env *env, const char *snapshot_id,
                     const struct cay_call_options *options, struct cay_error *err);
    /* The fork is bound with cay_env_bind. birth->config is NULL. */
    bool (*fork)(struct cay_env *env, const char *snapshot_id, const struct cay_env_birth *birth,
                 const struct cay_call_options *options, struct cay_env **out_fork,
                 struct cay_error *err);
    bool (*diff)(struct cay_env *env, const char *from, const char *to,
                 const struct cay_call_options *options, struct cay_env_diff **out_diff,
                 struct cay_error *err);
    bool (*restore)(struct cay_env *env, const char *snapshot_id, const char *const *paths,
                    size_t path_count, const struct cay_call_options *options,
                    struct cay_error *err);
};

/* A new one without a session, which its owner uses. */
void cay_env_init(struct cay_env *env, const struct cay_env_ops *ops);
/* It has this session from now on: for forks, which nobody else knows yet. */
void cay_env_bind(struct cay_env *env, const char *session_id);

/* The kinds: kinds.c. NULL when there is none of that name. */
const struct cay_env_ops *cay_env_kind_find(struct cay_str kind);
extern const struct cay_env_ops cay_env_local;
extern const struct cay_env_ops cay_env_native;
