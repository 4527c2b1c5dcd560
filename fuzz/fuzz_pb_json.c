/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include <errno.h>
#include <string.h>

#include "tests/proto/cay_test_v1.h"
#include "wire/pb/pb.h"

enum { MEMORY_BYTES_MAX = 16 << 20 };

static const struct cay_pb_message *const any_types[] = {
    &cay_test_v1_all_types_desc, &google_protobuf_timestamp_desc, &google_protobuf_any_desc};
static const struct cay_pb_json_options options = {any_types, CAY_COUNT(any_types), false};

static const struct cay_pb_message *const all_types = &cay_test_v1_all_types_desc;

/* What is accepted must be writable as JSON and as bytes; the bytes must read back as the same
 * message, and both forms of that must be the same as before. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_auto(cay_buf_finish) struct cay_buf bytes;
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_auto(cay_buf_finish) struct cay_buf text_again;
    struct cay_test_v1_all_types message;
    struct cay_test_v1_all_types copy;
    char error[80];
    memset(error, '#', sizeof(error));
    cay_arena_init(&arena, MEMORY_BYTES_MAX);
    cay_buf_init(&bytes, MEMORY_BYTES_MAX);
    cay_buf_init(&text, MEMORY_BYTES_MAX);
    cay_buf_init(&text_again, MEMORY_BYTES_MAX);
    int r = cay_pb_json_read(all_types, (struct cay_str){(const char *)data, size}, &options,
                             &arena, &message, error, sizeof(error));
    if (r < 0) {
        FUZZ_CHECK(strnlen(error, sizeof(error)) < sizeof(error) && error[0] != '\0');
        return 0;
    }
    FUZZ_CHECK(cay_pb_encode(all_types, &message, &bytes) == 0);
    /* An Any may hold, as bytes, a message that is too deep to be shown inside another. */
    r = cay_pb_json_write(all_types, &message, &options, &text);
    FUZZ_CHECK(r == 0 || r == -EMSGSIZE || r == -EINVAL);
    int decoded = cay_pb_decode(all_types, cay_buf_str(&bytes), &arena, &copy);
    FUZZ_CHECK(decoded == 0 || decoded == -ENOMEM);
    if (r < 0 || decoded < 0)
        return 0;
    FUZZ_CHECK(cay_pb_json_write(all_types, &copy, &options, &text_again) == 0);
    FUZZ_CHECK(cay_str_equal(cay_buf_str(&text), cay_buf_str(&text_again)));
    return 0;
}
