/* SPDX-License-Identifier: Apache-2.0 */
#include "front/e2b/ref.h"

#include <stdlib.h>

#include "base/id.h"
#include "front/e2b/cutter.h"

static struct cay_e2b *make(struct cay_porch *porch, const struct cay_e2b_options *options)
{
    struct cay_e2b *e2b = cay_new(struct cay_e2b);
    *e2b = (struct cay_e2b){
        .porch = porch,
        .options = options,
    };
    cay_list_init(&e2b->inside);
    cay_list_init(&e2b->pollers);
    cay_list_init(&e2b->orders);
    cay_random_bytes(e2b->secret, sizeof(e2b->secret));
    cay_e2b_cutter_open(e2b);
    return e2b;
}

void *cay_e2b_ref(struct cay_porch *porch)
{
    if (!porch->e2b_options || !porch->e2b_options->is_on)
        return NULL;
    if (!porch->e2b)
        porch->e2b = make(porch, porch->e2b_options);
    porch->e2b->ref_count++;
    return porch->e2b;
}

void cay_e2b_unref(void *self)
{
    struct cay_e2b *e2b = self;
    if (--e2b->ref_count)
        return;
    e2b->porch->e2b = NULL;
    cay_e2b_cutter_close(e2b);
    free(e2b);
}
