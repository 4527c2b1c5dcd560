/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_ENV_H
#define CAY_ENV_H

/*
 * An execution environment: the place where the tools of one agent run. A program takes the kind
 * from its user, as a string:
 *
 *     native:unix:/run/cay/cayd.sock   a session of a cayd on this machine
 *     native:https://cay.example.org   of one elsewhere
 *     local:/some/dir                  this process, on a directory of this host: isolates NOTHING
 *
 *     struct cay_env *env;
 *     struct cay_env_config config = CAY_ENV_CONFIG;
 *     struct cay_tool_request request = CAY_TOOL_REQUEST;
 *     struct cay_tool_response *response;
 *     request.tool_name = "bash";
 *     request.params = "{\"cmd\":\"make test\"}";
 *     if (cay_env_open("native:unix:/run/cay/cayd.sock", NULL, &env, &err) &&
 *         cay_env_create(env, &config, NULL, &err) &&
 *         cay_env_execute_tool(env, &request, NULL, &response, &err)) {
 *         puts(response->text);
 *         cay_tool_response_free(response);
 *     }
 *
 * Order: open -> (create | attach) -> (execute_tool | pause -> resume | create_snapshot | …)* ->
 * destroy -> close. Capabilities may be asked at any time and do not change, and so may state and
 * session id. What an environment cannot do fails with `capability_not_supported`, what needs a
 * session that was not made yet with `not_active`. After destroy everything fails with
 * `not_active`, but destroy itself, which succeeds again. A create that failed may be tried again.
 *
 * Timeouts and cancels are as cay/client.h has them. Three functions take back what they began when
 * that ends them (create and fork, of an id that was made up, and execute_tool without a
 * tool_call_id): this takes a second more at most, also when the daemon does not answer.
 *
 * All functions may be called by several threads at once, also from a progress callback; closing or
 * destroying an environment inside of one is allowed, and it is released when the call returns.
 *
 * Text is UTF-8. Names of files are bytes: one that is not part of UTF-8, 0xNN, is written as the
 * character U+EFNN in all paths, as the contract has it (FileInfo.path).
 */

#include "cay/client.h"

CAY_API_BEGIN

struct cay_env;

struct cay_env_options {
    size_t size;
    const char *key;     /* native: API key; NULL: none */
    const char *ca_file; /* native: certificates to trust */
    const char *store;   /* native: the store that is expected, such as "btrfs"; NULL: any */
    const char *runtime; /* native: the runtime that is expected of sessions; NULL: any */
    int64_t timeout_ms;  /* of calls that name none; 0: they may take for ever */
};
#define CAY_ENV_OPTIONS CAY_INIT(cay_env_options)

/* Says nothing to a daemon yet. Reasons: invalid_argument; for local also file_not_found. */
CAY_API bool cay_env_open(const char *address, const struct cay_env_options *options,
                          struct cay_env **out_env, struct cay_error *err);

/* Lets go of it. A session of a daemon stays as it is; what a local environment runs is ended. */
CAY_API void cay_env_close(struct cay_env *env); /* accepts NULL */

struct cay_env_capabilities {
    bool snapshots;
    bool rollback;
    bool pause;
    bool streaming_progress;
    bool tier_routing;
    int64_t max_session_duration_ms; /* 0: unlimited */
    int64_t concurrent_sessions;     /* 0: unlimited */
    bool turn;                       /* cay_env_turn, which numbers its snapshots */
    bool fork;
    bool diff;
    bool restore;
    /* What runs in it cannot reach this host. Of a daemon that offers several runtimes this is true
     * of the one that the options expect or, when they do not, if it is of all. */
    bool isolates;
};

/* A daemon is asked once. They belong to the environment and are valid until it is closed. */
CAY_API bool cay_env_capabilities(struct cay_env *env, const struct cay_call_options *options,
                                  const struct cay_env_capabilities **out_capabilities,
                                  struct cay_error *err);

/* What environments of a kind can by design: "e2b", "daytona", "fly", "local". NULL: unknown kind,
 * or it depends on the daemon. */
CAY_API const struct cay_env_capabilities *cay_env_kind_capabilities(const char *kind);

enum cay_env_state {
    CAY_ENV_CREATING = 1, /* or nothing was created yet */
    CAY_ENV_ACTIVE = 2,
    CAY_ENV_PAUSED = 3,
    CAY_ENV_DESTROYING = 4,
    CAY_ENV_DESTROYED = 5,
    CAY_ENV_FAILED = 6 /* the daemon says so, or cannot be asked within 5 s */
};

CAY_API enum cay_env_state cay_env_state(struct cay_env *env);
CAY_API const char *cay_env_state_name(enum cay_env_state state); /* "active" */

struct cay_env_config {
    size_t size;
    const char *base;       /* NULL: the daemon's default */
    const char *session_id; /* NULL: one is made up */
    const struct cay_pair *labels;
    size_t label_count;
    const struct cay_pair *environment; /* variables of all commands */
    size_t environment_count;
    int64_t memory_bytes; /* limits; 0: the daemon's default */
    double cpus;
    int64_t disk_bytes;
    int64_t process_count;
    const char *network; /* "none", "open"; NULL: the daemon's default */
    const char *runtime; /* NULL: the daemon's default */
};
#define CAY_ENV_CONFIG CAY_INIT(cay_env_config)

/* Creates the session. One whose store or runtime is not what the options expect is removed again,
 * and the call fails with `failed_precondition`. So is one whose id was made up, when it is not
 * known whether it was made (`deadline_exceeded`, `canceled`, `unavailable`); with an id of your
 * own, create it again. `config` may be NULL. A local environment takes no limits: those that are
 * set fail with `capability_not_supported`. */
CAY_API bool cay_env_create(struct cay_env *env, const struct cay_env_config *config,
                            const struct cay_call_options *options, struct cay_error *err);

/* Uses a session that exists, in whatever state it is. Reasons: session_not_found;
 * failed_precondition when it is not what the options expect. */
CAY_API bool cay_env_attach(struct cay_env *env, const char *session_id,
                            const struct cay_call_options *options, struct cay_error *err);

/* "" before create. Valid until the environment is closed. */
CAY_API const char *cay_env_session_id(const struct cay_env *env);

CAY_API bool cay_env_pause(struct cay_env *env, const struct cay_call_options *options,
                           struct cay_error *err);
CAY_API bool cay_env_resume(struct cay_env *env, const struct cay_call_options *options,
                            struct cay_error *err);
/* Removes the session with its files and its past, also when it is gone already. A local
 * environment's directory stays. */
CAY_API bool cay_env_destroy(struct cay_env *env, const struct cay_call_options *options,
                             struct cay_error *err);

/* What a tool prints while it runs. */
struct cay_tool_progress {
    int stream;       /* 1: standard output, 2: standard error */
    const char *data; /* valid inside of the callback */
    size_t len;
    int64_t offset;        /* of the data in all that was printed */
    int64_t dropped_bytes; /* lost directly before it, because nobody took it in time */
};

struct cay_tool_request {
    size_t size;
    const char *tool_name; /* read_file, write_file, edit_file, grep, glob, list_dir, bash, … */
    const char *params;    /* its parameters, a JSON object; NULL: none */
    const char *tool_call_id; /* makes the call happen once, however often you make it */
    const char *cwd;          /* absolute; NULL: the session's */
    const char *user;         /* NULL: the session's */
    const struct cay_pair *environment;
    size_t environment_count;
    int64_t tool_timeout_ms;  /* of the tool itself; 0: its own */
    int64_t result_bytes_max; /* of text in the result; 0: 256 KiB */
    void (*progress)(void *state, const struct cay_tool_progress *progress); /* may be NULL */
    void *state;
};
#define CAY_TOOL_REQUEST CAY_INIT(cay_tool_request)

struct cay_tool_response {
    bool is_error;      /* the tool failed at its task, which is a result all the same */
    const char *reason; /* why, as a word: "no_match", "exit_code"; "" if it did not */
    const char *text;   /* what to show the model; all blocks of text one after the other */
    size_t text_len;
    bool has_exit_code; /* of a command that ended by itself */
    int exit_code;
    const char *process_id; /* of a command in the background; "" otherwise */
    int64_t duration_us;
    bool is_cached;   /* the result of an earlier call with the same id */
    const char *json; /* the whole result, as the contract's ToolResult */
    size_t json_len;
};

/* `out_response` is released with cay_tool_response_free; it may be NULL. When the connection to a
 * daemon breaks, the call is made again as long as there is time: the tool runs once all the same.
 * `unavailable` after that, because the daemon was restarted, means that nobody knows whether it
 * ran. A call that its deadline or a cancel ends leaves nothing running, unless it has a
 * tool_call_id: then it goes on, and to make it again is to get its result. */
CAY_API bool cay_env_execute_tool(struct cay_env *env, const struct cay_tool_request *request,
                                  const struct cay_call_options *options,
                                  struct cay_tool_response **out_response, struct cay_error *err);
CAY_API void cay_tool_response_free(struct cay_tool_response *response); /* accepts NULL */

/* Whether a tool works on files (by its name or an alias of it) or runs a command. */
CAY_API bool cay_is_file_op(const char *tool_name);

struct cay_env_snapshot {
    const char *id; /* what rollback, fork, diff and restore take */
    const char *name;
    int64_t created_ms;       /* since 1970 */
    int64_t space_used_bytes; /* 0: not tracked, or not counted yet */
};
CAY_API void cay_env_snapshot_free(struct cay_env_snapshot *snapshot); /* accepts NULL */

/* `out_snapshot` may be NULL, here and below. */
CAY_API bool cay_env_create_snapshot(struct cay_env *env, const char *name,
                                     const struct cay_call_options *options,
                                     struct cay_env_snapshot **out_snapshot, struct cay_error *err);
/* Ends a turn of the agent. `message` is kept with it; NULL: none. */
CAY_API bool cay_env_turn(struct cay_env *env, const char *message,
                          const struct cay_call_options *options,
                          struct cay_env_snapshot **out_snapshot, struct cay_error *err);
CAY_API bool cay_env_rollback(struct cay_env *env, const char *snapshot_id,
                              const struct cay_call_options *options, struct cay_error *err);
/* Another environment that begins where this one was at a snapshot; NULL: where it is now. The new
 * session's id is made up if it is NULL. */
CAY_API bool cay_env_fork(struct cay_env *env, const char *snapshot_id, const char *session_id,
                          const struct cay_call_options *options, struct cay_env **out_fork,
                          struct cay_error *err);

enum cay_env_change_kind {
    CAY_ENV_ADDED = 1,
    CAY_ENV_MODIFIED = 2,
    CAY_ENV_DELETED = 3,
    CAY_ENV_RENAMED = 4
};

struct cay_env_change {
    enum cay_env_change_kind kind;
    const char *path;
    const char *old_path; /* of a renamed one; "" otherwise */
    bool is_binary;       /* no text, so the patch does not have it */
    bool is_patch_cut;    /* its part of the patch was too large */
};
struct cay_env_diff {
    const struct cay_env_change *const *changes;
    size_t change_count;
    const char *patch; /* the changes of text files as a unified diff; "" when there are none */
    size_t patch_len;
};
CAY_API void cay_env_diff_free(struct cay_env_diff *diff); /* accepts NULL */

/* What changed from one point to another. NULL for `from` is the base, for `to` the live files. */
CAY_API bool cay_env_diff(struct cay_env *env, const char *from, const char *to,
                          const struct cay_call_options *options, struct cay_env_diff **out_diff,
                          struct cay_error *err);

/* Brings paths back as they were at a snapshot. */
CAY_API bool cay_env_restore(struct cay_env *env, const char *snapshot_id, const char *const *paths,
                             size_t path_count, const struct cay_call_options *options,
                             struct cay_error *err);

/* The errors of the interface, whatever made them: a paused session of a daemon is NOT_ACTIVE here.
 */
enum cay_env_error {
    CAY_ENV_ERROR_OTHER = 0,
    CAY_ENV_ERROR_CAPABILITY_NOT_SUPPORTED = 1,
    CAY_ENV_ERROR_SESSION_NOT_FOUND = 2,
    CAY_ENV_ERROR_NOT_ACTIVE = 3,
    CAY_ENV_ERROR_UNAVAILABLE = 4,
    CAY_ENV_ERROR_SESSION_LIMIT_REACHED = 5
};
CAY_API enum cay_env_error cay_env_error_of(const struct cay_error *err);

CAY_API_END

#endif
