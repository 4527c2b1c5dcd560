/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* One POST and its answer, over libcurl. Room-private: client.h is what callers use. */

#include <curl/curl.h>

#include "base/buf.h"
#include "base/secret.h"
#include "client/rpc/address.h"
#include "client/rpc/client.h"
#include "wire/rpc.h"

struct cay_client {
    CURL *curl;
    struct cay_address address;
    struct cay_secret key;
    char *ca_file;
    int64_t timeout_ms;
    const volatile sig_atomic_t *stop;
};

struct cay_transfer {
    struct cay_client *client;
    const struct cay_pb_method *method;
    void *state; /* of source and sink */

    /* The request's body: `body`, or what `source` appends whenever more is wanted. Appending
     * nothing ends it. */
    struct cay_str body;
    bool (*source)(struct cay_transfer *transfer, struct cay_buf *out, struct cay_error *err);

    /* Takes the bytes of a good answer as they come. */
    bool (*sink)(struct cay_transfer *transfer, struct cay_str bytes, struct cay_error *err);

    bool is_gzip; /* set by the transfer: messages of the stream may be packed */
    bool is_over; /* set by the sink: the answer is complete, whatever follows does not matter */

    /* The rest is the transfer's own. */
    struct cay_buf unsent;
    struct cay_buf refusal;
    struct cay_error *err;
    bool has_answer;
    bool has_failed;
};

/* True when the daemon answered with 200 and the sink took everything. */
[[nodiscard]] bool cay_transfer_run(struct cay_transfer *transfer, struct cay_error *err);

[[nodiscard]] bool cay_client_encode(const struct cay_pb_message *desc, const void *message,
                                     struct cay_buf *out, struct cay_error *err);

/* Copies the bytes into the arena first, since decoded strings point into them. */
[[nodiscard]] bool cay_client_decode(const struct cay_pb_message *desc, struct cay_str bytes,
                                     struct cay_arena *arena, void *out_message,
                                     struct cay_error *err);
