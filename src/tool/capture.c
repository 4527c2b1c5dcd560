/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/capture.h"

#include <inttypes.h>

void cay_capture_init(struct cay_capture *capture, size_t size_bytes_max)
{
    *capture = (struct cay_capture){.tail_bytes_max = size_bytes_max / 2};
    cay_buf_init(&capture->head, size_bytes_max - capture->tail_bytes_max);
    cay_buf_init(&capture->tail, 2 * capture->tail_bytes_max + 65536);
}

void cay_capture_finish(struct cay_capture *capture)
{
    cay_buf_finish(&capture->head);
    cay_buf_finish(&capture->tail);
}

void cay_capture_add(struct cay_capture *capture, struct cay_str data)
{
    capture->total_bytes += data.len;
    size_t room = capture->head.size_bytes_max - capture->head.len;
    size_t take = CAY_MIN(room, data.len);
    cay_buf_append(&capture->head, data.ptr, take);
    data = (struct cay_str){data.ptr + take, data.len - take};
    if (data.len > capture->tail_bytes_max) {
        cay_buf_clear(&capture->tail, SIZE_MAX);
        data.ptr += data.len - capture->tail_bytes_max;
        data.len = capture->tail_bytes_max;
    }
    cay_buf_append_str(&capture->tail, data);
    if (capture->tail.len > 2 * capture->tail_bytes_max)
        cay_buf_consume(&capture->tail, capture->tail.len - capture->tail_bytes_max);
}

static struct cay_str shown_tail(const struct cay_capture *capture)
{
    size_t len = CAY_MIN(capture->tail.len, capture->tail_bytes_max);
    return (struct cay_str){capture->tail.data + (capture->tail.len - len), len};
}

uint64_t cay_capture_dropped(const struct cay_capture *capture)
{
    return capture->total_bytes - capture->head.len - shown_tail(capture).len;
}

void cay_capture_write(const struct cay_capture *capture, struct cay_buf *out)
{
    uint64_t dropped = cay_capture_dropped(capture);
    cay_buf_append_str(out, cay_buf_str(&capture->head));
    if (dropped)
        cay_buf_printf(out, "\n[... %" PRIu64 " bytes left out ...]\n", dropped);
    if (capture->tail.len)
        cay_buf_append_str(out, shown_tail(capture));
}
