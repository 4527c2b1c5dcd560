/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { CAP_BYTES_MIN = 256 };

void cay_buf_init(struct cay_buf *buf, size_t size_bytes_max)
{
    *buf = (struct cay_buf){.size_bytes_max = size_bytes_max};
}

void cay_buf_finish(struct cay_buf *buf)
{
    free(buf->data);
    *buf = (struct cay_buf){.size_bytes_max = buf->size_bytes_max};
}

void cay_buf_clear(struct cay_buf *buf, size_t keep_bytes)
{
    if (buf->cap > keep_bytes) {
        cay_buf_finish(buf);
        return;
    }
    buf->len = 0;
    buf->failed = buf->no_memory = false;
}

char *cay_buf_reserve(struct cay_buf *buf, size_t len)
{
    size_t need = 0;
    if (buf->failed || __builtin_add_overflow(buf->len, len, &need) || need > buf->size_bytes_max) {
        buf->failed = true;
        return NULL;
    }
    if (need > buf->cap) {
        size_t cap = CAY_MAX(buf->cap * 2, CAY_MAX(need, (size_t)CAP_BYTES_MIN));
        cap = CAY_MIN(cap, buf->size_bytes_max);
        char *grown = realloc(buf->data, cap);
        if (!grown) {
            buf->failed = buf->no_memory = true;
            return NULL;
        }
        buf->data = grown;
        buf->cap = cap;
    }
    return buf->data + buf->len;
}

void cay_buf_grew(struct cay_buf *buf, size_t len)
{
    assert(len <= buf->cap - buf->len);
    buf->len += len;
}

void cay_buf_append(struct cay_buf *buf, const void *data, size_t len)
{
    if (!len)
        return;
    char *room = cay_buf_reserve(buf, len);
    if (!room)
        return;
    memcpy(room, data, len);
    buf->len += len;
}

void cay_buf_append_str(struct cay_buf *buf, struct cay_str text)
{
    cay_buf_append(buf, text.ptr, text.len);
}

void cay_buf_append_text(struct cay_buf *buf, const char *text)
{
    cay_buf_append(buf, text, strlen(text));
}

void cay_buf_append_byte(struct cay_buf *buf, unsigned char byte)
{
    cay_buf_append(buf, &byte, 1);
}

void cay_buf_printf(struct cay_buf *buf, const char *fmt, ...)
{
    char small[256];
    va_list args;
    va_start(args, fmt);
    va_list again;
    va_copy(again, args);
    int len = vsnprintf(small, sizeof(small), fmt, args);
    va_end(args);
    if (len < 0) {
        buf->failed = true;
    } else if ((size_t)len < sizeof(small)) {
        cay_buf_append(buf, small, (size_t)len);
    } else {
        char *room = cay_buf_reserve(buf, (size_t)len + 1);
        if (room) {
            vsnprintf(room, (size_t)len + 1, fmt, again);
            buf->len += (size_t)len;
        }
    }
    va_end(again);
}

void cay_buf_consume(struct cay_buf *buf, size_t len)
{
    assert(len <= buf->len);
    if (!len)
        return;
    memmove(buf->data, buf->data + len, buf->len - len);
    buf->len -= len;
}
