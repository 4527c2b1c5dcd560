/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/path.h"

#include "base/id.h"

bool cay_path_unescape(struct cay_str text, struct cay_arena *arena, struct cay_str *out_text)
{
    char *copy = cay_arena_alloc(arena, text.len + 1);
    if (!copy)
        return false;
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++, len++) {
        copy[len] = text.ptr[i];
        if (copy[len] != '%')
            continue;
        if (text.len - i < 3 ||
            cay_hex_decode((struct cay_str){text.ptr + i + 1, 2}, copy + len, 1) != 1)
            return false;
        i += 2;
    }
    *out_text = (struct cay_str){copy, len};
    return true;
}

bool cay_path_match(struct cay_str path, const char *pattern, struct cay_arena *arena,
                    struct cay_str out_params[CAY_PATH_PARAMS_MAX])
{
    struct cay_str raw[CAY_PATH_PARAMS_MAX] = {};
    struct cay_str rest = cay_str(pattern);
    struct cay_str wanted;
    struct cay_str segment;
    size_t count = 0;
    while (cay_str_split(&rest, '/', &wanted)) {
        if (!cay_str_split(&path, '/', &segment))
            return false;
        if (!cay_str_is(wanted, "{}")) {
            if (!cay_str_equal(wanted, segment))
                return false;
        } else if (!segment.len || count == CAY_PATH_PARAMS_MAX) {
            return false;
        } else {
            raw[count++] = segment;
        }
    }
    if (path.ptr)
        return false;
    /* Unescaped only now: most patterns are tried in vain. */
    for (size_t i = 0; i < count; i++) {
        if (!cay_path_unescape(raw[i], arena, &out_params[i]))
            return false;
    }
    return true;
}
