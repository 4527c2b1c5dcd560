/* SPDX-License-Identifier: Apache-2.0 */
/* The first byte says how the rest is cut into pieces. */
#include "fuzz/fuzz.h"

#include <errno.h>
#include <string.h>

#include "wire/http_host.h"

/* How much passes, and how it ends. */
static size_t pass(const char *bytes, size_t size, size_t step, ssize_t *out_status)
{
    struct cay_http_host check;
    size_t passed = 0;
    ssize_t status = 0;
    cay_http_host_init(&check, CAY_STR("a.test"));
    for (size_t have = CAY_MIN(step, size); status >= 0; have = CAY_MIN(have + step, size)) {
        size_t len = have - passed;
        char *exact = malloc(len ? len : 1);
        if (len)
            memcpy(exact, bytes + passed, len);
        status = cay_http_host_feed(&check, exact, len);
        free(exact);
        FUZZ_CHECK(status >= -EBADMSG && status <= (ssize_t)len);
        passed += status > 0 ? (size_t)status : 0;
        if (have == size && status <= 0)
            break;
    }
    *out_status = status;
    return passed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ssize_t whole = 0;
    ssize_t pieces = 0;
    if (size == 0)
        return 0;
    const char *bytes = (const char *)data + 1;
    size_t len = size - 1;
    (void)cay_http_looks(bytes, len);
    size_t step = CAY_MAX((size_t)data[0], len / 64 + 1);
    size_t of_whole = pass(bytes, len, len + 1, &whole);
    size_t of_pieces = pass(bytes, len, step, &pieces);
    FUZZ_CHECK((whole < 0) == (pieces < 0));
    /* Of a body that turns out to be wrong, pieces have passed when it does. */
    FUZZ_CHECK(of_whole == of_pieces || (whole < 0 && of_whole < of_pieces));
    return 0;
}
