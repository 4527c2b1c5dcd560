/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Patterns of paths: `*` and `?` inside one name, `[a-z]` and `[!a-z]`, `{a,b}`, `**` for any
 * number of directories, backslash before a plain character. Matching takes time in proportion to
 * the lengths of pattern and path, whatever they are.
 */

#include "base/arena.h"
#include "base/base.h"

enum {
    CAY_GLOB_BYTES_MAX = 4096,
    CAY_GLOB_ALTERNATIVES_MAX = 64, /* after `{a,b}` has been written out */
    CAY_GLOB_PARTS_MAX = 128,       /* names between slashes */
};

/* One way to write the pattern without braces. */
struct cay_glob_alternative {
    struct cay_str *parts;
    size_t count;
};

struct cay_glob {
    struct cay_glob_alternative *alternatives;
    size_t count;
    bool has_slash;     /* otherwise it is about the last name alone, where the user says so */
    bool any_depth;     /* some alternative has `**` */
    unsigned depth_max; /* the most names an alternative without `**` has */
};

/* False with a short sentence in *out_problem, or NULL there: the arena is full. */
[[nodiscard]] bool cay_glob_compile(struct cay_str pattern, struct cay_arena *arena,
                                    struct cay_glob *out_glob, const char **out_problem);

/* The whole path, relative, without a slash at its ends. */
[[nodiscard]] bool cay_glob_match(const struct cay_glob *glob, struct cay_str path);
