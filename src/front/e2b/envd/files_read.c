/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "front/e2b/envd/entry.h"
#include "front/e2b/envd/files.h"
#include "front/e2b/envd/handlers.h"
#include "front/rest/call.h"

/*
 * GET /files: a file, or a part of it. Bytes go out as fast as the client takes them. A file that
 * gets shorter meanwhile breaks the answer off, since its length was told.
 */

struct download {
    struct cay_e2b_file file;
    struct cay_rest_call *call; /* NULL once it is answered */
    int64_t first;              /* of a part */
    int64_t left;
    int64_t size;
    bool is_part;
};

static void respond(struct cay_rest_request *request, const struct download *self)
{
    char range[80];
    struct cay_http_header headers[] = {
        {CAY_STR("content-type"), CAY_STR("application/octet-stream")},
        {CAY_STR("content-disposition"), CAY_STR("inline")},
        {CAY_STR("accept-ranges"), CAY_STR("bytes")},
        {},
    };
    snprintf(range, sizeof(range), "bytes %lld-%lld/%lld", (long long)self->first,
             (long long)(self->first + self->left - 1), (long long)self->size);
    headers[3] = (struct cay_http_header){CAY_STR("content-range"), cay_str(range)};
    cay_rest_respond(request, self->is_part ? 206 : 200, headers,
                     CAY_COUNT(headers) - !self->is_part, self->left);
}

static bool on_frame(struct cay_rest_request *request, struct cay_rest_call *call,
                     const void *message)
{
    const struct cay_v1_read_file_response *response = message;
    struct download *self = call->state;
    if (response->which_frame == CAY_V1_READ_FILE_RESPONSE_FRAME_INFO) {
        if (!self->is_part)
            self->left = self->size = response->frame.info->size;
        respond(request, self);
    } else {
        struct cay_str data = response->frame.data;
        size_t len = (size_t)CAY_MIN((int64_t)data.len, self->left);
        cay_exchange_write(request->exchange, data.ptr, len);
        self->left -= (int64_t)len;
    }
    return cay_exchange_has_room(request->exchange);
}

static void ended(struct cay_rest_request *request, struct cay_rest_call *call, const void *,
                  const struct cay_error *err)
{
    struct download *self = call->state;
    self->call = NULL;
    if (err && !request->is_answered)
        cay_e2b_files_error(request, err);
    else if (err || self->left)
        cay_exchange_reset(request->exchange);
    else
        cay_exchange_finish(request->exchange, NULL, 0);
}

static void on_room(struct cay_rest_request *request)
{
    const struct download *self = request->state;
    if (self->call)
        cay_rest_call_room(self->call);
}

static void start(struct cay_rest_request *request, struct download *self)
{
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_FILE_SERVICE_READ_FILE);
    struct cay_v1_read_file_request *ask = cay_rest_call_message(call);
    ask->session_id = cay_e2b_visit(request)->sandbox_id;
    ask->path = cay_e2b_path(request, self->file.path);
    ask->user = self->file.user;
    if (self->is_part) {
        ask->offset = self->first;
        ask->has_length = true;
        ask->length = self->left;
    }
    self->call = call;
    call->state = self;
    call->on_message = on_frame;
    cay_rest_call_start(call, ended);
}

/* `bytes=A-B`, `A-` or `-N` of a file of that size. False for anything else: all of it is sent. */
static bool read_range(struct cay_str text, int64_t size, int64_t *out_first, int64_t *out_last)
{
    static const char unit[] = "bytes=";
    uint64_t first = 0;
    uint64_t last = 0;
    if (!cay_str_starts(text, unit))
        return false;
    text = (struct cay_str){text.ptr + sizeof(unit) - 1, text.len - (sizeof(unit) - 1)};
    const char *dash = memchr(text.ptr, '-', text.len);
    if (!dash)
        return false;
    struct cay_str from = {text.ptr, (size_t)(dash - text.ptr)};
    struct cay_str to = {dash + 1, text.len - from.len - 1};
    if ((from.len && cay_str_to_u64(from, INT64_MAX - 1, &first) < 0) ||
        (to.len && cay_str_to_u64(to, INT64_MAX - 1, &last) < 0) || (!from.len && !to.len))
        return false;
    if (!from.len) {
        *out_first = CAY_MAX(size - (int64_t)last, (int64_t)0);
        *out_last = last ? size - 1 : -1;
    } else {
        *out_first = (int64_t)first;
        *out_last = to.len ? CAY_MIN((int64_t)last, size - 1) : size - 1;
    }
    return !to.len || !from.len || last >= first;
}

static void looked(struct cay_rest_request *request, struct cay_rest_call *call,
                   const void *response, const struct cay_error *err)
{
    const struct cay_v1_stat_file_response *stat = response;
    struct download *self = call->state;
    struct cay_str range = cay_http_header(&request->exchange->headers, "range");
    int64_t last = 0;
    if (err) {
        cay_e2b_files_error(request, err);
        return;
    }
    self->size = stat->info->size;
    self->is_part = stat->info->type == CAY_V1_FILE_TYPE_FILE &&
                    read_range(range, self->size, &self->first, &last);
    if (self->is_part && (self->first >= self->size || last < self->first)) {
        char size[48];
        snprintf(size, sizeof(size), "bytes */%lld", (long long)self->size);
        const struct cay_http_header header = {CAY_STR("content-range"), cay_str(size)};
        cay_rest_reply_json_with(
            request, 416, CAY_STR("{\"code\":416,\"message\":\"the file has no such part\"}"),
            &header, 1);
        return;
    }
    self->left = self->is_part ? last - self->first + 1 : 0;
    start(request, self);
}

void cay_e2b_files_get(struct cay_rest_request *request)
{
    struct download *self = cay_arena_new(&request->arena, struct download);
    if (!self) {
        cay_rest_reply_fault(request, 413, "the request is too large");
        return;
    }
    cay_e2b_files_query(request, &self->file);
    request->state = self;
    request->on_room = on_room;
    if (!cay_http_header(&request->exchange->headers, "range").len) {
        start(request, self);
        return;
    }
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_FILE_SERVICE_STAT_FILE);
    struct cay_v1_stat_file_request *ask = cay_rest_call_message(call);
    ask->session_id = cay_e2b_visit(request)->sandbox_id;
    ask->path = cay_e2b_path(request, self->file.path);
    ask->user = self->file.user;
    ask->follow = true;
    call->state = self;
    cay_rest_call_start(call, looked);
}
