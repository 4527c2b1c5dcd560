/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sized.h"

#include "base/base.h"

static bool is_zero(const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (bytes[i])
            return false;
    }
    return true;
}

bool cay_sized_take(const void *given, void *out, size_t size, const char *what,
                    struct cay_error *err)
{
    size_t given_size = size;
    if (given)
        memcpy(&given_size, given, sizeof(given_size));
    /* A struct of any version ends behind a field, never in the middle of a pointer. */
    if (given_size < sizeof(given_size) || given_size > CAY_SIZED_BYTES_MAX ||
        given_size % sizeof(void *))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "%s: its size is not set; initialize it with the macro of its name", what);
    if (given_size > size && !is_zero((const char *)given + size, given_size - size))
        return cay_fail(err, CAY_R_NOT_SUPPORTED,
                        "%s: it sets something that this version of libcay does not know", what);
    memset(out, 0, size);
    if (given)
        memcpy(out, given, CAY_MIN(given_size, size));
    memcpy(out, &size, sizeof(size));
    return true;
}
