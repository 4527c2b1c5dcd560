/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Putting a container image together: which of its manifests is ours, its layers one upon the
 * other, with what later ones take away. Manifest, configuration and every layer must have the
 * digest by which they are named.
 */

#include "host/store/image_files.h"
#include "host/store/image_manifest.h"
#include "host/store/unpack.h"

struct cay_image_request {
    const struct cay_image_files *files;
    bool is_docker;       /* manifest.json counts, not index.json */
    const char *platform; /* "linux/arm64"; NULL or empty: this machine's */
    struct cay_unpack *unpack;
};

struct cay_image_found {
    struct cay_image_config config; /* in the arena */
    struct cay_str name;            /* a tag, for people; may be empty */
    char
        digest[CAY_SHA256_HEX_SIZE]; /* of the manifest; of the configuration of a Docker archive */
};

[[nodiscard]] bool cay_image_unpack(const struct cay_image_request *request,
                                    struct cay_arena *arena, struct cay_image_found *out_found,
                                    struct cay_error *err);

/* "amd64", as images call this machine. */
const char *cay_image_architecture(void);
