/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Frames through named pipes, for a sandbox that no socket leads into.
 *
 * Daemons come and go at the pipe's end, so what they write is cut into chunks that the kernel
 * takes whole or not at all (PIPE_BUF, pipe(7)): who is killed leaves no half of one. A daemon's
 * first chunk says so: what is left of a frame before it is forgotten. Init writes its frames as
 * they are; a daemon that comes looks for the answer to its HELLO.
 *
 * A chunk is 4 bytes of header (length of the data u16, 1 for the first one and 0 otherwise, zero)
 * and the data.
 *
 * Beside the pipes there is a page that both see, for what needs no answer.
 */

#include <errno.h>

#include "base/base.h"

enum {
    CAY_CHUNK_HEADER_BYTES = 4,
    CAY_CHUNK_BYTES_MAX = 4096,
    CAY_PIPE_HOSTNAME_BYTES = 68, /* CAY_FRAME_HOSTNAME_BYTES_MAX and its end */
    CAY_CHUNK_DATA_BYTES_MAX = CAY_CHUNK_BYTES_MAX - CAY_CHUNK_HEADER_BYTES,
};

/* Numbers are read and written at once, by __atomic. The daemon reads back nothing of its own. */
struct cay_pipe_page {
    uint32_t tree;    /* the daemon's: how many trees it has put under init */
    uint32_t is_busy; /* init's: somebody else lives in the sandbox */
    uint32_t
        pids_max; /* the daemon's: how many processes a command may have; 0: as many as it likes */
    char hostname[CAY_PIPE_HOSTNAME_BYTES]; /* the daemon's: counts from the tree on it came with */
};

static inline void cay_chunk_put(uint8_t out_header[static CAY_CHUNK_HEADER_BYTES], size_t len,
                                 bool is_first)
{
    out_header[0] = (uint8_t)(len & 0xff);
    out_header[1] = (uint8_t)(len >> 8);
    out_header[2] = is_first;
    out_header[3] = 0;
}

/* Length of the data, or -EPROTO. */
[[nodiscard]] static inline int cay_chunk_get(const uint8_t header[static CAY_CHUNK_HEADER_BYTES],
                                              bool *out_is_first)
{
    int len = header[0] | header[1] << 8;
    if (len == 0 || len > CAY_CHUNK_DATA_BYTES_MAX || header[2] > 1 || header[3] != 0)
        return -EPROTO;
    *out_is_first = header[2];
    return len;
}
