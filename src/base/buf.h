/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A byte buffer with a ceiling. Appending past the ceiling (or out of memory) sets `failed`, which
 * stays set until clear: a writer appends without looking and asks once at the end.
 *
 * Order: init -> append* -> look at failed -> use data/len -> clear or finish.
 */

#include "base/base.h"

struct cay_buf {
    char *data;
    size_t len;
    size_t cap;
    size_t size_bytes_max;
    bool failed;
    bool no_memory; /* it failed for that, and not at its ceiling */
};

void cay_buf_init(struct cay_buf *buf, size_t size_bytes_max);
void cay_buf_finish(struct cay_buf *buf);

/* Empties it; keeps up to keep_bytes of memory for the next use. */
void cay_buf_clear(struct cay_buf *buf, size_t keep_bytes);

void cay_buf_append(struct cay_buf *buf, const void *data, size_t len);
void cay_buf_append_str(struct cay_buf *buf, struct cay_str text);
void cay_buf_append_text(struct cay_buf *buf, const char *text);
void cay_buf_append_byte(struct cay_buf *buf, unsigned char byte);
CAY_PRINTF(2, 3) void cay_buf_printf(struct cay_buf *buf, const char *fmt, ...);

/* Room for len more bytes at data+len, to be filled by the caller and claimed with cay_buf_grew.
 * NULL (and failed) past the ceiling. */
[[nodiscard]] char *cay_buf_reserve(struct cay_buf *buf, size_t len);
void cay_buf_grew(struct cay_buf *buf, size_t len);

/* Drops the first len bytes. */
void cay_buf_consume(struct cay_buf *buf, size_t len);

static inline struct cay_str cay_buf_str(const struct cay_buf *buf)
{
    return (struct cay_str){buf->data, buf->len};
}
