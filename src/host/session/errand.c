/* SPDX-License-Identifier: Apache-2.0 */
#include "host/session/errand.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/stop.h"
#include "host/session/host.h"

static void finish(struct cay_call *call, const void *response, const struct cay_error *err)
{
    struct cay_errand *self = CAY_CONTAINER_OF(call, struct cay_errand, call);
    self->done(self, self->context, response, err);
    cay_arena_finish(&self->call.arena);
    free(self);
}

static void call_done(struct cay_call *call, const void *response)
{
    finish(call, response, NULL);
}

static void call_fail(struct cay_call *call, const struct cay_error *err)
{
    finish(call, NULL, err);
}

static bool call_send(struct cay_call *call, const void *message)
{
    struct cay_errand *self = CAY_CONTAINER_OF(call, struct cay_errand, call);
    return call->is_cancelled || self->on_message(self->context, message);
}

static const struct cay_call_ops ops = {.done = call_done, .fail = call_fail, .send = call_send};

struct cay_errand *cay_errand_new(struct cay_host *host, unsigned method, const char *owner)
{
    struct cay_errand *self = cay_new(struct cay_errand);
    self->host = host;
    self->call.ops = &ops;
    self->call.method = &host->service.ops->methods[method];
    self->call.caller = (struct cay_caller){.role = CAY_ROLE_ADMIN, .is_host = true};
    snprintf(self->call.caller.owner, sizeof(self->call.caller.owner), "%s", owner);
    cay_arena_init(&self->call.arena, CAY_LIMIT_CALL_ARENA_BYTES);
    return self;
}

void *cay_errand_message(struct cay_errand *errand)
{
    /* The first of the arena: it cannot be full. */
    void *message = cay_arena_alloc(&errand->call.arena, errand->call.method->input->size_bytes);
    assert(message && !errand->call.request);
    errand->call.request = message;
    return message;
}

void cay_errand_start(struct cay_errand *errand, cay_errand_fn *done, void *context)
{
    errand->done = done;
    errand->context = context;
    cay_service_call(&errand->host->service, &errand->call);
}

void cay_errand_room(struct cay_errand *errand)
{
    if (errand->call.on_room && !errand->call.is_cancelled)
        errand->call.on_room(&errand->call);
}

void cay_errand_cancel(struct cay_errand *errand)
{
    if (errand->call.is_cancelled)
        return;
    cay_stop_ask(&errand->call.is_cancelled);
    if (errand->call.on_cancel)
        errand->call.on_cancel(&errand->call);
}
