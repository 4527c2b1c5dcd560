/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The host's own state, private to this room; one file per group of verbs. */

#include "base/clock.h"
#include "host/db/db.h"
#include "host/keys/keys.h"
#include "host/session/service.h"

struct google_protobuf_timestamp;

struct cay_host {
    struct cay_service service; /* first */
    struct cay_loop *loop;
    struct cay_db *db;
    struct cay_keys keys;
    struct cay_timer flush_keys; /* writes times of last use */
    int64_t started_ns;
    int lock_fd; /* one daemon per data directory */
};

static inline struct cay_host *cay_host_of(struct cay_service *service)
{
    return CAY_CONTAINER_OF(service, struct cay_host, service);
}

/* NULL for 0, which means never. */
struct google_protobuf_timestamp *cay_host_timestamp(struct cay_call *call, int64_t wall_ns);

/* verbs_health.c */
cay_verb cay_host_health_check;
cay_verb cay_host_get_capabilities;

/* verbs_key.c */
cay_verb cay_host_create_key;
cay_verb cay_host_list_keys;
cay_verb cay_host_revoke_key;

/* Writes times of last use now (at the end) or in the background. */
void cay_host_flush_keys(struct cay_host *host, bool is_final);
