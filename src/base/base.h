/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What every file may count on: the C23 words gcc 12 lacks, scope-bound cleanup, allocation that
 * cannot fail, and the borrowed string. Anything sized by a peer does not belong here but in
 * cay_buf or cay_arena, which have a ceiling.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#ifndef static_assert
#define static_assert _Static_assert
#endif
#ifndef thread_local
#define thread_local _Thread_local
#endif

#define CAY_COUNT(array)    (sizeof(array) / sizeof((array)[0]))
#define CAY_MIN(a, b)       ((a) < (b) ? (a) : (b))
#define CAY_MAX(a, b)       ((a) > (b) ? (a) : (b))
#define CAY_PRINTF(fmt, at) [[gnu::format(printf, fmt, at)]]

#define CAY_CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* Scope-bound release: `cay_autofree char *s`, `cay_autoclose int fd`, `cay_auto(cay_buf_finish)
 * struct cay_buf b`. The owner that lives longer takes the value out with cay_take_ptr or
 * cay_take_fd. */
#define cay_auto(finish) [[gnu::cleanup(finish)]]
#define cay_autofree     [[gnu::cleanup(cay_cleanup_free)]]
#define cay_autoclose    [[gnu::cleanup(cay_cleanup_close)]]

#define cay_take_ptr(ptr)           \
    ({                              \
        typeof(ptr) taken_ = (ptr); \
        (ptr) = NULL;               \
        taken_;                     \
    })

#define cay_take_fd(fd)    \
    ({                     \
        int taken_ = (fd); \
        (fd) = -1;         \
        taken_;            \
    })

void cay_cleanup_free(void *ptr_to_ptr);
void cay_cleanup_close(const int *fd);

/* Small allocations cannot fail: they abort. Memory is zeroed. */
[[nodiscard, gnu::malloc, gnu::returns_nonnull]] void *cay_alloc(size_t size);
[[nodiscard, gnu::returns_nonnull]] void *cay_realloc_array(void *ptr, size_t count, size_t size);
[[nodiscard, gnu::malloc, gnu::returns_nonnull]] char *cay_strdup(const char *text);
[[nodiscard, gnu::malloc, gnu::returns_nonnull]] char *cay_strndup(const char *text, size_t len);
[[nodiscard, gnu::malloc,
  gnu::returns_nonnull]] CAY_PRINTF(1, 2) char *cay_asprintf(const char *fmt, ...);

#define cay_new(type) ((type *)cay_alloc(sizeof(type)))

/* Overwrites memory that held a secret; never optimised away. */
void cay_wipe(void *ptr, size_t len);

/* True when both have the same bytes; the time taken depends on the lengths only. */
[[nodiscard]] bool cay_equal_constant_time(const void *a, size_t a_len, const void *b,
                                           size_t b_len);

/* A string somebody else owns. Not NUL-terminated; may hold any byte; ptr may be NULL when len is
 * 0. */
struct cay_str {
    const char *ptr;
    size_t len;
};

#define CAY_STR(literal) ((struct cay_str){"" literal, sizeof(literal) - 1})

static inline struct cay_str cay_str(const char *text)
{
    return (struct cay_str){text, text ? strlen(text) : 0};
}

static inline bool cay_str_equal(struct cay_str a, struct cay_str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static inline bool cay_str_is(struct cay_str a, const char *text)
{
    return cay_str_equal(a, cay_str(text));
}

static inline bool cay_str_starts(struct cay_str a, const char *prefix)
{
    size_t len = strlen(prefix);
    return a.len >= len && memcmp(a.ptr, prefix, len) == 0;
}

/* ASCII case folding only: the right comparison for HTTP header names and tokens. */
[[nodiscard]] bool cay_str_equal_nocase(struct cay_str a, struct cay_str b);
[[nodiscard]] struct cay_str cay_str_trim(struct cay_str text);

/* Cuts *rest at the first `separator`: returns what stands before it, leaves in *rest what follows.
 * False when *rest was already used up (ptr NULL). */
[[nodiscard]] bool cay_str_split(struct cay_str *rest, char separator, struct cay_str *out_part);

/* A whole decimal number without sign or blanks; -EINVAL for anything else, -ERANGE above `max`. */
[[nodiscard]] int cay_str_to_u64(struct cay_str text, uint64_t max, uint64_t *out_value);
