/* SPDX-License-Identifier: Apache-2.0 */
#include "base/secret.h"

#include <stdlib.h>

void cay_secret_init(struct cay_secret *secret)
{
    *secret = (struct cay_secret){};
}

void cay_secret_finish(struct cay_secret *secret)
{
    cay_wipe(secret->bytes, secret->len);
    free(secret->bytes);
    *secret = (struct cay_secret){};
}

void cay_secret_set(struct cay_secret *secret, struct cay_str bytes)
{
    /* Copied first: the caller may pass a part of the view. */
    char *copy = cay_strndup(bytes.ptr, bytes.len);
    cay_secret_finish(secret);
    *secret = (struct cay_secret){copy, bytes.len};
}

bool cay_secret_try_set(struct cay_secret *secret, struct cay_str bytes)
{
    char *copy = calloc(1, bytes.len + 1);
    if (!copy)
        return false;
    if (bytes.len)
        memcpy(copy, bytes.ptr, bytes.len);
    cay_secret_finish(secret);
    *secret = (struct cay_secret){copy, bytes.len};
    return true;
}

struct cay_str cay_secret_view(const struct cay_secret *secret)
{
    return (struct cay_str){secret->bytes, secret->len};
}

bool cay_secret_equal(const struct cay_secret *secret, struct cay_str other)
{
    return secret->len && cay_equal_constant_time(secret->bytes, secret->len, other.ptr, other.len);
}
