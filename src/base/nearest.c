/* SPDX-License-Identifier: Apache-2.0 */
#include "base/nearest.h"

/* Longer words are not mistyped names. */
enum { WORD_BYTES_MAX = 64 };

static char fold(char c)
{
    if (c == '-')
        return '_';
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
    return CAY_MIN(CAY_MIN(a, b), c);
}

/* Three rows of the usual table: swapping neighbours looks back two. */
static unsigned distance(struct cay_str a, struct cay_str b)
{
    unsigned rows[3][WORD_BYTES_MAX + 1];
    unsigned *before = rows[0];
    unsigned *last = rows[1];
    unsigned *row = rows[2];
    for (unsigned j = 0; j <= b.len; j++)
        last[j] = j;
    for (unsigned i = 1; i <= a.len; i++) {
        row[0] = i;
        for (unsigned j = 1; j <= b.len; j++) {
            char x = fold(a.ptr[i - 1]);
            char y = fold(b.ptr[j - 1]);
            row[j] = min3(last[j] + 1, row[j - 1] + 1, last[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == fold(b.ptr[j - 2]) && fold(a.ptr[i - 2]) == y)
                row[j] = CAY_MIN(row[j], before[j - 2] + 1);
        }
        unsigned *oldest = before;
        before = last;
        last = row;
        row = oldest;
    }
    return last[b.len];
}

const char *cay_nearest(struct cay_str word, const char *const *names, size_t count)
{
    if (!word.len || word.len > WORD_BYTES_MAX)
        return NULL;
    /* One mistake in a short word, up to three in a long one. */
    unsigned best = word.len <= 3 ? 2 : word.len <= 7 ? 3 : 4;
    const char *nearest = NULL;
    for (size_t i = 0; i < count; i++) {
        struct cay_str name = cay_str(names[i]);
        if (name.len > WORD_BYTES_MAX)
            continue;
        unsigned steps = distance(word, name);
        /* Replacing every letter does not make a name similar. */
        if (steps < best && steps < CAY_MAX(word.len, name.len)) {
            best = steps;
            nearest = names[i];
        }
    }
    return nearest;
}
