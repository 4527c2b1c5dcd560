/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/noun.h"
#include "base/log.h"
#include "base/stop.h"
#include "host/base/base_keep.h"
#include "host/base/base_record.h"
#include "host/base/verbs.h"
#include "host/owner/account.h"
#include "host/session/endless.h"
#include "host/session/host.h"
#include "host/session/request.h"
#include "host/session/tidy.h"
#include "host/store/base.h"
#include "sys/sha256.h"

/*
 * Importing a base. What arrives as a stream goes through a pipe: the worker unpacks what the loop
 * writes. The record is written before the store gives the base its name, and says until the end
 * that nobody was told of it.
 */

struct import {
    struct cay_job job;
    struct cay_call *call;
    struct cay_host *host;
    const struct cay_v1_import_base_options *options; /* a copy in the call's arena */
    char name[CAY_STORE_NAME_SIZE];
    char (*aliases)[CAY_STORE_NAME_SIZE]; /* in the call's arena */
    size_t alias_count;
    const char *platform; /* as C strings */
    const char *sha256;
    int source_fd; /* a directory, or a tar: a file or the pipe's reading end */
    int pipe_fd;   /* the writing end; -1: none, or closed */
    struct cay_watch pipe_watch;
    struct cay_str rest;      /* of the current message */
    atomic_bool is_abandoned; /* the caller is gone: what was unpacked may be half of it */
    bool is_existing;         /* only names and settings */
    bool is_running;
    bool is_done;
    bool is_recorded;
    bool is_switched; /* the name stands for the new base, whatever came after */
    struct cay_base_info info;
    struct cay_v1_base spec; /* as recorded; in the call's arena */
    struct cay_v1_base_settings settings;
    struct cay_error err;
};

static bool goes_on(void *context, uint64_t, uint64_t)
{
    struct import *self = context;
    return !atomic_load(&self->is_abandoned) && !atomic_load(&self->host->is_stopping);
}

/* Variables as an image has them; those that are none are left out. */
static bool take_env(struct import *self, struct cay_error *err)
{
    const struct cay_base_info *info = &self->info;
    struct cay_pb_pair *pairs = cay_arena_array(&self->info.arena, info->env_count, sizeof(*pairs));
    struct cay_error ignored = {};
    if (!pairs)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    self->settings.env.items = pairs;
    for (size_t i = 0; i < info->env_count; i++) {
        struct cay_str rest = info->env[i];
        struct cay_pb_pair *pair = &pairs[self->settings.env.count];
        if (!cay_str_split(&rest, '=', &pair->key) || !rest.ptr)
            continue;
        pair->value = rest;
        self->settings.env.count++;
        if (!cay_check_env(self->settings.env, &ignored))
            self->settings.env.count--;
    }
    return true;
}

/* On the worker, before the base gets its name. */
static bool write_down(void *context, const struct cay_base_info *info, struct cay_error *err)
{
    struct import *self = context;
    struct cay_arena *arena = &self->info.arena; /* the call's is the loop thread's */
    if (!goes_on(self, 0, 0))
        return cay_fail(err, CAY_R_CANCELED, NULL);
    if (!take_env(self, err))
        return false;
    self->settings.user = info->user;
    self->settings.cwd = info->cwd;
    struct cay_str path = self->options->host_path;
    self->spec = (struct cay_v1_base){
        .name = cay_str(self->name),
        .origin = CAY_V1_BASE_ORIGIN_IMPORTED,
        .source = info->source.len ? info->source : path,
        .digest = cay_arena_str(arena, cay_str(info->digest)),
        .size_bytes = (int64_t)info->stats.bytes,
        .entry_count = (int64_t)info->stats.entries,
        .created_at = cay_noun_time(arena, cay_clock_wall_ns()),
        .settings = self->settings.env.count || self->settings.user.len || self->settings.cwd.len
                        ? &self->settings
                        : NULL,
        .labels = self->options->labels,
        .architecture = info->architecture,
    };
    if (self->options->settings)
        self->spec.settings = self->options->settings;
    self->is_recorded =
        self->options->replace
            ? cay_base_record_begin_replace(self->host->db, info->id, &self->spec, err)
            : cay_base_record_add(self->host->db, &self->spec, err);
    return self->is_recorded;
}

static bool give_aliases(struct import *self, struct cay_error *err)
{
    for (size_t i = 0; i < self->alias_count; i++) {
        if (!cay_store_base_alias(self->host->store, self->aliases[i], self->name, err))
            return false;
    }
    return true;
}

static bool name_it(struct import *self, struct cay_error *err)
{
    return give_aliases(self, err) && cay_base_record_keep(self->host->db, &self->spec, err);
}

/* The other base is gone for good: whatever happens now, this one stays. */
static bool finish_replace(struct import *self, struct cay_error *err)
{
    return cay_base_record_end_replace(self->host->db, self->info.id, &self->spec, err) &&
           give_aliases(self, err);
}

static void take_back(struct import *self)
{
    struct cay_error ignored = {};
    if (!cay_store_base_remove(self->host->store, self->name, &ignored) ||
        !cay_base_record_take_back(self->host->db, self->name, &ignored))
        cay_log(CAY_WARN, "base.undo_failed", CAY_S("base", self->name), CAY_ERR(&ignored));
}

static const enum cay_base_format formats[] = {
    [CAY_V1_BASE_FORMAT_UNSPECIFIED] = CAY_BASE_FORMAT_AUTO,
    [CAY_V1_BASE_FORMAT_DIRECTORY] = CAY_BASE_FORMAT_DIRECTORY,
    [CAY_V1_BASE_FORMAT_TAR] = CAY_BASE_FORMAT_TAR,
    [CAY_V1_BASE_FORMAT_OCI] = CAY_BASE_FORMAT_OCI,
    [CAY_V1_BASE_FORMAT_DOCKER_ARCHIVE] = CAY_BASE_FORMAT_DOCKER,
};

static void import_work(struct cay_job *job)
{
    struct import *self = CAY_CONTAINER_OF(job, struct import, job);
    struct cay_store *store = self->host->store;
    const struct cay_v1_import_base_options *wanted = self->options;
    if (self->is_existing) {
        self->is_done = name_it(self, &self->err);
        return;
    }
    const struct cay_base_options options = {
        .bytes_max = (uint64_t)wanted->max_bytes,
        .progress = goes_on,
        .progress_ctx = self,
        .format = formats[wanted->format],
        .platform = self->platform,
        .sha256 = self->sha256,
        .replaces = wanted->replace,
        .ready = write_down,
        .ready_ctx = self,
    };
    (void)cay_stop_watch(&self->call->is_cancelled);
    self->is_done =
        cay_base_import(store, self->name, self->source_fd, &options, &self->info, &self->err);
    (void)cay_stop_watch(NULL);
    if (!self->is_done) {
        struct cay_error ignored = {};
        if (self->is_recorded && wanted->replace)
            (void)cay_base_record_abort_replace(self->host->db, self->info.id, self->name,
                                                &ignored);
        else if (self->is_recorded)
            (void)cay_base_record_take_back(self->host->db, self->name, &ignored);
    } else if (wanted->replace) {
        self->is_switched = true;
        self->is_done = finish_replace(self, &self->err);
    } else if (!goes_on(self, 0, 0)) {
        self->is_done = cay_fail(&self->err, CAY_R_CANCELED, NULL);
        take_back(self);
    } else if (!name_it(self, &self->err)) {
        self->is_done = false;
        take_back(self);
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

static void warn(struct import *self, struct cay_v1_import_base_response *response,
                 unsigned long long count, const char *what)
{
    const char *line = count ? cay_arena_printf(&self->call->arena, "%llu %s", count, what) : NULL;
    if (line)
        response->warnings.items[response->warnings.count++] = cay_str(line);
}

static void answer(struct import *self)
{
    struct cay_call *call = self->call;
    struct cay_str lines[2];
    struct cay_v1_import_base_response response = {
        .base = &self->spec,
        .bytes = (int64_t)self->info.bytes_read,
        .warnings.items = lines,
    };
    warn(self, &response, self->info.stats.skipped, "devices or unreadable files were left out");
    warn(self, &response, self->info.stats.foreign,
         "owners or groups beyond 65535 became nobody (65534)");
    self->spec.aliases = self->options->aliases;
    cay_log(CAY_INFO, "base.imported", CAY_S("base", self->name));
    cay_call_done(call, &response);
}

static void import_end(struct import *self)
{
    close_pipe(self);
    if (self->source_fd >= 0)
        close(self->source_fd);
    if (self->is_done || self->is_switched)
        cay_bases_put(self->host, &self->spec);
    if (self->is_done) {
        cay_bases_sweep(self->host);
        cay_host_collect_soon(self->host);
        answer(self);
    } else {
        cay_host_collect_soon(self->host);
        cay_call_fail(self->call, &self->err);
    }
    cay_arena_finish(&self->info.arena);
    free(self);
}

static void import_done(struct cay_job *job)
{
    CAY_CONTAINER_OF(job, struct import, job)->host->base_calls--;
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

static bool open_source(struct import *self, struct cay_error *err)
{
    const struct cay_v1_import_base_options *options = self->options;
    if (!options->host_path.len) {
        int ends[2];
        if (options->format == CAY_V1_BASE_FORMAT_DIRECTORY)
            return cay_fail(err, CAY_R_INVALID_ARGUMENT, "format: a directory needs host_path");
        if (pipe2(ends, O_CLOEXEC) < 0)
            return cay_fail_errno(err, CAY_R_INTERNAL, -errno, "make a pipe");
        self->source_fd = ends[0];
        self->pipe_fd = ends[1];
        (void)fcntl(ends[1], F_SETFL, O_NONBLOCK);
        int status = cay_watch_open(&self->pipe_watch, self->host->loop, ends[1], on_pipe_ready);
        return status == 0 || cay_fail_errno(err, CAY_R_INTERNAL, status, "watch a pipe");
    }
    /* The daemon's own eyes on the host: for its administrators only. */
    if (!self->call->caller.is_local)
        return cay_fail(
            err, CAY_R_PERMISSION_DENIED,
            "host_path works over the daemon's Unix socket only; send the data instead");
    const char *path = cay_arena_copy(&self->call->arena, options->host_path);
    if (!path || path[0] != '/')
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "host_path must be absolute");
    self->source_fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat info;
    if (self->source_fd < 0 || fstat(self->source_fd, &info) < 0)
        return cay_fail_errno(err, CAY_R_INVALID_ARGUMENT, -errno, "host_path '%s'", path);
    if (!S_ISDIR(info.st_mode) && !S_ISREG(info.st_mode))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "host_path '%s': neither a directory nor an archive", path);
    return true;
}

/* A base that is there gets the name as an alias, and the rest as it is given. */
static bool take_existing(struct import *self, struct cay_error *err)
{
    const struct cay_v1_import_base_options *options = self->options;
    struct cay_base_found found;
    if (options->host_path.len)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "existing_base: it does not go with host_path");
    if (!cay_bases_look_up(self->host, &self->call->caller, options->existing_base, &found, err))
        return false;
    if (strcmp(self->name, found.name) != 0)
        memcpy(self->aliases[self->alias_count++], self->name, sizeof(self->name));
    memcpy(self->name, found.name, sizeof(self->name));
    const struct cay_v1_base *copy =
        found.record ? cay_noun_copy(&cay_v1_base_desc, found.record, &self->call->arena) : NULL;
    self->spec = copy ? *copy : (struct cay_v1_base){};
    self->spec.name = cay_str(self->name);
    if (options->settings)
        self->spec.settings = options->settings;
    if (options->labels.count)
        self->spec.labels = options->labels;
    self->is_existing = true;
    return true;
}

static bool import_begin(struct import *self, const struct cay_v1_import_base_request *request,
                         struct cay_error *err)
{
    if (request->which_frame != CAY_V1_IMPORT_BASE_REQUEST_FRAME_OPTIONS)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "the first message must carry options");
    const struct cay_v1_import_base_options *options =
        cay_noun_copy(&cay_v1_import_base_options_desc, request->frame.options, &self->call->arena);
    if (!options)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    self->options = options;
    self->platform = cay_arena_copy(&self->call->arena, options->platform);
    self->sha256 = cay_arena_copy(&self->call->arena, options->sha256);
    if (self->call->caller.role != CAY_ROLE_ADMIN)
        return cay_fail(err, CAY_R_PERMISSION_DENIED, "only an admin may import bases");
    if (!cay_host_is_still(self->host, err))
        return false;
    if (options->format < 0 || options->format >= (int)CAY_COUNT(formats))
        return cay_fail(
            err, CAY_R_INVALID_ARGUMENT,
            "format: this version does not know it; without one the daemon looks at the content");
    if (options->max_bytes < 0)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "max_bytes: it must not be negative");
    if (options->sha256.len && !cay_sha256_is_hex(options->sha256))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "sha256: 64 lower-case hex digits");
    self->alias_count = options->aliases.count;
    if (!cay_base_check_aliases(options->aliases, &self->call->arena, &self->aliases, err) ||
        !cay_check_labels(options->labels, err) ||
        !cay_base_check_settings(self->host, options->settings, err))
        return false;
    if (options->existing_base.len)
        return cay_base_check_alias(options->name, "name", self->name, err) &&
               take_existing(self, err);
    return cay_base_check_name(self->host, &self->call->caller, options->name, "name", self->name,
                               err) &&
           open_source(self, err);
}

static void start(struct import *self, const struct cay_v1_import_base_request *request)
{
    bool is_good = request ? import_begin(self, request, &self->err)
                           : cay_fail(&self->err, CAY_R_INVALID_ARGUMENT,
                                      "the first message must carry options");
    if (!is_good) {
        import_end(self);
        return;
    }
    self->is_running = true;
    self->host->base_calls++;
    self->job.work = import_work;
    self->job.done = import_done;
    self->job.lane = &cay_account_of(self->host, self->call->caller.owner)->intake;
    cay_loop_submit(self->host->loop, &self->job);
    cay_call_next(self->call);
}

static void on_import_message(struct cay_call *call, const void *message)
{
    struct import *self = call->state;
    const struct cay_v1_import_base_request *request = message;
    if (!self->is_running) {
        start(self, request);
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
    cay_host_endless(self->host, call); /* its client may take any time */
    cay_call_next(call);
}
