/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The RPC door: Connect, gRPC and gRPC-Web calls become cay_calls on a service, and their answers
 * become bytes again.
 */

#include "api/service.h"
#include "front/http/bodies.h"
#include "front/http/exchange.h"

enum { CAY_RPC_BUCKETS = 8 };

/* Upper bounds of the latency histogram in microseconds; the last bucket has none. */
extern const uint32_t cay_rpc_bucket_us[CAY_RPC_BUCKETS - 1];

struct cay_rpc_method_stats {
    uint64_t by_code[17]; /* cay_connect_code */
    uint64_t buckets[CAY_RPC_BUCKETS];
    uint64_t total_us;
};

struct cay_connect_door {
    struct cay_service *service;
    bool allow_anonymous;
    struct cay_bodies *bodies;          /* set by the router; NULL: bodies have no budget */
    struct cay_rpc_method_stats *stats; /* one per method of the service */
};

void cay_connect_door_init(struct cay_connect_door *door, struct cay_service *service,
                           bool allow_anonymous);
void cay_connect_door_finish(struct cay_connect_door *door);

/* Takes the exchange if its path is a method's of the service; answers it with an error when it is
 * not. */
void cay_connect_door_open(struct cay_connect_door *door, struct cay_exchange *exchange);
