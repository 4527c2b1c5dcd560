/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A daemon that replaces itself: the same process runs the program once more, as it is on disk by
 * now, with the same arguments and the sockets it has. First it is asked whether it can read its
 * configuration: a daemon that serves is not given up for one that would not start.
 *
 * Order: init -> (check -> checked)* -> exec, when everything else is closed.
 */

#include "base/error.h"
#include "io/child.h"
#include "io/heirs.h"

struct cayd_replace {
    char *program; /* where it was when we started */
    const char *const *argv;
    struct cay_child child;
    void (*checked)(struct cayd_replace *replace, bool is_good);
};

void cayd_replace_init(struct cayd_replace *replace, const char *const *argv);
void cayd_replace_finish(struct cayd_replace *replace);

/* Calls back, once; a check under way is given up for a new one. */
[[nodiscard]] bool cayd_replace_check(struct cayd_replace *replace, struct cay_loop *loop,
                                      void (*checked)(struct cayd_replace *replace, bool is_good),
                                      struct cay_error *err);

/* Signals that come while nobody listens to them do not end the process. */
void cayd_replace_hold_signals(void);

/* Returns only when it failed. */
void cayd_replace_exec(struct cayd_replace *replace, struct cay_heirs *heirs,
                       struct cay_error *err);
