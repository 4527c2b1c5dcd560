/* SPDX-License-Identifier: Apache-2.0 */
#include "host/session/session.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/noun.h"
#include "base/clock.h"
#include "base/log.h"
#include "host/session/access.h"
#include "host/session/host.h"
#include "host/session/request.h"
#include "host/session/tidy.h"

enum { SPEC_BYTES_MAX = 2 * 1024 * 1024 };

static void free_session(struct cay_session *session)
{
    struct cay_sessions *sessions = &session->host->sessions;
    for (const struct cay_session_part *const *part = session->host->parts; *part; part++) {
        if ((*part)->free)
            (*part)->free(session);
    }
    if (session->uid_slot < CAY_UID_SLOT_COUNT) {
        cay_sessions_free_slot(sessions, session->uid_slot);
        cay_store_forget_owner(session->host->store, cay_session_uid_base(session));
    }
    cay_host_close_later(session->host, session->root_fd);
    cay_sandbox_leave(session->sandbox);
    cay_timer_close(&session->deadline);
    cay_list_remove(&session->in_table);
    if (cay_map_get(&sessions->by_id, cay_str(session->id)) == session)
        cay_map_remove(&sessions->by_id, cay_str(session->id));
    cay_arena_finish(&session->arena);
    free(session);
}

static void free_unless_held(struct cay_session *session)
{
    if (session->is_gone && session->ref_count == 0)
        free_session(session);
}

void cay_sessions_init(struct cay_sessions *sessions)
{
    *sessions = (struct cay_sessions){};
    cay_list_init(&sessions->list);
    cay_map_init(&sessions->by_id);
}

void cay_sessions_finish(struct cay_sessions *sessions)
{
    if (!sessions->list.head.next)
        return;
    cay_list_for_each (struct cay_session, session, &sessions->list, in_table)
        free_session(session);
    cay_map_finish(&sessions->by_id);
}

struct cay_session *cay_session_new(struct cay_host *host, const char *id, const char *owner)
{
    struct cay_session *session = cay_new(struct cay_session);
    session->host = host;
    session->state = CAY_SESSION_CREATING;
    session->runtime = cay_runtimes_default(&host->runtimes);
    session->root_fd = -1;
    session->uid_slot = CAY_UID_SLOT_COUNT;
    session->generation = CAY_STORE_GENERATION_FIRST;
    session->created_ns = cay_clock_wall_ns();
    session->last_active_ns = session->created_ns;
    snprintf(session->id, sizeof(session->id), "%s", id);
    snprintf(session->owner, sizeof(session->owner), "%s", owner);
    cay_arena_init(&session->arena, SPEC_BYTES_MAX);
    cay_gate_init(&session->gate);
    for (const struct cay_session_part *const *part = session->host->parts; *part; part++) {
        if ((*part)->init)
            (*part)->init(session);
    }
    cay_list_push_back(&host->sessions.list, &session->in_table);
    cay_map_put(&host->sessions.by_id, cay_str(session->id), session);
    return session;
}

void cay_session_forget(struct cay_session *session)
{
    struct cay_map *by_id = &session->host->sessions.by_id;
    session->is_gone = true;
    if (cay_map_get(by_id, cay_str(session->id)) == session)
        cay_map_remove(by_id, cay_str(session->id));
    free_unless_held(session);
}

void cay_session_ref(struct cay_session *session)
{
    assert(session->ref_count < UINT_MAX);
    session->ref_count++;
}

void cay_session_unref(struct cay_session *session)
{
    assert(session->ref_count > 0);
    session->ref_count--;
    free_unless_held(session);
}

struct cay_session *cay_sessions_find(const struct cay_sessions *sessions,
                                      const struct cay_caller *caller, struct cay_str id)
{
    struct cay_session *session = cay_map_get(&sessions->by_id, id);
    return session && cay_may_know_session(caller, id, session->owner) ? session : NULL;
}

static bool refuse(const struct cay_session *session, enum cay_session_verb verb,
                   enum cay_reason reason, struct cay_error *err)
{
    const char *state = cay_session_state_name(session->state);
    if (reason == CAY_R_SESSION_PAUSED)
        cay_fail(err, reason, "session '%s' is paused; resume it first", session->id);
    else if (reason == CAY_R_SESSION_FAILED)
        cay_fail(err, reason,
                 "session '%s' has failed (%s); fork or export one of its snapshots, and remove it",
                 session->id, session->state_text);
    else
        cay_fail(err, reason, "session '%s' is %s, and %s is not possible now", session->id, state,
                 cay_session_verb_name(verb));
    cay_error_fact(err, "session_id", "%s", session->id);
    return cay_error_fact(err, "state", "%s", state);
}

bool cay_session_has_files(const struct cay_session *session, struct cay_error *err)
{
    return session->state != CAY_SESSION_FAILED ||
           cay_fail(err, CAY_R_SESSION_FAILED,
                    "session '%s' has failed (%s); name one of its snapshots", session->id,
                    session->state_text);
}

void cay_session_break(struct cay_session *session, const struct cay_error *err)
{
    struct cay_error ignored = {};
    if (!cay_session_step(session, CAY_VERB_BROKE, &ignored))
        return;
    snprintf(session->state_text, sizeof(session->state_text), "%.159s", err->text);
    snprintf(session->state_reason, sizeof(session->state_reason), "storage");
    cay_log(CAY_ERROR, "session.failed", CAY_S("session", session->id), CAY_ERR(err));
}

bool cay_session_check_build(const struct cay_session *session, const struct cay_caller *caller,
                             struct cay_error *err)
{
    if (caller->is_host || !session->spec || !cay_build_is_label(session->spec->labels))
        return true;
    return cay_fail(err, CAY_R_INVALID_STATE,
                    "session '%s' belongs to a build, and only its steps work in it; wait for the "
                    "build and create a session from its base",
                    session->id);
}

/* A paused session that a call may wake. */
static bool pause_ends_by_call(const struct cay_session *session)
{
    return session->state == CAY_SESSION_PAUSED && session->spec->lifecycle &&
           session->spec->lifecycle->auto_resume &&
           session->spec->pause_mode == CAY_V1_PAUSE_MODE_FREEZE;
}

bool cay_session_check(struct cay_host *host, const struct cay_call *call, struct cay_str id,
                       enum cay_session_verb verb, struct cay_session **out_session,
                       struct cay_error *err)
{
    struct cay_session *session = cay_sessions_find(&host->sessions, &call->caller, id);
    if (!session)
        return cay_gone_fail(&host->gone, &call->caller, id, err);
    if (!cay_may_use_runtime(call, &host->runtimes, session->runtime, err))
        return cay_error_fact(err, "session_id", "%s", session->id);
    if (verb != CAY_VERB_LOOK && verb != CAY_VERB_DESTROY &&
        !cay_session_check_build(session, &call->caller, err))
        return false;
    const struct cay_session_cell *cell = cay_session_cell(session->state, verb);
    bool is_use = verb == CAY_VERB_TOOL || verb == CAY_VERB_EXEC;
    if (is_use && session->pausing)
        return cay_fail(err, CAY_R_SESSION_PAUSED,
                        "session '%s' is being paused; resume it afterwards", session->id);
    if (cell->refusal && !(is_use && pause_ends_by_call(session)))
        return refuse(session, verb, cell->refusal, err);
    *out_session = session;
    return true;
}

bool cay_session_step(struct cay_session *session, enum cay_session_verb verb,
                      struct cay_error *err)
{
    const struct cay_session_cell *cell = cay_session_cell(session->state, verb);
    if (cell->refusal)
        return refuse(session, verb, cell->refusal, err);
    session->state = cell->next;
    return true;
}

static bool claim(struct cay_sessions *sessions, uint32_t slot)
{
    uint64_t *word = &sessions->slot_used[slot / 64];
    if (*word & UINT64_C(1) << slot % 64)
        return false;
    *word |= UINT64_C(1) << slot % 64;
    return true;
}

bool cay_sessions_take_slot(struct cay_sessions *sessions, uint32_t *out_slot)
{
    for (uint32_t word = 0; word < CAY_COUNT(sessions->slot_used); word++) {
        uint64_t used = sessions->slot_used[word];
        if (!~used)
            continue;
        *out_slot = word * 64 + (uint32_t)__builtin_ctzll(~used);
        return claim(sessions, *out_slot);
    }
    return false;
}

void cay_sessions_free_slot(struct cay_sessions *sessions, uint32_t slot)
{
    sessions->slot_used[slot / 64] &= ~(UINT64_C(1) << slot % 64);
}

bool cay_session_claim_slot(struct cay_session *session, uint32_t slot)
{
    if (slot >= CAY_UID_SLOT_COUNT || !claim(&session->host->sessions, slot))
        return false;
    session->uid_slot = slot;
    return true;
}

uint32_t cay_uid_base_of(const struct cay_runtime *runtime, uint32_t slot)
{
    if (!cay_runtime_can(runtime, CAY_RUNTIME_OWN_IDS))
        return 0;
    return (CAY_UID_SLOT_FIRST + slot) * (uint32_t)CAY_UID_SLOT_SIZE;
}

uint32_t cay_session_uid_base(const struct cay_session *session)
{
    return cay_uid_base_of(session->runtime, session->uid_slot);
}

bool cay_session_take_slot(struct cay_session *session, struct cay_error *err)
{
    return cay_sessions_take_slot(&session->host->sessions, &session->uid_slot) ||
           cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                    "this host has no free range of uids for another session");
}

void cay_session_set_spec(struct cay_session *session, const struct cay_v1_session *spec)
{
    struct cay_arena arena;
    cay_arena_init(&arena, SPEC_BYTES_MAX);
    struct cay_v1_session *copy = cay_noun_keep(&cay_v1_session_desc, spec, &arena);
    assert(copy); /* requests are bounded well below the arena */
    cay_arena_finish(&session->arena);
    session->arena = arena;
    session->spec = copy;
    struct cay_runtime *runtime = cay_runtimes_find(&session->host->runtimes, copy->runtime);
    session->runtime = runtime ? runtime : cay_runtimes_default(&session->host->runtimes);
}

bool cay_session_is_quiet(const struct cay_session *session)
{
    for (const struct cay_session_part *const *part = session->host->parts; *part; part++) {
        if ((*part)->is_quiet && !(*part)->is_quiet(session))
            return false;
    }
    return true;
}

void cay_session_kill(struct cay_session *session, enum cay_v1_end_cause cause)
{
    for (const struct cay_session_part *const *part = session->host->parts; *part; part++) {
        if ((*part)->kill)
            (*part)->kill(session, cause);
    }
}

void cay_session_undone(struct cay_session *session)
{
    for (const struct cay_session_part *const *part = session->host->parts; *part; part++) {
        if ((*part)->undone)
            (*part)->undone(session);
    }
}

void cay_session_expire(struct cay_session *session, enum cay_v1_expiry_action action,
                        const char *why)
{
    for (const struct cay_session_part *const *part = session->host->parts; *part; part++) {
        if ((*part)->expire)
            (*part)->expire(session, action, why);
    }
}

static enum cay_v1_session_state wire_state(enum cay_session_state state)
{
    static const enum cay_v1_session_state states[CAY_SESSION_STATES] = {
        [CAY_SESSION_CREATING] = CAY_V1_SESSION_STATE_CREATING,
        [CAY_SESSION_ACTIVE] = CAY_V1_SESSION_STATE_ACTIVE,
        [CAY_SESSION_PAUSED] = CAY_V1_SESSION_STATE_PAUSED,
        [CAY_SESSION_DESTROYING] = CAY_V1_SESSION_STATE_DESTROYING,
        [CAY_SESSION_FAILED] = CAY_V1_SESSION_STATE_FAILED,
    };
    return states[state];
}

struct cay_v1_session *cay_session_message(const struct cay_session *session,
                                           struct cay_arena *arena)
{
    struct cay_v1_session *message = cay_noun_copy(&cay_v1_session_desc, session->spec, arena);
    if (!message)
        return NULL;
    message->id = cay_arena_str(arena, cay_str(session->id));
    message->owner = cay_arena_str(arena, cay_str(session->owner));
    message->state = wire_state(session->state);
    message->state_reason = cay_arena_str(arena, cay_str(session->state_reason));
    message->state_message = cay_arena_str(arena, cay_str(session->state_text));
    message->created_at = cay_noun_time(arena, session->created_ns);
    message->tokens_revoked_at = cay_noun_time(arena, session->tokens_revoked_ns);
    message->last_active_at = cay_noun_time(arena, session->last_active_ns);
    message->turn_count = session->turn_count;
    message->snapshot_count = (int64_t)cay_session_snapshot_count(session);
    message->head = cay_arena_str(arena, cay_str(session->head));
    message->sandbox_running = session->sandbox != NULL;
    if (session->quota.bytes) {
        message->usage = cay_arena_new(arena, struct cay_v1_session_usage);
        if (message->usage)
            message->usage->disk_bytes = session->quota.bytes;
    }
    message->tools_in_flight = (int32_t)session->tools_in_flight;
    for (const struct cay_session_part *const *part = session->host->parts; *part; part++) {
        if ((*part)->tell)
            (*part)->tell(session, arena, message);
    }
    return message;
}
