/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include <string.h>

#include "wire/hello.h"

/* The same, in pieces that grow by `step`, each as long as it says. */
static enum cay_hello_state look_in_pieces(const uint8_t *data, size_t size, size_t step,
                                           struct cay_hello *out)
{
    struct cay_hello_look look = {};
    enum cay_hello_state state = CAY_HELLO_MORE;
    for (size_t len = 0; state == CAY_HELLO_MORE; len = CAY_MIN(len + step, size)) {
        uint8_t *exact = malloc(len ? len : 1);
        if (len)
            memcpy(exact, data, len);
        state = cay_hello_look(&look, exact, len, out);
        FUZZ_CHECK(look.record_at <= len);
        free(exact);
        if (len == size)
            break;
    }
    return state;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cay_hello whole = {};
    struct cay_hello pieces = {};
    size_t step = size > 512 ? size / 64 : 1;
    enum cay_hello_state state = look_in_pieces(data, size, size ? size : 1, &whole);
    FUZZ_CHECK(look_in_pieces(data, size, step, &pieces) == state);
    if (size > CAY_HELLO_BYTES_MAX + 5)
        FUZZ_CHECK(state != CAY_HELLO_MORE);
    if (state != CAY_HELLO_WHOLE)
        return 0;
    FUZZ_CHECK(strcmp(whole.name, pieces.name) == 0 && strlen(whole.name) < CAY_HELLO_NAME_SIZE);
    FUZZ_CHECK(whole.protocols_len == pieces.protocols_len);
    FUZZ_CHECK(whole.is_encrypted == pieces.is_encrypted);
    for (const char *c = whole.name; *c; c++)
        FUZZ_CHECK(*c > ' ' && *c < 0x7F && !(*c >= 'A' && *c <= 'Z'));
    (void)cay_hello_offers(&whole, "h2");
    return 0;
}
