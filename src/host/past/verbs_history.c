/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "api/limits.h"
#include "api/noun.h"
#include "base/crash.h"
#include "base/stop.h"
#include "host/past/history.h"
#include "host/past/snapshot.h"
#include "host/past/verbs.h"
#include "host/past/victims.h"
#include "host/session/host.h"
#include "host/session/op.h"
#include "host/session/request.h"
#include "host/session/tell.h"
#include "host/session/tidy.h"

/* --- deleting --- */

struct delete_op {
    struct cay_op op;
    char session_id[CAY_ID_SIZE];
    struct cay_victims victims;
    bool is_dry;
    int64_t bytes;
};

static struct delete_op *delete_of(struct cay_op *op)
{
    return CAY_CONTAINER_OF(op, struct delete_op, op);
}

static bool choose_named(struct delete_op *self, struct cay_session *session,
                         const struct cay_v1_delete_snapshot_request *request,
                         struct cay_error *err)
{
    for (size_t i = 0; i < request->snapshots.count; i++) {
        struct cay_snapshot *snapshot =
            cay_find_snapshot(session, request->snapshots.items[i], err);
        if (!snapshot)
            return false;
        if (strcmp(session->head, snapshot->name) == 0)
            return cay_fail(err, CAY_R_SNAPSHOT_IN_USE,
                            "the files of session '%s' descend from '%s'; take another snapshot or "
                            "roll back first",
                            session->id, snapshot->name);
        if (!cay_victims_add(&self->victims, session, snapshot, err))
            return false;
    }
    return true;
}

static bool delete_begin(struct cay_op *op, struct cay_error *err)
{
    struct delete_op *self = delete_of(op);
    const struct cay_v1_delete_snapshot_request *request = op->call->request;
    memcpy(self->session_id, op->session->id, sizeof(self->session_id));
    if (!choose_named(self, op->session, request, err))
        return false;
    if (request->prune)
        cay_victims_add_by_rule(&self->victims, op->session, request->prune);
    self->is_dry = request->dry_run;
    cay_victims_settle(&self->victims, op->session);
    return self->is_dry || cay_victims_find_heirs(&self->victims, op->session, err);
}

static bool delete_work(struct cay_op *op, struct cay_error *err)
{
    struct delete_op *self = delete_of(op);
    struct cay_host *host = op->host;
    cay_op_watch(op);
    self->bytes = cay_victims_bytes(&self->victims, host->store);
    (void)cay_stop_watch(NULL);
    if (self->is_dry || !self->victims.count)
        return true;
    if (!cay_db_transaction_begin(host->db, err) ||
        !cay_db_transaction_end(
            host->db, cay_victims_unrecord(&self->victims, host->db, self->session_id, err), err))
        return cay_wrap(err, "delete snapshots of session '%s'", self->session_id);
    CAY_CRASH_POINT("delete.recorded");
    cay_victims_delete(&self->victims, host->store);
    return true;
}

static void delete_end(struct cay_op *op)
{
    struct delete_op *self = delete_of(op);
    if (op->is_done) {
        struct cay_v1_delete_snapshot_response response = {
            .deleted = cay_victims_names(&self->victims, &op->call->arena),
            .freed_bytes = self->bytes,
        };
        if (!self->is_dry) {
            for (size_t i = 0; i < self->victims.count; i++)
                cay_tell(op->host,
                         &(struct cay_happening){.type = "snapshot.deleted",
                                                 .session = op->session,
                                                 .call = op->call,
                                                 .snapshot = self->victims.items[i].name});
            cay_victims_forget(&self->victims, op->session);
            cay_host_collect_soon(op->host);
        }
        cay_call_done_kept(op->call, &response);
    } else {
        cay_call_fail(op->call, &op->err);
    }
    cay_victims_finish(&self->victims);
    cay_op_leave(op);
    free(self);
}

static const struct cay_op_steps delete_steps = {
    .begin = delete_begin,
    .work = delete_work,
    .end = delete_end,
};

static bool check_rule(const struct cay_v1_prune_rule *rule, struct cay_error *err)
{
    if (rule && ((rule->has_keep_turns && rule->keep_turns < 0) ||
                 (rule->has_keep_tools && rule->keep_tools < 0)))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "prune: a number to keep is 0 or more");
    return true;
}

void cay_host_delete_snapshot(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_delete_snapshot_request *request = call->request;
    struct cay_error err = {};
    if ((request->snapshots.count > CAY_LIMIT_PAGE_SIZE &&
         !cay_fail(&err, CAY_R_INVALID_ARGUMENT, "snapshots: %d at most", CAY_LIMIT_PAGE_SIZE)) ||
        (!request->snapshots.count && !request->prune &&
         !cay_fail(&err, CAY_R_INVALID_ARGUMENT,
                   "name snapshots, or give a rule that chooses them")) ||
        !check_rule(request->prune, &err)) {
        cay_call_fail(call, &err);
        return;
    }
    struct delete_op *self = cay_new(struct delete_op);
    cay_victims_init(&self->victims);
    cay_op_start(&self->op, cay_host_of(service), call, request->session_id, CAY_VERB_SNAPSHOT,
                 true, &delete_steps);
}

/* --- holding --- */

struct hold_op {
    struct cay_op op;
    struct cay_snapshot_record record;
    struct cay_snapshot *snapshot; /* alone in the gate: it stays */
    struct cay_v1_snapshot spec;   /* as it will be; borrows from the present one */
    struct cay_v1_snapshot words;  /* in the call's arena */
};

static struct hold_op *hold_of(struct cay_op *op)
{
    return CAY_CONTAINER_OF(op, struct hold_op, op);
}

static bool hold_begin(struct cay_op *op, struct cay_error *err)
{
    struct hold_op *self = hold_of(op);
    const struct cay_v1_hold_snapshot_request *request = op->call->request;
    self->snapshot = cay_find_snapshot(op->session, request->snapshot, err);
    if (!self->snapshot)
        return false;
    self->spec = *self->snapshot->spec;
    self->spec.held = !request->release;
    return cay_snapshot_record_take(&self->record, op->session, self->snapshot, &self->spec, err);
}

static bool hold_work(struct cay_op *op, struct cay_error *err)
{
    struct hold_op *self = hold_of(op);
    return cay_snapshot_read_words(op->host->db, cay_str(self->record.session_id),
                                   cay_str(self->record.name), &op->call->arena, &self->words, NULL,
                                   err) &&
           cay_snapshot_record_put(op->host->db, &self->record, err);
}

static void hold_end(struct cay_op *op)
{
    struct hold_op *self = hold_of(op);
    if (op->is_done) {
        cay_snapshot_set_spec(op->session, self->snapshot, &self->spec);
        cay_tell(op->host, &(struct cay_happening){.type = self->spec.held ? "snapshot.held"
                                                                           : "snapshot.released",
                                                   .session = op->session,
                                                   .call = op->call,
                                                   .snapshot = self->snapshot->name});
        struct cay_v1_snapshot message;
        cay_history_mark(op->session);
        cay_history_message(op->session, self->snapshot, &message);
        message.message = self->words.message;
        message.metadata = self->words.metadata;
        struct cay_v1_hold_snapshot_response response = {.snapshot = &message};
        cay_call_done(op->call, &response);
    } else {
        cay_call_fail(op->call, &op->err);
    }
    cay_snapshot_record_finish(&self->record);
    cay_op_leave(op);
    free(self);
}

static const struct cay_op_steps hold_steps = {
    .begin = hold_begin,
    .work = hold_work,
    .end = hold_end,
};

void cay_host_hold_snapshot(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_hold_snapshot_request *request = call->request;
    struct hold_op *self = cay_new(struct hold_op);
    cay_op_start(&self->op, cay_host_of(service), call, request->session_id, CAY_VERB_SNAPSHOT,
                 true, &hold_steps);
}

/* --- listing --- */

struct list_op {
    struct cay_op op;
    struct cay_v1_list_snapshots_response response; /* in the call's arena */
    struct cay_point *points;                       /* its snapshots */
    size_t page_size;
};

static struct list_op *list_of(struct cay_op *op)
{
    return CAY_CONTAINER_OF(op, struct list_op, op);
}

static bool fits(const struct cay_v1_list_snapshots_request *request,
                 const struct cay_snapshot *snapshot)
{
    struct cay_str branch = snapshot->tip ? cay_str(snapshot->tip->name) : CAY_STR("");
    if (request->has_branch && !cay_str_equal(request->branch, branch))
        return false;
    bool has_kind = request->kinds.count == 0;
    for (size_t i = 0; i < request->kinds.count; i++)
        has_kind = has_kind || request->kinds.items[i] == snapshot->spec->kind;
    return has_kind;
}

/* Sessions that were forked from snapshots of the page. */
static void add_forks(struct list_op *self, const struct cay_session *session)
{
    struct cay_arena *arena = &self->op.call->arena;
    struct cay_map by_name;
    cay_map_init(&by_name);
    cay_list_for_each (struct cay_session, other, &session->host->sessions.list, in_table) {
        if (other->is_gone || !cay_str_is(other->spec->parent_session_id, session->id))
            continue;
        /* Made for the first of them: most have none. */
        for (size_t i = cay_map_count(&by_name); i < self->response.snapshots.count; i++)
            cay_map_put(&by_name, self->response.snapshots.items[i].name,
                        &self->response.snapshots.items[i]);
        struct cay_v1_snapshot *message = cay_map_get(&by_name, other->spec->parent_snapshot);
        if (message && !message->forks.items)
            message->forks.items =
                cay_arena_array(arena, CAY_LIMIT_FORKS_LISTED, sizeof(struct cay_str));
        if (message && message->forks.items && message->forks.count < CAY_LIMIT_FORKS_LISTED)
            message->forks.items[message->forks.count++] = cay_arena_str(arena, cay_str(other->id));
    }
    cay_map_finish(&by_name);
}

/* Snapshots may go while they are measured: the page is a copy. */
static bool add_snapshot(struct list_op *self, const struct cay_session *session,
                         const struct cay_snapshot *snapshot)
{
    struct cay_v1_list_snapshots_response *response = &self->response;
    struct cay_v1_snapshot message;
    cay_history_message(session, snapshot, &message);
    const struct cay_v1_snapshot *copy =
        cay_noun_copy(&cay_v1_snapshot_desc, &message, &self->op.call->arena);
    if (!copy)
        return false;
    struct cay_point *point = &self->points[response->snapshots.count];
    cay_point_set(point, snapshot);
    cay_point_set_parent(point, snapshot->parent);
    response->snapshots.items[response->snapshots.count++] = *copy;
    return true;
}

static bool list_begin(struct cay_op *op, struct cay_error *err)
{
    struct list_op *self = list_of(op);
    const struct cay_v1_list_snapshots_request *request = op->call->request;
    struct cay_session *session = op->session;
    struct cay_v1_list_snapshots_response *response = &self->response;
    bool is_back = request->order == CAY_V1_ORDER_CREATED_DESC;
    if (!(cay_store_caps(session->host->store) & CAY_STORE_SNAPSHOTS))
        return cay_fail(err, CAY_R_SNAPSHOTS_NOT_AVAILABLE, NULL);
    size_t room = CAY_MIN(self->page_size, cay_session_snapshot_count(session));
    response->snapshots.items =
        cay_arena_array(&op->call->arena, room, sizeof(struct cay_v1_snapshot));
    self->points = cay_arena_array(&op->call->arena, room, sizeof(*self->points));
    response->head = cay_arena_str(&op->call->arena, cay_str(session->head));
    if (!response->snapshots.items || !self->points)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    cay_history_mark(session);
    const struct cay_list *list = &session->snapshots;
    struct cay_list_node *node = is_back ? cay_list_prev(list, &list->head) : cay_list_first(list);
    if (request->page_token.len) {
        const struct cay_snapshot *last = cay_session_snapshot(session, request->page_token);
        if (!last)
            return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                            "page_token: the snapshot it names is gone; begin again");
        node = is_back ? cay_list_prev(list, &last->in_session)
                       : cay_list_next(list, &last->in_session);
    }
    for (; node; node = is_back ? cay_list_prev(list, node) : cay_list_next(list, node)) {
        const struct cay_snapshot *snapshot =
            CAY_CONTAINER_OF(node, struct cay_snapshot, in_session);
        if (!fits(request, snapshot))
            continue;
        if (response->snapshots.count == self->page_size) {
            response->next_page_token = response->snapshots.items[self->page_size - 1].name;
            break;
        }
        if (!add_snapshot(self, session, snapshot))
            return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, "page_size: ask for fewer at a time");
    }
    add_forks(self, session);
    return true;
}

static bool add_words_and_sizes(struct cay_op *op, struct cay_error *err)
{
    struct list_op *self = list_of(op);
    struct cay_v1_list_snapshots_response *response = &self->response;
    int64_t bytes = 0;
    for (size_t i = 0; i < response->snapshots.count; i++) {
        struct cay_v1_snapshot *message = &response->snapshots.items[i];
        if (!cay_snapshot_read_words(op->host->db, message->session_id, message->name,
                                     &op->call->arena, message, NULL, err))
            return false;
        bytes += cay_pb_encoded_size(&cay_v1_snapshot_desc, message);
        if (i && bytes > CAY_LIMIT_PAGE_BYTES) {
            response->snapshots.count = i;
            response->next_page_token = response->snapshots.items[i - 1].name;
            return true;
        }
        struct cay_point_size size = cay_history_measure(op->host->store, &self->points[i]);
        message->size_bytes = message->unchanged ? 0 : size.own_bytes;
        message->total_bytes = size.total_bytes;
    }
    return true;
}

/* What was not counted yet, and is much, is left to the background: a list waits for nothing. */
static bool list_work(struct cay_op *op, struct cay_error *err)
{
    cay_stop_after(CAY_POINT_LOOKS_MAX);
    bool is_good = add_words_and_sizes(op, err);
    cay_stop_after(0);
    return is_good;
}

static void list_end(struct cay_op *op)
{
    struct list_op *self = list_of(op);
    if (op->is_done)
        cay_call_done_kept(op->call, &self->response);
    else
        cay_call_fail(op->call, &op->err);
    cay_op_leave(op);
    free(self);
}

static const struct cay_op_steps list_steps = {
    .begin = list_begin,
    .work = list_work,
    .end = list_end,
    .ends_with_call = true,
};

void cay_host_list_snapshots(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_list_snapshots_request *request = call->request;
    struct cay_error err = {};
    if (request->page_size < 0 || request->page_size > CAY_LIMIT_PAGE_SIZE) {
        cay_fail(&err, CAY_R_INVALID_ARGUMENT, "page_size must be 1 to %d", CAY_LIMIT_PAGE_SIZE);
        cay_call_fail(call, &err);
        return;
    }
    struct list_op *self = cay_new(struct list_op);
    self->page_size = request->page_size ? (size_t)request->page_size : CAY_LIMIT_PAGE_SIZE_DEFAULT;
    cay_op_start(&self->op, cay_host_of(service), call, request->session_id, CAY_VERB_LOOK, false,
                 &list_steps);
}
