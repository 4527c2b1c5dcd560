/* SPDX-License-Identifier: Apache-2.0 */
#include "front/e2b/cutter.h"

#include <stdlib.h>

#include "api/errand.h"

struct cay_e2b_cutter {
    struct cay_errand errand;
    struct cay_e2b *door;
    bool is_over; /* the watch has ended */
};

static struct cay_e2b_cutter *of(struct cay_errand *errand)
{
    return CAY_CONTAINER_OF(errand, struct cay_e2b_cutter, errand);
}

/* Not where an event is heard: whoever tells it is in the middle of something. */
static void cut(struct cay_task *task)
{
    struct cay_e2b_visit *visit = CAY_CONTAINER_OF(task, struct cay_e2b_visit, cut);
    struct cay_rest_request *request = visit->request;
    visit->is_cut = false;
    if (request->exchange)
        cay_exchange_reset(request->exchange);
    cay_rest_leave(request);
}

static void mark(struct cay_e2b *e2b, struct cay_str session_id, bool is_of_tokens)
{
    cay_list_for_each (struct cay_e2b_visit, visit, &e2b->inside, in_door) {
        if (visit->is_cut || !cay_str_equal(visit->sandbox_id, session_id) ||
            (is_of_tokens && !visit->is_by_token))
            continue;
        visit->is_cut = true;
        visit->cut.run = cut;
        cay_rest_enter(visit->request); /* until then */
        cay_loop_post(visit->request->loop, &visit->cut);
    }
}

static bool heard(struct cay_errand *errand, const void *message)
{
    const struct cay_v1_watch_events_response *response = message;
    if (response->which_frame != CAY_V1_WATCH_EVENTS_RESPONSE_FRAME_EVENT)
        return true;
    const struct cay_v1_event *event = response->frame.event;
    bool is_of_tokens = cay_str_is(event->type, "session.tokens_revoked");
    if (is_of_tokens || cay_str_is(event->type, "session.paused") ||
        cay_str_is(event->type, "session.destroyed"))
        mark(of(errand)->door, event->session_id, is_of_tokens);
    return true;
}

static void ended(struct cay_errand *errand, const void *, const struct cay_error *)
{
    struct cay_e2b_cutter *cutter = of(errand);
    cutter->is_over = true;
    cay_errand_finish(errand);
    if (errand->call.is_cancelled)
        free(cutter);
}

void cay_e2b_cutter_open(struct cay_e2b *door)
{
    static const struct cay_errand_ops ops = {.ended = ended, .heard = heard};
    static enum cay_v1_event_kind kind = CAY_V1_EVENT_KIND_SESSION;
    const struct cay_caller caller = cay_e2b_door_caller();
    struct cay_e2b_cutter *cutter = cay_new(struct cay_e2b_cutter);
    cay_errand_init(&cutter->errand, door->porch->service, CAY_V1_SANDBOX_SERVICE_WATCH_EVENTS,
                    &caller, &ops);
    struct cay_v1_watch_events_request *ask = cay_errand_message(&cutter->errand);
    ask->kinds.items = &kind;
    ask->kinds.count = 1;
    cutter->door = door;
    door->cutter = cutter;
    cay_errand_start(&cutter->errand);
}

void cay_e2b_cutter_close(struct cay_e2b *door)
{
    struct cay_e2b_cutter *cutter = cay_take_ptr(door->cutter);
    if (!cutter)
        return;
    if (cutter->is_over)
        free(cutter);
    else
        cay_errand_cancel(&cutter->errand);
}

void cay_e2b_cutter_add(struct cay_rest_request *request)
{
    cay_list_push_back(&cay_e2b_visit(request)->e2b->inside, &cay_e2b_visit(request)->in_door);
}
