/* SPDX-License-Identifier: Apache-2.0 */
#include "front/e2b/envd/keepalive.h"

#include "front/e2b/envd/rpc.h"

/* Clients give a silent stream up after five minutes. */
enum { INTERVAL_MIN_S = 1, INTERVAL_DEFAULT_S = 90, INTERVAL_MAX_S = 300 };

static uint64_t interval_ms(const struct cay_rest_request *request)
{
    struct cay_str value = cay_http_header(&request->exchange->headers, "keepalive-ping-interval");
    uint64_t seconds = 0;
    if (cay_str_to_u64(value, UINT32_MAX, &seconds) < 0)
        seconds = INTERVAL_DEFAULT_S;
    seconds = CAY_MIN(CAY_MAX(seconds, (uint64_t)INTERVAL_MIN_S), (uint64_t)INTERVAL_MAX_S);
    return seconds * 1000;
}

/* What was said since the timer was started only moves it: most streams are rarely silent. */
static void on_timer(struct cay_timer *timer)
{
    struct cay_e2b_keepalive *self = CAY_CONTAINER_OF(timer, struct cay_e2b_keepalive, timer);
    struct cay_rest_request *request = self->request;
    if (request->exchange->is_finished)
        return;
    uint64_t silent_ms = cay_loop_now_ms(request->loop) - self->said_ms;
    if (silent_ms < self->interval_ms) {
        cay_timer_start(timer, self->interval_ms - silent_ms, 0);
        return;
    }
    self->said_ms += silent_ms;
    cay_timer_start(timer, self->interval_ms, 0);
    cay_rest_enter(request);
    if (cay_exchange_has_room(request->exchange)) /* else the client has enough to read */
        (void)cay_e2b_rpc_send_empty(request, self->outer, self->inner);
    cay_rest_leave(request);
}

void cay_e2b_keepalive_open(struct cay_e2b_keepalive *self, struct cay_rest_request *request,
                            const char *outer, const char *inner)
{
    *self = (struct cay_e2b_keepalive){
        .request = request, .outer = outer, .inner = inner, .interval_ms = interval_ms(request)};
    cay_timer_open(&self->timer, request->loop, on_timer);
}

void cay_e2b_keepalive_said(struct cay_e2b_keepalive *self)
{
    if (!self->said_ms)
        cay_timer_start(&self->timer, self->interval_ms, 0);
    self->said_ms = cay_loop_now_ms(self->request->loop);
}

void cay_e2b_keepalive_close(struct cay_e2b_keepalive *self)
{
    cay_timer_close(&self->timer);
}
