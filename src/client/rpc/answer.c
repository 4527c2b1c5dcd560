/* SPDX-License-Identifier: Apache-2.0 */
#include "client/rpc/answer.h"

#include <errno.h>

#include "api/limits.h"

enum { PIECE_BYTES_MAX = 64 * 1024 };

void cay_answer_init(struct cay_answer *answer, size_t body_bytes_max)
{
    *answer = (struct cay_answer){};
    cay_buf_init(&answer->head, CAY_LIMIT_HEAD_BYTES + PIECE_BYTES_MAX);
    cay_buf_init(&answer->body, body_bytes_max);
}

void cay_answer_finish(struct cay_answer *answer)
{
    cay_buf_finish(&answer->head);
    cay_buf_finish(&answer->body);
}

/* -ENOMEM, or `too_long` when the buffer may not hold so much. */
static int append(struct cay_buf *buf, struct cay_str bytes, int too_long)
{
    bool has_room = bytes.len <= buf->size_bytes_max - buf->len;
    cay_buf_append_str(buf, bytes);
    return !buf->failed ? 0 : has_room ? -ENOMEM : too_long;
}

static int take_body(struct cay_answer *answer, struct cay_str bytes)
{
    return append(&answer->body, bytes, -EMSGSIZE);
}

static int take_chunked(struct cay_answer *answer, struct cay_str bytes)
{
    while (bytes.len && !answer->is_complete) {
        struct cay_str data = {};
        ssize_t used = cay_http1_chunks_feed(&answer->chunks, bytes.ptr, bytes.len, &data,
                                             &answer->is_complete);
        if (used < 0)
            return -EBADMSG;
        int status = take_body(answer, data);
        if (status < 0)
            return status;
        bytes.ptr += used;
        bytes.len -= (size_t)used;
    }
    answer->is_last |= bytes.len > 0;
    return 0;
}

static int take_bytes(struct cay_answer *answer, struct cay_str bytes)
{
    if (answer->is_chunked)
        return take_chunked(answer, bytes);
    if (!answer->has_length)
        return take_body(answer, bytes);
    answer->is_last |= bytes.len > answer->body_left;
    bytes.len = CAY_MIN(bytes.len, answer->body_left);
    answer->body_left -= bytes.len;
    answer->is_complete = !answer->body_left;
    return take_body(answer, bytes);
}

static int take_head(struct cay_answer *answer)
{
    struct cay_http_header headers[CAY_LIMIT_HEADER_COUNT];
    struct cay_http1_answer parsed = {};
    struct cay_http1_fault fault = {};
    ssize_t len = 0;
    while (!answer->has_head) {
        len = cay_http1_parse_answer(cay_buf_str(&answer->head), headers, CAY_COUNT(headers),
                                     CAY_LIMIT_HEAD_BYTES, &parsed, &fault);
        if (len < 0)
            return -EBADMSG;
        if (!len)
            return 0;
        answer->has_head = parsed.status >= 200;
        if (answer->has_head)
            break;
        /* 100 and 103 are hints on the way; whoever has nothing else to say does not answer. */
        if (++answer->hint_count > CAY_LIMIT_HINTS)
            return -EBADMSG;
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
    return answer->is_complete ? 0 : take_bytes(answer, rest);
}

int cay_answer_feed(struct cay_answer *answer, struct cay_str bytes)
{
    if (answer->has_head)
        return take_bytes(answer, bytes);
    int status = append(&answer->head, bytes, -EBADMSG);
    return status < 0 ? status : take_head(answer);
}

bool cay_answer_end(struct cay_answer *answer)
{
    answer->is_complete = answer->has_head && !answer->is_chunked && !answer->has_length;
    return answer->is_complete;
}
