/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include <errno.h>
#include <string.h>

#include "base/base64.h"
#include "base/utf8.h"

static void check_utf8(struct cay_str text)
{
    bool is_valid = cay_utf8_valid(text);
    size_t len = cay_utf8_repaired_len(text);
    FUZZ_CHECK(!is_valid || len == text.len);
    FUZZ_CHECK(len <= 3 * text.len);
    cay_autofree char *repaired = malloc(len ? len : 1);
    FUZZ_CHECK(repaired);
    cay_utf8_repair(text, repaired);
    struct cay_str again = {repaired, len};
    FUZZ_CHECK(cay_utf8_valid(again));
    FUZZ_CHECK(cay_utf8_repaired_len(again) == len);
    FUZZ_CHECK(cay_str_equal(again, text) == is_valid);
    size_t ascii = cay_utf8_ascii_prefix(text);
    FUZZ_CHECK(ascii <= text.len && (ascii == text.len || (unsigned char)text.ptr[ascii] >= 0x80));
    bool is_good = true;
    for (size_t at = 0; at < text.len;) {
        int step = cay_utf8_step(text.ptr + at, text.len - at);
        FUZZ_CHECK(step != 0 && step >= -3 && step <= 4);
        is_good &= step > 0;
        at += (size_t)(step < 0 ? -step : step);
        FUZZ_CHECK(at <= text.len);
    }
    FUZZ_CHECK(is_good == is_valid);
}

static void check_base64(struct cay_str text)
{
    size_t room = cay_base64_decoded_len_max(text.len);
    FUZZ_CHECK(room <= text.len);
    cay_autofree char *bytes = malloc(room ? room : 1);
    FUZZ_CHECK(bytes);
    size_t len = 0;
    int status = cay_base64_decode(text, bytes, &len);
    FUZZ_CHECK(status == 0 || status == -EINVAL);
    if (status == 0) {
        /* One text per value, but for the alphabet and the padding. */
        FUZZ_CHECK(len <= room);
        FUZZ_CHECK(cay_base64_encoded_len(len, false) == text.len ||
                   cay_base64_encoded_len(len, true) == text.len);
    }
    for (int padded = 0; padded < 2; padded++) {
        size_t encoded_len = cay_base64_encoded_len(text.len, padded);
        cay_autofree char *encoded = malloc(encoded_len ? encoded_len : 1);
        cay_autofree char *back = malloc(encoded_len ? encoded_len : 1);
        FUZZ_CHECK(encoded && back);
        cay_base64_encode(text, padded, encoded);
        FUZZ_CHECK(cay_base64_decode((struct cay_str){encoded, encoded_len}, back, &len) == 0);
        FUZZ_CHECK(cay_str_equal((struct cay_str){back, len}, text));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cay_str text = {(const char *)data, size};
    check_utf8(text);
    check_base64(text);
    return 0;
}
