/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Builds of templates that were asked for. Clients say first what to call a template, then hand in
 * files, then say what to build; the first is remembered here, for an hour and as long as the
 * daemon lives. The build itself is the hallway's (StartBuild), under the id given here.
 */

#include "base/id.h"
#include "front/e2b/visit.h"

enum {
    CAY_E2B_ORDERS_OF_OWNER = 64,
    CAY_E2B_ORDERS_IN_ALL = 1024,
};

struct cay_e2b_order {
    struct cay_list_node in_door;
    char id[40];
    char owner[CAY_ID_SIZE];
    struct cay_arena arena; /* of the rest */
    struct cay_str name;
    struct cay_pb_strs tags;
    int64_t cpu_count; /* 0: not said */
    int64_t memory_mb;
    uint64_t made_ms;
    bool is_started;
};

/* Name and tags are copied. */
struct cay_e2b_order *cay_e2b_order_new(struct cay_rest_request *request, struct cay_str name,
                                        struct cay_pb_strs tags);
/* The caller's, by id (empty: any) and template; NULL when there is none. */
struct cay_e2b_order *cay_e2b_order_find(struct cay_rest_request *request, struct cay_str id,
                                         struct cay_str name);
/* The one that a path with a template and a build speaks of. */
struct cay_e2b_order *cay_e2b_order_of(struct cay_rest_request *request);
void cay_e2b_orders_close(struct cay_e2b *door);
