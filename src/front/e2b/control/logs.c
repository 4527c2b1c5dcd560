/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "api/limits.h"
#include "api/noun.h"
#include "front/e2b/control/handlers.h"
#include "front/e2b/control/shape.h"

/* What happened to a sandbox, as lines of a log. */

struct lines {
    struct cay_buf body;
    struct cay_json_writer json;
};

static bool add_line(struct cay_rest_request *, struct cay_rest_call *call, const void *message)
{
    const struct cay_v1_watch_events_response *response = message;
    struct lines *lines = call->state;
    if (response->which_frame != CAY_V1_WATCH_EVENTS_RESPONSE_FRAME_EVENT)
        return true;
    const struct cay_v1_event *event = response->frame.event;
    cay_json_object_begin(&lines->json);
    cay_e2b_write_time(&lines->json, "timestamp", event->time ? cay_noun_time_ns(event->time) : 0);
    cay_json_key(&lines->json, "level");
    cay_json_text(&lines->json, "info");
    cay_json_key(&lines->json, "message");
    cay_json_string(&lines->json, event->type);
    cay_json_key(&lines->json, "fields");
    cay_json_object_begin(&lines->json);
    if (event->reason.len) {
        cay_json_key(&lines->json, "reason");
        cay_json_string(&lines->json, event->reason);
    }
    if (event->process_id.len) {
        cay_json_key(&lines->json, "process");
        cay_json_string(&lines->json, event->process_id);
    }
    cay_json_object_end(&lines->json);
    cay_json_object_end(&lines->json);
    return true;
}

static void all_told(struct cay_rest_request *request, struct cay_rest_call *call, const void *,
                     const struct cay_error *err)
{
    struct lines *lines = call->state;
    if (err) {
        cay_rest_reply_error(request, err);
        return;
    }
    cay_json_array_end(&lines->json);
    cay_json_object_end(&lines->json);
    cay_rest_reply_json(request, 200, cay_buf_str(&lines->body));
}

static void free_lines(struct cay_rest_request *request)
{
    struct lines *lines = cay_take_ptr(request->state);
    cay_buf_finish(&lines->body);
    free(lines);
}

static void got_session(struct cay_rest_request *request,
                        const struct cay_v1_get_session_response *, void *)
{
    struct lines *lines = cay_new(struct lines);
    cay_buf_init(&lines->body, CAY_LIMIT_MESSAGE_BYTES);
    lines->json = (struct cay_json_writer){.buf = &lines->body};
    cay_json_object_begin(&lines->json);
    cay_json_key(&lines->json, "logs");
    cay_json_array_begin(&lines->json);
    request->state = lines;
    request->on_closed = free_lines;
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_SANDBOX_SERVICE_WATCH_EVENTS);
    struct cay_v1_watch_events_request *ask = cay_rest_call_message(call);
    struct cay_str *id = cay_arena_new(&call->errand.call.arena, struct cay_str);
    if (id)
        *id = cay_e2b_id_cut(request->params[0]);
    ask->session_ids = (struct cay_pb_strs){id, id ? 1 : 0};
    ask->no_follow = true;
    ask->since = cay_noun_time(&call->errand.call.arena, 1);
    call->state = lines;
    call->on_message = add_line;
    cay_rest_call_start(call, all_told);
}

void cay_e2b_logs(struct cay_rest_request *request)
{
    cay_e2b_get_sandbox(request, got_session, NULL);
}
