/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/http_pass.h"

#include <errno.h>

enum { SWITCHED = 101, NO_CONTENT = 204, NOT_MODIFIED = 304 };

ssize_t cay_http_pass_head(struct cay_str bytes, struct cay_http_header *fields,
                           struct cay_http1_head *out_head, struct cay_http1_fault *out_fault)
{
    ssize_t len = cay_http1_parse_head(bytes, fields, CAY_HTTP_PASS_FIELDS_MAX,
                                       CAY_HTTP_PASS_HEAD_MAX, out_head, out_fault);
    /* Servers go by the target when it has a host: only plain paths pass. */
    if (len <= 0 || (out_head->path.ptr[-1] == ' ' && out_head->path.ptr[0] == '/'))
        return len;
    *out_fault = (struct cay_http1_fault){400, "only requests of paths are passed on here"};
    return -1;
}

void cay_http_pass_begin(struct cay_http_pass *pass, const struct cay_http1_head *head)
{
    *pass = (struct cay_http_pass){
        .phase = CAY_HTTP_PASS_EXCHANGE,
        .body_left = head->content_length,
        .is_chunked = head->is_chunked,
        .is_head = cay_str_is(head->method, "HEAD"),
        .may_leave = cay_http_header(&head->headers, "upgrade").ptr != NULL,
    };
}

static void look_for_end(struct cay_http_pass *pass)
{
    if (pass->phase == CAY_HTTP_PASS_EXCHANGE && pass->is_answer_over && !pass->body_left &&
        !pass->is_chunked)
        pass->phase = CAY_HTTP_PASS_BETWEEN;
}

static ssize_t feed_chunks(struct cay_http1_chunks *chunks, struct cay_str bytes, bool *is_chunked)
{
    size_t used = 0;
    while (used < bytes.len && *is_chunked) {
        struct cay_str data;
        bool is_end = false;
        ssize_t len =
            cay_http1_chunks_feed(chunks, bytes.ptr + used, bytes.len - used, &data, &is_end);
        if (len < 0)
            return len;
        used += (size_t)len;
        *is_chunked = !is_end;
    }
    return (ssize_t)used;
}

ssize_t cay_http_pass_body(struct cay_http_pass *pass, struct cay_str bytes)
{
    if (pass->phase == CAY_HTTP_PASS_THROUGH)
        return (ssize_t)bytes.len;
    if (pass->phase == CAY_HTTP_PASS_BETWEEN)
        return 0;
    ssize_t used = (ssize_t)CAY_MIN(pass->body_left, (uint64_t)bytes.len);
    if (pass->is_chunked)
        used = feed_chunks(&pass->chunks, bytes, &pass->is_chunked);
    else
        pass->body_left -= (uint64_t)used;
    look_for_end(pass);
    return used;
}

/* > 0: its length; 0: more has to come. */
static ssize_t take_answer_head(struct cay_http_pass *pass, struct cay_str bytes)
{
    struct cay_http_header fields[CAY_HTTP_PASS_FIELDS_MAX];
    struct cay_http1_answer answer;
    struct cay_http1_fault fault;
    ssize_t len = cay_http1_parse_answer(bytes, fields, CAY_HTTP_PASS_FIELDS_MAX,
                                         CAY_HTTP_PASS_HEAD_MAX, &answer, &fault);
    if (len <= 0)
        return len < 0 ? -EBADMSG : 0;
    if (answer.status == SWITCHED) {
        if (!pass->may_leave || pass->body_left || pass->is_chunked)
            return -EBADMSG;
        pass->status = answer.status;
        pass->phase = CAY_HTTP_PASS_THROUGH;
        return len;
    }
    if (answer.status < 200)
        return len;
    pass->status = answer.status;
    if (pass->is_head || answer.status == NO_CONTENT || answer.status == NOT_MODIFIED)
        pass->is_answer_over = true;
    else if (answer.is_chunked)
        pass->is_answer_chunked = true;
    else if (answer.has_length)
        pass->answer_left = answer.content_length;
    else
        pass->is_until_end = true;
    pass->is_answer_over = pass->is_answer_over || (answer.has_length && !pass->answer_left);
    return len;
}

ssize_t cay_http_pass_answer(struct cay_http_pass *pass, struct cay_str bytes)
{
    if (pass->phase == CAY_HTTP_PASS_THROUGH)
        return (ssize_t)bytes.len;
    if (pass->phase == CAY_HTTP_PASS_BETWEEN || pass->is_answer_over)
        return bytes.len ? -EBADMSG : 0; /* an answer to no request */
    ssize_t used = 0;
    if (!pass->status) {
        used = take_answer_head(pass, bytes);
    } else if (pass->is_answer_chunked) {
        used = feed_chunks(&pass->answer_chunks, bytes, &pass->is_answer_chunked);
        pass->is_answer_over = !pass->is_answer_chunked;
    } else if (pass->is_until_end) {
        used = (ssize_t)bytes.len;
    } else {
        used = (ssize_t)CAY_MIN(pass->answer_left, (uint64_t)bytes.len);
        pass->answer_left -= (uint64_t)used;
        pass->is_answer_over = !pass->answer_left;
    }
    look_for_end(pass);
    return used;
}

bool cay_http_pass_ended(struct cay_http_pass *pass)
{
    bool is_whole = pass->phase != CAY_HTTP_PASS_EXCHANGE || pass->is_answer_over ||
                    (pass->status && pass->is_until_end);
    pass->is_answer_over = true;
    return is_whole;
}
