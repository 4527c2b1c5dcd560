/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A call that the host makes of itself, for a verb that is made of other verbs: the same checks,
 * gates and records as for anybody. Belongs to itself: freed after `done`, which runs exactly once,
 * maybe inside cay_errand_start.
 *
 *     struct cay_errand *errand = cay_errand_new(host, CAY_V1_..., owner);
 *     struct cay_v1_..._request *ask = cay_errand_message(errand);
 *     ...
 *     cay_errand_start(errand, done, context);
 */

#include "api/call.h"
#include "api/cay_v1.h"

struct cay_host;
struct cay_errand;

/* Response and error are gone when this returns; a verb that streams has no response. */
typedef void cay_errand_fn(struct cay_errand *errand, void *context, const void *response,
                           const struct cay_error *err);

struct cay_errand {
    struct cay_call call; /* its arena is there for the request */
    struct cay_host *host;
    cay_errand_fn *done;
    /* Of a verb that streams: one message. False: no more until cay_errand_room. */
    bool (*on_message)(void *context, const void *message);
    void *context;
};

/* `method` is an index of the contract's (api/cay_v1.h). On behalf of `owner`, with all rights. */
struct cay_errand *cay_errand_new(struct cay_host *host, unsigned method, const char *owner);
/* Its request, zeroed. */
[[nodiscard]] void *cay_errand_message(struct cay_errand *errand);
void cay_errand_start(struct cay_errand *errand, cay_errand_fn *done, void *context);
void cay_errand_room(struct cay_errand *errand);
/* Tells the verb that nobody waits; `done` still comes, maybe inside. */
void cay_errand_cancel(struct cay_errand *errand);
