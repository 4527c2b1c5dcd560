/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A session and its past, as the loop thread knows them. The table of sessions owns the sessions, a
 * session its snapshots; the database has what of them must survive (record.h). Workers never see
 * these objects, only values copied out of them.
 */

#include <stdatomic.h>

#include "api/call.h"
#include "api/cay_v1.h"
#include "base/id.h"
#include "base/list.h"
#include "base/map.h"
#include "host/keys/tokens.h"
#include "host/process/process.h"
#include "host/session/gate.h"
#include "host/session/state.h"
#include "host/store/store.h"
#include "io/loop.h"

struct cay_account;
struct cay_dns;
struct cay_filtered;
struct cay_hearing;
struct cay_host;
struct cay_known_users;
struct cay_live;
struct cay_once_table;
struct cay_op;
struct cay_pausing;
struct cay_receipts;
struct cay_runtime;
struct cay_sandbox;
struct cay_sessions;
struct cay_start_waiting;
struct cay_usage_history;
struct cay_waiting;
struct cay_watching;

struct cay_snapshot {
    struct cay_list_node in_session; /* oldest first */
    /* The past as a tree (history.h). */
    struct cay_snapshot *parent; /* NULL: it followed the base */
    struct cay_list children;
    struct cay_list_node in_parent;
    struct cay_snapshot *tip; /* of what is off the line: the end of its branch */
    bool is_on_line;          /* the tree descends from it; both as cay_history_mark left them */
    size_t victim_place;      /* among those that are about to go, counted from 1; 0: it stays */
    char name[CAY_ID_SIZE];
    char store_id[CAY_STORE_ID_SIZE];
    char request_id[CAY_ID_SIZE]; /* what the client called the turn; empty: nothing */
    struct cay_arena arena;
    struct cay_v1_snapshot *spec; /* in the arena: what clients see of it, but not their words */
    int64_t created_ns;
    bool is_looked_after; /* by aftermath.c */
};

/* What a session knows of its measuring (quota.h); of the loop thread but for what is atomic. */
struct cay_quota {
    _Atomic int64_t bytes; /* as last measured, */
    _Atomic int64_t files; /* with what has no name */
    bool is_over;          /* one of the limits, */
    const char *why;       /* or what cannot be measured; NULL: bytes or files */
    bool is_measured;      /* just now */
    bool is_dirty;         /* something may have been written since */
    uint64_t due_ms;       /* when it is to be looked at again */
    uint64_t cpu_usec;     /* of the sandbox at the last look: nobody ran, nobody wrote */
    uint64_t in_flight_ms; /* since when there are descriptors in flight; 0: none */
    /* Written by the daemon since it was measured, also by workers while they are at it. */
    _Atomic int64_t handed_bytes, handed_files;
    _Atomic int64_t reserved_bytes; /* of writes under way */
};

struct cay_session {
    struct cay_list_node in_table; /* oldest first */
    struct cay_host *host;
    char id[CAY_ID_SIZE];
    char owner[CAY_ID_SIZE];
    char store_id[CAY_STORE_ID_SIZE];
    enum cay_session_state state;
    char state_text[160];  /* why it failed */
    char state_reason[16]; /* the same, or why it is paused, as a word */
    struct cay_arena arena;
    struct cay_v1_session *spec; /* in the arena: what it was created with, labels, limits, env */
    struct cay_runtime *runtime; /* the one that the spec names */
    int64_t created_ns;
    int64_t tokens_revoked_ns;         /* the last time; 0: never */
    char access_token[CAY_TOKEN_SIZE]; /* empty until somebody looks for one without a name */
    struct cay_list token_holders;     /* struct cay_whois: who calls by a token just now */
    int64_t last_active_ns;
    uint32_t uid_slot;
    int64_t turn_count;     /* number of the last turn; never goes back */
    int64_t branch_count;   /* number of the last kept branch */
    char head[CAY_ID_SIZE]; /* snapshot the tree stands on; empty: the base. cay_history_set_head */
    bool is_marked;         /* the marks of its snapshots are right (history.h) */

    struct cay_list snapshots;
    struct cay_map snapshots_by_name;

    struct cay_processes processes;
    struct cay_list ports;         /* struct cay_exposed; of the running sandbox */
    struct cay_hearing *hearing;   /* who listens; NULL: nothing has run */
    struct cay_dns *dns;           /* names for an open network; while a sandbox runs */
    struct cay_filtered *filtered; /* a filtered one, the same */
    struct cay_receipts *receipts; /* of its connections; NULL: there were none */
    struct cay_watching *watching; /* who watches its directories; NULL: nobody ever did */
    struct cay_list held;          /* struct cay_held: files that readers have open */

    struct cay_gate gate;
    struct cay_account *account;
    struct cay_lane lane;        /* of what its operations do on workers */
    struct cay_lane search_lane; /* of those that may take long and change nothing */
    unsigned ref_count;          /* who needs it, operations under way among them */
    struct cay_op *waiting_op;   /* inside the gate, for tools to end; NULL: none */
    bool is_end_wanted;          /* somebody destroys it and does not wait; workers may watch it */
    unsigned tools_in_flight;
    unsigned tools_running;        /* those that had their turn, from there to their answer */
    struct cay_list tools_waiting; /* for their turn: tool_turn.c */
    unsigned tools_waiting_count;
    bool is_calling_tools;
    int64_t tool_calls;
    struct cay_once_table *once; /* tool calls with ids */

    struct cay_known_users *users; /* those looked up lately; NULL: none yet */
    int root_fd;                   /* the tree, for file tools; -1 when it is not mounted */
    uint64_t generation;           /* of the mounted root */
    struct cay_sandbox *sandbox;   /* running or frozen; NULL when there is none */
    struct cay_live *live;         /* the talk with it; NULL: it rests since the daemon started */
    struct cay_waiting *waiting;   /* of the reserve, to be its sandbox once it is born */
    struct cay_pausing *pausing;   /* about to pause: takes no new tools */
    int64_t paused_ns;             /* monotonic */
    struct cay_timer deadline;
    struct cay_usage_history *usage;
    struct cay_quota quota;
    bool is_starting;                        /* the start command of its base */
    char start_problem[160];                 /* why that could not be started */
    struct cay_start_waiting *start_waiting; /* for it (start.c); NULL: nobody */
    bool is_gone; /* its record is deleted: freed with the last reference */
};

/* What a room above has of every session. The host has a table of them (host.h); each slot may be
 * NULL, and is called in the order of the table. */
struct cay_session_part {
    void (*init)(struct cay_session *session);
    /* Adds what clients see of it. */
    void (*tell)(const struct cay_session *session, struct cay_arena *arena,
                 struct cay_v1_session *message);
    /* Whether nothing of it runs, and the end of all that does, for `cause`. */
    bool (*is_quiet)(const struct cay_session *session);
    void (*kill)(struct cay_session *session, enum cay_v1_end_cause cause);
    /* A rollback undid what happened. */
    void (*undone)(struct cay_session *session);
    /* It falls due by itself; `why` is a word that stays. */
    void (*expire)(struct cay_session *session, enum cay_v1_expiry_action action, const char *why);
    void (*free)(struct cay_session *session);
};

void cay_sessions_init(struct cay_sessions *sessions);
void cay_sessions_finish(struct cay_sessions *sessions);

/* A session in state creating, in the table. It lives until it is forgotten and nobody holds a
 * reference; at the end of the host, whoever holds one. */
struct cay_session *cay_session_new(struct cay_host *host, const char *id, const char *owner);

/* Whoever comes back to a session later holds a reference meanwhile, as each operation does. The
 * last one to go frees a session that is forgotten. */
void cay_session_ref(struct cay_session *session);
void cay_session_unref(struct cay_session *session);

/* Its name is free from now on, and it is freed with the last reference: now, if there is none. */
void cay_session_forget(struct cay_session *session);

/* NULL when there is none, or when it belongs to somebody else: the two look the same to the
 * caller. */
struct cay_session *cay_sessions_find(const struct cay_sessions *sessions,
                                      const struct cay_caller *caller, struct cay_str id);

/* INVALID_STATE for the session of a build's steps, unless it is the host itself that calls: who
 * else works in there could change what a step relies on while it runs. */
[[nodiscard]] bool cay_session_check_build(const struct cay_session *session,
                                           const struct cay_caller *caller, struct cay_error *err);

/* The same as find, the caller may use it (access.h), and the table allows the verb; in a build's
 * session, clients only look. */
[[nodiscard]] bool cay_session_check(struct cay_host *host, const struct cay_call *call,
                                     struct cay_str id, enum cay_session_verb verb,
                                     struct cay_session **out_session, struct cay_error *err);

/* SESSION_FAILED when only its snapshots are left. */
[[nodiscard]] bool cay_session_has_files(const struct cay_session *session, struct cay_error *err);

/* Its files are gone or cannot be mounted, as `err` says: it has failed. */
void cay_session_break(struct cay_session *session, const struct cay_error *err);

/* Asks the table and moves to the state it names. */
[[nodiscard]] bool cay_session_step(struct cay_session *session, enum cay_session_verb verb,
                                    struct cay_error *err);

/* The smallest free range of uids; false when all are taken. */
[[nodiscard]] bool cay_sessions_take_slot(struct cay_sessions *sessions, uint32_t *out_slot);
void cay_sessions_free_slot(struct cay_sessions *sessions, uint32_t slot);

/* The same for a session. */
[[nodiscard]] bool cay_session_take_slot(struct cay_session *session, struct cay_error *err);
[[nodiscard]] bool cay_session_claim_slot(struct cay_session *session, uint32_t slot);

/* The host's id of the sandbox's root. 0 where it has no ids of its own: commands are processes
 * of the host there, and files have the owners that those see. */
uint32_t cay_session_uid_base(const struct cay_session *session);
uint32_t cay_uid_base_of(const struct cay_runtime *runtime, uint32_t slot);

/* A frozen sandbox that nobody has talked to since the daemon started. */
static inline bool cay_session_is_resting(const struct cay_session *session)
{
    return session->sandbox && !session->live;
}

/* Nothing but init runs in it. */
[[nodiscard]] bool cay_session_is_quiet(const struct cay_session *session);
/* Ends all that runs in it; results say `cause`. */
void cay_session_kill(struct cay_session *session, enum cay_v1_end_cause cause);
/* A rollback undid what happened since: nobody is to be told of it again. */
void cay_session_undone(struct cay_session *session);
/* Its time has come. */
void cay_session_expire(struct cay_session *session, enum cay_v1_expiry_action action,
                        const char *why);

/* Copies the noun into the session's own memory. Its runtime is open, or the session broken. */
void cay_session_set_spec(struct cay_session *session, const struct cay_v1_session *spec);

/* What clients see, in the call's arena. */
struct cay_v1_session *cay_session_message(const struct cay_session *session,
                                           struct cay_arena *arena);

static inline size_t cay_session_snapshot_count(const struct cay_session *session)
{
    return cay_map_count(&session->snapshots_by_name);
}

/* NULL when there is none of that name. */
static inline struct cay_snapshot *cay_session_snapshot(const struct cay_session *session,
                                                        struct cay_str name)
{
    return cay_map_get(&session->snapshots_by_name, name);
}
