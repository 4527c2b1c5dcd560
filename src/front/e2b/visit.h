/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What E2B's doors know of a request besides what is in front/rest/request.h. */

#include "api/cay_v1.h"
#include "front/e2b/e2b.h"
#include "front/rest/request.h"

struct cay_e2b_inside;

struct cay_e2b_visit {
    struct cay_e2b *e2b;
    struct cay_rest_request *request;

    /* Requests to a sandbox. */
    struct cay_str sandbox_id; /* empty: the control plane */
    uint16_t port;
    const struct cay_e2b_inside *inside; /* who answers behind the gate */
    struct cay_v1_session *session;      /* as it was at the gate; in the arena */
    struct cay_v1_session_tokens *tokens;
    bool is_trusted; /* showed a token of the session, or a key that may know of it */

    bool is_by_token;

    struct cay_list_node in_door; /* once it passed the gate of a sandbox */
    struct cay_task cut;          /* the sandbox is paused or gone */
    bool is_cut;
};

/* The visit of a request that a door of E2B made. */
[[nodiscard]] static inline struct cay_e2b_visit *
cay_e2b_visit(const struct cay_rest_request *request)
{
    return request->own;
}

/* How these doors speak; each has the rest of its dialect to itself. */
enum { CAY_E2B_STATUSES = 5 };
extern const struct cay_rest_status cay_e2b_statuses[CAY_E2B_STATUSES];
/* {"code":…,"message":…} */
void cay_e2b_write_fault(struct cay_json_writer *json, int status, const char *message);
void cay_e2b_visit_closed(struct cay_rest_request *request);
#define CAY_E2B_DIALECT                                                            \
    .own_bytes = sizeof(struct cay_e2b_visit), .write_fault = cay_e2b_write_fault, \
    .closed = cay_e2b_visit_closed, .statuses = cay_e2b_statuses, .status_count = CAY_E2B_STATUSES

struct cay_rest_request *cay_e2b_request_new(struct cay_e2b *e2b, struct cay_exchange *exchange,
                                             const struct cay_rest_dialect *dialect);

/* The same to a sandbox, as far as the target names one. */
struct cay_rest_request *cay_e2b_request_to(struct cay_e2b *e2b,
                                            const struct cay_e2b_target *target,
                                            struct cay_exchange *exchange,
                                            const struct cay_rest_dialect *dialect);

/* The door itself, for whoever has shown nothing so far: it looks, and judges what may be told. */
struct cay_caller cay_e2b_door_caller(void);
