/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Looks after an init that was asked to start something: it must be heard of soon. One that is not
 * has a child that somebody in the sandbox holds up before it became its program: that start is
 * ended. One that says nothing for long is given up with its sandbox.
 */

#include "host/runtime/link.h"
#include "io/loop.h"

struct cay_session;

struct cay_watchdog_ops {
    void (*asked)(struct cay_session *session); /* the link was used */
    void (*lost)(struct cay_session *session, const struct cay_error *err);
};

struct cay_watchdog {
    const struct cay_watchdog_ops *ops;
    struct cay_session *session;
    struct cay_link *link;
    struct cay_timer timer;
    bool is_awake;       /* the timer runs */
    bool is_asked_again; /* something was started since the question */
    uint64_t question;   /* number of the last one */
    bool is_waiting;     /* for its answer */
    uint64_t asked_ms;   /* of the loop's clock */
};

void cay_watchdog_open(struct cay_watchdog *dog, struct cay_session *session, struct cay_link *link,
                       const struct cay_watchdog_ops *ops);
void cay_watchdog_close(struct cay_watchdog *dog);

/* Init was asked to start something. */
void cay_watchdog_expect(struct cay_watchdog *dog);
