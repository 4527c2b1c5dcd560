/* SPDX-License-Identifier: Apache-2.0 */
#include "api/errand.h"

#include <assert.h>

#include "api/limits.h"
#include "base/stop.h"

static struct cay_errand *of(struct cay_call *call)
{
    return CAY_CONTAINER_OF(call, struct cay_errand, call);
}

static void call_done(struct cay_call *call, const void *response)
{
    of(call)->ops->ended(of(call), response, NULL);
}

static void call_fail(struct cay_call *call, const struct cay_error *err)
{
    of(call)->ops->ended(of(call), NULL, err);
}

static bool call_send(struct cay_call *call, const void *message)
{
    return call->is_cancelled || of(call)->ops->heard(of(call), message);
}

static void call_next(struct cay_call *call)
{
    struct cay_errand *errand = of(call);
    errand->wants = true;
    if (!errand->is_giving && !call->is_cancelled)
        errand->ops->wanted(errand);
}

/* Around a callback that may end the errand: its end is told to all who wait for it, one inside the
 * other. */
static bool *watch(struct cay_errand *errand, bool *is_gone)
{
    bool *outer = errand->is_gone;
    errand->is_gone = is_gone;
    return outer;
}

static bool unwatch(struct cay_errand *errand, const bool *is_gone, bool *outer)
{
    if (!*is_gone)
        errand->is_gone = outer;
    else if (outer)
        *outer = true;
    return *is_gone;
}

static void call_cut(struct cay_call *call, const struct cay_error *err)
{
    struct cay_errand *errand = of(call);
    bool is_gone = false;
    bool *outer = watch(errand, &is_gone);
    errand->ops->cut(errand, err);
    if (!unwatch(errand, &is_gone, outer))
        cay_errand_cancel(errand);
}

static size_t call_unsent(const struct cay_call *call)
{
    const struct cay_errand *errand = (const struct cay_errand *)call; /* its first member */
    return errand->ops->unsent ? errand->ops->unsent(errand) : 0;
}

static const struct cay_call_ops patient = {
    .done = call_done,
    .fail = call_fail,
    .send = call_send,
    .next = call_next,
    .unsent = call_unsent,
};

static const struct cay_call_ops hasty = {
    .done = call_done,
    .fail = call_fail,
    .send = call_send,
    .next = call_next,
    .cut = call_cut,
    .unsent = call_unsent,
};

void cay_errand_init(struct cay_errand *errand, struct cay_service *service, unsigned method,
                     const struct cay_caller *caller, const struct cay_errand_ops *ops)
{
    assert(method < service->ops->method_count && ops->ended);
    *errand = (struct cay_errand){.ops = ops, .service = service};
    errand->call.ops = ops->cut ? &hasty : &patient;
    errand->call.method = &service->ops->methods[method];
    errand->call.caller = *caller;
    cay_arena_init(&errand->call.arena, CAY_LIMIT_CALL_ARENA_BYTES);
}

void cay_errand_finish(struct cay_errand *errand)
{
    if (errand->is_gone)
        *errand->is_gone = true;
    cay_arena_finish(&errand->call.arena);
}

void *cay_errand_message(struct cay_errand *errand)
{
    /* The first of the arena: it cannot be full. */
    if (!errand->message)
        errand->message =
            cay_arena_alloc(&errand->call.arena, errand->call.method->input->size_bytes);
    assert(errand->message && !errand->is_started);
    return errand->message;
}

void cay_errand_start(struct cay_errand *errand)
{
    assert(errand->message || errand->call.method->client_streaming);
    errand->call.request = errand->message;
    errand->is_started = true;
    cay_service_call(errand->service, &errand->call);
}

void cay_errand_room(struct cay_errand *errand)
{
    if (errand->call.on_room && !errand->call.is_cancelled)
        errand->call.on_room(&errand->call);
}

void cay_errand_give(struct cay_errand *errand, const void *message)
{
    assert(errand->wants && !errand->is_giving);
    bool is_gone = false;
    bool *outer = watch(errand, &is_gone);
    errand->wants = false;
    errand->is_giving = true;
    errand->call.on_message(&errand->call, message);
    if (unwatch(errand, &is_gone, outer))
        return;
    errand->is_giving = false;
    if (errand->wants && !errand->call.is_cancelled)
        errand->ops->wanted(errand);
}

void cay_errand_cancel(struct cay_errand *errand)
{
    if (errand->call.is_cancelled)
        return;
    cay_stop_ask(&errand->call.is_cancelled);
    if (errand->is_started && errand->call.on_cancel)
        errand->call.on_cancel(&errand->call);
}
