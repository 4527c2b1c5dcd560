/* SPDX-License-Identifier: Apache-2.0 */
#include "front/e2b/envd/pollers.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/errand.h"
#include "api/limits.h"
#include "api/noun.h"
#include "base/id.h"
#include "front/e2b/envd/handlers.h"
#include "front/e2b/envd/rpc.h"
#include "front/e2b/envd/watch.h"
#include "wire/e2b/e2b.h"

enum {
    NEWS_BYTES_MAX = 2 * 1024 * 1024, /* not yet asked for; more is missed */
    SILENCE_MS = 60 * 60 * 1000,      /* nobody asked for that long: nobody will */
};

struct poller {
    struct cay_errand errand;
    struct cay_e2b *door;
    struct cay_list_node in_door;
    struct cay_rest_request *maker; /* waits for its start */
    char sandbox_id[CAY_ID_SIZE];
    char id[32];
    struct cay_buf news; /* the next answer, as far as it is known */
    struct cay_json_writer json;
    struct cay_timer silence;
    bool is_over; /* the hallway has answered */
};

static struct poller *of(struct cay_errand *errand)
{
    return CAY_CONTAINER_OF(errand, struct poller, errand);
}

static void begin_news(struct poller *self)
{
    self->json = (struct cay_json_writer){.buf = &self->news};
    cay_json_object_begin(&self->json);
    cay_json_key(&self->json, "events");
    cay_json_array_begin(&self->json);
}

static void free_poller(struct poller *self)
{
    cay_errand_finish(&self->errand);
    free(self);
}

/* Nobody finds it any more; it is freed now, or when the hallway has answered. */
static void drop(struct poller *self)
{
    cay_list_remove(&self->in_door);
    cay_timer_close(&self->silence);
    cay_buf_finish(&self->news);
    if (self->is_over)
        free_poller(self);
    else
        cay_errand_cancel(&self->errand);
}

/* The request that waits for the start, which is not to hear of it again. */
static struct cay_rest_request *take_maker(struct poller *self)
{
    struct cay_rest_request *maker = cay_take_ptr(self->maker);
    if (maker)
        maker->state = NULL;
    return maker;
}

static void answer_made(struct poller *self)
{
    struct cay_rest_request *maker = take_maker(self);
    if (!maker)
        return;
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_buf_init(&body, 256);
    struct cay_json_writer json = {.buf = &body};
    cay_json_object_begin(&json);
    cay_json_key(&json, "watcherId");
    cay_json_text(&json, self->id);
    cay_json_object_end(&json);
    cay_rest_enter(maker);
    cay_e2b_rpc_reply(maker, cay_buf_str(&body));
    cay_rest_leave(maker);
}

/* Never "enough": what does not fit is missed here, so that the hallway keeps nothing for it. */
static bool heard(struct cay_errand *errand, const void *message)
{
    const struct cay_v1_watch_dir_response *response = message;
    struct poller *self = of(errand);
    if (response->which_frame == CAY_V1_WATCH_DIR_RESPONSE_FRAME_STARTED)
        answer_made(self);
    else if (response->which_frame == CAY_V1_WATCH_DIR_RESPONSE_FRAME_OVERFLOW)
        self->news.failed = true;
    else if (response->which_frame == CAY_V1_WATCH_DIR_RESPONSE_FRAME_EVENT && !self->news.failed)
        cay_e2b_write_watch_event(&self->json, response->frame.event);
    return true;
}

/* Without an error the directory was removed; what was heard until then can be asked for. */
static void ended(struct cay_errand *errand, const void *, const struct cay_error *err)
{
    struct poller *self = of(errand);
    self->is_over = true;
    if (errand->call.is_cancelled) {
        free_poller(self);
        return;
    }
    if (!err)
        return;
    struct cay_rest_request *maker = take_maker(self);
    drop(self);
    if (maker) {
        cay_rest_enter(maker);
        cay_e2b_rpc_error(maker, err);
        cay_rest_leave(maker);
    }
}

static void on_silence(struct cay_timer *timer)
{
    drop(CAY_CONTAINER_OF(timer, struct poller, silence));
}

static void on_maker_closed(struct cay_rest_request *request)
{
    struct poller *self = cay_take_ptr(request->state);
    if (self)
        drop(self);
}

static size_t count_of(struct cay_e2b *door, struct cay_str sandbox_id)
{
    size_t count = 0;
    cay_list_for_each (struct poller, poller, &door->pollers, in_door)
        count += cay_str_is(sandbox_id, poller->sandbox_id);
    return count;
}

static struct poller *make(struct cay_rest_request *request,
                           const struct cay_v1_watch_dir_request *wanted)
{
    static const struct cay_errand_ops ops = {.ended = ended, .heard = heard};
    struct poller *self = cay_new(struct poller);
    self->door = cay_e2b_visit(request)->e2b;
    snprintf(self->sandbox_id, sizeof(self->sandbox_id), "%.*s",
             (int)cay_e2b_visit(request)->sandbox_id.len, cay_e2b_visit(request)->sandbox_id.ptr);
    cay_id_make(self->id, sizeof(self->id), "w");
    cay_buf_init(&self->news, NEWS_BYTES_MAX);
    begin_news(self);
    cay_timer_open(&self->silence, request->loop, on_silence);
    cay_timer_start(&self->silence, SILENCE_MS, 0);
    cay_errand_init(&self->errand, cay_e2b_visit(request)->e2b->porch->service,
                    CAY_V1_FILE_SERVICE_WATCH_DIR, &request->caller, &ops);
    self->errand.message =
        cay_noun_copy(&cay_v1_watch_dir_request_desc, wanted, &self->errand.call.arena);
    cay_list_push_back(&cay_e2b_visit(request)->e2b->pollers, &self->in_door);
    return self;
}

void cay_e2b_filesystem_create_watcher(struct cay_rest_request *request)
{
    const struct cay_v1_watch_dir_request *wanted = cay_e2b_watch_read(request);
    if (!wanted)
        return;
    if (count_of(cay_e2b_visit(request)->e2b, cay_e2b_visit(request)->sandbox_id) >=
        CAY_LIMIT_POLLERS) {
        cay_e2b_rpc_fail(request, CAY_CODE_RESOURCE_EXHAUSTED,
                         "the sandbox has too many watchers; remove some");
        return;
    }
    struct poller *self = make(request, wanted);
    if (!self->errand.message) {
        self->is_over = true;
        drop(self);
        cay_e2b_rpc_fail(request, CAY_CODE_RESOURCE_EXHAUSTED, "the request is too large");
        return;
    }
    self->maker = request;
    request->state = self;
    request->on_closed = on_maker_closed;
    cay_errand_start(&self->errand);
}

/* The watcher that the request names. Answers and returns NULL when there is none. */
static struct poller *find(struct cay_rest_request *request)
{
    const struct e2b_watcher_request *wanted = cay_e2b_rpc_read(request, &e2b_watcher_request_desc);
    if (!wanted)
        return NULL;
    cay_list_for_each (struct poller, poller, &cay_e2b_visit(request)->e2b->pollers, in_door) {
        if (!poller->maker && cay_str_is(wanted->watcher_id, poller->id) &&
            cay_str_is(cay_e2b_visit(request)->sandbox_id, poller->sandbox_id))
            return poller;
    }
    cay_e2b_rpc_fail(request, CAY_CODE_NOT_FOUND,
                     "there is no such watcher; it was removed, or not asked for too long");
    return NULL;
}

void cay_e2b_filesystem_get_watcher_events(struct cay_rest_request *request)
{
    struct poller *self = find(request);
    if (!self)
        return;
    cay_json_array_end(&self->json);
    cay_json_object_end(&self->json);
    /* Answering may run whatever waited for this: the watcher is ready for news before. */
    cay_auto(cay_buf_finish) struct cay_buf news = self->news;
    cay_buf_init(&self->news, NEWS_BYTES_MAX);
    begin_news(self);
    cay_timer_start(&self->silence, SILENCE_MS, 0);
    if (news.failed)
        cay_e2b_rpc_fail(request, CAY_CODE_DATA_LOSS, CAY_E2B_WATCH_MISSED);
    else
        cay_e2b_rpc_reply(request, cay_buf_str(&news));
}

void cay_e2b_filesystem_remove_watcher(struct cay_rest_request *request)
{
    struct poller *self = find(request);
    if (!self)
        return;
    drop(self);
    cay_e2b_rpc_reply(request, CAY_STR("{}"));
}

void cay_e2b_pollers_close(struct cay_e2b *door)
{
    struct cay_list_node *node;
    while ((node = cay_list_first(&door->pollers))) {
        struct poller *self = CAY_CONTAINER_OF(node, struct poller, in_door);
        (void)take_maker(self);
        drop(self);
    }
}
