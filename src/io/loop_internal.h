/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <uv.h>

#include "base/map.h"
#include "io/loop.h"

struct cay_stream;
struct cay_workers;

struct cay_loop {
    uv_loop_t uv;
    uv_poll_t wake; /* of wake_fd */
    int wake_fd;    /* written to after something was posted */
    uv_prepare_t before_wait;
    uint64_t turn; /* begins with 0, which is never seen: it is counted before each wait */
    _Atomic(struct cay_task *) posted; /* newest first */
    struct cay_stream *flush_first;    /* streams with something to send in this turn */
    struct cay_workers *workers;
    struct cay_map shares; /* struct cay_shares, by owner */
    char *scratch;
    struct cay_heirs *heirs;
};
