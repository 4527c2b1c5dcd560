/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include "host/transfer/manifest.h"

static void try_words(struct cay_str text, struct cay_arena *arena)
{
    struct cay_v1_snapshot snapshot = {};
    struct cay_error err = {};
    cay_auto(cay_buf_finish) struct cay_buf written;
    cay_buf_init(&written, CAY_EXPORT_WORDS_BYTES_MAX);
    if (!cay_manifest_read_words(text, arena, &snapshot, &err))
        FUZZ_CHECK(err.reason == CAY_R_INVALID_ARGUMENT && err.text[0]);
    else if (cay_manifest_write_words(&snapshot, &written))
        FUZZ_CHECK(cay_manifest_read_words(cay_buf_str(&written), arena, &snapshot, &err));
}

/* The head of an exported session, and what was said of a point. What is taken can be written, and
 * reads back as the same. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cay_str text = {(const char *)data, size};
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_auto(cay_buf_finish) struct cay_buf first;
    cay_auto(cay_buf_finish) struct cay_buf second;
    struct cay_manifest manifest;
    struct cay_error err = {};
    cay_arena_init(&arena, 32 << 20);
    try_words(text, &arena);
    cay_buf_init(&first, CAY_EXPORT_MANIFEST_BYTES_MAX);
    cay_buf_init(&second, CAY_EXPORT_MANIFEST_BYTES_MAX);
    if (!cay_manifest_read(text, &arena, &manifest, &err)) {
        FUZZ_CHECK(err.reason == CAY_R_INVALID_ARGUMENT && err.text[0]);
        return 0;
    }
    if (!cay_manifest_write(&manifest, &first))
        return 0; /* a time that has no form as text */
    FUZZ_CHECK(cay_manifest_read(cay_buf_str(&first), &arena, &manifest, &err));
    FUZZ_CHECK(cay_manifest_write(&manifest, &second));
    FUZZ_CHECK(cay_str_equal(cay_buf_str(&first), cay_buf_str(&second)));
    return 0;
}
