/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "front/e2b/envd/entry.h"
#include "front/e2b/envd/files.h"
#include "front/e2b/envd/handlers.h"
#include "front/rest/call.h"
#include "wire/e2b/multipart.h"
#include "wire/gzip.h"

/*
 * POST /files: one file as the body, or several as the parts of a form, packed or not. What comes
 * waits in a buffer until the file before it is written, and no more of it is read than that holds.
 */

enum {
    PIECE_BYTES = 128 * 1024,
    IN_BYTES_MAX = 4 * CAY_LIMIT_BODY_QUEUE_BYTES, /* no more is read ahead by HTTP */
    METADATA_KEY_BYTES_MAX = 246,
    METADATA_BYTES_MAX = 4096,
};

struct target {
    struct cay_str path;
    struct target *next;
};

struct upload {
    struct cay_e2b_file file;
    struct cay_pb_pairs metadata;
    struct cay_multipart *parts; /* NULL: the body is the file */
    struct cay_gunzip_stream zip;
    bool is_packed;
    bool is_body_over;

    struct cay_buf in; /* came, and is not unpacked yet */
    size_t in_at;
    char *piece;         /* plain bytes; stays until whoever got it wants more */
    struct cay_str left; /* of the piece */

    struct cay_rest_call *call; /* writes a file */
    struct target *targets;     /* the newest first */
    bool is_opened;             /* the call knows which file */
    bool is_pumping;

    struct cay_buf answer;
    struct cay_json_writer json;
};

static void pump(struct cay_rest_request *request);

static void on_closed(struct cay_rest_request *request)
{
    struct upload *self = request->state;
    cay_gunzip_close(&self->zip);
    cay_buf_finish(&self->in);
    cay_buf_finish(&self->answer);
}

static void finish(struct cay_rest_request *request, struct upload *self)
{
    cay_json_array_end(&self->json);
    cay_rest_reply_json(request, 200, cay_buf_str(&self->answer));
}

static void write_result(struct cay_json_writer *json, const struct cay_v1_file_info *info)
{
    cay_json_object_begin(json);
    cay_json_key(json, "name");
    cay_json_string(json, info->name);
    cay_json_key(json, "path");
    cay_json_string(json, info->path);
    cay_json_key(json, "type");
    cay_json_text(json, "file");
    cay_e2b_write_metadata(json, info);
    cay_json_object_end(json);
}

static void written(struct cay_rest_request *request, struct cay_rest_call *, const void *response,
                    const struct cay_error *err)
{
    const struct cay_v1_write_file_response *file = response;
    struct upload *self = request->state;
    self->call = NULL;
    if (request->is_answered)
        return;
    if (err) {
        cay_e2b_files_error(request, err);
        return;
    }
    write_result(&self->json, file->info);
    if (self->parts)
        pump(request);
    else
        finish(request, self);
}

static void on_want(struct cay_rest_request *request, struct cay_rest_call *)
{
    pump(request);
}

static void start_file(struct cay_rest_request *request, struct upload *self, struct cay_str path)
{
    struct target *target = cay_arena_new(&request->arena, struct target);
    struct cay_str copy = cay_arena_str(&request->arena, path);
    if (!target || !copy.ptr) {
        cay_rest_reply_fault(request, 413, "too many files for one request");
        return;
    }
    *target = (struct target){.path = cay_e2b_path(request, copy), .next = self->targets};
    for (const struct target *other = self->targets; other; other = other->next) {
        if (cay_str_equal(other->path, target->path)) {
            cay_rest_reply_fault(request, 400, "two files of the request have the same path");
            return;
        }
    }
    self->targets = target;
    self->is_opened = false;
    self->call = cay_rest_call_new(request, CAY_V1_FILE_SERVICE_WRITE_FILE);
    self->call->on_want = on_want;
    cay_rest_call_start(self->call, written);
}

static void open_file(struct cay_rest_request *request, struct upload *self)
{
    struct cay_v1_write_file_open open = {
        .session_id = cay_e2b_visit(request)->sandbox_id,
        .path = self->targets->path,
        .user = self->file.user,
        .create_parents = true,
        .as_root = true,
        .write_mode = CAY_V1_WRITE_MODE_TRUNCATE,
        .set_metadata = true,
        .metadata = self->metadata,
        .metadata_space = CAY_STR("e2b"),
    };
    const struct cay_v1_write_file_request message = {
        .which_frame = CAY_V1_WRITE_FILE_REQUEST_FRAME_OPEN, .frame.open = &open};
    self->is_opened = true;
    cay_rest_call_give(self->call, &message);
}

static void give(struct upload *self, struct cay_str data)
{
    const struct cay_v1_write_file_request message = {
        .which_frame = CAY_V1_WRITE_FILE_REQUEST_FRAME_DATA, .frame.data = data};
    cay_rest_call_give(self->call, &message);
}

/* Makes the next piece out of what came. False when that is no gzip. */
static bool fill(struct cay_rest_request *request, struct upload *self)
{
    while (!self->left.len && self->in_at < self->in.len) {
        struct cay_str from = {self->in.data + self->in_at, self->in.len - self->in_at};
        size_t before = from.len;
        ssize_t len = (ssize_t)CAY_MIN(from.len, (size_t)PIECE_BYTES);
        if (self->is_packed) {
            len = cay_gunzip_feed(&self->zip, &from, self->piece, PIECE_BYTES);
        } else {
            memcpy(self->piece, from.ptr, (size_t)len);
            from.len -= (size_t)len;
        }
        if (len < 0) {
            cay_rest_reply_fault(request, 400, "the body is not gzip as it says");
            return false;
        }
        size_t used = before - from.len;
        self->in_at += used;
        self->left = (struct cay_str){self->piece, (size_t)len};
        if (used)
            cay_exchange_taken(request->exchange, used);
        if (!used && !len)
            break;
    }
    return true;
}

/* All has come, and all of it is used. */
static bool is_drained(const struct upload *self)
{
    return self->is_body_over && !self->left.len && self->in_at == self->in.len;
}

static bool check_end(struct cay_rest_request *request, const struct upload *self)
{
    if (!self->is_packed || self->zip.is_over)
        return true;
    cay_rest_reply_fault(request, 400, "the body ends before its gzip does");
    return false;
}

static bool step_whole(struct cay_rest_request *request, struct upload *self)
{
    if (self->left.len) {
        struct cay_str data = self->left;
        self->left = (struct cay_str){};
        give(self, data);
        return true;
    }
    if (is_drained(self) && check_end(request, self))
        cay_rest_call_give(self->call, NULL);
    return false;
}

static void on_part(struct cay_rest_request *request, struct upload *self)
{
    const struct cay_multipart *parts = self->parts;
    if (!cay_str_is(parts->name, "file"))
        return;
    struct cay_str path = self->file.path.len ? self->file.path : parts->filename;
    if (path.len)
        start_file(request, self, path);
    else
        cay_rest_reply_fault(request, 400, "a file of the request has no name");
}

static bool step_parts(struct cay_rest_request *request, struct upload *self)
{
    enum cay_multipart_event event = CAY_MULTIPART_MORE;
    struct cay_str data;
    if (is_drained(self) && self->parts->state != CAY_MULTIPART_CLOSED) {
        if (!cay_multipart_is_over(self->parts))
            cay_rest_reply_fault(request, 400, "the form breaks off");
        else if (check_end(request, self))
            finish(request, self);
        return false;
    }
    if (!self->left.len && self->parts->state != CAY_MULTIPART_CLOSED)
        return false;
    ssize_t used = cay_multipart_feed(self->parts, self->left.ptr, self->left.len, &event, &data);
    if (used < 0) {
        cay_rest_reply_fault(request, 400,
                             used == -EMSGSIZE ? "the head of a part is too long"
                                               : "the body is not a form as it says");
        return false;
    }
    self->left = (struct cay_str){self->left.ptr + used, self->left.len - (size_t)used};
    if (event == CAY_MULTIPART_PART)
        on_part(request, self);
    else if (event == CAY_MULTIPART_DATA && self->call)
        give(self, data);
    else if (event == CAY_MULTIPART_PART_END && self->call)
        cay_rest_call_give(self->call, NULL);
    return true;
}

/* One thing at a time; false when there is nothing to do until more comes or more is wanted. */
static bool step(struct cay_rest_request *request, struct upload *self)
{
    if (self->call && !self->call->errand.wants)
        return false;
    if (self->call && !self->is_opened) {
        open_file(request, self);
        return true;
    }
    if (!fill(request, self))
        return false;
    return self->parts ? step_parts(request, self) : step_whole(request, self);
}

static void pump(struct cay_rest_request *request)
{
    struct upload *self = request->state;
    if (self->is_pumping)
        return;
    self->is_pumping = true;
    while (!request->is_answered && step(request, self))
        ;
    self->is_pumping = false;
}

static void on_body(struct cay_rest_request *request, const char *data, size_t len)
{
    struct upload *self = request->state;
    /* What was used goes first: somebody who sends without a pause never lets it run empty. */
    if (self->in_at)
        memmove(self->in.data, self->in.data + self->in_at, self->in.len - self->in_at);
    self->in.len -= self->in_at;
    self->in_at = 0;
    cay_buf_append(&self->in, data, len);
    if (self->in.failed) {
        cay_rest_reply_fault(request, 413, "more came than was asked for");
        return;
    }
    pump(request);
}

static void on_body_end(struct cay_rest_request *request)
{
    struct upload *self = request->state;
    self->is_body_over = true;
    pump(request);
}

static bool is_printable(struct cay_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < 0x20 || text.ptr[i] > 0x7E)
            return false;
    }
    return true;
}

/* X-Metadata-KEY: VALUE */
static const char *read_metadata(struct cay_rest_request *request, struct cay_pb_pairs *out)
{
    static const char prefix[] = "x-metadata-";
    const struct cay_http_headers *headers = &request->exchange->headers;
    size_t total = 0;
    out->items = cay_arena_array(&request->arena, headers->count, sizeof(*out->items));
    for (size_t i = 0; out->items && i < headers->count; i++) {
        struct cay_str name = headers->items[i].name;
        struct cay_str value = headers->items[i].value;
        char *key = cay_arena_copy(&request->arena, name);
        for (size_t j = 0; key && j < name.len; j++)
            key[j] = (char)(key[j] >= 'A' && key[j] <= 'Z' ? key[j] | 0x20 : key[j]);
        if (!key || !cay_str_starts((struct cay_str){key, name.len}, prefix))
            continue;
        struct cay_pb_pair pair = {
            .key = {key + sizeof(prefix) - 1, name.len - (sizeof(prefix) - 1)}, .value = value};
        total += pair.key.len + value.len;
        if (!pair.key.len || pair.key.len > METADATA_KEY_BYTES_MAX)
            return "a key of the metadata has 1 to 246 bytes";
        if (!is_printable(pair.key) || !is_printable(value))
            return "metadata is printable ASCII";
        if (total > METADATA_BYTES_MAX)
            return "metadata has at most 4096 bytes in all";
        out->items[out->count++] = pair;
    }
    return NULL;
}

/* What the head says of the body; the fault when it cannot be. */
static const char *read_type(struct cay_rest_request *request, struct upload *self)
{
    const struct cay_http_headers *headers = &request->exchange->headers;
    struct cay_str type = cay_http_header(headers, "content-type");
    struct cay_str encoding = cay_http_header(headers, "content-encoding");
    self->is_packed = cay_str_is(encoding, "gzip");
    if (encoding.len && !self->is_packed && !cay_str_is(encoding, "identity"))
        return "the body's encoding is gzip or none";
    if (self->is_packed && cay_gunzip_open(&self->zip) < 0)
        return "the body cannot be unpacked now";
    if (cay_str_starts(type, "application/octet-stream"))
        return self->file.path.len ? NULL : "the path is missing";
    if (!cay_str_starts(type, "multipart/form-data"))
        return "the body is application/octet-stream or multipart/form-data";
    self->parts = cay_arena_new(&request->arena, struct cay_multipart);
    return self->parts && cay_multipart_init(self->parts, type) == 0 ? NULL
                                                                     : "the form has no boundary";
}

void cay_e2b_files_post(struct cay_rest_request *request)
{
    /* All that a call may still read is the request's, which lives as long as its calls. */
    struct upload *self = cay_arena_new(&request->arena, struct upload);
    char *piece = cay_arena_alloc(&request->arena, PIECE_BYTES);
    if (!self || !piece) {
        cay_rest_reply_fault(request, 413, "the request is too large");
        return;
    }
    cay_e2b_files_query(request, &self->file);
    self->piece = piece;
    cay_buf_init(&self->in, IN_BYTES_MAX);
    cay_buf_init(&self->answer, CAY_LIMIT_MESSAGE_BYTES);
    self->json = (struct cay_json_writer){.buf = &self->answer};
    cay_json_array_begin(&self->json);
    request->state = self;
    request->on_closed = on_closed;
    const char *fault = read_type(request, self);
    if (!fault)
        fault = read_metadata(request, &self->metadata);
    if (fault) {
        cay_rest_reply_fault(request, 400, fault);
        return;
    }
    request->on_body = on_body;
    request->on_body_end = on_body_end;
    if (!self->parts)
        start_file(request, self, self->file.path);
}
