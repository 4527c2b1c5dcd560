/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/front/http2_client.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static struct http2_answer *answer_of(struct http2_client *client, int32_t stream_id)
{
    size_t place = (size_t)(stream_id - 1) / 2;
    assert(place < HTTP2_ANSWERS_MAX);
    return &client->answers[place];
}

static int on_header(nghttp2_session *, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t,
                     void *context)
{
    struct http2_answer *answer = answer_of(context, frame->hd.stream_id);
    struct cay_str key = {(const char *)name, name_len};
    struct cay_str text = {(const char *)value, value_len};
    uint64_t number = 0;
    if (cay_str_is(key, ":status") && cay_str_to_u64(text, 999, &number) == 0)
        answer->status = (int)number;
    if (cay_str_is(key, "grpc-status"))
        snprintf(answer->grpc_status, sizeof(answer->grpc_status), "%.*s", (int)value_len, value);
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t, int32_t stream_id, const uint8_t *data,
                   size_t len, void *context)
{
    struct http2_client *client = context;
    struct http2_answer *answer = answer_of(client, stream_id);
    cay_buf_append(&answer->body, data, len);
    if (!client->no_consume)
        nghttp2_session_consume(session, stream_id, len);
    return 0;
}

static int on_close(nghttp2_session *, int32_t stream_id, uint32_t error_code, void *context)
{
    struct http2_answer *answer = answer_of(context, stream_id);
    answer->is_closed = true;
    answer->error_code = error_code;
    return 0;
}

static int on_frame(nghttp2_session *, const nghttp2_frame *frame, void *context)
{
    struct http2_client *client = context;
    client->got_goaway |= frame->hd.type == NGHTTP2_GOAWAY;
    return 0;
}

static ssize_t read_upload(nghttp2_session *, int32_t, uint8_t *room, size_t len, uint32_t *flags,
                           nghttp2_data_source *source, void *)
{
    struct http2_answer *answer = source->ptr;
    size_t take = CAY_MIN(len, answer->upload.len);
    if (!take && !answer->is_upload_over)
        return NGHTTP2_ERR_DEFERRED;
    if (take)
        memcpy(room, answer->upload.ptr, take);
    answer->upload.ptr += take;
    answer->upload.len -= take;
    if (!answer->upload.len && answer->is_upload_over)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)take;
}

struct http2_client *http2_client_open(struct harness *harness, bool no_consume)
{
    struct http2_client *client = cay_new(struct http2_client);
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;
    client->harness = harness;
    client->no_consume = no_consume;
    client->fd = harness_connect(harness);
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_option_new(&option);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_client_new2(&client->session, callbacks, client, option);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(client->session, NGHTTP2_FLAG_NONE, NULL, 0);
    return client;
}

void http2_client_close(struct http2_client *client)
{
    nghttp2_session_del(client->session);
    if (client->fd >= 0)
        close(client->fd);
    for (size_t i = 0; i < HTTP2_ANSWERS_MAX; i++)
        cay_buf_finish(&client->answers[i].body);
    free(client);
}

static nghttp2_nv field(const char *name, const char *value)
{
    return (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name,
                        .value = (uint8_t *)(uintptr_t)value,
                        .namelen = strlen(name),
                        .valuelen = strlen(value)};
}

struct http2_answer *http2_client_call(struct http2_client *client, const char *method,
                                       const char *type, struct cay_str upload, bool is_over)
{
    char path[512];
    snprintf(path, sizeof(path), "%s%s", *method == '/' ? "" : "/cay.v1.", method);
    const nghttp2_nv fields[] = {
        field(":method", type ? "POST" : "GET"),
        field(":scheme", "http"),
        field(":path", path),
        field(":authority", "a"),
        field("te", "trailers"),
        field("x-api-key", "good"),
        field("content-type", type ? type : "-"),
    };
    int32_t next = nghttp2_session_get_next_stream_id(client->session) > INT32_MAX
                       ? 1
                       : (int32_t)nghttp2_session_get_next_stream_id(client->session);
    struct http2_answer *answer = answer_of(client, next);
    answer->upload = upload;
    answer->is_upload_over = is_over;
    cay_buf_init(&answer->body, 64 << 20);
    nghttp2_data_provider provider = {.source.ptr = answer, .read_callback = read_upload};
    bool has_body = upload.len || !is_over;
    int32_t id = nghttp2_submit_request(client->session, NULL, fields,
                                        type ? CAY_COUNT(fields) : CAY_COUNT(fields) - 1,
                                        has_body ? &provider : NULL, NULL);
    assert(id == next);
    (void)id;
    return answer;
}

/* True when something was sent. What the socket cannot take now is kept by blocking on turns. */
static bool send_some(struct http2_client *client)
{
    const uint8_t *data = NULL;
    ssize_t len = nghttp2_session_mem_send(client->session, &data);
    if (len <= 0)
        return false;
    harness_send(client->harness, client->fd, (struct cay_str){(const char *)data, (size_t)len});
    return true;
}

void http2_client_send(struct http2_client *client)
{
    while (send_some(client))
        ;
    harness_turn(client->harness);
}

void http2_client_run(struct http2_client *client)
{
    for (int idle = 0; idle < 3 && !client->is_gone;) {
        cay_auto(cay_buf_finish) struct cay_buf received = {};
        bool moved = send_some(client);
        client->is_gone = harness_receive(client->harness, client->fd, &received);
        if (received.len)
            (void)!nghttp2_session_mem_recv(client->session, (const uint8_t *)received.data,
                                            received.len);
        idle = moved || received.len ? 0 : idle + 1;
    }
}
