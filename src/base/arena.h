/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Memory that dies together. A call's arena holds everything made to answer it; nothing in it is
 * freed singly. The ceiling is what a peer can make us allocate, so every allocation may return
 * NULL.
 *
 * Order: init -> alloc* -> finish. A zeroed struct with a limit is also valid.
 */

#include "base/base.h"

struct cay_arena_chunk;

struct cay_arena {
    struct cay_arena_chunk *chunks; /* newest first */
    size_t used_bytes;              /* of all chunks, headers included */
    size_t size_bytes_max;
    bool no_memory; /* an allocation failed for that, and not at the ceiling */
};

void cay_arena_init(struct cay_arena *arena, size_t size_bytes_max);
void cay_arena_finish(struct cay_arena *arena);

/* Zeroed, aligned for any type. NULL when the ceiling is reached. */
[[nodiscard]] void *cay_arena_alloc(struct cay_arena *arena, size_t size);
[[nodiscard]] void *cay_arena_array(struct cay_arena *arena, size_t count, size_t size);

/* What was handed out so far, with what alignment took. */
size_t cay_arena_taken(const struct cay_arena *arena);

/* Room for that much in one piece: what is then asked for in all takes no more memory than it
 * needs. For arenas that live long. False when the ceiling is reached. */
[[nodiscard]] bool cay_arena_reserve(struct cay_arena *arena, size_t size);

/* NUL-terminated copies; NULL when the ceiling is reached. */
[[nodiscard]] char *cay_arena_copy(struct cay_arena *arena, struct cay_str text);
[[nodiscard]] CAY_PRINTF(2, 3) char *cay_arena_printf(struct cay_arena *arena, const char *fmt,
                                                      ...);

/* The same as a cay_str; an empty one when the ceiling is reached. For our own texts only, never
 * for a peer's. */
[[nodiscard]] struct cay_str cay_arena_str(struct cay_arena *arena, struct cay_str text);

#define cay_arena_new(arena, type) ((type *)cay_arena_alloc((arena), sizeof(type)))
