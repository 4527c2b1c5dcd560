/* SPDX-License-Identifier: Apache-2.0 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "host/build/build_files.h"
#include "host/build/verbs.h"
#include "host/owner/account.h"
#include "host/owner/space.h"
#include "host/session/host.h"
#include "sys/sha256.h"

/*
 * PutBuildFiles and GetBuildFiles. What comes goes to a file without a name, piece by piece on
 * workers; it is in the table only when all of it has come.
 */

struct put {
    struct cay_job job;
    struct cay_call *call;
    struct cay_host *host;
    char key[CAY_BUILD_KEY_BYTES + 1];
    struct cay_str data;
    int64_t bytes;
    struct cay_passing passing;
    bool is_working;
    bool is_good;
    struct cay_error err;
};

static void put_free(struct put *self)
{
    self->host->build_files->putting -= self->key[0] != '\0';
    cay_passing_end(&self->passing);
    free(self);
}

static void put_fail(struct put *self)
{
    struct cay_call *call = self->call;
    struct cay_error err = self->err;
    put_free(self);
    cay_call_fail(call, &err);
}

static bool keep_piece(struct put *self, struct cay_error *err)
{
    return (self->passing.fd >= 0 || cay_space_check(self->host, err)) &&
           cay_passing_write(&self->passing, self->data, "the files", err);
}

static void piece_work(struct cay_job *job)
{
    struct put *self = CAY_CONTAINER_OF(job, struct put, job);
    self->is_good = keep_piece(self, &self->err);
}

static void piece_done(struct cay_job *job)
{
    struct put *self = CAY_CONTAINER_OF(job, struct put, job);
    self->is_working = false;
    if (self->is_good && self->call->is_cancelled)
        self->is_good = cay_fail(&self->err, CAY_R_CANCELED, NULL);
    if (self->is_good)
        cay_call_next(self->call);
    else
        put_fail(self);
}

static void finish(struct put *self)
{
    struct cay_call *call = self->call;
    struct cay_v1_put_build_files_response response = {.bytes = self->bytes};
    if (self->passing.fd < 0) {
        cay_fail(&self->err, CAY_R_INVALID_ARGUMENT, "data: the files are missing");
        put_fail(self);
        return;
    }
    cay_build_files_put(self->host->build_files, call->caller.owner, cay_str(self->key),
                        &self->passing, self->bytes);
    put_free(self);
    cay_call_done(call, &response);
}

static bool take(struct put *self, const struct cay_v1_put_build_files_request *request,
                 struct cay_error *err)
{
    bool is_key = request && request->which_frame == CAY_V1_PUT_BUILD_FILES_REQUEST_FRAME_KEY;
    if (!self->key[0]) {
        if (!is_key || !cay_sha256_is_hex(request->frame.key))
            return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                            "key: the first message must have it, as 64 lower-case hex digits");
        if (self->host->build_files->putting == CAY_BUILD_FILES_AT_ONCE)
            return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                            "too many files are put at the same time; try again");
        self->host->build_files->putting++;
        snprintf(self->key, sizeof(self->key), "%.*s", (int)request->frame.key.len,
                 request->frame.key.ptr);
        return true;
    }
    if (is_key)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "only the first message may have key");
    self->data = request->which_frame == CAY_V1_PUT_BUILD_FILES_REQUEST_FRAME_DATA
                     ? request->frame.data
                     : (struct cay_str){};
    self->bytes += (int64_t)self->data.len;
    return self->bytes <= CAY_LIMIT_BUILD_FILES_BYTES ||
           cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, "files of one step: %d bytes at most",
                    CAY_LIMIT_BUILD_FILES_BYTES);
}

/* Files that no build has come for make way for new ones. */
static void make_room(struct put *self)
{
    struct cay_disk_claim *claim = &self->passing.claim;
    cay_disk_claim_again(claim, self->host);
    while (!cay_disk_claim_fits(claim, (int64_t)self->data.len) &&
           cay_build_files_drop_one(self->host->build_files, self->call->caller.owner))
        ;
}

static void on_message(struct cay_call *call, const void *message)
{
    struct put *self = call->state;
    self->data = (struct cay_str){};
    if (!message && self->key[0]) {
        finish(self);
    } else if (!take(self, message, &self->err)) {
        put_fail(self);
    } else if (self->data.len) {
        make_room(self);
        self->is_working = true;
        self->job.work = piece_work;
        self->job.done = piece_done;
        self->job.lane = &cay_account_of(self->host, self->call->caller.owner)->lane;
        cay_loop_submit(self->host->loop, &self->job);
    } else {
        cay_call_next(call);
    }
}

static void on_cancel(struct cay_call *call)
{
    struct put *self = call->state;
    if (self->is_working)
        return; /* who is at work will see */
    cay_fail(&self->err, CAY_R_CANCELED, NULL);
    put_fail(self);
}

void cay_host_put_build_files(struct cay_service *service, struct cay_call *call)
{
    struct put *self = cay_new(struct put);
    self->call = call;
    self->host = cay_host_of(service);
    cay_passing_begin(&self->passing, self->host, &call->caller,
                      cay_account_of(self->host, call->caller.owner));
    call->state = self;
    call->on_message = on_message;
    call->on_cancel = on_cancel;
    cay_call_next(call);
}

void cay_host_get_build_files(struct cay_service *service, struct cay_call *call)
{
    struct cay_host *host = cay_host_of(service);
    const struct cay_v1_get_build_files_request *request = call->request;
    struct cay_error err = {};
    const struct cay_build_file *file = NULL;
    if (!cay_sha256_is_hex(request->key))
        cay_fail(&err, CAY_R_INVALID_ARGUMENT, "key: 64 lower-case hex digits");
    else if (!(file = cay_build_files_find(host->build_files, call->caller.owner, request->key)))
        cay_fail(&err, CAY_R_NOT_FOUND,
                 "there are no such files; send them with PutBuildFiles first");
    if (!file) {
        cay_call_fail(call, &err);
        return;
    }
    struct cay_v1_get_build_files_response response = {.bytes = file->bytes};
    cay_call_done(call, &response);
}
