/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An errand (api/errand.h) of the host itself, for a verb that is made of other verbs. Belongs to
 * itself: freed after `done`, which runs exactly once, maybe inside cay_chore_start.
 *
 *     const struct cay_caller caller = cay_chore_caller(&call->caller);
 *     struct cay_chore *chore = cay_chore_new(host, CAY_V1_..., &caller);
 *     struct cay_v1_..._request *ask = cay_errand_message(&chore->errand);
 *     ...
 *     cay_chore_start(chore, done, context);
 */

#include "api/cay_v1.h"
#include "api/errand.h"

struct cay_host;

/* Response and error are gone when this returns; a verb that streams has no response. */
typedef void cay_chore_fn(void *context, const void *response, const struct cay_error *err);

struct cay_chore {
    struct cay_errand errand;
    cay_chore_fn *done;
    /* Of a verb that streams: one message. False: no more until cay_errand_room. */
    bool (*on_message)(void *context, const void *message);
    void *context;
};

/* The host on behalf of a caller: with its rights and quotas, and into sessions of builds. */
static inline struct cay_caller cay_chore_caller(const struct cay_caller *caller)
{
    struct cay_caller host = *caller;
    host.is_host = true;
    return host;
}

struct cay_chore *cay_chore_new(struct cay_host *host, unsigned method,
                                const struct cay_caller *caller);
void cay_chore_start(struct cay_chore *chore, cay_chore_fn *done, void *context);
