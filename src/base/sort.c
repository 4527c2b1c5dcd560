/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sort.h"

#include <stdlib.h>

#include "base/stop.h"

enum { RUN = 4096 }; /* items that are sorted or merged between two looks */

struct sorting {
    size_t size;
    int (*compare)(const void *a, const void *b, void *context);
    void *context;
};

/* Merges two neighbours. False when asked to stop; then `to` is not whole. */
static bool merge(const struct sorting *sorting, const char *from, size_t middle, size_t end,
                  char *to)
{
    size_t size = sorting->size;
    size_t left = 0;
    size_t right = middle;
    for (size_t i = 0; i < end; i++) {
        bool is_left = right == end ||
                       (left < middle && sorting->compare(from + left * size, from + right * size,
                                                          sorting->context) <= 0);
        memcpy(to + i * size, from + (is_left ? left++ : right++) * size, size);
        if (i % RUN == 0 && cay_stop_asked())
            return false;
    }
    return true;
}

void cay_sort(void *items, size_t count, size_t size,
              int (*compare)(const void *a, const void *b, void *context), void *context)
{
    const struct sorting sorting = {size, compare, context};
    for (size_t at = 0; at < count; at += RUN) {
        if (at && cay_stop_asked())
            return;
        qsort_r((char *)items + at * size, CAY_MIN(count - at, (size_t)RUN), size, compare,
                context);
    }
    if (count <= RUN)
        return;
    cay_autofree char *other = reallocarray(NULL, count, size);
    if (!other) { /* in place, as the C library does then */
        qsort_r(items, count, size, compare, context);
        return;
    }
    char *from = items;
    char *to = other;
    for (size_t run = RUN; run < count; run *= 2) {
        for (size_t at = 0; at < count; at += 2 * run) {
            size_t end = CAY_MIN(count - at, 2 * run);
            if (!merge(&sorting, from + at * size, CAY_MIN(run, end), end, to + at * size)) {
                if (from != items) /* which has been written over */
                    memcpy(items, from, count * size);
                return;
            }
        }
        char *merged = to;
        to = from;
        from = merged;
    }
    if (from != items)
        memcpy(items, from, count * size);
}
