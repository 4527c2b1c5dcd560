/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/entry.h"

#include "base/id.h"
#include "base/utf8.h"

static bool is_zero(const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (bytes[i])
            return false;
    }
    return true;
}

bool cay_entry_take(const void *given, void *out, size_t size, const char *what,
                    struct cay_error *err)
{
    size_t given_size = size;
    if (given)
        memcpy(&given_size, given, sizeof(given_size));
    /* A struct of any version ends behind a field, never in the middle of a pointer. */
    if (given_size < sizeof(given_size) || given_size > CAY_ENTRY_SIZE_MAX ||
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

bool cay_entry_text(const char *text, const char *what, struct cay_error *err)
{
    if (!text || !*text)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "%s: it is missing or empty", what);
    return cay_entry_word(text, what, err);
}

bool cay_entry_word(const char *text, const char *what, struct cay_error *err)
{
    if (cay_utf8_valid(cay_str(text)))
        return true;
    return cay_fail(err, CAY_R_INVALID_ARGUMENT, "%s: it is not UTF-8", what);
}

bool cay_entry_pairs(const struct cay_pair *pairs, size_t count, const char *what,
                     struct cay_error *err)
{
    if (count && !pairs)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "%s: there are none of %zu", what, count);
    for (size_t i = 0; i < count; i++) {
        if (!cay_entry_text(pairs[i].name, what, err) || !cay_entry_word(pairs[i].value, what, err))
            return cay_wrap(err, "number %zu", i + 1);
    }
    return true;
}

bool cay_entry_id(char *out, size_t size, const char *prefix, struct cay_error *err)
{
    return cay_id_try(out, size, prefix) ||
           cay_fail(err, CAY_R_UNAVAILABLE, "the kernel gives no random numbers for an id");
}
