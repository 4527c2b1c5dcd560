/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "front/connect/rpc.h"

static void work(struct cay_away *away)
{
    struct cay_rpc *rpc = CAY_CONTAINER_OF(away, struct cay_rpc, away);
    if (rpc->at_worker(rpc, &rpc->away_err))
        rpc->away_err = (struct cay_error){};
}

static void done(struct cay_away *away)
{
    struct cay_rpc *rpc = CAY_CONTAINER_OF(away, struct cay_rpc, away);
    cay_rpc_enter(rpc);
    if (rpc->exchange && !rpc->is_over)
        rpc->came_back(rpc, rpc->away_err.reason ? &rpc->away_err : NULL);
    cay_rpc_leave(rpc);
}

void cay_rpc_send_away(struct cay_rpc *rpc,
                       bool (*at_worker)(struct cay_rpc *rpc, struct cay_error *err),
                       void (*came_back)(struct cay_rpc *rpc, const struct cay_error *err))
{
    assert(rpc->exchange);
    rpc->away_err = (struct cay_error){};
    rpc->at_worker = at_worker;
    rpc->came_back = came_back;
    rpc->away.work = work;
    rpc->away.done = done;
    cay_away_send(&rpc->away, rpc->exchange->loop, rpc->call.caller.owner);
}
