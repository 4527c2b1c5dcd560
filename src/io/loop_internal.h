/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <pthread.h>
#include <uv.h>

#include "base/map.h"
#include "io/loop.h"

struct cay_stream;
struct cay_workers;

struct cay_loop {
    uv_loop_t uv;
    uv_poll_t wake; /* of wake_fd */
    int wake_fd;    /* written to when something is posted to an empty queue */
    uv_prepare_t before_wait;
    pthread_mutex_t lock; /* guards the posted queue, nothing else */
    struct cay_task *posted_first;
    struct cay_task *posted_last;
    struct cay_stream *flush_first; /* streams with something to send in this turn */
    struct cay_workers *workers;
    struct cay_map shares; /* struct cay_shares, by owner */
    char *scratch;
    struct cay_heirs *heirs;
};
