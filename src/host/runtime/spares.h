/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Network namespaces made before somebody needs them. To make one takes a fifth of the time to
 * create a session, and one is like the other until a sandbox is in it; none is used twice.
 *
 * Any thread; made and filled on workers.
 */

#include <pthread.h>

#include "base/base.h"

enum { CAY_SPARES_MAX = 4 };

struct cay_spares {
    pthread_mutex_t lock;
    int fds[CAY_SPARES_MAX];
    size_t count;
};

void cay_spares_init(struct cay_spares *spares);
void cay_spares_finish(struct cay_spares *spares);

/* One of them, the caller's from now on, or -1. */
[[nodiscard]] int cay_spares_take(struct cay_spares *spares);

/* Makes what is missing; stops when one cannot be made. Blocks. */
void cay_spares_fill(struct cay_spares *spares);
