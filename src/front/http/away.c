/* SPDX-License-Identifier: Apache-2.0 */
#include "front/http/away.h"

#include <assert.h>

#include "base/stop.h"

enum {
    DEAR_BYTES = 16 * 1024,      /* a millisecond at worst */
    DEAR_MEMORY = 4 * DEAR_BYTES /* structs are larger than what is said in them */
};

bool cay_is_dear(size_t len, bool is_packed)
{
    return len > (is_packed ? 0 : DEAR_BYTES);
}

bool cay_is_dear_in_memory(size_t len)
{
    return len > DEAR_MEMORY;
}

static void work(struct cay_job *job)
{
    struct cay_away *away = CAY_CONTAINER_OF(job, struct cay_away, job);
    (void)cay_stop_watch(&away->is_unwanted);
    if (!cay_stop_asked())
        away->work(away);
    (void)cay_stop_watch(NULL);
}

static void done(struct cay_job *job)
{
    struct cay_away *away = CAY_CONTAINER_OF(job, struct cay_away, job);
    cay_shares_unref(cay_take_ptr(away->shares));
    away->is_away = false;
    away->done(away);
}

void cay_away_send(struct cay_away *away, struct cay_loop *loop, const char *owner)
{
    assert(!away->is_away);
    away->is_away = true;
    away->shares = cay_shares_ref(loop, owner);
    away->job = (struct cay_job){.work = work, .done = done, .lane = &away->shares->door_lane};
    cay_loop_submit(loop, &away->job);
}

void cay_away_leave(struct cay_away *away)
{
    cay_stop_ask(&away->is_unwanted);
}
