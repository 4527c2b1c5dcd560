/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The gate in front of every sandbox: is it there and does it run (or may traffic wake it), and may
 * this caller pass? Then the request goes on to envd or to the program behind a port, as a caller
 * who sees that one session.
 */

#include "front/e2b/visit.h"

/* What is behind the gate. */
struct cay_e2b_inside {
    /* May who asks pass? Answers when not. Sets the route. */
    bool (*admit)(struct cay_rest_request *request);
    /* They may, and the sandbox runs. */
    void (*pass)(struct cay_rest_request *request);
};

/* For a request whose sandbox_id and port are set. */
void cay_e2b_gate(struct cay_rest_request *request, const struct cay_e2b_inside *inside);

/* {"sandboxId":…,"message":…,"code":…}: how clients of this wire learn that a sandbox does not
 * answer. `port` 0: not about a port. `why` is for humans, and may be NULL. */
void cay_e2b_reply_sandbox(struct cay_rest_request *request, int status, const char *message,
                           uint16_t port, const char *why);

/* The answer when there is no such sandbox, and when whoever asks may not know of it. */
void cay_e2b_reply_unknown(struct cay_rest_request *request);
[[nodiscard]] bool cay_e2b_may_know(const struct cay_rest_request *request);
[[nodiscard]] bool cay_e2b_has_public_ports(const struct cay_rest_request *request);

/* Nothing listens on the port; browsers get a page. */
void cay_e2b_reply_port_closed(struct cay_rest_request *request);
