/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "base/stop.h"
#include "front/connect/rpc.h"

/*
 * Decoding and packing are quick for what people send, but a peer chooses the bytes: a message of
 * the largest size takes some tenths of a second, and one of a hundred packed kilobytes unpacks to
 * it. The loop thread is everybody's, so such messages are the business of workers, in the lane of
 * whose they are.
 */

enum { DEAR_BYTES = 16 * 1024 }; /* a millisecond at worst */

bool cay_rpc_is_dear(size_t len, bool is_packed)
{
    return len > (is_packed ? 0 : DEAR_BYTES);
}

static void work(struct cay_job *job)
{
    struct cay_rpc *rpc = CAY_CONTAINER_OF(job, struct cay_rpc, job);
    (void)cay_stop_watch(&rpc->is_unwanted);
    if (cay_stop_asked() || rpc->at_worker(rpc, &rpc->away_err))
        rpc->away_err = (struct cay_error){};
    (void)cay_stop_watch(NULL);
}

static void done(struct cay_job *job)
{
    struct cay_rpc *rpc = CAY_CONTAINER_OF(job, struct cay_rpc, job);
    cay_shares_unref(cay_take_ptr(rpc->shares));
    cay_rpc_enter(rpc);
    rpc->is_away = false;
    if (rpc->exchange && !rpc->is_over)
        rpc->came_back(rpc, rpc->away_err.reason ? &rpc->away_err : NULL);
    cay_rpc_leave(rpc);
}

void cay_rpc_send_away(struct cay_rpc *rpc,
                       bool (*at_worker)(struct cay_rpc *rpc, struct cay_error *err),
                       void (*came_back)(struct cay_rpc *rpc, const struct cay_error *err))
{
    assert(rpc->exchange && !rpc->is_away);
    struct cay_loop *loop = rpc->exchange->loop;
    rpc->is_away = true;
    rpc->away_err = (struct cay_error){};
    rpc->at_worker = at_worker;
    rpc->came_back = came_back;
    rpc->shares = cay_shares_ref(loop, rpc->call.caller.owner);
    rpc->job = (struct cay_job){.work = work, .done = done, .lane = &rpc->shares->door_lane};
    cay_loop_submit(loop, &rpc->job);
}
