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
    /* Who holds this secret? Does not block. UNAUTHENTICATED when nobody does. */
    bool (*authenticate)(struct cay_service *service, struct cay_str secret,
                         struct cay_caller *out_caller, struct cay_error *err);
    /* The session for whose access token `is_it` holds; false when there is none. May be NULL. */
    bool (*find_token)(struct cay_service *service,
                       bool (*is_it)(void *context, struct cay_str token), void *context,
                       char out_session_id[CAY_ID_SIZE]);
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
[[nodiscard]] bool cay_service_authenticate(struct cay_service *service, struct cay_str secret,
                                            struct cay_caller *out_caller, struct cay_error *err);
