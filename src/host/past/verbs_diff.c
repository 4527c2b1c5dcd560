/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "api/limits.h"
#include "api/noun.h"
#include "host/base/base_record.h"
#include "host/past/change.h"
#include "host/past/snapshot.h"
#include "host/past/snapshot_name.h"
#include "host/past/verbs.h"
#include "host/session/host.h"
#include "host/session/op.h"
#include "host/store/diff_patch.h"
#include "tool/tree/path.h"

/*
 * What changed between two points. A worker walks and collects into the call's arena, whose ceiling
 * bounds the answer; the loop thread then sends as fast as the reader takes.
 */

enum {
    ENTRIES_MAX = 100'000,
    PATCH_BYTES_DEFAULT = 1024 * 1024,
};

struct found {
    struct found *next;
    struct cay_v1_diff_entry entry;
};

struct diff_op {
    struct cay_op op;
    char from_id[CAY_STORE_ID_SIZE];
    char to_id[CAY_STORE_ID_SIZE];
    bool from_is_base;
    bool to_is_live;
    size_t patch_bytes_max; /* of one file */
    int64_t entries_left;
    struct found *first;
    struct found *last;
    struct cay_v1_diff_stats stats;
    bool is_full; /* the arena */
    bool is_sending;
    bool is_inside; /* a send, which may cancel the call */
};

static struct diff_op *diff_of(struct cay_op *op)
{
    return CAY_CONTAINER_OF(op, struct diff_op, op);
}

static bool find_point(const struct cay_session *session, struct cay_str name,
                       char out_id[CAY_STORE_ID_SIZE], struct cay_error *err)
{
    const struct cay_snapshot *snapshot = cay_find_snapshot(session, name, err);
    if (snapshot)
        memcpy(out_id, snapshot->store_id, CAY_STORE_ID_SIZE);
    return snapshot != NULL;
}

/* What a diff begins at when the caller does not say: the parent of a snapshot, or what the live
 * tree stands on. */
static struct cay_str default_from(const struct cay_session *session, struct cay_str to)
{
    const struct cay_snapshot *snapshot = cay_session_snapshot(session, to);
    return snapshot ? snapshot->spec->parent : cay_str(session->head);
}

/* From: a snapshot, "base", or (empty) the default. To: a snapshot or (empty) the live tree. */
static bool diff_begin(struct cay_op *op, struct cay_error *err)
{
    struct diff_op *self = diff_of(op);
    const struct cay_v1_diff_snapshots_request *request = op->call->request;
    const struct cay_session *session = op->session;
    struct cay_str from = request->from_snapshot.len ? request->from_snapshot
                                                     : default_from(session, request->to_snapshot);
    if (!from.len || cay_snapshot_name_is_base(from)) {
        self->from_is_base = true;
        memcpy(self->from_id, session->store_id, sizeof(self->from_id));
    } else if (!find_point(session, from, self->from_id, err)) {
        return false;
    }
    self->to_is_live = request->to_snapshot.len == 0;
    if (self->to_is_live)
        memcpy(self->to_id, session->store_id, sizeof(self->to_id));
    else if (!find_point(session, request->to_snapshot, self->to_id, err))
        return false;
    self->entries_left = request->max_entries > 0 && request->max_entries < ENTRIES_MAX
                             ? request->max_entries
                             : ENTRIES_MAX;
    self->patch_bytes_max =
        request->max_patch_bytes > 0 ? (size_t)request->max_patch_bytes : PATCH_BYTES_DEFAULT;
    return true;
}

static void read_patch(struct cay_v1_diff_entry *entry)
{
    struct cay_str rest = entry->patch;
    struct cay_str line;
    bool in_hunk = false;
    while (cay_str_split(&rest, '\n', &line)) {
        in_hunk = in_hunk || cay_str_starts(line, "@@");
        entry->binary = entry->binary || (!in_hunk && cay_str_starts(line, "Binary files "));
        if (in_hunk && cay_str_starts(line, "+"))
            entry->lines_added++;
        else if (in_hunk && cay_str_starts(line, "-"))
            entry->lines_removed++;
    }
}

static void add_patch(struct diff_op *self, const struct cay_diff_entry *change,
                      struct cay_v1_diff_entry *entry)
{
    cay_auto(cay_buf_finish) struct cay_buf patch;
    struct cay_error ignored = {};
    const struct cay_v1_diff_snapshots_request *request = self->op.call->request;
    size_t context =
        request->has_context_lines ? (size_t)request->context_lines : CAY_PATCH_CONTEXT;
    cay_buf_init(&patch, self->patch_bytes_max);
    if (!cay_diff_patch(change, context, &patch, &ignored) || patch.failed) {
        entry->patch_truncated = true;
        return;
    }
    entry->patch = cay_path_text(&self->op.call->arena, cay_buf_str(&patch));
    if (!entry->patch.ptr) {
        self->is_full = true;
        entry->patch = CAY_STR("");
    }
    read_patch(entry);
}

static void count_entry(struct diff_op *self, const struct cay_v1_diff_entry *entry)
{
    struct cay_v1_diff_stats *stats = &self->stats;
    switch (entry->kind) {
    case CAY_V1_DIFF_KIND_ADDED: stats->added++; break;
    case CAY_V1_DIFF_KIND_MODIFIED: stats->modified++; break;
    case CAY_V1_DIFF_KIND_DELETED: stats->deleted++; break;
    case CAY_V1_DIFF_KIND_TYPE_CHANGED: stats->type_changed++; break;
    case CAY_V1_DIFF_KIND_MODE_CHANGED: stats->mode_changed++; break;
    case CAY_V1_DIFF_KIND_UNSPECIFIED: break;
    }
    stats->too_deep += entry->too_deep;
    stats->lines_added += entry->lines_added;
    stats->lines_removed += entry->lines_removed;
}

static bool on_change(void *context, const struct cay_diff_entry *change)
{
    struct diff_op *self = context;
    struct cay_arena *arena = &self->op.call->arena;
    const struct cay_v1_diff_snapshots_request *request = self->op.call->request;
    if (!cay_change_is_wanted(request->paths, cay_str(change->path)))
        return true;
    if (self->entries_left-- <= 0) {
        self->stats.truncated = true;
        return false;
    }
    struct found *found = cay_arena_new(arena, struct found);
    if (!found || !cay_change_message(change, arena, &found->entry)) {
        self->is_full = true;
        return false;
    }
    struct cay_v1_diff_entry *entry = &found->entry;
    if (request->patch)
        add_patch(self, change, entry);
    count_entry(self, entry);
    if (request->stats_only)
        return true;
    if (self->last)
        self->last->next = found;
    else
        self->first = found;
    self->last = found;
    return true;
}

static bool diff_work(struct cay_op *op, struct cay_error *err)
{
    struct diff_op *self = diff_of(op);
    int64_t started_ns = cay_clock_ns();
    const struct cay_diff_request request = {
        .from.origin = self->from_is_base ? self->from_id : NULL,
        .from.snapshot = self->from_is_base ? NULL : self->from_id,
        .to.snapshot = self->to_is_live ? NULL : self->to_id,
        .to.session = self->to_is_live ? self->to_id : NULL,
        .visit = on_change,
        .ctx = self,
    };
    struct cay_diff_stats stats = {};
    if (!cay_store_diff(op->host->store, &request, &stats, err))
        return false;
    if (self->is_full)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                        "the difference is too large for one answer; name paths, or ask for "
                        "stats_only");
    self->stats.entries_visited = (int64_t)stats.entries_visited;
    self->stats.duration = cay_noun_duration(&op->call->arena, cay_clock_ns() - started_ns);
    return true;
}

static void cancel(struct diff_op *self)
{
    struct cay_call *call = self->op.call;
    struct cay_error err = {};
    free(self);
    cay_fail(&err, CAY_R_CANCELED, NULL);
    cay_call_fail(call, &err);
}

/* False when the reader has enough for now. The call may be cancelled inside. */
static bool send(struct diff_op *self, const struct cay_v1_diff_snapshots_response *response)
{
    self->is_inside = true;
    bool has_room = cay_call_send_kept(self->op.call, response);
    self->is_inside = false;
    return has_room;
}

/* Sends until the reader has enough, or all of it. */
static void send_more(struct diff_op *self)
{
    struct cay_call *call = self->op.call;
    bool has_room = true;
    while (self->first && has_room && !call->is_cancelled) {
        struct cay_v1_diff_snapshots_response response = {
            .which_frame = CAY_V1_DIFF_SNAPSHOTS_RESPONSE_FRAME_ENTRY,
            .frame.entry = &self->first->entry,
        };
        self->first = self->first->next;
        has_room = send(self, &response);
    }
    if ((self->first || !has_room) && !call->is_cancelled)
        return; /* on_room goes on */
    struct cay_v1_diff_snapshots_response end = {
        .which_frame = CAY_V1_DIFF_SNAPSHOTS_RESPONSE_FRAME_STATS, .frame.stats = &self->stats};
    if (!call->is_cancelled)
        (void)send(self, &end);
    if (call->is_cancelled) {
        cancel(self);
        return;
    }
    free(self);
    cay_call_done(call, NULL);
}

static void on_room(struct cay_call *call)
{
    send_more(call->state);
}

static void on_cancel(struct cay_call *call)
{
    struct diff_op *self = call->state;
    if (self->is_sending && !self->is_inside) /* else whoever is at it will see */
        cancel(self);
}

static void diff_end(struct cay_op *op)
{
    struct diff_op *self = diff_of(op);
    struct cay_call *call = op->call;
    struct cay_error err = op->err;
    bool is_done = op->is_done && !call->is_cancelled;
    cay_op_leave(op);
    if (is_done) {
        self->is_sending = true;
        call->on_room = on_room;
        send_more(self);
        return;
    }
    if (!err.reason)
        cay_fail(&err, CAY_R_CANCELED, NULL);
    free(self);
    cay_call_fail(call, &err);
}

static const struct cay_op_steps diff_steps = {
    .begin = diff_begin,
    .work = diff_work,
    .end = diff_end,
    .ends_with_call = true,
    .is_search = true,
};

static bool check_request(const struct cay_v1_diff_snapshots_request *request,
                          struct cay_error *err)
{
    if (request->context_lines < 0 || request->context_lines > CAY_PATCH_CONTEXT_MAX)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "context_lines must be 0 to %d",
                        CAY_PATCH_CONTEXT_MAX);
    if (request->max_patch_bytes < 0 || request->max_patch_bytes > CAY_LIMIT_PATCH_BYTES)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "max_patch_bytes: %d at most",
                        CAY_LIMIT_PATCH_BYTES);
    if (request->paths.count > CAY_LIMIT_DIFF_PATHS)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "paths: %d at most", CAY_LIMIT_DIFF_PATHS);
    if (request->max_entries < 0)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "max_entries: it must not be negative");
    return true;
}

void cay_host_diff_snapshots(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_diff_snapshots_request *request = call->request;
    struct cay_error err = {};
    if (!check_request(request, &err)) {
        cay_call_fail(call, &err);
        return;
    }
    struct diff_op *self = cay_new(struct diff_op);
    call->state = self;
    call->on_cancel = on_cancel;
    cay_op_start(&self->op, cay_host_of(service), call, request->session_id, CAY_VERB_LOOK, false,
                 &diff_steps);
}
