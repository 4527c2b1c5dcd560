/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The hallway with another daemon behind it: every verb is forwarded there as it is, by the tables
 * of the contract and by no verb's name, on behalf of whoever calls. Its key there must be one that
 * may vouch for callers, also for admins.
 *
 * Order: create -> (doors call) -> stop -> destroy, after the last call has ended. Loop thread
 * only.
 */

#include "api/service.h"
#include "io/loop.h"

struct cay_remote;

struct cay_remote_options {
    struct cay_loop *loop;
    const char *url; /* of the other daemon, without TLS: unix:PATH or http://HOST:PORT */
    const char *key; /* copied */
    const struct cay_pb_method *methods;
    size_t method_count;
};

/* Looks the other daemon's name up, which may block. */
[[nodiscard]] bool cay_remote_create(const struct cay_remote_options *options,
                                     struct cay_remote **out_remote, struct cay_error *err);
void cay_remote_destroy(struct cay_remote *remote);

struct cay_service *cay_remote_service(struct cay_remote *remote);

/* Nobody is waited for any more who streams: their callers are told to come back. */
void cay_remote_stop(struct cay_remote *remote);
