/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Whole messages, in and out of gzip. Each is independent of the others. */

#include "base/buf.h"

/* zlib is on this machine; without it everything here fails with -ENOMEM. */
[[nodiscard]] bool cay_gzip_is_there(void);

/* Appends what `bytes` unpack to. -EMSGSIZE when that is more than out may hold, -EBADMSG when it
 * is not one complete gzip member. */
[[nodiscard]] int cay_gunzip(struct cay_str bytes, struct cay_buf *out);

/* A stream that is unpacked as it comes. Zeroed to start with.
 *
 * Order: open -> feed* -> close. */
struct cay_gunzip_stream {
    void *zip;    /* zlib's */
    bool is_over; /* its last byte has come out */
};

[[nodiscard]] int cay_gunzip_open(struct cay_gunzip_stream *stream);
/* Takes from *in_out_bytes and fills `out`; returns how many bytes came out. 0: more input is
 * needed, or it is over. -EBADMSG for what is not gzip, or for bytes behind its end. */
[[nodiscard]] ssize_t cay_gunzip_feed(struct cay_gunzip_stream *stream,
                                      struct cay_str *in_out_bytes, char *out, size_t size);
void cay_gunzip_close(struct cay_gunzip_stream *stream);

/* Appends `bytes` packed. -ENOMEM. */
[[nodiscard]] int cay_gzip(struct cay_str bytes, struct cay_buf *out);
