/* SPDX-License-Identifier: Apache-2.0 */

/*
 * WriteFile of an archive: its entries go into a directory of the session, as the user. The stream
 * is kept in a file without a name until it is whole; a client that is slow or leaves holds nothing
 * but that, and a stream that breaks off changes nothing. Then a worker unpacks it inside the gate.
 */

#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/noun.h"
#include "host/file/tree.h"
#include "host/file/users.h"
#include "host/file/verbs_archive.h"
#include "host/owner/account.h"
#include "host/owner/passing.h"
#include "host/session/host.h"
#include "host/session/quota.h"
#include "host/store/base.h"
#include "host/store/unpack.h"
#include "tool/tree/files.h"
#include "tool/tree/path.h"

#define STREAM_BYTES_MAX   ((int64_t)128 << 30)
#define UNPACKED_BYTES_MAX ((uint64_t)128 << 30)

struct archive_write {
    struct cay_op op;
    struct cay_job job; /* pieces of the stream */
    struct cay_session_tree tree;
    struct cay_host *host;
    struct cay_call *call;
    const struct cay_v1_write_file_open *open; /* a copy in the call's arena */
    struct cay_str data;
    struct cay_passing passing; /* the stream */
    int64_t bytes;
    struct cay_quota_taker taker;
    struct cay_v1_write_file_response response;
    struct cay_error err;
    bool is_working;
};

static void finish(struct archive_write *self)
{
    struct cay_call *call = self->call;
    struct cay_error err = self->err;
    struct cay_v1_write_file_response response = self->response;
    cay_op_leave(&self->op);
    cay_passing_end(&self->passing);
    free(self);
    if (err.reason)
        cay_call_fail(call, &err);
    else
        cay_call_done(call, &response);
}

static bool unpack_all(struct archive_write *self, struct cay_unpack *unpack, struct cay_error *err)
{
    cay_auto(cay_archive_in_finish) struct cay_archive_in in = {};
    char path[PATH_MAX];
    struct archive_entry *entry = NULL;
    if (lseek(self->passing.fd, 0, SEEK_SET) < 0 ||
        !cay_archive_in_open(&in, self->passing.fd, false, err))
        return false;
    for (;;) {
        if (!cay_archive_in_next(&in, &entry, err))
            return false;
        if (!entry)
            return true;
        const char *raw = cay_archive_path(entry);
        if (!raw || !*raw || raw[0] == '/' || !cay_archive_clean(raw, path))
            return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                            "'%.80s' in the archive is no name inside it", raw ? raw : "");
        if (!cay_unpack_entry(unpack, &in, entry, path, err))
            return false;
    }
}

/* A directory of the session's own files: nothing that is mounted in a running sandbox. */
static int open_dir(const struct cay_tool_tree *tree, const char *path)
{
    struct stat root;
    struct stat st;
    cay_autoclose int fd = cay_tree_open(tree, path, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return fd;
    if (fstat(tree->root_fd, &root) < 0 || fstat(fd, &st) < 0)
        return -errno;
    return root.st_dev == st.st_dev ? cay_take_fd(fd) : -EXDEV;
}

static bool unpack_into(struct archive_write *self, struct cay_error *err)
{
    const struct cay_tool_tree *tree = &self->tree.tree;
    struct cay_tree_visit visit = {};
    struct cay_path path;
    struct cay_unpack unpack = {
        .root_fd = -1,
        .is_plain = true,
        .is_guest = true,
        .entries_max = CAY_BASE_ENTRIES_MAX,
        .bytes_max = UNPACKED_BYTES_MAX,
        .take = cay_quota_take,
        .take_ctx = &self->taker,
    };
    bool is_good =
        cay_tree_enter(tree, &visit, err) && cay_path_resolve(tree, self->open->path, &path, err);
    if (is_good) {
        unpack.root_fd = open_dir(tree, path.bytes);
        is_good = unpack.root_fd >= 0 ||
                  cay_tree_fail(err, unpack.root_fd, (struct cay_str){path.bytes, path.len});
    }
    is_good = is_good && unpack_all(self, &unpack, err);
    if (is_good) {
        cay_unpack_times(&unpack);
        is_good = !self->open->durable || syncfs(unpack.root_fd) == 0 ||
                  cay_fail_errno(err, CAY_R_STORE_FAILED, -errno, "sync the files");
    }
    cay_tree_leave(&visit);
    cay_unpack_finish(&unpack);
    if (unpack.root_fd >= 0)
        close(unpack.root_fd);
    self->response.entries_written = (int64_t)(unpack.stats.entries - unpack.stats.skipped);
    return is_good;
}

static bool begin(struct cay_op *op, struct cay_error *err)
{
    struct archive_write *self = CAY_CONTAINER_OF(op, struct archive_write, op);
    if (!cay_quota_check(op->session, err) ||
        !cay_session_tree_open(&self->tree, op->session, CAY_STR(""), err))
        return false;
    self->tree.tree.is_as_root = self->open->as_root;
    cay_quota_taker_init(&self->taker, op->session);
    return true;
}

static bool work(struct cay_op *op, struct cay_error *err)
{
    struct archive_write *self = CAY_CONTAINER_OF(op, struct archive_write, op);
    const struct cay_v1_make_dir_request make = {
        .path = self->open->path,
        .create_parents = self->open->create_parents,
        .exist_ok = true,
    };
    struct cay_v1_make_dir_response made = {};
    cay_op_watch(op);
    bool is_good = cay_files_make_dir(&self->tree.tree, &make, &self->call->arena, &made, err) &&
                   unpack_into(self, err);
    is_good = cay_op_unwatch(op, is_good, err);
    if (!is_good && err->reason == CAY_R_STORE_FAILED && err->sys_errno)
        err->reason =
            cay_tree_reason(-err->sys_errno); /* what the user may not, or has no room for */
    self->response.info = made.info;
    self->response.created = made.created;
    self->response.bytes_written = self->bytes;
    return is_good;
}

static void end(struct cay_op *op)
{
    struct archive_write *self = CAY_CONTAINER_OF(op, struct archive_write, op);
    if (!op->is_done)
        self->err = op->err;
    finish(self);
}

static const struct cay_op_steps steps = {
    .begin = begin,
    .work = work,
    .end = end,
};

static void awake(struct cay_call *call, struct cay_session *session, void *context,
                  const struct cay_error *err)
{
    struct archive_write *self = context;
    if (err) {
        self->err = *err;
        finish(self);
        return;
    }
    cay_op_start_on(&self->op, session, call, CAY_VERB_TOOL, false, &steps);
}

static void piece_work(struct cay_job *job)
{
    struct archive_write *self = CAY_CONTAINER_OF(job, struct archive_write, job);
    (void)cay_passing_write(&self->passing, self->data, "the archive", &self->err);
}

static void piece_done(struct cay_job *job)
{
    struct archive_write *self = CAY_CONTAINER_OF(job, struct archive_write, job);
    self->is_working = false;
    if (self->call->is_cancelled && !self->err.reason)
        cay_fail(&self->err, CAY_R_CANCELED, NULL);
    if (self->err.reason)
        finish(self);
    else
        cay_call_next(self->call);
}

/* What is packed takes more room unpacked: what does not fit packed is not waited for. */
static bool fits(struct archive_write *self, const struct cay_session *session, size_t more)
{
    struct cay_error *err = &self->err;
    const struct cay_v1_resource_limits *limits = session->spec->limits;
    self->bytes += (int64_t)more;
    if (self->bytes > STREAM_BYTES_MAX)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, "the archive has more than %lld bytes",
                        (long long)STREAM_BYTES_MAX);
    if (limits->has_disk_bytes && self->bytes > limits->disk_bytes)
        return cay_fail(err, CAY_R_QUOTA_EXCEEDED,
                        "the archive is larger than the disk limit of session '%s'", session->id);
    return cay_quota_check(session, err);
}

static void on_message(struct cay_call *call, const void *message)
{
    struct archive_write *self = call->state;
    const struct cay_v1_write_file_request *request = message;
    struct cay_session *session = NULL;
    if (request && request->which_frame != CAY_V1_WRITE_FILE_REQUEST_FRAME_DATA)
        cay_fail(&self->err, CAY_R_INVALID_ARGUMENT, "after the first message comes data only");
    else if (!request && self->open->has_size && self->open->size != self->bytes)
        cay_fail(&self->err, CAY_R_DATA_LOSS, "%lld bytes were announced and %lld came",
                 (long long)self->open->size, (long long)self->bytes);
    else if (!request && self->passing.fd < 0)
        cay_fail(&self->err, CAY_R_INVALID_ARGUMENT, "the archive is empty");
    else if (cay_session_check(self->host, call, self->open->session_id, CAY_VERB_TOOL, &session,
                               &self->err))
        (void)fits(self, session, request ? request->frame.data.len : 0);
    if (self->err.reason) {
        finish(self);
        return;
    }
    self->is_working = true;
    if (request) {
        self->data = request->frame.data;
        self->job.lane = &session->account->lane;
        cay_disk_claim_again(&self->passing.claim, self->host);
        cay_loop_submit(self->host->loop, &self->job);
        return;
    }
    cay_wake_as(session, call, self->open->user, false, &self->tree.user, awake, self);
}

static void on_cancel(struct cay_call *call)
{
    struct archive_write *self = call->state;
    if (self->is_working)
        return; /* who is at work will see */
    cay_fail(&self->err, CAY_R_CANCELED, NULL);
    finish(self);
}

static bool check(const struct cay_v1_write_file_open *open, struct cay_error *err)
{
    if (open->archive > CAY_V1_TREE_FORMAT_TAR_GZIP)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "archive: this version does not know the format");
    if (open->write_mode > CAY_V1_WRITE_MODE_REPLACE || open->offset || open->has_mode ||
        open->modified_at || open->set_metadata)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "archive: offset, mode, times, metadata and write_mode cannot be given "
                        "with one; its files have their own and replace those there are");
    return true;
}

bool cay_archive_write_start(struct cay_host *host, struct cay_call *call,
                             const struct cay_v1_write_file_open *open, struct cay_error *err)
{
    struct cay_session *session = NULL;
    const struct cay_v1_write_file_open *kept =
        cay_noun_copy(&cay_v1_write_file_open_desc, open, &call->arena);
    if (!kept)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    if (!check(kept, err) ||
        !cay_session_check(host, call, kept->session_id, CAY_VERB_TOOL, &session, err) ||
        !cay_quota_check(session, err))
        return false;
    struct archive_write *self = cay_new(struct archive_write);
    self->host = host;
    self->call = call;
    self->open = kept;
    cay_passing_begin(&self->passing, host, &call->caller, session->account);
    self->job.work = piece_work;
    self->job.done = piece_done;
    call->state = self;
    call->on_message = on_message;
    call->on_cancel = on_cancel;
    cay_call_next(call);
    return true;
}
