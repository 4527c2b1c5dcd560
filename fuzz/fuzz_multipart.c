/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include <string.h>

#include "base/buf.h"
#include "wire/e2b/multipart.h"

enum { OUT_BYTES_MAX = 1 << 22 };

/* What the parts say, one after the other, or how it ended badly. */
static ssize_t read_all(struct cay_str type, struct cay_str body, size_t step, struct cay_buf *out)
{
    static struct cay_multipart reader;
    size_t at = 0;
    size_t end = 0;
    if (cay_multipart_init(&reader, type) < 0)
        return 0;
    for (;;) {
        enum cay_multipart_event event = CAY_MULTIPART_MORE;
        struct cay_str piece;
        ssize_t used = cay_multipart_feed(&reader, body.ptr + at, end - at, &event, &piece);
        if (used < 0)
            return used;
        FUZZ_CHECK((size_t)used <= end - at);
        FUZZ_CHECK(event != CAY_MULTIPART_DATA || piece.len > 0);
        at += (size_t)used;
        if (event == CAY_MULTIPART_DATA) {
            cay_buf_append(out, piece.ptr, piece.len);
        } else if (event != CAY_MULTIPART_MORE) {
            cay_buf_printf(out, "<%d>", (int)event);
            if (event == CAY_MULTIPART_PART && reader.name.len)
                cay_buf_append(out, reader.name.ptr, reader.name.len);
        } else if (at == end && end == body.len) {
            return (ssize_t)reader.state;
        } else if (at == end) {
            end = CAY_MIN(end + step, body.len);
        }
    }
}

/* The first line is the type, the rest the body. How it is cut into pieces changes nothing. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cay_str rest = {(const char *)data, size};
    struct cay_str type;
    if (!cay_str_split(&rest, '\n', &type))
        return 0;
    if (!rest.ptr)
        rest = CAY_STR("");
    cay_auto(cay_buf_finish) struct cay_buf whole;
    cay_auto(cay_buf_finish) struct cay_buf pieces;
    cay_buf_init(&whole, OUT_BYTES_MAX);
    cay_buf_init(&pieces, OUT_BYTES_MAX);
    ssize_t one = read_all(type, rest, size + 1, &whole);
    ssize_t other = read_all(type, rest, 1 + size % 7, &pieces);
    FUZZ_CHECK(one == other);
    FUZZ_CHECK(cay_str_equal(cay_buf_str(&whole), cay_buf_str(&pieces)));
    return 0;
}
