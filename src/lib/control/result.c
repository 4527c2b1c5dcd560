/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/control/result.h"

#include <stdlib.h>

enum { RESULT_BYTES_MAX = 1024 * 1024 * 1024 }; /* lists of all that an owner has */

struct box {
    struct cay_arena arena;
    _Alignas(max_align_t) char result[];
};

static struct box *box_of(void *result)
{
    return CAY_CONTAINER_OF(result, struct box, result);
}

void *cay_result_new(size_t size)
{
    struct box *box = calloc(1, sizeof(*box) + size);
    if (!box)
        return NULL;
    cay_arena_init(&box->arena, RESULT_BYTES_MAX);
    return box->result;
}

void cay_result_free(void *result)
{
    if (!result)
        return;
    struct box *box = box_of(result);
    cay_arena_finish(&box->arena);
    free(box);
}

struct cay_arena *cay_result_arena(void *result)
{
    return &box_of(result)->arena;
}
