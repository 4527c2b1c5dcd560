/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The codec as a filter, for pb_differential.py. Frames on stdin: one byte that says what to do,
 * the length as 4 bytes in network order, the payload. Frames on stdout: 'y' and the result, or
 * 'n' and a sentence.
 *
 *   b  binary to binary     j  binary to JSON     J  JSON to binary
 */

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/proto/cay_test_v1.h"
#include "wire/pb/pb.h"

enum { MEMORY_BYTES_MAX = 64 << 20 };

static const struct cay_pb_message *const any_types[] = {
    &cay_test_v1_scalars_desc,         &google_protobuf_timestamp_desc, &google_protobuf_value_desc,
    &google_protobuf_int64_value_desc, &google_protobuf_any_desc,
};

static const struct cay_pb_json_options options = {
    .any_types = any_types,
    .any_type_count = CAY_COUNT(any_types),
};

static int convert(char what, struct cay_str in, struct cay_buf *out, char *error, size_t size)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    struct cay_test_v1_all_types message;
    cay_arena_init(&arena, MEMORY_BYTES_MAX);
    int r = 0;
    if (what == 'J')
        r = cay_pb_json_read(&cay_test_v1_all_types_desc, in, &options, &arena, &message, error,
                             size);
    else
        r = cay_pb_decode(&cay_test_v1_all_types_desc, in, &arena, &message);
    if (r < 0)
        return r;
    if (what == 'j')
        return cay_pb_json_write(&cay_test_v1_all_types_desc, &message, &options, out);
    return cay_pb_encode(&cay_test_v1_all_types_desc, &message, out);
}

static void answer(char status, struct cay_str payload)
{
    uint32_t len = htonl((uint32_t)payload.len);
    putchar(status);
    fwrite(&len, sizeof(len), 1, stdout);
    if (payload.len)
        fwrite(payload.ptr, payload.len, 1, stdout);
    fflush(stdout);
}

int main(void)
{
    for (;;) {
        int what = getchar();
        uint32_t len = 0;
        if (what == EOF)
            return 0;
        if (fread(&len, sizeof(len), 1, stdin) != 1)
            return 1;
        len = ntohl(len);
        /* Exactly as large as the payload, so that the sanitizer sees a read past it. */
        cay_autofree char *payload = malloc(len ? len : 1);
        if (!payload || (len && fread(payload, len, 1, stdin) != 1))
            return 1;
        cay_auto(cay_buf_finish) struct cay_buf out;
        char error[200] = "";
        cay_buf_init(&out, MEMORY_BYTES_MAX);
        int r = convert((char)what, (struct cay_str){payload, len}, &out, error, sizeof(error));
        if (r == 0)
            answer('y', cay_buf_str(&out));
        else
            answer('n', cay_str(error[0] ? error : strerrorname_np(-r)));
    }
}
