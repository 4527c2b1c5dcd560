/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/gzip.h"

#include <errno.h>
#include <stdlib.h>
#define ZLIB_CONST /* next_in points to const */
#include <zlib.h>

#include "base/library.h"

/* zlib is loaded when it is first needed: most clients never meet a packed message. */

#define FUNCTIONS(X) \
    X(inflateInit2_) \
    X(inflate)       \
    X(inflateEnd)    \
    X(deflateInit2_) \
    X(deflateBound)  \
    X(deflate)       \
    X(deflateEnd)

CAY_LIBRARY(lib, "libz.so.1", FUNCTIONS);

bool cay_gzip_is_there(void)
{
    return cay_library_load(&lib_library);
}

enum {
    GZIP_WINDOW_BITS = 15 + 16, /* +16: with the gzip frame */
    PACK_LEVEL = 1,             /* loopback and LAN: the time of higher levels is not won back */
    PACK_MEMORY = 8,
    STEP_BYTES = 16 * 1024,
};

static bool begin_inflate(z_stream *zip)
{
    return cay_gzip_is_there() &&
           lib.inflateInit2_(zip, GZIP_WINDOW_BITS, ZLIB_VERSION, (int)sizeof(*zip)) == Z_OK;
}

int cay_gunzip(struct cay_str bytes, struct cay_buf *out)
{
    if (bytes.len > UINT32_MAX)
        return -EMSGSIZE;
    z_stream zip = {.next_in = (const void *)bytes.ptr, .avail_in = (uInt)bytes.len};
    if (!begin_inflate(&zip))
        return -ENOMEM;
    int status = Z_OK;
    int result = 0;
    while (status != Z_STREAM_END && result == 0) {
        /* A full buffer may still be enough: only a byte that it cannot take is one too many. */
        char spill = 0;
        size_t step = CAY_MIN((size_t)STEP_BYTES, out->size_bytes_max - out->len);
        char *room = step ? cay_buf_reserve(out, step) : &spill;
        if (!room) {
            result = -ENOMEM;
            break;
        }
        zip.next_out = (Bytef *)room;
        zip.avail_out = step ? (uInt)step : 1;
        status = lib.inflate(&zip, Z_NO_FLUSH);
        if (step)
            cay_buf_grew(out, step - zip.avail_out);
        else if (!zip.avail_out)
            result = -EMSGSIZE;
        /* Z_BUF_ERROR: it wants more input than there is. */
        if (result == 0 && status != Z_OK && status != Z_STREAM_END)
            result = status == Z_MEM_ERROR ? -ENOMEM : -EBADMSG;
    }
    if (result == 0 && zip.avail_in > 0)
        result = -EBADMSG;
    lib.inflateEnd(&zip);
    return result;
}

int cay_gzip(struct cay_str bytes, struct cay_buf *out)
{
    z_stream zip = {};
    if (bytes.len > UINT32_MAX || !cay_gzip_is_there() ||
        lib.deflateInit2_(&zip, PACK_LEVEL, Z_DEFLATED, GZIP_WINDOW_BITS, PACK_MEMORY,
                          Z_DEFAULT_STRATEGY, ZLIB_VERSION, (int)sizeof(zip)) != Z_OK)
        return -ENOMEM;
    uLong bound = lib.deflateBound(&zip, bytes.len);
    char *room = cay_buf_reserve(out, bound);
    int result = -ENOMEM;
    if (room) {
        zip.next_in = (const void *)bytes.ptr;
        zip.avail_in = (uInt)bytes.len;
        zip.next_out = (Bytef *)room;
        zip.avail_out = (uInt)bound;
        if (lib.deflate(&zip, Z_FINISH) == Z_STREAM_END) {
            cay_buf_grew(out, bound - zip.avail_out);
            result = 0;
        }
    }
    lib.deflateEnd(&zip);
    return result;
}

int cay_gunzip_open(struct cay_gunzip_stream *stream)
{
    z_stream *zip = cay_new(z_stream);
    if (!begin_inflate(zip)) {
        free(zip);
        return -ENOMEM;
    }
    *stream = (struct cay_gunzip_stream){.zip = zip};
    return 0;
}

ssize_t cay_gunzip_feed(struct cay_gunzip_stream *stream, struct cay_str *in_out_bytes, char *out,
                        size_t size)
{
    z_stream *zip = stream->zip;
    size_t given = CAY_MIN(in_out_bytes->len, (size_t)UINT32_MAX);
    if (stream->is_over)
        return in_out_bytes->len ? -EBADMSG : 0;
    if (!given)
        return 0;
    zip->next_in = (const void *)in_out_bytes->ptr;
    zip->avail_in = (uInt)given;
    zip->next_out = (Bytef *)out;
    zip->avail_out = (uInt)size;
    int status = lib.inflate(zip, Z_NO_FLUSH);
    size_t used = given - zip->avail_in;
    *in_out_bytes = (struct cay_str){in_out_bytes->ptr + used, in_out_bytes->len - used};
    stream->is_over = status == Z_STREAM_END;
    if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
        return status == Z_MEM_ERROR ? -ENOMEM : -EBADMSG;
    return (ssize_t)(size - zip->avail_out);
}

void cay_gunzip_close(struct cay_gunzip_stream *stream)
{
    if (stream->zip)
        lib.inflateEnd(stream->zip);
    free(stream->zip);
    *stream = (struct cay_gunzip_stream){};
}
