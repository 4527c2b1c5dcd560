/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Between filtering.c, what the networks of a host share, and filtered.c, one of them. */

#include "host/live/filtered.h"
#include "host/net/helper.h"
#include "host/session/host.h"

struct cay_filtering {
    pthread_mutex_t lock; /* around what waits */
    struct cay_waiting_filter {
        uint32_t slot;
        struct cay_filter filter;
    } * waiting; /* made by a worker, for the loop thread to take */
    size_t waiting_count;
    int image_fd;     /* cay-egress */
    int tls_image_fd; /* cay-egress-tls; -1: it is not installed */
    int doors_fd;     /* directories: where helpers are found, */
    int names_fd;     /* and the names of each session */
    enum cay_filter_way way;
    bool can;
    struct cay_error why; /* not */
};

[[nodiscard]] bool cay_filtering_take(struct cay_filtering *filtering, uint32_t slot,
                                      struct cay_filter *out_filter);
[[nodiscard]] bool cay_filtering_has(struct cay_filtering *filtering, uint32_t slot);
[[nodiscard]] int cay_filtering_open_names(const struct cay_filtering *filtering,
                                           const char *store_id);
