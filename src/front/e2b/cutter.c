/* SPDX-License-Identifier: Apache-2.0 */
#include "front/e2b/cutter.h"

#include <stdlib.h>

#include "base/stop.h"

struct cay_e2b_cutter {
    struct cay_call call;
    struct cay_e2b_door *door;
    bool is_over; /* the watch has ended */
};

static struct cay_e2b_cutter *of(struct cay_call *call)
{
    return CAY_CONTAINER_OF(call, struct cay_e2b_cutter, call);
}

/* Not where an event is heard: whoever tells it is in the middle of something. */
static void cut(struct cay_task *task)
{
    struct cay_e2b_request *request = CAY_CONTAINER_OF(task, struct cay_e2b_request, cut);
    request->is_cut = false;
    if (request->exchange)
        cay_exchange_reset(request->exchange);
    cay_e2b_leave(request);
}

static void mark(struct cay_e2b_door *door, struct cay_str session_id)
{
    cay_list_for_each (struct cay_e2b_request, request, &door->inside, in_door) {
        if (request->is_cut || !cay_str_equal(request->sandbox_id, session_id))
            continue;
        request->is_cut = true;
        request->cut.run = cut;
        cay_e2b_enter(request); /* until then */
        cay_loop_post(request->loop, &request->cut);
    }
}

static bool heard(struct cay_call *call, const void *message)
{
    const struct cay_v1_watch_events_response *response = message;
    if (response->which_frame != CAY_V1_WATCH_EVENTS_RESPONSE_FRAME_EVENT)
        return true;
    const struct cay_v1_event *event = response->frame.event;
    if (cay_str_is(event->type, "session.paused") || cay_str_is(event->type, "session.destroyed"))
        mark(of(call)->door, event->session_id);
    return true;
}

static void ended(struct cay_call *call)
{
    struct cay_e2b_cutter *cutter = of(call);
    cutter->is_over = true;
    cay_arena_finish(&cutter->call.arena);
    if (call->is_cancelled)
        free(cutter);
}

static void done(struct cay_call *call, const void *)
{
    ended(call);
}

static void fail(struct cay_call *call, const struct cay_error *)
{
    ended(call);
}

static const struct cay_call_ops ops = {.done = done, .fail = fail, .send = heard};

void cay_e2b_cutter_open(struct cay_e2b_door *door)
{
    struct cay_e2b_cutter *cutter = cay_new(struct cay_e2b_cutter);
    cutter->door = door;
    cutter->call.ops = &ops;
    cutter->call.method = &door->service->ops->methods[CAY_V1_SANDBOX_SERVICE_WATCH_EVENTS];
    cutter->call.caller = (struct cay_caller){.role = CAY_ROLE_ADMIN, .owner = "local"};
    cay_arena_init(&cutter->call.arena, 4096);
    struct cay_v1_watch_events_request *ask =
        cay_arena_new(&cutter->call.arena, struct cay_v1_watch_events_request);
    enum cay_v1_event_kind *kind = cay_arena_alloc(&cutter->call.arena, sizeof(*kind));
    *kind = CAY_V1_EVENT_KIND_SESSION;
    ask->kinds.items = kind;
    ask->kinds.count = 1;
    cutter->call.request = ask;
    door->cutter = cutter;
    cay_service_call(door->service, &cutter->call);
}

void cay_e2b_cutter_close(struct cay_e2b_door *door)
{
    struct cay_e2b_cutter *cutter = cay_take_ptr(door->cutter);
    if (!cutter)
        return;
    cay_stop_ask(&cutter->call.is_cancelled);
    if (cutter->is_over)
        free(cutter);
    else if (cutter->call.on_cancel)
        cutter->call.on_cancel(&cutter->call);
}

void cay_e2b_cutter_add(struct cay_e2b_request *request)
{
    cay_list_push_back(&request->door->inside, &request->in_door);
}
