/* SPDX-License-Identifier: Apache-2.0 */
#include "io/share.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "io/loop_internal.h"

struct cay_shares *cay_shares_ref(struct cay_loop *loop, const char *owner)
{
    struct cay_shares *shares = cay_map_get(&loop->shares, cay_str(owner));
    if (!shares) {
        shares = cay_new(struct cay_shares);
        shares->loop = loop;
        shares->quick.threads_max = CAY_OWNER_THREADS;
        shares->search.threads_max = CAY_OWNER_SEARCH_THREADS;
        shares->search.is_patient = true;
        shares->door.threads_max = CAY_OWNER_DOOR_THREADS;
        shares->door.is_patient = true;
        shares->door_lane.share = &shares->door;
        snprintf(shares->owner, sizeof(shares->owner), "%s", owner);
        (void)cay_map_put(&loop->shares, cay_str(shares->owner), shares);
    }
    shares->ref_count++;
    return shares;
}

void cay_shares_unref(struct cay_shares *shares)
{
    if (!shares || --shares->ref_count > 0)
        return;
    assert(shares->quick.at_work == 0 && shares->search.at_work == 0 && shares->door.at_work == 0);
    (void)cay_map_remove(&shares->loop->shares, cay_str(shares->owner));
    free(shares);
}
