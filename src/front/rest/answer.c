/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "front/rest/request.h"

enum { HEADERS_MAX = 8 }; /* of an answer */

void cay_rest_respond(struct cay_rest_request *request, int status,
                      const struct cay_http_header *headers, size_t count, int64_t content_length)
{
    const struct cay_rest_dialect *dialect = request->dialect;
    struct cay_http_header all[HEADERS_MAX];
    assert(!request->is_answered && count + dialect->header_count <= HEADERS_MAX);
    if (count)
        memcpy(all, headers, count * sizeof(*headers));
    for (size_t i = 0; i < dialect->header_count; i++)
        all[count++] = dialect->headers[i];
    request->is_answered = true;
    cay_exchange_respond(request->exchange, status, all, count, content_length);
}

void cay_rest_reply_json_with(struct cay_rest_request *request, int status, struct cay_str json,
                              const struct cay_http_header *headers, size_t count)
{
    struct cay_http_header all[HEADERS_MAX] = {
        {CAY_STR("content-type"), CAY_STR("application/json")}};
    struct cay_exchange *exchange = request->exchange;
    assert(count < HEADERS_MAX);
    for (size_t i = 0; i < count; i++)
        all[i + 1] = headers[i];
    cay_rest_respond(request, status, all, count + 1, (int64_t)json.len);
    cay_exchange_write(exchange, json.ptr, json.len);
    cay_exchange_finish(exchange, NULL, 0);
}

void cay_rest_reply_json(struct cay_rest_request *request, int status, struct cay_str json)
{
    cay_rest_reply_json_with(request, status, json, NULL, 0);
}

void cay_rest_reply_empty(struct cay_rest_request *request, int status)
{
    struct cay_exchange *exchange = request->exchange;
    cay_rest_respond(request, status, NULL, 0, 0);
    cay_exchange_finish(exchange, NULL, 0);
}

void cay_rest_reply_fault(struct cay_rest_request *request, int status, const char *message)
{
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_buf_init(&body, 8192);
    struct cay_json_writer json = {.buf = &body};
    request->dialect->write_fault(&json, status, message);
    cay_rest_reply_json(request, status, cay_buf_str(&body));
}

int cay_rest_status(const struct cay_rest_request *request, const struct cay_error *err)
{
    const struct cay_rest_dialect *dialect = request->dialect;
    for (size_t i = 0; i < dialect->status_count; i++) {
        if (dialect->statuses[i].reason == err->reason)
            return dialect->statuses[i].status;
    }
    return cay_reason_info(err->reason)->http_status;
}

bool cay_rest_error_is_of(const struct cay_error *err, const char *field)
{
    const char *value = cay_error_get(err, "field");
    return value && strcmp(value, field) == 0;
}

void cay_rest_reply_error(struct cay_rest_request *request, const struct cay_error *err)
{
    request->exchange->log_code = cay_reason_info(err->reason)->name;
    cay_rest_reply_fault(request, cay_rest_status(request, err), err->text);
}
