/* SPDX-License-Identifier: Apache-2.0 */
#include "host/past/history.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/limits.h"
#include "api/noun.h"
#include "base/clock.h"
#include "base/log.h"
#include "host/session/host.h"

void cay_history_link(struct cay_session *session, struct cay_snapshot *snapshot)
{
    struct cay_snapshot *before = snapshot->parent;
    struct cay_snapshot *parent = cay_session_snapshot(session, snapshot->spec->parent);
    bool is_new = !cay_list_linked(&snapshot->in_session);
    if (parent == before && !is_new)
        return;
    cay_list_remove(&snapshot->in_parent);
    snapshot->parent = parent;
    if (parent)
        cay_list_push_back(&parent->children, &snapshot->in_parent);
    /* One more at the line is a branch of its own, until it becomes the head. What followed one of
     * the line follows another one of the line now. */
    snapshot->tip = is_new ? snapshot : snapshot->tip;
    if ((before && !before->is_on_line) || (parent && !parent->is_on_line))
        session->is_marked = false;
}

void cay_history_unlink(struct cay_session *session, struct cay_snapshot *snapshot)
{
    cay_list_for_each (struct cay_snapshot, child, &snapshot->children, in_parent) {
        cay_list_remove(&child->in_parent);
        child->parent = NULL;
    }
    cay_list_remove(&snapshot->in_parent);
    if (!snapshot->is_on_line) /* it may be the tip of others */
        session->is_marked = false;
}

void cay_history_set_head(struct cay_session *session, const char *name)
{
    const struct cay_snapshot *before = cay_session_snapshot(session, cay_str(session->head));
    struct cay_snapshot *head = cay_session_snapshot(session, cay_str(name));
    if (head && head != before && head->parent == before && cay_list_empty(&head->children)) {
        head->is_on_line = true;
        head->tip = NULL;
    } else if (head != before) {
        session->is_marked = false;
    }
    snprintf(session->head, sizeof(session->head), "%s", name);
}

void cay_point_set(struct cay_point *point, const struct cay_snapshot *snapshot)
{
    memcpy(point->store_id, snapshot->store_id, sizeof(point->store_id));
    point->total_bytes = snapshot->spec->total_bytes;
}

void cay_point_set_parent(struct cay_point *point, const struct cay_snapshot *parent)
{
    snprintf(point->parent_store_id, sizeof(point->parent_store_id), "%s",
             parent ? parent->store_id : "");
    point->parent_total_bytes = parent ? parent->spec->total_bytes : 0;
}

void cay_history_mark(struct cay_session *session)
{
    if (session->is_marked)
        return;
    session->is_marked = true;
    cay_list_for_each (struct cay_snapshot, snapshot, &session->snapshots, in_session) {
        snapshot->is_on_line = false;
        snapshot->tip = NULL;
    }
    struct cay_snapshot *at = cay_session_snapshot(session, cay_str(session->head));
    for (; at; at = at->parent)
        at->is_on_line = true;
    /* Nobody is older than its parent: from the newest on, the first of a branch to come is its
     * tip, and each passes it on. */
    cay_list_for_each_back(struct cay_snapshot, snapshot, &session->snapshots, in_session)
    {
        if (snapshot->is_on_line)
            continue;
        if (!snapshot->tip)
            snapshot->tip = snapshot;
        struct cay_snapshot *parent = snapshot->parent;
        if (parent && !parent->is_on_line && !parent->tip)
            parent->tip = snapshot->tip;
    }
}

void cay_history_message(const struct cay_session *session, const struct cay_snapshot *snapshot,
                         struct cay_v1_snapshot *out_message)
{
    *out_message = *snapshot->spec;
    out_message->session_id = cay_str(session->id);
    out_message->is_head = strcmp(session->head, snapshot->name) == 0;
    out_message->branch =
        snapshot->tip && !out_message->is_head ? cay_str(snapshot->tip->name) : CAY_STR("");
}

/* Bytes over the base; 0 for the base itself, less than 0 when it could not be measured. */
static int64_t total_of(struct cay_store *store, const char *store_id, int64_t known)
{
    const struct cay_store_ref ref = {.snapshot = store_id};
    struct cay_store_usage usage;
    struct cay_error ignored = {};
    if (known || !store_id[0])
        return known;
    if (!cay_store_usage(store, &ref, &usage, &ignored))
        return -1;
    return (int64_t)(usage.own_bytes + usage.history_bytes);
}

struct cay_point_size cay_history_measure(struct cay_store *store, const struct cay_point *point)
{
    int64_t total = total_of(store, point->store_id, point->total_bytes);
    int64_t before =
        total < 0 ? -1 : total_of(store, point->parent_store_id, point->parent_total_bytes);
    if (before < 0)
        return (struct cay_point_size){};
    return (struct cay_point_size){
        .own_bytes = CAY_MAX(total - before, INT64_C(0)),
        .total_bytes = total,
    };
}
