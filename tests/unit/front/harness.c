/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/front/harness.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/loop_internal.h"
#include "io/worker.h"
#include "wire/rpc.h"

enum { RECEIVED_BYTES_MAX = 64 * 1024 * 1024 };

void harness_open_on(struct harness *harness, struct cay_service *service,
                     const struct cay_e2b_options *e2b)
{
    int status = cay_loop_create(&harness->loop);
    assert(status == 0);
    (void)status;
    echo_init(&harness->echo);
    cay_router_init(&harness->router, service, e2b, false);
    const struct cay_server_options options = {
        .route = cay_router_route,
        .context = &harness->router,
        .connection_count_max = 100,
        .head_timeout_ms = 10000,
        .idle_timeout_ms = 120000,
        .send_timeout_ms = 30000,
    };
    harness->server = cay_server_create(harness->loop, &options);
    harness->router.porch.server = harness->server;
}

void harness_open(struct harness *harness)
{
    harness_open_on(harness, &harness->echo.service, NULL);
}

void harness_close(struct harness *harness)
{
    cay_server_cut(harness->server);
    assert(harness->server->stats.connections_open == 0);
    assert(harness->server->stats.exchanges_open == 0);
    cay_server_destroy(harness->server);
    echo_finish(&harness->echo);
    assert(harness->echo.open_count == 0);
    cay_loop_finish_jobs(harness->loop);
    cay_router_finish(&harness->router);
    cay_loop_destroy(harness->loop);
}

void harness_turn(struct harness *harness)
{
    for (int i = 0; i < 8; i++) {
        if (!harness->is_held_up)
            cay_workers_wait(harness->loop->workers); /* large messages are decoded there */
        uv_run(&harness->loop->uv, UV_RUN_NOWAIT);
    }
}

int harness_connect(struct harness *harness)
{
    int pair[2];
    int status = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair);
    assert(status == 0);
    (void)status;
    const struct cay_peer peer = {.text = "test", .from = "test"};
    struct cay_party *party = cay_places_grant(&harness->server->places, peer.from);
    cay_conn_open(harness->server, pair[0], &peer, party, NULL);
    return pair[1];
}

struct cay_conn *harness_conn(const struct harness *harness)
{
    assert(!cay_list_empty(&harness->server->conns));
    return CAY_CONTAINER_OF(harness->server->conns.head.prev, struct cay_conn, in_server);
}

void harness_send(struct harness *harness, int fd, struct cay_str bytes)
{
    for (int stuck = 0; bytes.len && stuck < 100; stuck++) {
        ssize_t sent = send(fd, bytes.ptr, bytes.len, MSG_NOSIGNAL);
        if (sent > 0) {
            bytes.ptr += sent;
            bytes.len -= (size_t)sent;
            stuck = 0;
        } else if (errno != EAGAIN) {
            break;
        }
        harness_turn(harness);
    }
    harness_turn(harness);
}

bool harness_receive(struct harness *harness, int fd, struct cay_buf *out)
{
    if (!out->size_bytes_max)
        cay_buf_init(out, RECEIVED_BYTES_MAX);
    for (int idle = 0; idle < 3;) {
        char *room = cay_buf_reserve(out, 64 * 1024);
        assert(room);
        ssize_t got = recv(fd, room, 64 * 1024, 0);
        if (got > 0) {
            cay_buf_grew(out, (size_t)got);
            idle = 0;
        } else if (got == 0 || errno != EAGAIN) {
            return true;
        } else {
            idle++;
        }
        harness_turn(harness);
    }
    return false;
}

void harness_ask(struct harness *harness, int fd, struct cay_str request, struct cay_buf *out)
{
    harness_send(harness, fd, request);
    harness_receive(harness, fd, out);
}

void harness_post(struct harness *harness, int fd, const char *method, const char *type,
                  struct cay_str body)
{
    cay_auto(cay_buf_finish) struct cay_buf request;
    cay_buf_init(&request, RECEIVED_BYTES_MAX);
    cay_buf_printf(&request,
                   "POST /cay.v1.%s HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer good\r\n"
                   "Content-Type: %s\r\nContent-Length: %zu\r\n\r\n",
                   method, type, body.len);
    cay_buf_append_str(&request, body);
    harness_send(harness, fd, cay_buf_str(&request));
}

void harness_envelope(struct cay_buf *out, unsigned char flags, struct cay_str payload)
{
    if (!out->size_bytes_max)
        cay_buf_init(out, RECEIVED_BYTES_MAX);
    size_t begin = cay_envelope_begin(out);
    cay_buf_append_str(out, payload);
    cay_envelope_end(out, begin, flags);
}

size_t harness_count(const struct cay_buf *out, const char *text)
{
    size_t count = 0;
    size_t len = strlen(text);
    const char *at = out->data;
    const char *end = out->data + out->len;
    while (at && (at = memmem(at, (size_t)(end - at), text, len)) != NULL) {
        count++;
        at += len;
    }
    return count;
}

bool harness_has(const struct cay_buf *out, const char *text)
{
    return harness_count(out, text) > 0;
}
