/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct cay_arena_chunk {
    struct cay_arena_chunk *next;
    size_t used;
    size_t cap;
    _Alignas(max_align_t) char data[];
};

enum {
    CHUNK_BYTES_MIN = 1024 - sizeof(struct cay_arena_chunk),
    CHUNK_BYTES_MAX = 64 * 1024 - sizeof(struct cay_arena_chunk),
    ALIGNMENT = _Alignof(max_align_t),
};

void cay_arena_init(struct cay_arena *arena, size_t size_bytes_max)
{
    *arena = (struct cay_arena){.size_bytes_max = size_bytes_max};
}

void cay_arena_finish(struct cay_arena *arena)
{
    while (arena->chunks) {
        struct cay_arena_chunk *chunk = arena->chunks;
        arena->chunks = chunk->next;
        free(chunk);
    }
    arena->used_bytes = 0;
}

/* A chunk of that size; NULL when the ceiling is reached. */
static struct cay_arena_chunk *add_sized(struct cay_arena *arena, size_t cap)
{
    size_t total = cap + sizeof(struct cay_arena_chunk);
    if (total > arena->size_bytes_max - arena->used_bytes)
        return NULL;
    struct cay_arena_chunk *chunk = malloc(total);
    arena->no_memory |= !chunk;
    if (!chunk)
        return NULL;
    *chunk = (struct cay_arena_chunk){.next = arena->chunks, .cap = cap};
    arena->chunks = chunk;
    arena->used_bytes += total;
    return chunk;
}

/* Chunks double from 1 KiB, so a small call costs one malloc and a large one few. */
static struct cay_arena_chunk *add_chunk(struct cay_arena *arena, size_t size)
{
    size_t cap = arena->chunks ? arena->chunks->cap * 2 : CHUNK_BYTES_MIN;
    cap = CAY_MAX(CAY_MIN(cap, (size_t)CHUNK_BYTES_MAX), size);
    if (cap + sizeof(struct cay_arena_chunk) > arena->size_bytes_max - arena->used_bytes)
        cap = size;
    return add_sized(arena, cap);
}

size_t cay_arena_taken(const struct cay_arena *arena)
{
    size_t taken = 0;
    for (const struct cay_arena_chunk *chunk = arena->chunks; chunk; chunk = chunk->next)
        taken += chunk->used;
    return taken;
}

bool cay_arena_reserve(struct cay_arena *arena, size_t size)
{
    return size <= SIZE_MAX / 2 && add_sized(arena, size);
}

void *cay_arena_alloc(struct cay_arena *arena, size_t size)
{
    if (size > SIZE_MAX / 2)
        return NULL;
    size = (CAY_MAX(size, (size_t)1) + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    struct cay_arena_chunk *chunk = arena->chunks;
    if (!chunk || chunk->cap - chunk->used < size)
        chunk = add_chunk(arena, size);
    if (!chunk)
        return NULL;
    void *ptr = chunk->data + chunk->used;
    chunk->used += size;
    return memset(ptr, 0, size);
}

void *cay_arena_array(struct cay_arena *arena, size_t count, size_t size)
{
    size_t total = 0;
    if (__builtin_mul_overflow(count, size, &total))
        return NULL;
    return cay_arena_alloc(arena, total);
}

char *cay_arena_copy(struct cay_arena *arena, struct cay_str text)
{
    char *copy = cay_arena_alloc(arena, text.len + 1);
    if (copy && text.len)
        memcpy(copy, text.ptr, text.len);
    return copy;
}

char *cay_arena_printf(struct cay_arena *arena, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    va_list again;
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char *text = len < 0 ? NULL : cay_arena_alloc(arena, (size_t)len + 1);
    if (text)
        vsnprintf(text, (size_t)len + 1, fmt, again);
    va_end(again);
    return text;
}

struct cay_str cay_arena_str(struct cay_arena *arena, struct cay_str text)
{
    char *copy = cay_arena_copy(arena, text);
    return copy ? (struct cay_str){copy, text.len} : (struct cay_str){};
}
