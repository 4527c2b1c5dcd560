/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "host/file/tree.h"
#include "host/file/users.h"
#include "host/file/verbs.h"
#include "host/session/host.h"
#include "tool/tree/files.h"

/* FileService's calls of one step: a request in, a response out, a worker between them. */

struct file_op;

struct file_verb {
    struct cay_str (*session_id)(const void *request);
    struct cay_str (*user)(const void *request);
    struct cay_str (*path)(const void *request);
    struct cay_str (*snapshot)(const void *request); /* NULL: only of the live files */
    bool (*work)(struct file_op *self, struct cay_error *err);
    const struct cay_op_steps *steps;
};

struct file_op {
    struct cay_op op;
    const struct file_verb *verb;
    struct cay_session_tree tree;
    struct cay_past_tree past;
    bool is_past;
    struct cay_arena *arena;
    const void *request;
    union {
        struct cay_v1_stat_file_response stat;
        struct cay_v1_list_dir_response list;
        struct cay_v1_make_dir_response make;
        struct cay_v1_make_symlink_response link;
        struct cay_v1_move_file_response move;
        struct cay_v1_remove_file_response remove;
    } response;
};

static bool file_begin(struct cay_op *op, struct cay_error *err)
{
    struct file_op *self = CAY_CONTAINER_OF(op, struct file_op, op);
    if (self->is_past)
        return cay_past_tree_begin(&self->past, op->session, self->verb->snapshot(self->request),
                                   self->verb->user(self->request), err);
    return cay_session_tree_open(&self->tree, op->session, CAY_STR(""), err);
}

static bool file_work(struct cay_op *op, struct cay_error *err)
{
    struct file_op *self = CAY_CONTAINER_OF(op, struct file_op, op);
    return (!self->is_past || cay_past_tree_show(&self->past, op->host->store, &self->tree, err)) &&
           self->verb->work(self, err);
}

static void file_end(struct cay_op *op)
{
    struct file_op *self = CAY_CONTAINER_OF(op, struct file_op, op);
    struct cay_call *call = op->call;
    struct cay_error err = op->err;
    bool is_done = op->is_done;
    if (self->is_past)
        cay_past_tree_close(&self->past, op->host);
    cay_op_leave(op);
    if (is_done)
        cay_call_done_kept(call, &self->response);
    else
        cay_call_fail(call, &err);
    free(self);
}

static const struct cay_op_steps change_steps = {
    .begin = file_begin,
    .work = file_work,
    .end = file_end,
};

static const struct cay_op_steps look_steps = {
    .begin = file_begin,
    .work = file_work,
    .end = file_end,
    .ends_with_call = true,
};

static void file_awake(struct cay_call *call, struct cay_session *session, void *context,
                       const struct cay_error *err)
{
    struct file_op *self = context;
    if (err) {
        cay_call_fail(call, err);
        free(self);
        return;
    }
    cay_op_start_on(&self->op, session, call, CAY_VERB_TOOL, false, self->verb->steps);
}

static void start(struct cay_service *service, struct cay_call *call, const struct file_verb *verb)
{
    struct cay_session *session = NULL;
    struct cay_error err = {};
    bool is_past = verb->snapshot && verb->snapshot(call->request).len;
    if (!cay_session_check(cay_host_of(service), call, verb->session_id(call->request),
                           is_past ? CAY_VERB_LOOK : CAY_VERB_TOOL, &session, &err)) {
        cay_call_fail(call, &err);
        return;
    }
    struct file_op *self = cay_new(struct file_op);
    self->verb = verb;
    self->arena = &call->arena;
    self->request = call->request;
    self->is_past = is_past;
    self->past.root_fd = -1;
    if (is_past) {
        cay_op_start_on(&self->op, session, call, CAY_VERB_LOOK, false, verb->steps);
        return;
    }
    cay_wake_as(session, call, verb->user(call->request),
                cay_tree_is_mounted(verb->path(call->request)), &self->tree.user, file_awake, self);
}

/* Where the common fields stand in each request. */
#define FILE_REQUEST(name, path_member)                                        \
    static struct cay_str name##_session(const void *request)                  \
    {                                                                          \
        return ((const struct cay_v1_##name##_request *)request)->session_id;  \
    }                                                                          \
    static struct cay_str name##_user(const void *request)                     \
    {                                                                          \
        return ((const struct cay_v1_##name##_request *)request)->user;        \
    }                                                                          \
    static struct cay_str name##_path(const void *request)                     \
    {                                                                          \
        return ((const struct cay_v1_##name##_request *)request)->path_member; \
    }

FILE_REQUEST(stat_file, path)
FILE_REQUEST(list_dir, path)
FILE_REQUEST(make_dir, path)
FILE_REQUEST(make_symlink, path)
FILE_REQUEST(move_file, destination)
FILE_REQUEST(remove_file, path)

static struct cay_str stat_file_snapshot(const void *request)
{
    return ((const struct cay_v1_stat_file_request *)request)->snapshot;
}

static struct cay_str list_dir_snapshot(const void *request)
{
    return ((const struct cay_v1_list_dir_request *)request)->snapshot;
}

static bool stat_work(struct file_op *self, struct cay_error *err)
{
    const struct cay_v1_stat_file_request *request = self->request;
    self->response.stat.info = cay_arena_new(self->arena, struct cay_v1_file_info);
    if (!self->response.stat.info)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    return cay_files_stat(&self->tree.tree, request->path, request->follow, self->arena,
                          self->response.stat.info, err);
}

static bool list_work(struct file_op *self, struct cay_error *err)
{
    return cay_files_list(&self->tree.tree, self->request, self->arena, &self->response.list, err);
}

static bool make_work(struct file_op *self, struct cay_error *err)
{
    self->tree.tree.is_as_root = ((const struct cay_v1_make_dir_request *)self->request)->as_root;
    return cay_files_make_dir(&self->tree.tree, self->request, self->arena, &self->response.make,
                              err);
}

static bool link_work(struct file_op *self, struct cay_error *err)
{
    return cay_files_make_symlink(&self->tree.tree, self->request, self->arena,
                                  &self->response.link, err);
}

static bool move_work(struct file_op *self, struct cay_error *err)
{
    return cay_files_move(&self->tree.tree, self->request, self->arena, &self->response.move, err);
}

static bool remove_work(struct file_op *self, struct cay_error *err)
{
    const struct cay_v1_remove_file_request *request = self->request;
    /* What is gone by then stays gone. */
    cay_op_watch(&self->op);
    bool is_done = cay_files_remove(&self->tree.tree, request->path, request->recursive,
                                    request->missing_ok, &self->response.remove.removed, err);
    return cay_op_unwatch(&self->op, is_done, err);
}

#define FILE_VERB(name, request, when, does, as)                           \
    static const struct file_verb name = {.session_id = request##_session, \
                                          .user = request##_user,          \
                                          .path = request##_path,          \
                                          .snapshot = when,                \
                                          .work = does,                    \
                                          .steps = &as}

FILE_VERB(stat_verb, stat_file, stat_file_snapshot, stat_work, look_steps);
FILE_VERB(list_verb, list_dir, list_dir_snapshot, list_work, look_steps);
FILE_VERB(make_verb, make_dir, NULL, make_work, change_steps);
FILE_VERB(link_verb, make_symlink, NULL, link_work, change_steps);
FILE_VERB(move_verb, move_file, NULL, move_work, change_steps);
FILE_VERB(remove_verb, remove_file, NULL, remove_work, change_steps);

void cay_host_stat_file(struct cay_service *service, struct cay_call *call)
{
    start(service, call, &stat_verb);
}

void cay_host_list_dir(struct cay_service *service, struct cay_call *call)
{
    start(service, call, &list_verb);
}

void cay_host_make_symlink(struct cay_service *service, struct cay_call *call)
{
    start(service, call, &link_verb);
}

void cay_host_make_dir(struct cay_service *service, struct cay_call *call)
{
    start(service, call, &make_verb);
}

void cay_host_move_file(struct cay_service *service, struct cay_call *call)
{
    start(service, call, &move_verb);
}

void cay_host_remove_file(struct cay_service *service, struct cay_call *call)
{
    start(service, call, &remove_verb);
}
