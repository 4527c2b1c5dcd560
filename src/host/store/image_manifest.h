/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The documents of a container image: OCI's index, manifest and configuration, and the list in a
 * Docker archive. Texts are hostile. What is parsed points into the text and the arena. Unknown
 * members are passed over.
 */

#include "base/arena.h"
#include "base/error.h"

enum {
    CAY_IMAGE_JSON_BYTES_MAX = 4 << 20, /* of one document */
    CAY_IMAGE_LIST_MAX = 1000,          /* manifests of an index, layers of an image, tags */
    CAY_IMAGE_ENV_MAX = 1000,
};

struct cay_image_descriptor {
    struct cay_str media_type;
    struct cay_str digest;
    int64_t size; /* -1: not said */
    bool has_platform;
    struct cay_str os;
    struct cay_str architecture;
    struct cay_str variant;
};

/* An index has manifests, a manifest has a configuration and layers. */
struct cay_image_manifest {
    struct cay_image_descriptor *manifests;
    size_t manifest_count;
    struct cay_image_descriptor config; /* its digest is empty in an index */
    struct cay_image_descriptor *layers;
    size_t layer_count;
};

struct cay_image_list {
    struct cay_str *items;
    size_t count;
};

struct cay_image_config {
    struct cay_str os;
    struct cay_str architecture;
    struct cay_str user;
    struct cay_str cwd;
    struct cay_image_list env; /* NAME=VALUE */
    struct cay_image_list diff_ids;
};

/* The first image of a Docker archive's manifest.json, and how many there are. */
struct cay_image_docker {
    size_t count;
    struct cay_str config;
    struct cay_image_list tags;
    struct cay_image_list layers;
};

/* INVALID_ARGUMENT; RESOURCE_EXHAUSTED when the arena is full. */
[[nodiscard]] bool cay_image_read_manifest(struct cay_str text, struct cay_arena *arena,
                                           struct cay_image_manifest *out, struct cay_error *err);
[[nodiscard]] bool cay_image_read_config(struct cay_str text, struct cay_arena *arena,
                                         struct cay_image_config *out, struct cay_error *err);
[[nodiscard]] bool cay_image_read_docker(struct cay_str text, struct cay_arena *arena,
                                         struct cay_image_docker *out, struct cay_error *err);
