/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A stream that was cut because the daemon restarts, or whose connection broke, is called again
 * from where it was. Zeroed at first; `began` is told with every message.
 */

#include <signal.h>

#include "base/error.h"

struct cay_again {
    bool has_begun;
    int64_t cut_ns; /* when; 0: it goes well */
};

void cay_again_began(struct cay_again *again);

/* After a failure: true when it is worth another call, which is not made too soon. *stop ends the
 * wait; it may be NULL. */
[[nodiscard]] bool cay_again_waited(struct cay_again *again, const struct cay_error *err,
                                    const volatile sig_atomic_t *stop);

/* Nothing of a call that failed like this has reached a daemon. */
[[nodiscard]] bool cay_again_is_unsent(const struct cay_error *err);
