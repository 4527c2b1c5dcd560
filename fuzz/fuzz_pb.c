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

/* What has a JSON form must come back from it as it was. */
static void check_json(const struct cay_test_v1_all_types *message, struct cay_str bytes)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_auto(cay_buf_finish) struct cay_buf again;
    struct cay_test_v1_all_types copy;
    char error[128] = "";
    cay_arena_init(&arena, MEMORY_BYTES_MAX);
    cay_buf_init(&text, MEMORY_BYTES_MAX);
    cay_buf_init(&again, MEMORY_BYTES_MAX);
    if (cay_pb_json_write(all_types, message, &options, &text) < 0)
        return;
    int r = cay_pb_json_read(all_types, cay_buf_str(&text), &options, &arena, &copy, error,
                             sizeof(error));
    if (r == -ENOMEM)
        return;
    if (r < 0)
        fprintf(stderr, "%s\n%.*s\n", error, (int)text.len, text.data);
    FUZZ_CHECK(r == 0);
    FUZZ_CHECK(cay_pb_encode(all_types, &copy, &again) == 0);
    /* NaN has many patterns and Any many encodings, so sizes are all that can be asked for; the
     * JSON itself must not change any more. */
    cay_auto(cay_buf_finish) struct cay_buf text_again;
    cay_buf_init(&text_again, MEMORY_BYTES_MAX);
    FUZZ_CHECK(cay_pb_json_write(all_types, &copy, &options, &text_again) == 0);
    FUZZ_CHECK(cay_str_equal(cay_buf_str(&text), cay_buf_str(&text_again)));
    FUZZ_CHECK(again.len <= bytes.len || !message->well_known || message->well_known->any);
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
    check_json(&message, cay_buf_str(&once));
    int r = cay_pb_decode(all_types, cay_buf_str(&once), &arena, &message);
    FUZZ_CHECK(r == 0 || r == -ENOMEM);
    if (r == 0) {
        FUZZ_CHECK(cay_pb_encode(all_types, &message, &twice) == 0);
        FUZZ_CHECK(cay_str_equal(cay_buf_str(&once), cay_buf_str(&twice)));
    }
    return 0;
}
