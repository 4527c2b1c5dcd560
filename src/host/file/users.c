/* SPDX-License-Identifier: Apache-2.0 */
#include "host/file/users.h"

#include <stdio.h>
#include <stdlib.h>

#include "host/life/wake.h"
#include "host/session/host.h"
#include "host/session/request.h"

enum { KNOWN_MAX = 4 };

struct cay_known_users {
    struct {
        char who[CAY_USER_NAME_BYTES]; /* as it was asked for; empty: no entry */
        bool any_number;
        struct cay_user_stamp stamp;
        struct cay_user user;
    } entries[KNOWN_MAX];
    size_t next;                 /* is written over next */
    struct cay_user_stamp stamp; /* of the files, in this turn of the loop */
    uint64_t stamp_turn;         /* 0: there is none */
};

static void free_known(struct cay_session *session)
{
    free(cay_take_ptr(session->users));
}

/* Whoever asks in the same turn asks at the same time: one look is enough for all of them. */
static bool look(struct cay_known_users *known, const struct cay_session *session,
                 const struct cay_tool_tree *tree)
{
    uint64_t turn = cay_loop_turn(session->host->loop);
    if (known->stamp_turn != turn)
        known->stamp_turn = cay_user_stamp(tree, &known->stamp) ? turn : 0;
    return known->stamp_turn != 0;
}

static bool recall(const struct cay_session *session, struct cay_user_search *search)
{
    struct cay_known_users *known = session->users;
    if (!known || !look(known, session, &search->tree))
        return false;
    for (size_t i = 0; i < KNOWN_MAX; i++) {
        if (strcmp(known->entries[i].who, search->who) == 0 &&
            known->entries[i].any_number == search->any_number &&
            memcmp(&known->entries[i].stamp, &known->stamp, sizeof(known->stamp)) == 0) {
            search->user = known->entries[i].user;
            return true;
        }
    }
    return false;
}

bool cay_user_search_begin(struct cay_user_search *search, struct cay_session *session,
                           struct cay_str who, bool *out_known, struct cay_error *err)
{
    if (!cay_check_user(who, err))
        return false;
    if (session->root_fd < 0)
        return cay_fail(err, CAY_R_UNAVAILABLE,
                        "the tree of session '%s' is not mounted; try again", session->id);
    struct cay_str name = who.len ? who : session->spec->default_user;
    *search = (struct cay_user_search){
        .tree = {.root_fd = session->root_fd, .id_base = cay_session_uid_base(session)},
        .any_number = !who.len,
    };
    snprintf(search->who, sizeof(search->who), "%.*s", (int)name.len, name.ptr);
    *out_known = recall(session, search);
    return true;
}

bool cay_user_search_work(struct cay_user_search *search, struct cay_error *err)
{
    /* Before the files are read: what changes meanwhile is noticed by the next search. */
    search->has_stamp = cay_user_stamp(&search->tree, &search->stamp);
    return cay_user_find(&search->tree, cay_str(search->who), search->any_number, &search->user,
                         err);
}

/* On the loop, after it was found. */
static void remember(const struct cay_user_search *search, struct cay_session *session)
{
    if (!search->has_stamp)
        return;
    if (!session->users)
        session->users = cay_new(struct cay_known_users);
    struct cay_known_users *known = session->users;
    size_t at = known->next;
    for (size_t i = 0; i < KNOWN_MAX; i++) {
        if (strcmp(known->entries[i].who, search->who) == 0 &&
            known->entries[i].any_number == search->any_number)
            at = i;
    }
    if (at == known->next)
        known->next = (known->next + 1) % KNOWN_MAX;
    memcpy(known->entries[at].who, search->who, sizeof(search->who));
    known->entries[at].any_number = search->any_number;
    known->entries[at].stamp = search->stamp;
    known->entries[at].user = search->user;
}

struct wake_as {
    struct cay_op op;
    struct cay_str who;
    struct cay_user *out_user;
    struct cay_user_search search;
    bool is_known;
    cay_awake_fn *awake;
    void *context;
};

static bool search_work(struct cay_op *op, struct cay_error *err)
{
    struct wake_as *self = CAY_CONTAINER_OF(op, struct wake_as, op);
    return self->is_known || cay_user_search_work(&self->search, err);
}

static bool search_begin(struct cay_op *op, struct cay_error *err)
{
    struct wake_as *self = CAY_CONTAINER_OF(op, struct wake_as, op);
    return cay_user_search_begin(&self->search, op->session, self->who, &self->is_known, err);
}

static void search_end(struct cay_op *op)
{
    struct wake_as *self = CAY_CONTAINER_OF(op, struct wake_as, op);
    struct cay_session *session = op->session;
    if (op->is_done) {
        remember(&self->search, session);
        *self->out_user = self->search.user;
    }
    /* Held until the caller has looked: leaving may free a session that is gone. */
    self->awake(op->call, session, self->context, op->is_done ? NULL : &op->err);
    cay_op_leave(op);
    free(self);
}

static const struct cay_op_steps search_steps = {
    .begin = search_begin, .work = search_work, .end = search_end};

static void awake_as(struct cay_call *call, struct cay_session *session, void *context,
                     const struct cay_error *err)
{
    struct wake_as *self = context;
    struct cay_error refused = {};
    bool is_known = false;
    if (!err && !cay_user_search_begin(&self->search, session, self->who, &is_known, &refused))
        err = &refused;
    if (!err && !is_known) {
        cay_op_start_on(&self->op, session, call, CAY_VERB_TOOL, false, &search_steps);
        return;
    }
    if (is_known)
        *self->out_user = self->search.user;
    self->awake(call, session, self->context, err);
    free(self);
}

void cay_wake_as(struct cay_session *session, struct cay_call *call, struct cay_str who,
                 bool needs_sandbox, struct cay_user *out_user, cay_awake_fn *awake, void *context)
{
    struct wake_as *self = cay_new(struct wake_as);
    self->who = who;
    self->out_user = out_user;
    self->awake = awake;
    self->context = context;
    cay_wake(session, call, needs_sandbox, awake_as, self);
}

const struct cay_session_part cay_users_part = {.free = free_known};
