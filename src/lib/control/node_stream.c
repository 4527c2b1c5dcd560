/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "api/limits.h"
#include "base/clock.h"
#include "base/sized.h"
#include "client/rpc/flow.h"
#include "lib/control/node_internal.h"
#include "lib/control/result.h"
#include "lib/entry.h"

/*
 * Output is a flow of AttachProcess, which is opened again where it was when it breaks. Input goes
 * by calls of its own, so that several threads can write while one reads.
 */

enum {
    WRITE_BYTES = 256 * 1024,
    FULL_MS = 20, /* until a process that does not read is tried again */
    SIDE_MAX = UINT16_MAX,
};

/* Before each attempt after one that failed. A host that is restarted is back within this. */
static const int waits_ms[] = {20, 50, 100, 200, 500, 1000, 2000};

struct cay_stream {
    struct cay_control *control; /* held */
    char *sandbox_id;
    char *process_id;
    struct cay_cancel *cancel;

    /* Of the one who reads. */
    struct cay_flow *flow;  /* NULL: there is none at the moment */
    struct cay_arena arena; /* of the message at hand */
    struct cay_stream_piece piece;
    int64_t next_offset; /* behind what was read */
    int64_t again_ns;    /* no flow before that */
    unsigned tries;      /* that failed since something came */
    bool has_heard;      /* anything at all */
    bool is_over;
    struct cay_process_status *status; /* of a process that has ended */
    struct cay_error err;              /* of a stream that failed */
};

/* --- open and close --- */

bool cay_node_attach(struct cay_control *control, const char *sandbox_id, const char *process_id,
                     const struct cay_stream_options *options, struct cay_stream **out_stream,
                     struct cay_error *err)
{
    struct cay_stream *stream = calloc(1, sizeof(*stream));
    if (!stream)
        return cay_node_no_memory(err);
    cay_arena_init(&stream->arena, CAY_LIMIT_CALL_ARENA_BYTES);
    stream->control = cay_control_ref(control);
    stream->sandbox_id = strdup(sandbox_id);
    stream->process_id = strdup(process_id);
    stream->cancel = options->cancel;
    stream->next_offset = options->offset;
    if (!stream->sandbox_id || !stream->process_id) {
        cay_stream_close(stream);
        return cay_node_no_memory(err);
    }
    *out_stream = stream;
    return true;
}

void cay_stream_close(struct cay_stream *stream)
{
    if (!stream)
        return;
    cay_flow_close(stream->flow);
    cay_arena_finish(&stream->arena);
    cay_process_status_free(stream->status);
    cay_control_unref(stream->control);
    free(stream->sandbox_id);
    free(stream->process_id);
    free(stream);
}

/* --- reading --- */

static enum cay_flow_news end(struct cay_stream *stream, const struct cay_error *err)
{
    cay_flow_close(cay_take_ptr(stream->flow));
    stream->is_over = true;
    if (err)
        stream->err = *err;
    return err ? CAY_FLOW_FAILED : CAY_FLOW_END;
}

static bool begin(struct cay_stream *stream, struct cay_error *err)
{
    const struct cay_call_options options = {
        .size = sizeof(options), .timeout_ms = -1, .cancel = stream->cancel};
    const struct cay_v1_attach_process_request request = {
        .session_id = cay_str(stream->sandbox_id),
        .which_target = CAY_V1_ATTACH_PROCESS_REQUEST_TARGET_PROCESS_ID,
        .target.process_id = cay_str(stream->process_id),
        .has_offset = true,
        .offset = stream->next_offset,
    };
    return cay_flow_start(cay_node_client(stream->control),
                          &cay_v1_process_service_attach_process_method, &options, &stream->flow,
                          err) &&
           cay_flow_send_message(stream->flow, &request, err);
}

/* Whether another attempt is to be made, and when. A host that was not there in the first place is
 * not waited for. */
static bool may_go_on(struct cay_stream *stream, const struct cay_error *err)
{
    bool was_there = stream->tries || stream->has_heard ||
                     (err->sys_errno != ECONNREFUSED && err->sys_errno != ENOENT);
    if (!cay_node_is_lost(err) || !was_there || stream->tries >= CAY_COUNT(waits_ms))
        return false;
    stream->again_ns = cay_clock_ns() + waits_ms[stream->tries++] * (int64_t)CAY_NS_PER_MS;
    cay_flow_close(cay_take_ptr(stream->flow));
    return true;
}

/* What a frame means: a piece, the end, or nothing that a reader wants to know. */
static enum cay_flow_news take(struct cay_stream *stream,
                               const struct cay_v1_attach_process_response *response,
                               struct cay_error *err)
{
    stream->tries = 0;
    stream->has_heard = true;
    if (response->which_frame == CAY_V1_ATTACH_PROCESS_RESPONSE_FRAME_EXITED)
        return cay_node_tell(response->frame.exited, "", &stream->status, err) ? CAY_FLOW_END
                                                                               : CAY_FLOW_FAILED;
    if (response->which_frame != CAY_V1_ATTACH_PROCESS_RESPONSE_FRAME_OUTPUT)
        return CAY_FLOW_NOTHING;
    const struct cay_v1_output_chunk *chunk = response->frame.output;
    stream->piece = (struct cay_stream_piece){
        .stream = chunk->stream == CAY_V1_OUTPUT_STREAM_STDERR ? 2 : 1,
        .data = chunk->data.len ? chunk->data.ptr : "",
        .len = chunk->data.len,
        .offset = chunk->offset,
        .dropped_bytes = chunk->dropped_bytes,
    };
    stream->next_offset = chunk->offset + (int64_t)chunk->data.len;
    return CAY_FLOW_MESSAGE;
}

/* One message, or none yet. `*out_is_idle`: nothing more can be done without waiting. */
static enum cay_flow_news advance(struct cay_stream *stream, bool *out_is_idle)
{
    struct cay_error err = {};
    const void *message = NULL;
    *out_is_idle = !stream->flow && cay_clock_ns() < stream->again_ns;
    if (*out_is_idle && !cay_cancel_is_fired(stream->cancel))
        return CAY_FLOW_NOTHING;
    if (!stream->flow && !begin(stream, &err))
        return end(stream, &err);
    cay_arena_finish(&stream->arena);
    switch (cay_flow_next_message(stream->flow, &stream->arena, &message, &err)) {
    case CAY_FLOW_NOTHING: *out_is_idle = true; return CAY_FLOW_NOTHING;
    case CAY_FLOW_MESSAGE: break;
    case CAY_FLOW_FAILED: return may_go_on(stream, &err) ? CAY_FLOW_NOTHING : end(stream, &err);
    case CAY_FLOW_END:
        cay_fail(&err, CAY_R_INTERNAL, "the daemon did not say how the process ended");
        return end(stream, &err);
    }
    enum cay_flow_news news = take(stream, message, &err);
    if (news == CAY_FLOW_END || news == CAY_FLOW_FAILED)
        return end(stream, news == CAY_FLOW_END ? NULL : &err);
    return news;
}

enum cay_flow_news cay_stream_step(struct cay_stream *stream,
                                   const struct cay_stream_piece **out_piece, struct cay_error *err)
{
    struct cay_error ignored;
    err = cay_entry_error(err, &ignored);
    if (!stream || !out_piece) {
        cay_fail(err, CAY_R_INVALID_ARGUMENT, "%s: it is missing", stream ? "out_piece" : "stream");
        return CAY_FLOW_FAILED;
    }
    enum cay_flow_news news = CAY_FLOW_NOTHING;
    bool is_idle = false;
    while (!stream->is_over && news == CAY_FLOW_NOTHING && !is_idle)
        news = advance(stream, &is_idle);
    if (stream->is_over)
        news = stream->err.reason ? CAY_FLOW_FAILED : CAY_FLOW_END;
    if (news == CAY_FLOW_FAILED)
        *err = stream->err;
    if (news == CAY_FLOW_MESSAGE)
        *out_piece = &stream->piece;
    return news;
}

int cay_stream_fd(const struct cay_stream *stream)
{
    return stream && stream->flow ? cay_flow_fd(stream->flow) : -1;
}

short cay_stream_events(const struct cay_stream *stream)
{
    return stream && stream->flow ? cay_flow_events(stream->flow) : 0;
}

int cay_stream_timeout_ms(const struct cay_stream *stream)
{
    if (!stream || stream->is_over)
        return 0;
    if (stream->flow)
        return cay_flow_timeout_ms(stream->flow);
    int64_t left_ns = CAY_MAX(stream->again_ns - cay_clock_ns(), 0);
    return (int)((left_ns + CAY_NS_PER_MS - 1) / CAY_NS_PER_MS);
}

enum cay_flow_news cay_stream_read(struct cay_stream *stream,
                                   const struct cay_stream_piece **out_piece, struct cay_error *err)
{
    for (;;) {
        enum cay_flow_news news = cay_stream_step(stream, out_piece, err);
        if (news != CAY_FLOW_NOTHING)
            return news;
        short events = cay_stream_events(stream);
        struct pollfd entries[] = {
            {.fd = events ? cay_stream_fd(stream) : -1, .events = events},
            {.fd = cay_cancel_fd(stream->cancel), .events = POLLIN},
        };
        (void)poll(entries, CAY_COUNT(entries), cay_stream_timeout_ms(stream));
    }
}

const struct cay_process_status *cay_stream_status(const struct cay_stream *stream)
{
    return stream ? stream->status : NULL;
}

/* --- writing --- */

/* What all of these begin with. On true, `use` is to be ended. */
static bool enter(struct cay_stream *stream, const struct cay_call_options *given,
                  struct cay_node_use *out_use, struct cay_error *err)
{
    struct cay_call_options options;
    if (!stream)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "stream: it is missing");
    if (!cay_sized_take(given, &options, sizeof(options), "cay_call_options", err))
        return false;
    cay_node_begin(out_use, stream->control, &options);
    return true;
}

/* A process that has enough is tried again, as long as there is time. */
static bool send_piece(const struct cay_stream *stream, struct cay_node_use *use,
                       struct cay_str piece, struct cay_error *err)
{
    const struct cay_v1_send_input_request request = {
        .session_id = cay_str(stream->sandbox_id),
        .process_id = cay_str(stream->process_id),
        .data = piece,
    };
    struct cay_v1_send_input_response response;
    while (
        !cay_node_call(use, &cay_v1_process_service_send_input_method, &request, &response, err)) {
        if (err->reason != CAY_R_RESOURCE_EXHAUSTED)
            return false;
        struct pollfd entry = {.fd = cay_cancel_fd(use->options.cancel), .events = POLLIN};
        (void)poll(&entry, 1, FULL_MS); /* a cancel ends the next attempt */
    }
    return true;
}

bool cay_stream_write(struct cay_stream *stream, const void *data, size_t len,
                      const struct cay_call_options *options, struct cay_error *err)
{
    struct cay_error ignored;
    cay_auto(cay_node_end) struct cay_node_use use = {};
    err = cay_entry_error(err, &ignored);
    if (len && !data)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "data: it is missing");
    if (!enter(stream, options, &use, err))
        return false;
    for (size_t at = 0; at < len; at += WRITE_BYTES) {
        struct cay_str piece = {(const char *)data + at, CAY_MIN(len - at, (size_t)WRITE_BYTES)};
        if (!send_piece(stream, &use, piece, err))
            return false;
    }
    return true;
}

bool cay_stream_close_input(struct cay_stream *stream, const struct cay_call_options *options,
                            struct cay_error *err)
{
    struct cay_error ignored;
    cay_auto(cay_node_end) struct cay_node_use use = {};
    err = cay_entry_error(err, &ignored);
    if (!enter(stream, options, &use, err))
        return false;
    const struct cay_v1_close_input_request request = {
        .session_id = cay_str(stream->sandbox_id),
        .process_id = cay_str(stream->process_id),
    };
    struct cay_v1_close_input_response response;
    return cay_node_call(&use, &cay_v1_process_service_close_input_method, &request, &response,
                         err);
}

bool cay_stream_resize(struct cay_stream *stream, int rows, int columns,
                       const struct cay_call_options *options, struct cay_error *err)
{
    struct cay_error ignored;
    cay_auto(cay_node_end) struct cay_node_use use = {};
    err = cay_entry_error(err, &ignored);
    if (rows < 1 || rows > SIDE_MAX || columns < 1 || columns > SIDE_MAX)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "rows, columns: 1 to %d", SIDE_MAX);
    if (!enter(stream, options, &use, err))
        return false;
    struct cay_v1_pty_size size = {.rows = (uint32_t)rows, .cols = (uint32_t)columns};
    const struct cay_v1_resize_pty_request request = {
        .session_id = cay_str(stream->sandbox_id),
        .process_id = cay_str(stream->process_id),
        .size = &size,
    };
    struct cay_v1_resize_pty_response response;
    return cay_node_call(&use, &cay_v1_process_service_resize_pty_method, &request, &response, err);
}
