/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdlib.h>

#include "host/file/tree.h"
#include "host/file/users.h"
#include "host/file/verbs.h"
#include "host/live/watching.h"
#include "host/session/endless.h"
#include "host/session/host.h"

/* FileService.WatchDir: changes as they come, as fast as the client takes them. */

enum { HEARTBEAT_MS = 30'000 };

struct watch_dir {
    struct cay_op op;
    struct cay_watch_member member;
    struct cay_session_tree tree;
    struct cay_watches *set;
    struct cay_session *session;
    struct cay_call *call;
    struct cay_timer silence;
    int64_t directories;
    bool is_member;
    bool is_full;
    bool is_busy;           /* what ends it meanwhile is heard afterwards: settle() */
    struct cay_error ended; /* with the session's files */
};

static void end(struct watch_dir *self, const struct cay_error *err)
{
    struct cay_call *call = self->call;
    if (self->is_member)
        cay_watching_leave(self->session, &self->member);
    cay_timer_close(&self->silence);
    free(self->member.watcher);
    free(self);
    if (err)
        cay_call_fail(call, err);
    else
        cay_call_done(call, NULL);
}

static void end_cancelled(struct watch_dir *self)
{
    struct cay_error err = {};
    cay_fail(&err, CAY_R_CANCELED, NULL);
    end(self, &err);
}

/* False: it has ended meanwhile, or the caller is gone, and so is `self`. */
static bool settle(struct watch_dir *self)
{
    self->is_busy = false;
    if (self->ended.reason) {
        struct cay_error err = self->ended;
        end(self, &err);
        return false;
    }
    if (!self->call->is_cancelled)
        return true;
    end_cancelled(self);
    return false;
}

static bool send(struct watch_dir *self, const struct cay_v1_watch_dir_response *response)
{
    self->is_busy = true;
    self->is_full = !cay_call_send(self->call, response);
    cay_timer_start(&self->silence, HEARTBEAT_MS, HEARTBEAT_MS);
    return settle(self);
}

static bool send_overflow(struct watch_dir *self)
{
    struct cay_v1_watch_overflow overflow = {};
    const struct cay_v1_watch_dir_response response = {
        .which_frame = CAY_V1_WATCH_DIR_RESPONSE_FRAME_OVERFLOW, .frame.overflow = &overflow};
    self->member.is_overflowed = false;
    return send(self, &response);
}

static bool send_event(struct watch_dir *self)
{
    struct cay_list_node *node = cay_list_pop_front(&self->member.ready);
    assert(node);
    struct cay_watch_item *item = CAY_CONTAINER_OF(node, struct cay_watch_item, in_queue);
    cay_auto(cay_arena_finish) struct cay_arena arena;
    struct cay_v1_file_event event = {};
    cay_arena_init(&arena, 1 << 20);
    self->member.ready_count--;
    bool is_good = cay_pb_decode(&cay_v1_file_event_desc, (struct cay_str){item->bytes, item->len},
                                 &arena, &event) == 0;
    const struct cay_v1_watch_dir_response response = {
        .which_frame = CAY_V1_WATCH_DIR_RESPONSE_FRAME_EVENT, .frame.event = &event};
    bool is_there = !is_good || send(self, &response);
    free(item);
    return is_there;
}

static void tell(struct watch_dir *self)
{
    struct cay_watch_member *member = &self->member;
    while (!self->is_full && member->is_overflowed) {
        if (!send_overflow(self))
            return;
    }
    while (!self->is_full && member->ready_count) {
        if (!send_event(self))
            return;
    }
    if (member->is_gone && !member->ready_count && !member->is_overflowed)
        end(self, NULL);
}

static void on_changed(struct cay_watch_member *member)
{
    tell(CAY_CONTAINER_OF(member, struct watch_dir, member));
}

static void on_ended(struct cay_watch_member *member, const struct cay_error *err)
{
    struct watch_dir *self = CAY_CONTAINER_OF(member, struct watch_dir, member);
    self->is_member = false;
    if (self->is_busy)
        self->ended = *err;
    else
        end(self, err);
}

static void on_room(struct cay_call *call)
{
    struct watch_dir *self = call->state;
    self->is_full = false;
    if (self->is_member && !self->is_busy)
        tell(self);
}

static void on_cancel(struct cay_call *call)
{
    struct watch_dir *self = call->state;
    if (self->is_member && !self->is_busy)
        end_cancelled(self);
}

static void on_silence(struct cay_timer *timer)
{
    struct watch_dir *self = CAY_CONTAINER_OF(timer, struct watch_dir, silence);
    struct cay_v1_heartbeat heartbeat = {};
    const struct cay_v1_watch_dir_response response = {
        .which_frame = CAY_V1_WATCH_DIR_RESPONSE_FRAME_HEARTBEAT, .frame.heartbeat = &heartbeat};
    if (!self->is_full)
        (void)send(self, &response);
}

static bool watch_begin(struct cay_op *op, struct cay_error *err)
{
    struct watch_dir *self = CAY_CONTAINER_OF(op, struct watch_dir, op);
    if (cay_watching_count(op->session) >= CAY_LIMIT_WATCHES)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                        "the session is watched %d times already; end a watch first",
                        CAY_LIMIT_WATCHES);
    if (!cay_session_tree_open(&self->tree, op->session, CAY_STR(""), err))
        return false;
    self->set = cay_watching_set(op->session);
    return true;
}

static bool watch_work(struct cay_op *op, struct cay_error *err)
{
    struct watch_dir *self = CAY_CONTAINER_OF(op, struct watch_dir, op);
    const struct cay_v1_watch_dir_request *request = op->call->request;
    struct cay_watcher *watcher = self->member.watcher;
    watcher->user = self->tree.user;
    watcher->is_recursive = request->recursive;
    watcher->wants_info = request->include_info;
    /* What was not reached when the caller left is not missed: all of it goes in watch_end. */
    cay_op_watch(op);
    bool is_added = cay_watches_add(self->set, watcher, &self->tree.tree, request->path,
                                    &self->directories, err);
    return cay_op_unwatch(op, is_added, err);
}

static void watch_end(struct cay_op *op)
{
    struct watch_dir *self = CAY_CONTAINER_OF(op, struct watch_dir, op);
    struct cay_call *call = op->call;
    struct cay_error err = op->err;
    bool is_done = op->is_done;
    if (is_done) {
        self->session = op->session;
        self->member.changed = on_changed;
        self->member.ended = on_ended;
        self->is_member = true;
        cay_watching_join(op->session, &self->member);
    }
    self->is_busy = true;
    cay_op_leave(op); /* who waited to destroy the session ends all its watches inside */
    if (!is_done) {
        end(self, &err);
        return;
    }
    if (!settle(self))
        return;
    struct cay_v1_watch_started started = {.directories = self->directories};
    const struct cay_v1_watch_dir_response response = {
        .which_frame = CAY_V1_WATCH_DIR_RESPONSE_FRAME_STARTED, .frame.started = &started};
    cay_timer_open(&self->silence, op->host->loop, on_silence);
    call->on_room = on_room;
    cay_host_endless(op->host, call);
    (void)send(self, &response);
}

static const struct cay_op_steps watch_steps = {
    .begin = watch_begin,
    .work = watch_work,
    .end = watch_end,
};

static void awake(struct cay_call *call, struct cay_session *session, void *context,
                  const struct cay_error *err)
{
    struct watch_dir *self = context;
    if (err)
        end(self, err);
    else
        cay_op_start_on(&self->op, session, call, CAY_VERB_TOOL, false, &watch_steps);
}

void cay_host_watch_dir(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_watch_dir_request *request = call->request;
    struct cay_session *session = NULL;
    struct cay_error err = {};
    if (!cay_session_check(cay_host_of(service), call, request->session_id, CAY_VERB_TOOL, &session,
                           &err)) {
        cay_call_fail(call, &err);
        return;
    }
    struct watch_dir *self = cay_new(struct watch_dir);
    self->call = call;
    self->member.watcher = cay_new(struct cay_watcher);
    call->state = self;
    call->on_cancel = on_cancel;
    cay_wake_as(session, call, request->user, cay_tree_is_mounted(request->path), &self->tree.user,
                awake, self);
}
