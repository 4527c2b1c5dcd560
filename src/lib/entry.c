/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/entry.h"

#include "base/id.h"
#include "base/utf8.h"

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
