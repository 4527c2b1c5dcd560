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
 *
 * A good answer holds for a while: a key may be revoked, or expire, while its holder's call is
 * under way. Whoever wants to hear of that has `lapsed`; the question then stays with a service
 * that can tell, until it is taken back, which must happen before it is freed or asked again.
 */
struct cay_whois {
    /* The caller, or `err`; the other is NULL, and both are gone when this returns. */
    void (*answered)(struct cay_whois *whois, const struct cay_caller *caller,
                     const struct cay_error *err);
    /* What opened the door does so no longer. Once at most, never inside a verb; the question is
     * closed. NULL: nobody wants to know. */
    void (*lapsed)(struct cay_whois *whois, const struct cay_error *err);
    struct cay_service *service; /* while it is open or kept; NULL otherwise */
    void *state;                 /* the service's, while it is open */
    struct cay_list_node kept;   /* the service's, while it is kept */
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
     * answered at once. Not called for those that are kept. */
    void (*forget)(struct cay_service *service, struct cay_whois *whois);
    /* A caller's key, of which a peer that vouches tells the id: keeps the question
     * (cay_whois_keep) if it has such a key, and fails with UNAUTHENTICATED if that opens nothing.
     * NULL: it knows no keys. */
    bool (*follow)(struct cay_service *service, struct cay_str key_id, struct cay_whois *whois,
                   struct cay_error *err);
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
/* For the service: a question that has a good answer, or is about to get one, stays with it. */
void cay_whois_keep(struct cay_service *service, struct cay_list *kept, struct cay_whois *whois);
/* For the service: tells and empties a list of those that it keeps. From the loop and nowhere else:
 * no verb is inside a call of its own. */
void cay_whois_lapse_all(struct cay_list *kept, const struct cay_error *err);

/* For the service: forgets a list of those that it keeps; they are told nothing. */
void cay_whois_drop_all(struct cay_list *kept);

/* Whether the key of that id opens anything, as far as the service knows it, and word of its end.
 * Reason: UNAUTHENTICATED. */
[[nodiscard]] bool cay_service_follow(struct cay_service *service, struct cay_str key_id,
                                      struct cay_whois *whois, struct cay_error *err);

/* Neither the answer nor its end is wanted any more; nothing happens when there is nothing open. */
void cay_whois_cancel(struct cay_whois *whois);
