/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The host on this machine: what stands behind the hallway in cayd. Owns the database and
 * everything that is recorded there.
 *
 * Order: create -> serve calls -> destroy (after the doors are drained).
 */

#include "api/service.h"
#include "io/loop.h"

struct cay_host_options {
    const char *data_dir; /* made if need be, mode 0700 */
};

struct cay_host;

[[nodiscard]] bool cay_host_create(struct cay_loop *loop, const struct cay_host_options *options,
                                   struct cay_host **out_host, struct cay_error *err);
void cay_host_destroy(struct cay_host *host);

struct cay_service *cay_host_service(struct cay_host *host);
