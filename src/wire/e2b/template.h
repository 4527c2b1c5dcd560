/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How clients name templates, and images that templates are built from. */

#include "base/arena.h"

enum {
    CAY_E2B_TEMPLATE_BYTES_MAX = 64, /* of a name, and of a tag */
};

/* [space/]name[:tag] */
struct cay_e2b_ref {
    struct cay_str space; /* whose; empty: not said */
    struct cay_str name;
    struct cay_str tag; /* empty: not said */
};

/* Name and tag in lower case, as templates are called whatever clients write. False for what cannot
 * be one, also when the arena is full. */
[[nodiscard]] bool cay_e2b_ref_parse(struct cay_str text, struct cay_arena *arena,
                                     struct cay_e2b_ref *out_ref);
/* A tag alone, the same way. */
[[nodiscard]] bool cay_e2b_tag_parse(struct cay_str text, struct cay_arena *arena,
                                     struct cay_str *out_tag);

/* Lines of the configuration: IMAGE=BASE. An image without a tag is meant with any; `*` is every
 * image. The registry and folder that images come from unless they say so may be left out. */
[[nodiscard]] bool cay_e2b_image_line_valid(struct cay_str line);

/* The base that an image stands for: by the line with its tag, else by the one without, else by
 * `*`. Empty when no line speaks of it. */
[[nodiscard]] struct cay_str cay_e2b_image_base(const char *const *lines, size_t count,
                                                struct cay_str image);
