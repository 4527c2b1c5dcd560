/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The host on this machine: what stands behind the hallway in cayd. Owns the database and
 * everything that is recorded there.
 *
 * Order: create -> serve calls -> cut (with the doors) -> drain (after them) -> stop -> destroy.
 */

#include "api/service.h"
#include "host/session/allowance.h"
#include "io/loop.h"

struct cay_host_options {
    const char *data_dir; /* made if need be, mode 0700 */
    const char *run_dir;  /* sockets of sandboxes are made below it */
    const char *store;    /* "auto", "overlay", … */
    const char *runtime;  /* "namespaces", "none", … */
    const char *cgroup_parent;
    const char *init_path;        /* the cay-init binary */
    const char *interpreter_path; /* code_interpreter.py; NULL: none */
    const char *default_base;
    const char *host_root; /* what the base "host" is made of; NULL: this machine */
    const char *snapshot_prefix;
    const char *port_bind;      /* address of exposed ports; NULL: 127.0.0.1 */
    const char *port_advertise; /* host of it for clients; NULL or empty: the same */
    /* Below which the daemon's own HTTP proxy has host names of ports, PORT-SESSION.DOMAIN; NULL or
     * empty: nowhere. */
    const char *port_domain;
    bool is_port_domain_https;
    bool is_network_open;             /* of sessions that do not say */
    const char *network_pool;         /* addresses of sandboxes; NULL: 100.96.0.0/16 */
    const char *const *network_allow; /* closed ranges that are open nevertheless */
    size_t network_allow_count;
    size_t max_sessions;         /* 0: as many as fit */
    size_t max_concurrent_tools; /* of a session that does not say; 0: no limit */
    int64_t tool_timeout_ms;     /* of commands of tools that name none; 0: each tool's own */
    int64_t pause_drain_ms;      /* how long a pause waits for tools that does not say */
    int32_t max_snapshots;       /* of a session that does not say; 0: no limit; so with the next */
    bool takes_tool_snapshots;
    bool serves_e2b;     /* there is a door for its clients */
    double default_cpus; /* 0: no limit; so with the others */
    uint64_t default_memory_bytes;
    uint64_t default_pids;
    uint64_t default_disk_bytes;
    uint64_t default_inodes;
    struct cay_quotas quotas;     /* of owners */
    struct cay_ceilings ceilings; /* of sessions; no memory there: that of the machine */
    uint16_t port_first; /* ports of this machine that others than administrators may name */
    uint16_t port_last;
    double pool_warn; /* used shares of the pool: degraded, and refused */
    double pool_critical;
    int64_t health_interval_ms;
    bool has_durable_turns; /* every snapshot is synced before it is acknowledged */
    bool destroys_on_exit;  /* for tests: sessions do not outlive the daemon */
};

struct cay_host;

[[nodiscard]] bool cay_host_create(struct cay_loop *loop, const struct cay_host_options *options,
                                   struct cay_host **out_host, struct cay_error *err);
/* Gives up what takes long and is for later: before jobs are waited for. Accepts NULL. */
void cay_host_stop(struct cay_host *host);
/* The daemon is about to stop: calls that would never end are told to come back, now and until it
 * has stopped. */
void cay_host_cut(struct cay_host *host);

/* The daemon goes on in another program: sessions stay, whatever `destroys_on_exit` says. */
void cay_host_keep_sessions(struct cay_host *host);

/* The doors are drained: builds that still run end now, and `on_quiet` is called when all have,
 * maybe inside. */
void cay_host_drain(struct cay_host *host, void (*on_quiet)(void *context), void *context);
void cay_host_destroy(struct cay_host *host);

struct cay_service *cay_host_service(struct cay_host *host);
