/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void cay_cleanup_free(void *ptr_to_ptr)
{
    free(*(void **)ptr_to_ptr);
}

void cay_cleanup_close(const int *fd)
{
    if (*fd >= 0) {
        int saved = errno;
        close(*fd);
        errno = saved;
    }
}

[[gnu::noreturn]] static void out_of_memory(void)
{
    static const char text[] = "cay: out of memory\n";
    (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
    abort();
}

void *cay_alloc(size_t size)
{
    void *ptr = calloc(1, size ? size : 1);
    if (!ptr)
        out_of_memory();
    return ptr;
}

void *cay_realloc_array(void *ptr, size_t count, size_t size)
{
    void *grown = reallocarray(ptr, count ? count : 1, size ? size : 1);
    if (!grown)
        out_of_memory();
    return grown;
}

char *cay_strndup(const char *text, size_t len)
{
    char *copy = cay_alloc(len + 1);
    if (len)
        memcpy(copy, text, len);
    return copy;
}

char *cay_strdup(const char *text)
{
    return cay_strndup(text, strlen(text));
}

char *cay_asprintf(const char *fmt, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    int len = vasprintf(&text, fmt, args);
    va_end(args);
    if (len < 0)
        out_of_memory();
    return text;
}

void cay_wipe(void *ptr, size_t len)
{
    if (len)
        explicit_bzero(ptr, len);
}

bool cay_equal_constant_time(const void *a, size_t a_len, const void *b, size_t b_len)
{
    if (a_len != b_len)
        return false;
    const volatile unsigned char *left = a;
    const volatile unsigned char *right = b;
    unsigned char difference = 0;
    for (size_t i = 0; i < a_len; i++)
        difference = (unsigned char)(difference | (left[i] ^ right[i]));
    return difference == 0;
}

static char fold(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

bool cay_str_equal_nocase(struct cay_str a, struct cay_str b)
{
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++) {
        if (fold(a.ptr[i]) != fold(b.ptr[i]))
            return false;
    }
    return true;
}

struct cay_str cay_str_trim(struct cay_str text)
{
    while (text.len && (*text.ptr == ' ' || *text.ptr == '\t')) {
        text.ptr++;
        text.len--;
    }
    while (text.len && (text.ptr[text.len - 1] == ' ' || text.ptr[text.len - 1] == '\t'))
        text.len--;
    return text;
}

bool cay_str_split(struct cay_str *rest, char separator, struct cay_str *out_part)
{
    if (!rest->ptr)
        return false;
    const char *cut = rest->len ? memchr(rest->ptr, separator, rest->len) : NULL;
    if (!cut) {
        *out_part = *rest;
        *rest = (struct cay_str){};
        return true;
    }
    *out_part = (struct cay_str){rest->ptr, (size_t)(cut - rest->ptr)};
    rest->len -= out_part->len + 1;
    rest->ptr = cut + 1;
    return true;
}

int cay_str_to_u64(struct cay_str text, uint64_t max, uint64_t *out_value)
{
    uint64_t value = 0;
    if (!text.len)
        return -EINVAL;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return -EINVAL;
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(text.ptr[i] - '0'), &value))
            return -ERANGE;
    }
    if (value > max)
        return -ERANGE;
    *out_value = value;
    return 0;
}
