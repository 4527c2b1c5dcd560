/* SPDX-License-Identifier: Apache-2.0 */
#include "api/limits.h"
#include "client/rpc/transfer.h"

/* An answer in HTTP/1.1, from whatever pieces it comes in. */

enum { PIECE_BYTES_MAX = 64 * 1024 };

void cay_answer_init(struct cay_answer *answer)
{
    *answer = (struct cay_answer){};
    cay_buf_init(&answer->head, CAY_LIMIT_HEAD_BYTES + PIECE_BYTES_MAX);
}

void cay_answer_finish(struct cay_answer *answer)
{
    cay_buf_finish(&answer->head);
}

static bool take_body(struct cay_answer *answer, struct cay_transfer *transfer,
                      struct cay_str bytes, struct cay_error *err)
{
    return !bytes.len || cay_transfer_take(transfer, answer->status, answer->type, bytes, err);
}

static bool take_chunked(struct cay_answer *answer, struct cay_transfer *transfer,
                         struct cay_str bytes, struct cay_error *err)
{
    while (bytes.len && !answer->is_complete) {
        struct cay_str data = {};
        ssize_t used = cay_http1_chunks_feed(&answer->chunks, bytes.ptr, bytes.len, &data,
                                             &answer->is_complete);
        if (used < 0)
            return cay_transfer_not_http(transfer->client, err);
        if (!take_body(answer, transfer, data, err))
            return false;
        bytes.ptr += used;
        bytes.len -= (size_t)used;
    }
    answer->is_last |= bytes.len > 0;
    return true;
}

static bool take_bytes(struct cay_answer *answer, struct cay_transfer *transfer,
                       struct cay_str bytes, struct cay_error *err)
{
    if (answer->is_chunked)
        return take_chunked(answer, transfer, bytes, err);
    if (!answer->has_length)
        return take_body(answer, transfer, bytes, err);
    answer->is_last |= bytes.len > answer->body_left;
    bytes.len = CAY_MIN(bytes.len, answer->body_left);
    answer->body_left -= bytes.len;
    answer->is_complete = !answer->body_left;
    return take_body(answer, transfer, bytes, err);
}

static bool take_head(struct cay_answer *answer, struct cay_transfer *transfer,
                      struct cay_error *err)
{
    struct cay_http_header headers[CAY_LIMIT_HEADER_COUNT];
    struct cay_http1_answer parsed = {};
    struct cay_http1_fault fault = {};
    ssize_t len = 0;
    while (!answer->has_head) {
        len = cay_http1_parse_answer(cay_buf_str(&answer->head), headers, CAY_COUNT(headers),
                                     CAY_LIMIT_HEAD_BYTES, &parsed, &fault);
        if (len < 0)
            return cay_transfer_not_http(transfer->client, err);
        if (!len)
            return true;
        answer->has_head = parsed.status >= 200;
        if (!answer->has_head)
            cay_buf_consume(&answer->head, (size_t)len);
    }
    struct cay_str type = cay_http_header(&parsed.headers, "content-type");
    memcpy(answer->type, type.ptr ? type.ptr : "", CAY_MIN(type.len, sizeof(answer->type) - 1));
    answer->status = parsed.status;
    answer->is_chunked = parsed.is_chunked;
    answer->has_length = parsed.has_length;
    answer->body_left = parsed.content_length;
    answer->is_last |= cay_http_list_has(cay_http_header(&parsed.headers, "connection"), "close") ||
                       (!parsed.is_chunked && !parsed.has_length);
    answer->is_complete = !parsed.is_chunked && parsed.has_length && !parsed.content_length;
    struct cay_str rest = cay_buf_str(&answer->head);
    rest.ptr += len;
    rest.len -= (size_t)len;
    return answer->is_complete || take_bytes(answer, transfer, rest, err);
}

bool cay_answer_feed(struct cay_answer *answer, struct cay_transfer *transfer, struct cay_str bytes,
                     struct cay_error *err)
{
    if (answer->has_head)
        return take_bytes(answer, transfer, bytes, err);
    cay_buf_append_str(&answer->head, bytes);
    return answer->head.failed ? cay_transfer_not_http(transfer->client, err)
                               : take_head(answer, transfer, err);
}

bool cay_answer_end(struct cay_answer *answer)
{
    answer->is_complete = answer->has_head && !answer->is_chunked && !answer->has_length;
    return answer->is_complete;
}
