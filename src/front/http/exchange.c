/* SPDX-License-Identifier: Apache-2.0 */
#include "front/http/exchange.h"

#include <assert.h>

#include "front/http/conn.h"
#include "front/http/server_internal.h"
#include "wire/rpc.h"

void cay_exchange_respond(struct cay_exchange *exchange, int status,
                          const struct cay_http_header *headers, size_t count,
                          int64_t content_length)
{
    assert(exchange->status == 0);
    exchange->status = status;
    exchange->ops->respond(exchange, status, headers, count, content_length);
}

void cay_exchange_write(struct cay_exchange *exchange, const void *data, size_t len)
{
    assert(exchange->status != 0 && !exchange->is_finished);
    if (!len)
        return;
    exchange->sent_bytes += len;
    exchange->ops->write(exchange, data, len);
}

void cay_exchange_finish(struct cay_exchange *exchange, const struct cay_http_header *trailers,
                         size_t count)
{
    assert(exchange->status != 0 && !exchange->is_finished);
    exchange->is_finished = true;
    exchange->ops->finish(exchange, trailers, count);
}

void cay_exchange_reply(struct cay_exchange *exchange, int status, const char *content_type,
                        struct cay_str body)
{
    struct cay_http_header headers[] = {
        {CAY_STR("content-type"), cay_str(content_type)},
    };
    cay_exchange_respond(exchange, status, headers, CAY_COUNT(headers), (int64_t)body.len);
    cay_exchange_write(exchange, body.ptr, body.len);
    cay_exchange_finish(exchange, NULL, 0);
}

void cay_exchange_reply_error(struct cay_exchange *exchange, const struct cay_error *err)
{
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_buf_init(&body, 4096);
    cay_rpc_error_json(&body, err);
    cay_exchange_reply(exchange, cay_reason_info(err->reason)->http_status, "application/json",
                       cay_buf_str(&body));
}

void cay_exchange_taken(struct cay_exchange *exchange, size_t len)
{
    if (len)
        exchange->ops->taken(exchange, len);
}

void cay_exchange_reset(struct cay_exchange *exchange)
{
    exchange->ops->reset(exchange);
}

void cay_exchange_welcome(struct cay_exchange *exchange)
{
    exchange->is_unsure = false;
    if (exchange->ops->welcome)
        exchange->ops->welcome(exchange);
}

bool cay_exchange_belongs(struct cay_exchange *exchange, const char *owner, bool is_admin,
                          struct cay_error *err)
{
    struct cay_conn *conn = exchange->conn;
    bool is_stranger = cay_list_linked(&conn->in_strangers);
    cay_list_remove(&conn->in_strangers);
    exchange->is_last = !cay_places_begin_call(&exchange->server->places, owner, is_admin,
                                               &conn->party, &exchange->call, err);
    if (exchange->is_last && is_stranger)
        cay_list_push_back(&conn->party->strangers, &conn->in_strangers);
    return !exchange->is_last;
}

size_t cay_exchange_unsent(const struct cay_exchange *exchange)
{
    return exchange->ops->queued(exchange);
}

bool cay_exchange_has_room(const struct cay_exchange *exchange)
{
    return exchange->ops->queued(exchange) < CAY_LIMIT_SEND_HIGH_BYTES;
}
