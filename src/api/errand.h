/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A call that is made in this process: by a door that speaks another protocol, or by the host for
 * a verb that is made of others. The same checks, gates and records as for anybody, with the rights
 * of the caller that it is made for. Embedded in whatever makes it:
 *
 *     cay_errand_init(&self->errand, service, CAY_V1_..., &caller, &ops);
 *     struct cay_v1_..._request *ask = cay_errand_message(&self->errand);
 *     ...
 *     cay_errand_start(&self->errand);
 *
 * `ended` runs exactly once, maybe inside cay_errand_start or cay_errand_cancel; there the maker
 * calls cay_errand_finish and may free the errand. Loop thread only.
 */

#include "api/service.h"

struct cay_errand;

struct cay_errand_ops {
    /* The answer, or `err`; both are gone when this returns. A verb that streams answers has no
     * response at its good end. */
    void (*ended)(struct cay_errand *errand, const void *response, const struct cay_error *err);
    /* Of verbs that stream answers: one message, gone when this returns. False: no more until
     * cay_errand_room. Not called after cay_errand_cancel. */
    bool (*heard)(struct cay_errand *errand, const void *message);
    /* Of verbs that read a stream: the next message may be given, by cay_errand_give. */
    void (*wanted)(struct cay_errand *errand);
    /* The daemon ends and does not wait for this one, which is cancelled afterwards. NULL: it goes
     * with the daemon. */
    void (*cut)(struct cay_errand *errand, const struct cay_error *err);
    /* How much of what was heard waits to be sent. NULL: nothing. */
    size_t (*unsent)(const struct cay_errand *errand);
};

struct cay_errand {
    struct cay_call call; /* first; its arena is there for the request */
    const struct cay_errand_ops *ops;
    struct cay_service *service;
    void *message;
    bool *is_gone;  /* for who must know after a callback; NULL: nobody */
    bool wants;     /* `wanted` was or will be called, and nothing given since */
    bool is_giving; /* inside cay_errand_give */
    bool is_started;
};

/* `method` is an index of the contract's (api/cay_v1.h). */
void cay_errand_init(struct cay_errand *errand, struct cay_service *service, unsigned method,
                     const struct cay_caller *caller, const struct cay_errand_ops *ops);
/* After the end, or when it was never started. */
void cay_errand_finish(struct cay_errand *errand);

/* Its request, zeroed, to be filled before the start; not of verbs that read a stream. */
[[nodiscard]] void *cay_errand_message(struct cay_errand *errand);
void cay_errand_start(struct cay_errand *errand);

/* There is room for answers again. */
void cay_errand_room(struct cay_errand *errand);
/* The next message of a stream, NULL at its end; only when it is wanted. */
void cay_errand_give(struct cay_errand *errand, const void *message);
/* Nobody waits any more: tells the verb. `ended` still comes, maybe inside. */
void cay_errand_cancel(struct cay_errand *errand);
