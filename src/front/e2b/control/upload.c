/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "api/limits.h"
#include "base/clock.h"
#include "front/e2b/control/handlers.h"
#include "front/e2b/control/orders.h"
#include "front/e2b/control/template.h"
#include "front/e2b/token.h"
#include "sys/sha256.h"

/*
 * Files for builds. A client asks where to put them and is given a URL of ours, which is signed:
 * whoever has it may put this one archive, for this owner, for an hour. The secret behind it is the
 * daemon's own and ends with it.
 */

enum {
    LINK_S = 60 * 60,
    PIECE_BYTES = 4 * CAY_LIMIT_BODY_QUEUE_BYTES, /* HTTP reads no more ahead */
};

static void sign(const struct cay_e2b *door, struct cay_str owner, struct cay_str hash,
                 struct cay_str expires, char out[static CAY_SHA256_HEX_SIZE])
{
    char text[CAY_ID_SIZE + CAY_SHA256_HEX_SIZE + 32];
    int len = snprintf(text, sizeof(text), "%.*s\n%.*s\n%.*s", (int)CAY_MIN(owner.len, 128u),
                       owner.ptr, (int)CAY_MIN(hash.len, 64u), hash.ptr,
                       (int)CAY_MIN(expires.len, 20u), expires.ptr);
    cay_hmac_sha256(door->secret, sizeof(door->secret), (struct cay_str){text, (size_t)len}, out);
}

/* --- GET /templates/{}/files/{} --- */

static void reply_link(struct cay_rest_request *request, bool is_present)
{
    struct cay_exchange *exchange = request->exchange;
    struct cay_str owner = cay_str(request->caller.owner);
    char expires[24];
    char signature[CAY_SHA256_HEX_SIZE];
    int len = snprintf(expires, sizeof(expires), "%lld",
                       (long long)(cay_clock_wall_ns() / CAY_NS_PER_SEC + LINK_S));
    sign(cay_e2b_visit(request)->e2b, owner, request->params[1],
         (struct cay_str){expires, (size_t)len}, signature);
    /* Who stands between may speak TLS for us. */
    struct cay_str scheme = cay_http_header(&exchange->headers, "x-forwarded-proto");
    bool is_tls = exchange->is_tls || cay_str_is(scheme, "https");
    const char *url = cay_arena_printf(
        &request->arena, "%s://%.*s/templates/uploads/%s/%.*s?expires=%s&signature=%s",
        is_tls ? "https" : "http", (int)exchange->host.len, exchange->host.ptr,
        request->caller.owner, (int)request->params[1].len, request->params[1].ptr, expires,
        signature);
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_buf_init(&body, CAY_LIMIT_MESSAGE_BYTES);
    struct cay_json_writer json = {.buf = &body};
    cay_json_object_begin(&json);
    cay_json_key(&json, "present");
    cay_json_bool(&json, is_present);
    cay_json_key(&json, "url");
    cay_json_text(&json, url ? url : "");
    cay_json_object_end(&json);
    cay_rest_reply_json(request, 201, cay_buf_str(&body));
}

static void got_files(struct cay_rest_request *request, struct cay_rest_call *, const void *,
                      const struct cay_error *err)
{
    if (err && err->reason != CAY_R_NOT_FOUND)
        cay_rest_reply_error(request, err);
    else
        reply_link(request, !err);
}

void cay_e2b_files_link(struct cay_rest_request *request)
{
    if (!cay_sha256_is_hex(request->params[1])) {
        cay_rest_reply_fault(request, 400, "the hash of files has 64 lower-case hex digits");
        return;
    }
    if (!cay_e2b_order_find(request, (struct cay_str){},
                            cay_e2b_template_name(request->params[0]))) {
        cay_rest_reply_fault(request, 404, "no build of such a template was asked for");
        return;
    }
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_BASE_SERVICE_GET_BUILD_FILES);
    struct cay_v1_get_build_files_request *ask = cay_rest_call_message(call);
    ask->key = request->params[1];
    cay_rest_call_start(call, got_files);
}

/* --- PUT /templates/uploads/{}/{} --- */

struct upload {
    struct cay_rest_call *call; /* NULL once answered */
    struct cay_buf in;          /* came, and is not handed on yet */
    char *piece;                /* being kept; the request's, which lives as long as its calls */
    bool is_keyed;
    bool is_over;
    bool is_pumping;
};

static void give_next(struct cay_rest_request *request, struct upload *self)
{
    struct cay_v1_put_build_files_request message = {};
    if (!self->is_keyed) {
        self->is_keyed = true;
        message.which_frame = CAY_V1_PUT_BUILD_FILES_REQUEST_FRAME_KEY;
        message.frame.key = request->params[1];
        cay_rest_call_give(self->call, &message);
        return;
    }
    if (!self->in.len) {
        cay_rest_call_give(self->call, NULL);
        return;
    }
    message.which_frame = CAY_V1_PUT_BUILD_FILES_REQUEST_FRAME_DATA;
    message.frame.data = (struct cay_str){self->piece, self->in.len};
    memcpy(self->piece, self->in.data, self->in.len);
    cay_buf_clear(&self->in, PIECE_BYTES);
    cay_exchange_taken(request->exchange, message.frame.data.len);
    cay_rest_call_give(self->call, &message);
}

/* What came goes on as long as it is wanted. */
static void pump(struct cay_rest_request *request)
{
    struct upload *self = request->state;
    if (self->is_pumping)
        return;
    cay_rest_enter(request); /* the end of it may be in between */
    self->is_pumping = true;
    while (self->call && self->call->errand.wants && !request->is_answered &&
           (!self->is_keyed || self->in.len || self->is_over))
        give_next(request, self);
    self->is_pumping = false;
    cay_rest_leave(request);
}

static void on_want(struct cay_rest_request *request, struct cay_rest_call *)
{
    pump(request);
}

static void on_body(struct cay_rest_request *request, const char *data, size_t len)
{
    struct upload *self = request->state;
    cay_buf_append(&self->in, data, len);
    if (self->in.failed)
        cay_rest_reply_fault(request, 500, "more of the body came than was asked for");
    else
        pump(request);
}

static void on_body_end(struct cay_rest_request *request)
{
    struct upload *self = request->state;
    self->is_over = true;
    pump(request);
}

static void on_closed(struct cay_rest_request *request)
{
    struct upload *self = request->state;
    cay_buf_finish(&self->in);
}

static void put_done(struct cay_rest_request *request, struct cay_rest_call *, const void *,
                     const struct cay_error *err)
{
    struct upload *self = request->state;
    self->call = NULL;
    if (request->is_answered)
        return;
    if (err)
        cay_rest_reply_error(request, err);
    else
        cay_rest_reply_empty(request, 200);
}

/* Sets the caller to the owner in the path when the signature holds. */
static bool admit(struct cay_rest_request *request)
{
    struct cay_str owner = request->params[0];
    struct cay_str hash = request->params[1];
    struct cay_str expires = cay_rest_query(request, "expires");
    struct cay_str signature = cay_rest_query(request, "signature");
    char wanted[CAY_SHA256_HEX_SIZE];
    uint64_t until_s = 0;
    if (owner.len >= sizeof(request->caller.owner) || !cay_sha256_is_hex(hash) ||
        cay_str_to_u64(expires, INT64_MAX, &until_s) < 0 || expires.len > 20)
        return false;
    sign(cay_e2b_visit(request)->e2b, owner, hash, expires, wanted);
    if (!cay_e2b_token_is(signature, cay_str(wanted)) ||
        (int64_t)until_s < cay_clock_wall_ns() / CAY_NS_PER_SEC)
        return false;
    request->caller = (struct cay_caller){.role = CAY_ROLE_USER};
    snprintf(request->caller.owner, sizeof(request->caller.owner), "%.*s", (int)owner.len,
             owner.ptr);
    return true;
}

void cay_e2b_put_files(struct cay_rest_request *request)
{
    struct cay_str length = cay_http_header(&request->exchange->headers, "content-length");
    uint64_t bytes = 0;
    if (!admit(request)) {
        cay_rest_reply_fault(request, 403, "this link is not valid (any more); ask for another");
        return;
    }
    if (length.len && cay_str_to_u64(length, UINT64_MAX, &bytes) == 0 &&
        bytes > CAY_LIMIT_BUILD_FILES_BYTES) {
        cay_rest_reply_fault(request, 413, "the files of one step are too large");
        return;
    }
    struct upload *self = cay_arena_new(&request->arena, struct upload);
    char *piece = cay_arena_alloc(&request->arena, PIECE_BYTES);
    if (!self || !piece) {
        cay_rest_reply_fault(request, 413, "the request is too large");
        return;
    }
    self->piece = piece;
    cay_buf_init(&self->in, PIECE_BYTES);
    request->state = self;
    request->on_body = on_body;
    request->on_body_end = on_body_end;
    request->on_closed = on_closed;
    self->call = cay_rest_call_new(request, CAY_V1_BASE_SERVICE_PUT_BUILD_FILES);
    self->call->on_want = on_want;
    cay_rest_call_start(self->call, put_done);
}
