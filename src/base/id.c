/* SPDX-License-Identifier: Apache-2.0 */
#include "base/id.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

bool cay_random_try(void *out, size_t len)
{
    char *at = out;
    while (len) {
        ssize_t got = getrandom(at, len, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return false;
        at += got;
        len -= (size_t)got;
    }
    return true;
}

void cay_random_bytes(void *out, size_t len)
{
    if (!cay_random_try(out, len))
        abort();
}

bool cay_id_try(char *out, size_t size, const char *prefix)
{
    static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    /* Bytes from here on are thrown away: they would make the first characters more likely. */
    enum { LETTERS = sizeof(alphabet) - 1, FAIR = 256 / LETTERS * LETTERS };

    size_t len = strlen(prefix);
    assert(size > len + CAY_ID_RANDOM_CHARS && len + CAY_ID_RANDOM_CHARS <= CAY_ID_BYTES_MAX);
    memcpy(out, prefix, len);
    size_t end = len + CAY_ID_RANDOM_CHARS;
    while (len < end) {
        unsigned char bytes[2 * CAY_ID_RANDOM_CHARS];
        if (!cay_random_try(bytes, sizeof(bytes)))
            return false;
        for (size_t i = 0; i < sizeof(bytes) && len < end; i++) {
            if (bytes[i] < FAIR)
                out[len++] = alphabet[bytes[i] % LETTERS];
        }
    }
    out[len] = '\0';
    return true;
}

void cay_id_make(char *out, size_t size, const char *prefix)
{
    if (!cay_id_try(out, size, prefix))
        abort();
}

static bool is_alphanumeric(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool cay_id_valid(struct cay_str id)
{
    if (!id.len || id.len > CAY_ID_BYTES_MAX || !is_alphanumeric(id.ptr[0]))
        return false;
    for (size_t i = 1; i < id.len; i++) {
        char c = id.ptr[i];
        if (!is_alphanumeric(c) && c != '.' && c != '_' && c != '-')
            return false;
        if (c == '.' && id.ptr[i - 1] == '.')
            return false;
    }
    return true;
}

bool cay_id_check(struct cay_str id, const char *field, struct cay_error *err)
{
    return cay_id_valid(id) ||
           cay_fail(err, CAY_R_INVALID_ARGUMENT,
                    "%s must have 1 to 128 letters, digits, '.', '_' or '-', the first a letter or "
                    "digit, and no '..'",
                    field);
}

void cay_hex_encode(const void *data, size_t len, char *out, size_t size)
{
    static const char digits[] = "0123456789abcdef";
    assert(len < size / 2 || (len == size / 2 && size % 2 == 1));
    const unsigned char *bytes = data;
    for (size_t i = 0; i < len; i++) {
        *out++ = digits[bytes[i] >> 4];
        *out++ = digits[bytes[i] & 15];
    }
    *out = '\0';
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

ssize_t cay_hex_decode(struct cay_str hex, void *out, size_t size)
{
    if (hex.len % 2)
        return -EINVAL;
    if (hex.len / 2 > size)
        return -ENOBUFS;
    unsigned char *bytes = out;
    for (size_t i = 0; i < hex.len; i += 2) {
        int high = digit_value(hex.ptr[i]);
        int low = digit_value(hex.ptr[i + 1]);
        if (high < 0 || low < 0)
            return -EINVAL;
        bytes[i / 2] = (unsigned char)(high << 4 | low);
    }
    return (ssize_t)(hex.len / 2);
}
