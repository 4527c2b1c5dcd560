/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/e2b/filter.h"

#include <errno.h>

#include "wire/path.h"

/* A '+' of the form is a blank; one that was escaped before is a plus. */
static bool unescape_twice(struct cay_str text, struct cay_arena *arena, struct cay_str *out_text)
{
    char *copy = cay_arena_copy(arena, text);
    if (!copy)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (copy[i] == '+')
            copy[i] = ' ';
    }
    return cay_path_unescape((struct cay_str){copy, text.len}, arena, out_text) &&
           cay_path_unescape(*out_text, arena, out_text);
}

int cay_e2b_filter_parse(struct cay_str text, size_t count_max, struct cay_arena *arena,
                         struct cay_pb_pairs *out_pairs)
{
    struct cay_pb_pairs pairs = {.items = cay_arena_array(arena, count_max, sizeof(*pairs.items))};
    struct cay_str part;
    if (!pairs.items)
        return -ENOMEM;
    while (cay_str_split(&text, '&', &part)) {
        struct cay_str key;
        struct cay_str value = part;
        if (!part.len)
            continue;
        if (pairs.count == count_max)
            return -E2BIG;
        struct cay_pb_pair *pair = &pairs.items[pairs.count];
        if (!cay_str_split(&value, '=', &key) || !unescape_twice(key, arena, &pair->key) ||
            !unescape_twice(value, arena, &pair->value))
            return -EINVAL;
        pairs.count++;
    }
    *out_pairs = pairs;
    return 0;
}
