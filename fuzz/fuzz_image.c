/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include "host/store/image_manifest.h"

static void check_list(const struct cay_image_list *list)
{
    FUZZ_CHECK(list->count <= CAY_IMAGE_LIST_MAX);
    for (size_t i = 0; i < list->count; i++)
        FUZZ_CHECK(!memchr(list->items[i].ptr, '\0', list->items[i].len));
}

/* The documents of a container image, each by all three readers. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cay_str text = {(const char *)data, size};
    cay_auto(cay_arena_finish) struct cay_arena arena;
    struct cay_image_manifest manifest;
    struct cay_image_config config;
    struct cay_image_docker docker;
    struct cay_error err = {};
    cay_arena_init(&arena, 8 << 20);
    if (cay_image_read_manifest(text, &arena, &manifest, &err))
        FUZZ_CHECK(manifest.manifest_count <= CAY_IMAGE_LIST_MAX &&
                   manifest.layer_count <= CAY_IMAGE_LIST_MAX);
    if (cay_image_read_config(text, &arena, &config, &err)) {
        check_list(&config.env);
        check_list(&config.diff_ids);
    }
    if (cay_image_read_docker(text, &arena, &docker, &err))
        check_list(&docker.layers);
    return 0;
}
