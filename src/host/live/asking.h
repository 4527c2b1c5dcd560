/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the helper of a filtered network asks: may a name be connected to that no rule decides?
 * Questions are the helper's; here they are listed, told as events, and answered. Loop thread only.
 */

#include "host/session/session.h"
#include "wire/egress/egress.h"

struct cay_question {
    uint32_t id;
    uint32_t count; /* connections that wait */
    uint16_t port;
    char name[CAY_EGRESS_NAME_BYTES_MAX + 1];
    int64_t asked_ns; /* when we heard of it */
    int64_t until_ns;
};

struct cay_asking {
    struct cay_question *items; /* CAY_EGRESS_ASKS_MAX of them, in the order they came; or NULL */
    size_t count;
};

/* A new one is told; one that is over is forgotten. */
void cay_asking_take(struct cay_asking *asking, const struct cay_session *session,
                     const struct cay_egress_ask *ask);
/* NULL when there is none any more. An id as clients have it. */
[[nodiscard]] const struct cay_question *cay_asking_find(const struct cay_asking *asking,
                                                         struct cay_str id);
/* It is over; `how` is the reason of the event: `allow_once`, `lost`. `call` may be NULL. */
void cay_asking_end(struct cay_asking *asking, const struct cay_session *session, uint32_t id,
                    const char *how, const struct cay_call *call);
/* Whoever asked is gone. The session may be NULL, if nobody is to be told. */
void cay_asking_drop(struct cay_asking *asking, const struct cay_session *session);

/* Accepts NULL: nothing is asked. Reason: MESSAGE_TOO_LARGE. */
[[nodiscard]] bool cay_asking_list(const struct cay_asking *asking, struct cay_arena *arena,
                                   struct cay_v1_list_network_questions_response *out,
                                   struct cay_error *err);
