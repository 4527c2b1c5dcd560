/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <unistd.h>
#include <zstd.h>

#include "base/stop.h"
#include "host/store/pack.h"
#include "host/store/store_ops.h"

enum {
    IN_BYTES = 128 * 1024,
    OUT_BYTES = 1024 * 1024,
};

static void free_context(ZSTD_DCtx **context)
{
    ZSTD_freeDCtx(*context);
}

static bool damaged(struct cay_error *err)
{
    return cay_fail(err, CAY_R_INVALID_ARGUMENT, "the data are damaged or cut short");
}

/* A reader of tar stops at the archive's end, before zstd has seen its checksum. */
bool cay_pack_verify(int fd, uint64_t bytes_max, struct cay_error *err)
{
    static const unsigned char magic[4] = {0x28, 0xB5, 0x2F, 0xFD};
    cay_auto(free_context) ZSTD_DCtx *context = ZSTD_createDCtx();
    cay_autofree char *in_bytes = cay_alloc(IN_BYTES);
    cay_autofree char *out_bytes = cay_alloc(OUT_BYTES);
    size_t rest = 0; /* 0 between frames */
    uint64_t total = 0;
    off_t at = 0;
    if (!context)
        return cay_fail(err, CAY_R_INTERNAL, "zstd cannot be used");
    for (;;) {
        ssize_t len = pread(fd, in_bytes, IN_BYTES, at);
        if (len < 0)
            return cay_store_fail(err, -errno, "read the stream");
        if (at == 0 && (len < (ssize_t)sizeof(magic) || memcmp(in_bytes, magic, sizeof(magic))))
            return true; /* not packed by zstd */
        if (len == 0)
            return rest == 0 || damaged(err);
        at += len;
        ZSTD_inBuffer in = {.src = in_bytes, .size = (size_t)len};
        bool is_full = false; /* there may be more to come out */
        while (in.pos < in.size || is_full) {
            ZSTD_outBuffer out = {.dst = out_bytes, .size = OUT_BYTES};
            if (cay_stop_asked())
                return cay_fail(err, CAY_R_CANCELED, NULL);
            rest = ZSTD_decompressStream(context, &out, &in);
            if (ZSTD_isError(rest))
                return damaged(err);
            total += out.pos;
            is_full = out.pos == out.size;
            if (total > bytes_max)
                return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                                "the data unpack to more than %llu bytes",
                                (unsigned long long)bytes_max);
        }
    }
}
