/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "host/file/tree.h"
#include "host/file/users.h"
#include "host/file/verbs.h"
#include "host/file/verbs_archive.h"
#include "host/owner/account.h"
#include "host/owner/held.h"
#include "host/session/host.h"
#include "host/session/quota.h"
#include "host/session/tidy.h"
#include "tool/tree/files.h"

/*
 * FileService's streams: files in pieces, each piece moved by a worker, the next one only when the
 * peer has room or has sent it. Reading holds nothing of the session but a descriptor. Writing
 * stays inside the gate from open to commit: the new file belongs to the tree it was begun in.
 */

enum { PIECE_BYTES = 256 * 1024 };

struct read_stream {
    struct cay_op op;
    struct cay_job job;
    struct cay_session_tree tree;
    struct cay_past_tree past;
    bool is_past;
    struct cay_v1_file_info info;
    struct cay_call *call;
    struct cay_host *host;
    int fd;
    struct cay_held held;
    int64_t left; /* -1: to the end */
    char *piece;
    ssize_t piece_len; /* -errno: failed */
    bool is_working;
    bool is_let_go; /* its session goes */
};

static void read_free(struct read_stream *self)
{
    cay_held_remove(&self->held);
    cay_host_close_later(self->host, self->fd); /* it may be the last of a large file */
    free(self->piece);
    free(self);
}

static bool read_begin(struct cay_op *op, struct cay_error *err)
{
    struct read_stream *self = CAY_CONTAINER_OF(op, struct read_stream, op);
    const struct cay_v1_read_file_request *request = op->call->request;
    self->job.lane = &op->session->account->lane; /* not its own: it may go before the last piece */
    if (self->is_past)
        return cay_past_tree_begin(&self->past, op->session, request->snapshot, request->user, err);
    return cay_session_tree_open(&self->tree, op->session, CAY_STR(""), err);
}

static bool read_open(struct cay_op *op, struct cay_error *err)
{
    struct read_stream *self = CAY_CONTAINER_OF(op, struct read_stream, op);
    const struct cay_v1_read_file_request *request = op->call->request;
    if (self->is_past && !cay_past_tree_show(&self->past, op->host->store, &self->tree, err))
        return false;
    if (!cay_files_open(&self->tree.tree, request->path, &op->call->arena, &self->info, &self->fd,
                        err))
        return false;
    int64_t size = self->info.size;
    int64_t offset = request->offset < 0 ? size + request->offset : request->offset;
    /* Files of /proc have no size and hold something all the same. */
    if (offset < 0 || (offset > size && size > 0))
        return cay_fail(err, CAY_R_OUT_OF_RANGE, "offset: the file has %lld bytes",
                        (long long)size);
    if (offset && lseek(self->fd, offset, SEEK_SET) < 0)
        return cay_fail_errno(err, CAY_R_OUT_OF_RANGE, -errno, "offset");
    return true;
}

static void piece_work(struct cay_job *job)
{
    struct read_stream *self = CAY_CONTAINER_OF(job, struct read_stream, job);
    size_t want = self->left < 0 ? PIECE_BYTES : (size_t)CAY_MIN(self->left, (int64_t)PIECE_BYTES);
    self->piece_len = want ? read(self->fd, self->piece, want) : 0;
    if (self->piece_len < 0)
        self->piece_len = -errno;
}

static void next_piece(struct read_stream *self)
{
    self->is_working = true;
    cay_loop_submit(self->host->loop, &self->job);
}

static void piece_done(struct cay_job *job)
{
    struct read_stream *self = CAY_CONTAINER_OF(job, struct read_stream, job);
    struct cay_call *call = self->call;
    struct cay_error err = {};
    self->is_working = false;
    if (self->piece_len < 0)
        cay_fail_errno(&err, CAY_R_INTERNAL, (int)self->piece_len, "read the file");
    else if (call->is_cancelled)
        cay_fail(&err, CAY_R_CANCELED, NULL);
    else if (self->is_let_go)
        cay_fail(&err, CAY_R_SESSION_DESTROYING, NULL);
    if (err.reason || self->piece_len == 0) {
        read_free(self);
        if (err.reason)
            cay_call_fail(call, &err);
        else
            cay_call_done(call, NULL);
        return;
    }
    if (self->left > 0)
        self->left -= self->piece_len;
    struct cay_v1_read_file_response response = {
        .which_frame = CAY_V1_READ_FILE_RESPONSE_FRAME_DATA,
        .frame.data = {self->piece, (size_t)self->piece_len},
    };
    if (cay_call_send(call, &response))
        next_piece(self);
}

static void read_room(struct cay_call *call)
{
    struct read_stream *self = call->state;
    if (!self->is_working)
        next_piece(self);
}

static void read_cancel(struct cay_call *call)
{
    struct read_stream *self = call->state;
    struct cay_error err = {};
    if (self->is_working)
        return; /* piece_done or read_opened will see */
    read_free(self);
    cay_fail(&err, CAY_R_CANCELED, NULL);
    cay_call_fail(call, &err);
}

/* Its disk space is to be free when the session is gone. */
static void read_let_go(struct cay_held *held)
{
    struct read_stream *self = CAY_CONTAINER_OF(held, struct read_stream, held);
    struct cay_call *call = self->call;
    struct cay_error err = {};
    self->is_let_go = true;
    if (self->is_working)
        return; /* piece_done will see */
    read_free(self);
    cay_fail(&err, CAY_R_SESSION_DESTROYING, NULL);
    cay_call_fail(call, &err);
}

static void read_opened(struct cay_op *op)
{
    struct read_stream *self = CAY_CONTAINER_OF(op, struct read_stream, op);
    struct cay_call *call = op->call;
    struct cay_error err = op->err;
    bool is_done = op->is_done && !call->is_cancelled;
    cay_past_tree_close(&self->past, op->host);
    if (is_done)
        cay_held_add(&self->held, op->session, self->fd, read_let_go);
    cay_op_leave(op);
    if (!is_done || self->is_let_go) {
        if (!err.reason)
            cay_fail(&err, is_done ? CAY_R_SESSION_DESTROYING : CAY_R_CANCELED, NULL);
        read_free(self);
        cay_call_fail(call, &err);
        return;
    }
    const struct cay_v1_read_file_request *request = call->request;
    self->left = request->has_length ? request->length : -1;
    self->piece = cay_alloc(PIECE_BYTES);
    self->job.work = piece_work;
    self->job.done = piece_done;
    call->on_room = read_room;
    struct cay_v1_read_file_response response = {
        .which_frame = CAY_V1_READ_FILE_RESPONSE_FRAME_INFO, .frame.info = &self->info};
    self->is_working = false;
    if (cay_call_send(call, &response))
        next_piece(self);
}

static const struct cay_op_steps read_steps = {
    .begin = read_begin,
    .work = read_open,
    .end = read_opened,
};

static void read_awake(struct cay_call *call, struct cay_session *session, void *context,
                       const struct cay_error *err)
{
    struct read_stream *self = context;
    if (err) {
        read_free(self);
        cay_call_fail(call, err);
        return;
    }
    cay_op_start_on(&self->op, session, call, CAY_VERB_TOOL, false, &read_steps);
}

void cay_host_read_file(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_read_file_request *request = call->request;
    struct cay_host *host = cay_host_of(service);
    struct cay_session *session = NULL;
    struct cay_error err = {};
    bool is_past = request->snapshot.len > 0;
    if (request->archive)
        cay_fail(&err, CAY_R_NOT_SUPPORTED,
                 "this version cannot read archives here; leave archive out");
    else if (request->has_length && request->length < 0)
        cay_fail(&err, CAY_R_INVALID_ARGUMENT, "length: it must not be negative");
    else
        (void)cay_session_check(host, call, request->session_id,
                                is_past ? CAY_VERB_LOOK : CAY_VERB_TOOL, &session, &err);
    if (err.reason) {
        cay_call_fail(call, &err);
        return;
    }
    struct read_stream *self = cay_new(struct read_stream);
    self->fd = -1;
    self->call = call;
    self->host = host;
    self->is_working = true;
    self->is_past = is_past;
    self->past.root_fd = -1;
    call->state = self;
    call->on_cancel = read_cancel;
    if (is_past)
        cay_op_start_on(&self->op, session, call, CAY_VERB_LOOK, false, &read_steps);
    else
        cay_wake_as(session, call, request->user, cay_tree_is_mounted(request->path),
                    &self->tree.user, read_awake, self);
}

struct write_stream {
    struct cay_op op;
    struct cay_job job; /* data and commit; the open is the operation's own work */
    struct cay_session_tree tree;
    struct cay_host *host;
    struct cay_call *call;
    struct cay_write_options options;
    struct cay_str path;
    struct cay_str user;
    bool is_as_root;
    struct cay_write write;
    struct cay_str data;
    struct cay_v1_write_file_response response;
    struct cay_error err;
    int64_t reserved_bytes; /* counted as the session's, see quota.h */
    bool is_open;
    bool is_working;
    bool is_last;
    bool is_good;
};

static void write_finish(struct write_stream *self)
{
    struct cay_call *call = self->call;
    struct cay_error err = self->err;
    bool is_good = self->is_good && !err.reason;
    if (self->op.session)
        cay_quota_release(self->op.session, self->reserved_bytes,
                          is_good ? self->write.received_bytes : 0,
                          is_good && self->response.created);
    cay_op_leave(&self->op);
    if (is_good)
        cay_call_done(call, &self->response);
    else
        cay_call_fail(call, &err);
    free(self);
}

static void write_work(struct cay_job *job)
{
    struct write_stream *self = CAY_CONTAINER_OF(job, struct write_stream, job);
    if (self->err.reason) {
        cay_files_write_abort(&self->tree.tree, &self->write);
        self->is_good = false;
    } else if (self->is_last) {
        self->is_good = cay_files_write_commit(&self->tree.tree, self->path, &self->write,
                                               &self->call->arena, &self->response, &self->err);
    } else {
        self->is_good = cay_write_data(&self->write, self->data, &self->err);
        if (!self->is_good)
            cay_files_write_abort(&self->tree.tree, &self->write);
    }
}

static void write_done(struct cay_job *job)
{
    struct write_stream *self = CAY_CONTAINER_OF(job, struct write_stream, job);
    bool is_over = self->is_last || self->err.reason;
    self->is_working = false;
    if (is_over && self->is_good == !self->err.reason) {
        write_finish(self);
        return;
    }
    if (self->call->is_cancelled && !self->err.reason) {
        cay_fail(&self->err, CAY_R_CANCELED, NULL);
        self->is_working = true;
        cay_loop_submit(self->host->loop, &self->job);
        return;
    }
    cay_call_next(self->call);
}

static void write_submit(struct write_stream *self)
{
    self->job.work = write_work;
    self->job.done = write_done;
    self->job.lane = &self->op.session->lane;
    self->is_working = true;
    cay_loop_submit(self->host->loop, &self->job);
}

static bool write_begin(struct cay_op *op, struct cay_error *err)
{
    struct write_stream *self = CAY_CONTAINER_OF(op, struct write_stream, op);
    int64_t size = CAY_MAX(self->options.size, (int64_t)0);
    if (!cay_quota_reserve(op->session, size, err))
        return false;
    self->reserved_bytes = size;
    bool is_open = cay_session_tree_open(&self->tree, op->session, CAY_STR(""), err);
    self->tree.tree.is_as_root = self->is_as_root;
    return is_open;
}

static bool write_open(struct cay_op *op, struct cay_error *err)
{
    struct write_stream *self = CAY_CONTAINER_OF(op, struct write_stream, op);
    return cay_files_write_open(&self->tree.tree, self->path, &self->options, &self->write, err);
}

/* Stays inside the gate: the operation is left by write_finish. */
static void write_opened(struct cay_op *op)
{
    struct write_stream *self = CAY_CONTAINER_OF(op, struct write_stream, op);
    self->is_working = false;
    if (!op->is_done) {
        self->err = op->err;
        write_finish(self);
        return;
    }
    self->is_open = true;
    if (self->call->is_cancelled) {
        cay_fail(&self->err, CAY_R_CANCELED, NULL);
        write_submit(self);
        return;
    }
    cay_call_next(self->call);
}

static const struct cay_op_steps write_steps = {
    .begin = write_begin,
    .work = write_open,
    .end = write_opened,
};

static void write_awake(struct cay_call *call, struct cay_session *session, void *context,
                        const struct cay_error *err)
{
    struct write_stream *self = context;
    if (err) {
        self->err = *err;
        write_finish(self);
        return;
    }
    cay_op_start_on(&self->op, session, call, CAY_VERB_TOOL, false, &write_steps);
}

static bool copy_pairs(struct cay_arena *arena, struct cay_pb_pairs from, struct cay_pb_pairs *out)
{
    out->items = cay_arena_array(arena, from.count, sizeof(*out->items));
    for (size_t i = 0; out->items && i < from.count; i++) {
        struct cay_pb_pair pair = {.key = cay_arena_str(arena, from.items[i].key),
                                   .value = cay_arena_str(arena, from.items[i].value)};
        if (!pair.key.ptr || !pair.value.ptr)
            return false;
        out->items[out->count++] = pair;
    }
    return out->items != NULL || !from.count;
}

/* The first message is gone with the next one: what is needed of it later is copied. */
static bool take_options(struct write_stream *self, const struct cay_v1_write_file_open *open,
                         struct cay_error *err)
{
    struct cay_arena *arena = &self->call->arena;
    bool is_e2b = cay_str_is(open->metadata_space, "e2b");
    if (!is_e2b && open->metadata_space.len && !cay_str_is(open->metadata_space, "cay"))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "metadata_space: it must be cay or e2b");
    if (open->metadata.count && !open->set_metadata)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "metadata: it needs set_metadata");
    if (open->offset < 0)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "offset: it must not be negative");
    self->options = (struct cay_write_options){
        .mode = open->write_mode,
        .create_parents = open->create_parents,
        .has_permissions = open->has_mode,
        .permissions = open->mode,
        .offset = open->offset,
        .size = open->has_size ? open->size : -1,
        .durable = open->durable,
        .has_modified_at = open->modified_at != NULL,
        .set_metadata = open->set_metadata,
        .is_e2b_metadata = is_e2b,
    };
    if (!copy_pairs(arena, open->metadata, &self->options.metadata))
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    if (open->modified_at)
        self->options.modified_at = (struct timespec){.tv_sec = open->modified_at->seconds,
                                                      .tv_nsec = open->modified_at->nanos};
    self->path = cay_arena_str(arena, open->path);
    self->user = cay_arena_str(arena, open->user);
    self->is_as_root = open->as_root;
    return true;
}

static void start_write(struct write_stream *self, const struct cay_v1_write_file_request *request)
{
    struct cay_session *session = NULL;
    if (request && request->which_frame == CAY_V1_WRITE_FILE_REQUEST_FRAME_OPEN &&
        request->frame.open->archive) {
        struct cay_host *host = self->host;
        struct cay_call *call = self->call;
        if (cay_archive_write_start(host, call, request->frame.open, &self->err))
            free(self);
        else
            write_finish(self);
        return;
    }
    if (!request || request->which_frame != CAY_V1_WRITE_FILE_REQUEST_FRAME_OPEN)
        cay_fail(&self->err, CAY_R_INVALID_ARGUMENT, "the first message must be open");
    else if (take_options(self, request->frame.open, &self->err))
        (void)cay_session_check(self->host, self->call, request->frame.open->session_id,
                                CAY_VERB_TOOL, &session, &self->err);
    if (self->err.reason) {
        write_finish(self);
        return;
    }
    self->is_working = true;
    cay_wake_as(session, self->call, self->user, cay_tree_is_mounted(self->path), &self->tree.user,
                write_awake, self);
}

/* What comes beyond the announced size, or without one, is counted as it comes. */
static bool count_data(struct write_stream *self, struct cay_str data)
{
    int64_t more = self->write.received_bytes + (int64_t)data.len - self->reserved_bytes;
    if (more <= 0)
        return true;
    if (!cay_quota_reserve(self->op.session, more, &self->err))
        return false;
    self->reserved_bytes += more;
    return true;
}

static void on_write_message(struct cay_call *call, const void *message)
{
    struct write_stream *self = call->state;
    const struct cay_v1_write_file_request *request = message;
    if (!self->is_open) {
        start_write(self, request);
        return;
    }
    self->is_last = !request;
    if (request && request->which_frame != CAY_V1_WRITE_FILE_REQUEST_FRAME_DATA)
        cay_fail(&self->err, CAY_R_INVALID_ARGUMENT, "after the first message comes data only");
    else if (request && count_data(self, request->frame.data))
        self->data = request->frame.data;
    write_submit(self);
}

static void on_write_cancel(struct cay_call *call)
{
    struct write_stream *self = call->state;
    if (self->is_working)
        return;
    cay_fail(&self->err, CAY_R_CANCELED, NULL);
    if (self->is_open)
        write_submit(self);
    else
        write_finish(self);
}

void cay_host_write_file(struct cay_service *service, struct cay_call *call)
{
    struct write_stream *self = cay_new(struct write_stream);
    self->host = cay_host_of(service);
    self->call = call;
    call->state = self;
    call->on_message = on_write_message;
    call->on_cancel = on_write_cancel;
    cay_call_next(call);
}
