/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The output of a command for an answer of bounded size: its beginning and its end, with a note of
 * what was left out between them.
 */

#include "base/buf.h"

struct cay_capture {
    struct cay_buf head;
    struct cay_buf tail; /* twice the size that is kept, so that it moves rarely */
    size_t tail_bytes_max;
    uint64_t total_bytes;
};

void cay_capture_init(struct cay_capture *capture, size_t size_bytes_max);
void cay_capture_finish(struct cay_capture *capture);
void cay_capture_add(struct cay_capture *capture, struct cay_str data);

/* How many bytes of the total are not shown. */
[[nodiscard]] uint64_t cay_capture_dropped(const struct cay_capture *capture);
void cay_capture_write(const struct cay_capture *capture, struct cay_buf *out);
