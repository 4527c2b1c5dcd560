/* SPDX-License-Identifier: Apache-2.0 */
#include "host/session/endless.h"

#include "base/stop.h"
#include "host/session/host.h"

enum { AGAIN_MS = 20 }; /* calls under way may turn out to be endless */

void cay_host_endless(struct cay_host *host, struct cay_call *call)
{
    cay_list_push_back(&host->endless, &call->in_service);
}

static void cut(struct cay_call *call)
{
    struct cay_error err = {};
    cay_fail(&err, CAY_R_DAEMON_RESTARTING, NULL);
    call->is_restarting = true;
    if (call->on_restart)
        call->on_restart(call);
    else if (call->ops->cut)
        call->ops->cut(call, &err);
}

/* From the loop and nowhere else: no verb is inside a call of its own. */
static void on_cut(struct cay_timer *timer)
{
    struct cay_host *host = CAY_CONTAINER_OF(timer, struct cay_host, cut);
    struct cay_list_node *node;
    while ((node = cay_list_pop_front(&host->endless)))
        cut(CAY_CONTAINER_OF(node, struct cay_call, in_service));
}

void cay_host_cut_endless(struct cay_host *host)
{
    if (host->cut.handle)
        return;
    cay_stop_ask(&host->is_ending);
    cay_timer_open(&host->cut, host->loop, on_cut);
    cay_timer_start(&host->cut, 0, AGAIN_MS);
}
