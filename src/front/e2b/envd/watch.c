/* SPDX-License-Identifier: Apache-2.0 */
#include "front/e2b/envd/watch.h"

#include "front/e2b/envd/entry.h"
#include "front/e2b/envd/handlers.h"
#include "front/e2b/envd/keepalive.h"
#include "front/e2b/envd/rpc.h"
#include "front/rest/call.h"
#include "wire/e2b/e2b.h"

/* filesystem.Filesystem/WatchDir: changes of a directory as a stream. */

struct watch {
    struct cay_rest_request *request;
    struct cay_rest_call *call; /* NULL once it is answered, or nobody wants it */
    struct cay_timer deadline;
    struct cay_e2b_keepalive keepalive;
};

const struct cay_v1_watch_dir_request *cay_e2b_watch_read(struct cay_rest_request *request)
{
    struct cay_str user;
    const struct e2b_watch_dir_request *wanted =
        cay_e2b_rpc_read(request, &e2b_watch_dir_request_desc);
    if (!wanted || !cay_e2b_rpc_user(request, &user))
        return NULL;
    struct cay_v1_watch_dir_request *ask =
        cay_arena_new(&request->arena, struct cay_v1_watch_dir_request);
    if (!ask) {
        cay_e2b_rpc_fail(request, CAY_CODE_RESOURCE_EXHAUSTED, "the request is too large");
        return NULL;
    }
    *ask = (struct cay_v1_watch_dir_request){
        .session_id = cay_e2b_visit(request)->sandbox_id,
        .path = cay_e2b_path(request, wanted->path),
        .user = user,
        .recursive = wanted->recursive,
        .include_info = wanted->include_entry,
    };
    return ask;
}

void cay_e2b_write_watch_event(struct cay_json_writer *json, const struct cay_v1_file_event *event)
{
    static const char *const names[] = {
        [CAY_V1_FILE_EVENT_TYPE_CREATE] = "EVENT_TYPE_CREATE",
        [CAY_V1_FILE_EVENT_TYPE_WRITE] = "EVENT_TYPE_WRITE",
        [CAY_V1_FILE_EVENT_TYPE_REMOVE] = "EVENT_TYPE_REMOVE",
        [CAY_V1_FILE_EVENT_TYPE_RENAME] = "EVENT_TYPE_RENAME",
        [CAY_V1_FILE_EVENT_TYPE_CHMOD] = "EVENT_TYPE_CHMOD",
    };
    bool is_known = (size_t)event->type < CAY_COUNT(names) && names[event->type];
    cay_json_object_begin(json);
    cay_json_key(json, "name");
    cay_json_string(json, event->name);
    cay_json_key(json, "type");
    cay_json_text(json, is_known ? names[event->type] : "EVENT_TYPE_UNSPECIFIED");
    if (event->info) {
        cay_json_key(json, "entry");
        cay_e2b_write_entry(json, event->info);
    }
    cay_json_object_end(json);
}

static bool send_event(struct cay_rest_request *request, const struct cay_v1_file_event *event)
{
    struct cay_e2b_envelope envelope;
    cay_e2b_envelope_begin(&envelope);
    cay_json_object_begin(&envelope.json);
    cay_json_key(&envelope.json, "filesystem");
    cay_e2b_write_watch_event(&envelope.json, event);
    cay_json_object_end(&envelope.json);
    return cay_e2b_envelope_send(request, &envelope);
}

/* The end comes from here: nothing of the hallway may be written after it. */
static void stop(struct watch *self, enum cay_connect_code code, const char *message)
{
    struct cay_rest_call *call = cay_take_ptr(self->call);
    if (call)
        cay_rest_call_cancel(call);
    cay_timer_stop(&self->deadline);
    cay_e2b_rpc_fail(self->request, code, message);
}

static bool on_frame(struct cay_rest_request *request, struct cay_rest_call *call,
                     const void *message)
{
    const struct cay_v1_watch_dir_response *response = message;
    struct watch *self = call->state;
    switch (response->which_frame) {
    case CAY_V1_WATCH_DIR_RESPONSE_FRAME_STARTED:
        cay_e2b_keepalive_said(&self->keepalive);
        return cay_e2b_rpc_send_empty(request, "start", NULL);
    case CAY_V1_WATCH_DIR_RESPONSE_FRAME_EVENT:
        cay_e2b_keepalive_said(&self->keepalive);
        return send_event(request, response->frame.event);
    case CAY_V1_WATCH_DIR_RESPONSE_FRAME_OVERFLOW:
        stop(self, CAY_CODE_DATA_LOSS, CAY_E2B_WATCH_MISSED);
        return true;
    case CAY_V1_WATCH_DIR_RESPONSE_FRAME_HEARTBEAT: /* the client has its own */
    case CAY_V1_WATCH_DIR_RESPONSE_FRAME_NOT_SET: break;
    }
    return true;
}

static void ended(struct cay_rest_request *request, struct cay_rest_call *call, const void *,
                  const struct cay_error *err)
{
    struct watch *self = call->state;
    self->call = NULL;
    cay_timer_stop(&self->deadline);
    if (!err)
        cay_e2b_rpc_end(request); /* the directory was removed */
    else if (request->is_answered)
        cay_e2b_rpc_cut(request); /* the sandbox was */
    else
        cay_e2b_rpc_error(request, err);
}

static void on_deadline(struct cay_timer *timer)
{
    struct watch *self = CAY_CONTAINER_OF(timer, struct watch, deadline);
    struct cay_rest_request *request = self->request;
    cay_rest_enter(request);
    stop(self, CAY_CODE_DEADLINE_EXCEEDED, "the time that the client gave this call is over");
    cay_rest_leave(request);
}

static void on_room(struct cay_rest_request *request)
{
    const struct watch *self = request->state;
    if (self->call)
        cay_rest_call_room(self->call);
}

static void on_closed(struct cay_rest_request *request)
{
    struct watch *self = request->state;
    self->call = NULL;
    cay_timer_close(&self->deadline);
    cay_e2b_keepalive_close(&self->keepalive);
}

void cay_e2b_filesystem_watch_dir(struct cay_rest_request *request)
{
    const struct cay_v1_watch_dir_request *wanted = cay_e2b_watch_read(request);
    if (!wanted) /* it was answered, and the exchange may be gone */
        return;
    struct watch *self = cay_arena_new(&request->arena, struct watch);
    if (!self) {
        cay_e2b_rpc_fail(request, CAY_CODE_RESOURCE_EXHAUSTED, "the request is too large");
        return;
    }
    uint64_t timeout_ms = cay_e2b_rpc_timeout_ms(request);
    self->request = request;
    self->call = cay_rest_call_new(request, CAY_V1_FILE_SERVICE_WATCH_DIR);
    self->call->state = self;
    self->call->on_message = on_frame;
    struct cay_v1_watch_dir_request *ask = cay_rest_call_message(self->call);
    *ask = *wanted;
    request->state = self;
    request->on_room = on_room;
    request->on_closed = on_closed;
    cay_timer_open(&self->deadline, request->loop, on_deadline);
    cay_e2b_keepalive_open(&self->keepalive, request, "keepalive", NULL);
    if (timeout_ms)
        cay_timer_start(&self->deadline, timeout_ms, 0);
    cay_rest_call_start(self->call, ended);
}
