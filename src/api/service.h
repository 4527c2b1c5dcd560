/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The hallway. Doors in front of it translate wires into calls; implementations behind it answer
 * them. The verbs are the methods of the contract, by their generated index; a verb that is NULL
 * answers `unimplemented`.
 *
 *     static cay_verb *const verbs[CAY_V1_METHOD_COUNT] = {
 *         [CAY_V1_KEY_SERVICE_CREATE_KEY] = create_key, ...
 */

#include "api/call.h"
#include "base/id.h"

struct cay_service;

/*
 * A door's question: who holds this secret? Embedded in whatever asks, zeroed before the first
 * time. The answer comes exactly once, maybe inside cay_service_authenticate, unless the question
 * is taken back. Loop thread only.
 */
struct cay_whois {
    /* The caller, or `err`; the other is NULL, and both are gone when this returns. The question
     * may be freed or asked again inside. */
    void (*answered)(struct cay_whois *whois, const struct cay_caller *caller,
                     const struct cay_error *err);
    struct cay_service *service; /* while it is open; NULL otherwise */
    void *state;                 /* the service's, while it is open */
};

typedef void cay_verb(struct cay_service *service, struct cay_call *call);

struct cay_service_ops {
    const char *name;
    const struct cay_pb_method *methods;
    size_t method_count;
    cay_verb *const *verbs; /* method_count of them */
    /* Which of them are pieces of something longer, and not worth a line of the log each, by index;
     * NULL: none. */
    const bool *piece_methods;

    /* Whether the caller may have this call under way besides its others. May be NULL: it may. */
    bool (*admit)(struct cay_service *service, struct cay_call *call, struct cay_error *err);
    /* Who holds this secret? Answers by cay_whois_answer, now or later; UNAUTHENTICATED when nobody
     * does. Does not block; the secret is gone when it returns. */
    void (*authenticate)(struct cay_service *service, struct cay_str secret,
                         struct cay_whois *whois);
    /* Nobody waits for the answer to this question any more, and none may be given. NULL: all are
     * answered at once. */
    void (*forget)(struct cay_service *service, struct cay_whois *whois);
    /* Appends the service's metrics in Prometheus' text format. May be NULL. */
    void (*metrics)(struct cay_service *service, struct cay_buf *out);
};

/* Embedded first in an implementation. */
struct cay_service {
    const struct cay_service_ops *ops;
};

/* Starts the call's verb, or fails it as unimplemented. */
void cay_service_call(struct cay_service *service, struct cay_call *call);

/* NULL when the service has no such method. */
const struct cay_pb_method *cay_service_method(const struct cay_service *service,
                                               struct cay_str path);

void cay_service_authenticate(struct cay_service *service, struct cay_str secret,
                              struct cay_whois *whois);
/* For the service: `caller`, or NULL and `err`. */
void cay_whois_answer(struct cay_whois *whois, const struct cay_caller *caller,
                      const struct cay_error *err);
/* The answer is not wanted any more; nothing happens when there is nothing open. */
void cay_whois_cancel(struct cay_whois *whois);
