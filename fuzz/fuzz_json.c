/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "base/utf8.h"

enum { MEMORY_BYTES_MAX = 8 << 20 };

/* The writer gives doubles a dot or an exponent where they need one; they must stay doubles. */
static bool is_plain_integer(struct cay_str text)
{
    return !memchr(text.ptr, '.', text.len) && !memchr(text.ptr, 'e', text.len) &&
           !memchr(text.ptr, 'E', text.len);
}

static void copy_token(const struct cay_json_reader *in, struct cay_json_writer *to)
{
    double real = 0;
    int64_t integer = 0;
    uint64_t natural = 0;
    float narrow = 0;
    switch (in->token) {
    case CAY_JSON_OBJECT_BEGIN: cay_json_object_begin(to); break;
    case CAY_JSON_OBJECT_END: cay_json_object_end(to); break;
    case CAY_JSON_ARRAY_BEGIN: cay_json_array_begin(to); break;
    case CAY_JSON_ARRAY_END: cay_json_array_end(to); break;
    case CAY_JSON_KEY:
        FUZZ_CHECK(cay_utf8_valid(in->text));
        cay_json_key_str(to, in->text);
        break;
    case CAY_JSON_STRING:
        FUZZ_CHECK(cay_utf8_valid(in->text));
        cay_json_string(to, in->text);
        break;
    case CAY_JSON_NUMBER:
        (void)!cay_json_to_float(in->text, &narrow);
        (void)!cay_json_to_u64(in->text, &natural);
        if (cay_json_to_i64(in->text, &integer) == 0 && is_plain_integer(in->text))
            cay_json_i64(to, integer);
        else if (cay_json_to_double(in->text, &real) == 0)
            cay_json_double(to, real);
        else
            cay_json_null(to);
        break;
    case CAY_JSON_TRUE: cay_json_bool(to, true); break;
    case CAY_JSON_FALSE: cay_json_bool(to, false); break;
    case CAY_JSON_NULL: cay_json_null(to); break;
    case CAY_JSON_ERROR:
    case CAY_JSON_END: break;
    }
}

/* Token by token; 0 or the reader's status. */
static int copy(struct cay_str text, struct cay_arena *arena, struct cay_buf *out)
{
    struct cay_json_reader in;
    struct cay_json_writer to = {.buf = out};
    cay_json_reader_init(&in, text, arena);
    do {
        cay_json_next(&in);
        copy_token(&in, &to);
    } while (in.token != CAY_JSON_END && in.token != CAY_JSON_ERROR);
    FUZZ_CHECK((in.token == CAY_JSON_ERROR) == (in.status != 0));
    FUZZ_CHECK(in.error_at <= text.len);
    return in.status;
}

static int skip(struct cay_str text, struct cay_arena *arena)
{
    struct cay_json_reader in;
    cay_json_reader_init(&in, text, arena);
    cay_json_next(&in);
    if (cay_json_skip(&in) == 0)
        cay_json_next(&in);
    return in.status;
}

/* What is accepted must, once written, be accepted again and be written the same. Skipping must
 * accept the same. Any bytes at all can be written as a string and come back repaired. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cay_str text = {(const char *)data, size};
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_auto(cay_buf_finish) struct cay_buf once;
    cay_auto(cay_buf_finish) struct cay_buf twice;
    cay_arena_init(&arena, MEMORY_BYTES_MAX);
    cay_buf_init(&once, MEMORY_BYTES_MAX);
    cay_buf_init(&twice, MEMORY_BYTES_MAX);
    int r = copy(text, &arena, &once);
    FUZZ_CHECK((skip(text, &arena) == 0) == (r == 0));
    if (r == 0 && !once.failed) {
        FUZZ_CHECK(copy(cay_buf_str(&once), &arena, &twice) == 0);
        FUZZ_CHECK(cay_str_equal(cay_buf_str(&once), cay_buf_str(&twice)));
    }
    cay_buf_clear(&once, MEMORY_BYTES_MAX);
    struct cay_json_writer json = {.buf = &once};
    struct cay_json_reader in;
    cay_json_string(&json, text);
    cay_json_reader_init(&in, cay_buf_str(&once), &arena);
    FUZZ_CHECK(once.failed || cay_json_next(&in) == CAY_JSON_STRING || in.status == -ENOMEM);
    if (!once.failed && in.token == CAY_JSON_STRING)
        FUZZ_CHECK(in.text.len == cay_utf8_repaired_len(text));
    return 0;
}
