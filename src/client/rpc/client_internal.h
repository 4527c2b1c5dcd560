/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the parts of a client share. Room-private: client.h is what callers use. */

#include <pthread.h>

#include "base/buf.h"
#include "base/secret.h"
#include "client/rpc/address.h"
#include "client/rpc/blame.h"
#include "client/rpc/client.h"
#include "client/rpc/line.h"
#include "client/rpc/proxy.h"
#include "client/rpc/tls.h"

enum { CAY_CLIENT_REST_MAX = 8 }; /* connections that are kept between calls */

struct cay_client {
    struct cay_address address;
    struct cay_proxy proxy;
    struct cay_secret key;
    char *ca_file;
    int64_t timeout_ms;

    pthread_mutex_t lock; /* of what follows */
    unsigned ref_count;
    struct cay_line *resting;
    unsigned rest_count;
    struct cay_trust *trust; /* NULL until it is needed */
};

struct cay_cancel {
    int fd; /* an eventfd that can be read once it was fired */
};

/* A connection that rests, or NULL; and back. */
[[nodiscard]] struct cay_line *cay_client_take_line(struct cay_client *client);
void cay_client_rest_line(struct cay_client *client, struct cay_line *line);

/* Made at the first use. NULL with *err when it cannot be. */
[[nodiscard]] struct cay_trust *cay_client_trust(struct cay_client *client, struct cay_error *err);

/* The header line for a proxy that wants to know who we are. */
void cay_client_write_proxy_rights(const struct cay_client *client, struct cay_buf *out);
