/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include <errno.h>

#include "tests/proto/cay_test_v1.h"
#include "wire/pb/pb.h"

enum { MEMORY_BYTES_MAX = 16 << 20 };

static const struct cay_pb_message *const any_types[] = {
    &cay_test_v1_all_types_desc, &google_protobuf_timestamp_desc, &google_protobuf_any_desc};
static const struct cay_pb_json_options options = {any_types, CAY_COUNT(any_types), false};

static const struct cay_pb_message *const all_types = &cay_test_v1_all_types_desc;

/* Reads JSON of our own making and writes it again. False when memory was short. */
static bool through_json(struct cay_str text, struct cay_buf *out)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    struct cay_test_v1_all_types message;
    char error[128] = "";
    cay_arena_init(&arena, MEMORY_BYTES_MAX);
    int r = cay_pb_json_read(all_types, text, &options, &arena, &message, error, sizeof(error));
    if (r < 0 && r != -ENOMEM)
        fprintf(stderr, "%s\n%.*s\n", error, (int)text.len, text.ptr);
    FUZZ_CHECK(r == 0 || r == -ENOMEM);
    if (r == 0)
        r = cay_pb_json_write(all_types, &message, &options, out);
    FUZZ_CHECK(r == 0 || r == -ENOMEM || r == -ENOBUFS);
    return r == 0;
}

/* What has a JSON form must be readable from it. Only the second time nothing may change: before
 * that, a NullValue of 7 becomes 0 and a google.protobuf.Value without a kind becomes null. */
static void check_json(const struct cay_test_v1_all_types *message)
{
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_auto(cay_buf_finish) struct cay_buf once;
    cay_auto(cay_buf_finish) struct cay_buf twice;
    cay_buf_init(&text, MEMORY_BYTES_MAX);
    cay_buf_init(&once, MEMORY_BYTES_MAX);
    cay_buf_init(&twice, MEMORY_BYTES_MAX);
    if (cay_pb_json_write(all_types, message, &options, &text) < 0)
        return;
    if (through_json(cay_buf_str(&text), &once) && through_json(cay_buf_str(&once), &twice))
        FUZZ_CHECK(cay_str_equal(cay_buf_str(&once), cay_buf_str(&twice)));
}

/* What is accepted must, once encoded, be accepted again and be encoded the same. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_auto(cay_buf_finish) struct cay_buf once;
    cay_auto(cay_buf_finish) struct cay_buf twice;
    struct cay_test_v1_all_types message;
    cay_arena_init(&arena, MEMORY_BYTES_MAX);
    cay_buf_init(&once, MEMORY_BYTES_MAX);
    cay_buf_init(&twice, MEMORY_BYTES_MAX);
    if (cay_pb_decode(all_types, (struct cay_str){(const char *)data, size}, &arena, &message) < 0)
        return 0;
    if (cay_pb_encode(all_types, &message, &once) < 0)
        return 0;
    FUZZ_CHECK((int64_t)once.len == cay_pb_encoded_size(all_types, &message));
    check_json(&message);
    int r = cay_pb_decode(all_types, cay_buf_str(&once), &arena, &message);
    FUZZ_CHECK(r == 0 || r == -ENOMEM);
    if (r == 0) {
        FUZZ_CHECK(cay_pb_encode(all_types, &message, &twice) == 0);
        FUZZ_CHECK(cay_str_equal(cay_buf_str(&once), cay_buf_str(&twice)));
    }
    return 0;
}
