/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include <errno.h>
#include <string.h>

#include "wire/gzip.h"

enum { UNPACKED_BYTES_MAX = 100000 };

/* Unpacking stays in its bounds; what it gives does not depend on how much more would have fit;
 * what is packed comes back. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cay_str bytes = {(const char *)data, size};
    cay_auto(cay_buf_finish) struct cay_buf plain;
    cay_auto(cay_buf_finish) struct cay_buf exact = {};
    cay_auto(cay_buf_finish) struct cay_buf packed = {};
    cay_auto(cay_buf_finish) struct cay_buf back = {};
    cay_buf_init(&plain, UNPACKED_BYTES_MAX);
    int status = cay_gunzip(bytes, &plain);
    FUZZ_CHECK(status == 0 || status == -EBADMSG || status == -EMSGSIZE);
    FUZZ_CHECK(plain.cap <= UNPACKED_BYTES_MAX);
    FUZZ_CHECK(status != -EMSGSIZE || plain.len == UNPACKED_BYTES_MAX);
    if (status == 0) {
        cay_buf_init(&exact, plain.len);
        FUZZ_CHECK(cay_gunzip(bytes, &exact) == 0);
        FUZZ_CHECK(cay_str_equal(cay_buf_str(&plain), cay_buf_str(&exact)));
        cay_buf_finish(&exact);
        if (plain.len) {
            cay_buf_init(&exact, plain.len - 1);
            FUZZ_CHECK(cay_gunzip(bytes, &exact) == -EMSGSIZE);
        }
    }
    cay_buf_init(&packed, size + 4096);
    cay_buf_init(&back, size);
    FUZZ_CHECK(cay_gzip(bytes, &packed) == 0);
    FUZZ_CHECK(cay_gunzip(cay_buf_str(&packed), &back) == 0);
    FUZZ_CHECK(cay_str_equal(cay_buf_str(&back), bytes));
    return 0;
}
