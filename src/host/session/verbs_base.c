/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "host/session/host.h"
#include "host/session/noun.h"
#include "host/store/base.h"

/* Bases: the roots that sessions start from. Listing reads the store's memory; import and removal
 * work on a worker. */

struct list_context {
    struct cay_call *call;
    const struct cay_host *host;
    struct cay_v1_list_bases_response response;
    size_t room;
};

static bool count_item(void *context, const struct cay_store_item *item)
{
    struct list_context *list = context;
    if (item->kind == CAY_STORE_ITEM_BASE)
        list->room++;
    return true;
}

static bool add_base(void *context, const struct cay_store_item *item)
{
    struct list_context *list = context;
    struct cay_arena *arena = &list->call->arena;
    if (item->kind != CAY_STORE_ITEM_BASE || list->response.bases.count == list->room)
        return true;
    bool is_host = strncmp(item->name, "host-", 5) == 0;
    list->response.bases.items[list->response.bases.count++] = (struct cay_v1_base){
        .name = cay_arena_str(arena, cay_str(item->name)),
        .origin = is_host ? CAY_V1_BASE_ORIGIN_HOST : CAY_V1_BASE_ORIGIN_IMPORTED,
        .created_at = cay_noun_time(arena, item->created_unix_ms * CAY_NS_PER_MS),
    };
    return true;
}

static bool add_alias(void *context, const struct cay_store_item *item)
{
    struct list_context *list = context;
    struct cay_arena *arena = &list->call->arena;
    for (size_t i = 0; item->kind == CAY_STORE_ITEM_ALIAS && i < list->response.bases.count; i++) {
        struct cay_v1_base *base = &list->response.bases.items[i];
        if (!cay_str_is(base->name, item->target))
            continue;
        struct cay_str *grown =
            cay_arena_array(arena, base->aliases.count + 1, sizeof(struct cay_str));
        if (!grown)
            return false;
        if (base->aliases.count)
            memcpy(grown, base->aliases.items, base->aliases.count * sizeof(*grown));
        grown[base->aliases.count++] = cay_arena_str(arena, cay_str(item->name));
        base->aliases.items = grown;
    }
    return true;
}

static int compare_names(const void *a, const void *b)
{
    struct cay_str left = ((const struct cay_v1_base *)a)->name;
    struct cay_str right = ((const struct cay_v1_base *)b)->name;
    int order = memcmp(left.ptr, right.ptr, CAY_MIN(left.len, right.len));
    return order ? order : (left.len > right.len) - (left.len < right.len);
}

void cay_host_list_bases(struct cay_service *service, struct cay_call *call)
{
    struct list_context list = {.call = call, .host = cay_host_of(service)};
    struct cay_error err = {};
    bool is_listed = cay_store_list(list.host->store, count_item, &list, &err);
    list.response.bases.items =
        cay_arena_array(&call->arena, list.room, sizeof(struct cay_v1_base));
    is_listed = is_listed && list.response.bases.items &&
                cay_store_list(list.host->store, add_base, &list, &err) &&
                cay_store_list(list.host->store, add_alias, &list, &err);
    if (!is_listed) {
        if (!err.reason)
            cay_fail(&err, CAY_R_RESOURCE_EXHAUSTED, "too many bases for one answer");
        cay_call_fail(call, &err);
        return;
    }
    if (list.response.bases.count)
        qsort(list.response.bases.items, list.response.bases.count, sizeof(struct cay_v1_base),
              compare_names);
    for (size_t i = 0; i < list.response.bases.count; i++) {
        struct cay_v1_base *base = &list.response.bases.items[i];
        base->is_default = cay_str_is(base->name, list.host->default_base);
        for (size_t j = 0; j < base->aliases.count; j++)
            base->is_default =
                base->is_default || cay_str_is(base->aliases.items[j], list.host->default_base);
    }
    cay_call_done(call, &list.response);
}

/* An import that arrives as a stream goes through a pipe: the worker unpacks what the loop writes.
 */
struct import {
    struct cay_job job;
    struct cay_call *call;
    struct cay_host *host;
    char name[CAY_STORE_NAME_SIZE];
    int source_fd; /* a directory, or a tar: a file or the pipe's reading end */
    int pipe_fd;   /* the writing end; -1: none, or closed */
    struct cay_watch pipe_watch;
    struct cay_str rest;      /* of the current message */
    atomic_bool is_abandoned; /* the caller is gone: what was unpacked may be half of it */
    bool is_directory;
    bool is_running;
    bool is_done;
    struct cay_copy_stats stats;
    struct cay_error err;
};

static void import_work(struct cay_job *job)
{
    struct import *self = CAY_CONTAINER_OF(job, struct import, job);
    struct cay_store *store = self->host->store;
    self->is_done = self->is_directory ? cay_base_import_dir(store, self->name, self->source_fd,
                                                             NULL, &self->stats, &self->err)
                                       : cay_base_import_tar(store, self->name, self->source_fd,
                                                             NULL, &self->stats, &self->err);
    if (self->is_done && atomic_load(&self->is_abandoned)) {
        struct cay_error ignored = {};
        (void)cay_store_base_remove(store, self->name, &ignored);
        self->is_done = cay_fail(&self->err, CAY_R_CANCELED, NULL);
    }
    /* The loop's next write then fails instead of waiting for a reader. */
    close(cay_take_fd(self->source_fd));
}

static void close_pipe(struct import *self)
{
    cay_watch_close(&self->pipe_watch);
    if (self->pipe_fd >= 0)
        close(cay_take_fd(self->pipe_fd));
}

static void import_end(struct import *self)
{
    struct cay_call *call = self->call;
    close_pipe(self);
    if (self->source_fd >= 0)
        close(self->source_fd);
    if (self->is_done) {
        struct cay_v1_base base = {
            .name = cay_arena_str(&call->arena, cay_str(self->name)),
            .origin = CAY_V1_BASE_ORIGIN_IMPORTED,
            .size_bytes = (int64_t)self->stats.bytes,
            .entry_count = (int64_t)self->stats.entries,
        };
        struct cay_v1_import_base_response response = {.base = &base,
                                                       .bytes = (int64_t)self->stats.bytes};
        cay_log(CAY_INFO, "base.imported", CAY_S("base", self->name));
        cay_call_done(call, &response);
    } else {
        cay_call_fail(call, &self->err);
    }
    free(self);
}

static void import_done(struct cay_job *job)
{
    import_end(CAY_CONTAINER_OF(job, struct import, job));
}

static void feed(struct import *self)
{
    while (self->rest.len) {
        ssize_t sent = write(self->pipe_fd, self->rest.ptr, self->rest.len);
        if (sent < 0 && errno == EAGAIN) {
            cay_watch_set(&self->pipe_watch, CAY_READY_WRITE);
            return;
        }
        if (sent < 0) {
            close_pipe(self); /* the worker has given up; its error is the answer */
            self->rest = (struct cay_str){};
            break;
        }
        self->rest.ptr += sent;
        self->rest.len -= (size_t)sent;
    }
    if (self->pipe_fd >= 0)
        cay_watch_set(&self->pipe_watch, 0);
    cay_call_next(self->call);
}

static void on_pipe_ready(struct cay_watch *watch, unsigned)
{
    feed(CAY_CONTAINER_OF(watch, struct import, pipe_watch));
}

static bool open_source(struct import *self, const struct cay_v1_import_base_options *options,
                        struct cay_error *err)
{
    if (!options->host_path.len) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) < 0)
            return cay_fail_errno(err, CAY_R_INTERNAL, -errno, "make a pipe");
        self->source_fd = ends[0];
        self->pipe_fd = ends[1];
        (void)fcntl(ends[1], F_SETFL, O_NONBLOCK);
        int status = cay_watch_open(&self->pipe_watch, self->host->loop, ends[1], on_pipe_ready);
        return status == 0 || cay_fail_errno(err, CAY_R_INTERNAL, status, "watch a pipe");
    }
    /* The daemon's own eyes on the host: for its administrators only. */
    if (self->call->caller.role != CAY_ROLE_ADMIN)
        return cay_fail(err, CAY_R_PERMISSION_DENIED, "host_path: only an admin may name one");
    if (!self->call->caller.is_local)
        return cay_fail(
            err, CAY_R_PERMISSION_DENIED,
            "host_path: only over the Unix socket of the daemon; send the data instead");
    const char *path = cay_arena_copy(&self->call->arena, options->host_path);
    self->source_fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK) : -1;
    struct stat info;
    if (self->source_fd < 0 || fstat(self->source_fd, &info) < 0)
        return cay_fail_errno(err, CAY_R_INVALID_ARGUMENT, -errno, "host_path '%s'",
                              path ? path : "");
    self->is_directory = S_ISDIR(info.st_mode);
    if (!self->is_directory && !S_ISREG(info.st_mode))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "host_path '%s': neither a directory nor an archive", path);
    return true;
}

static bool import_begin(struct import *self, const struct cay_v1_import_base_request *request,
                         struct cay_error *err)
{
    if (request->which_frame != CAY_V1_IMPORT_BASE_REQUEST_FRAME_OPTIONS)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "the first message must carry options");
    const struct cay_v1_import_base_options *options = request->frame.options;
    if (options->aliases.count || options->existing_base.len || options->replace ||
        options->settings || options->labels.count || options->sha256.len ||
        (options->format != CAY_V1_BASE_FORMAT_UNSPECIFIED &&
         options->format != CAY_V1_BASE_FORMAT_TAR &&
         options->format != CAY_V1_BASE_FORMAT_DIRECTORY))
        return cay_fail(err, CAY_R_NOT_SUPPORTED,
                        "this version imports directories and tar archives under a name, no more");
    if (self->call->caller.role != CAY_ROLE_ADMIN)
        return cay_fail(err, CAY_R_PERMISSION_DENIED, "only an admin may import bases");
    snprintf(self->name, sizeof(self->name), "%.*s", (int)options->name.len,
             options->name.len ? options->name.ptr : "");
    if (options->name.len >= sizeof(self->name) || !cay_store_base_name_valid(self->name) ||
        strcmp(self->name, "host") == 0 || strncmp(self->name, "host-", 5) == 0)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "name: 1 to 128 letters, digits, '.', '_' or '-'; host is Cay's own");
    return open_source(self, options, err);
}

static void on_import_message(struct cay_call *call, const void *message)
{
    struct import *self = call->state;
    const struct cay_v1_import_base_request *request = message;
    if (!self->is_running) {
        bool is_good = message ? import_begin(self, request, &self->err)
                               : cay_fail(&self->err, CAY_R_INVALID_ARGUMENT,
                                          "the first message must carry options");
        if (!is_good) {
            import_end(self);
            return;
        }
        self->is_running = true;
        self->job.work = import_work;
        self->job.done = import_done;
        cay_loop_submit(self->host->loop, &self->job);
        cay_call_next(call);
        return;
    }
    if (!message) {
        close_pipe(self);
        return;
    }
    if (request->which_frame == CAY_V1_IMPORT_BASE_REQUEST_FRAME_DATA && self->pipe_fd >= 0)
        self->rest = request->frame.data;
    if (self->rest.len)
        feed(self);
    else
        cay_call_next(call);
}

static void on_import_cancel(struct cay_call *call)
{
    struct import *self = call->state;
    atomic_store(&self->is_abandoned, true);
    self->rest = (struct cay_str){};
    close_pipe(self);
    if (!self->is_running) {
        cay_fail(&self->err, CAY_R_CANCELED, NULL);
        import_end(self);
    }
}

void cay_host_import_base(struct cay_service *service, struct cay_call *call)
{
    struct import *self = cay_new(struct import);
    self->call = call;
    self->host = cay_host_of(service);
    self->source_fd = -1;
    self->pipe_fd = -1;
    call->state = self;
    call->on_message = on_import_message;
    call->on_cancel = on_import_cancel;
    cay_call_next(call);
}

struct remove_job {
    struct cay_job job;
    struct cay_call *call;
    struct cay_host *host;
    char name[CAY_STORE_NAME_SIZE];
    bool is_done;
    struct cay_error err;
};

static void remove_work(struct cay_job *job)
{
    struct remove_job *self = CAY_CONTAINER_OF(job, struct remove_job, job);
    self->is_done = cay_store_base_remove(self->host->store, self->name, &self->err);
}

static void remove_done(struct cay_job *job)
{
    struct remove_job *self = CAY_CONTAINER_OF(job, struct remove_job, job);
    struct cay_v1_remove_base_response response = {};
    if (self->is_done) {
        cay_host_collect_soon(self->host);
        cay_call_done(self->call, &response);
    } else {
        cay_call_fail(self->call, &self->err);
    }
    free(self);
}

void cay_host_remove_base(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_remove_base_request *request = call->request;
    struct cay_error err = {};
    struct cay_host *host = cay_host_of(service);
    if (call->caller.role != CAY_ROLE_ADMIN)
        cay_fail(&err, CAY_R_PERMISSION_DENIED, "only an admin may remove bases");
    else if (request->name.len >= CAY_STORE_NAME_SIZE || !request->name.len)
        cay_fail(&err, CAY_R_BASE_NOT_FOUND, NULL);
    cay_list_for_each (struct cay_session, session, &host->sessions.list, in_table) {
        if (!err.reason && cay_str_equal(session->spec->base, request->name))
            cay_fail(&err, CAY_R_BASE_IN_USE, "session '%s' stands on it; remove that first",
                     session->id);
    }
    if (err.reason) {
        cay_call_fail(call, &err);
        return;
    }
    struct remove_job *self = cay_new(struct remove_job);
    self->call = call;
    self->host = host;
    snprintf(self->name, sizeof(self->name), "%.*s", (int)request->name.len, request->name.ptr);
    self->job.work = remove_work;
    self->job.done = remove_done;
    cay_loop_submit(host->loop, &self->job);
}
