/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What an administrator sets, of all rooms of the host. The table of the configuration
 * (bin/cayd_conf.c) fills it and has the defaults; rooms read it through host->settings. A new key
 * is a member here, a row there, and a line where it is used.
 */

#include "base/conf.h"

/* Places in the list of choices. */
enum cay_network_setting {
    CAY_NETWORK_SETTING_NONE,
    CAY_NETWORK_SETTING_FILTERED,
    CAY_NETWORK_SETTING_OPEN,
};
enum cay_nesting_setting { CAY_NESTING_NOBODY, CAY_NESTING_ADMIN, CAY_NESTING_EVERYBODY };

struct cay_host_settings {
    char *data_dir; /* made if need be, mode 0700 */
    char *run_dir;  /* sockets of sandboxes are made below it */
    const char *store;
    const char *runtime;           /* of sessions that do not say */
    struct cay_conf_list runtimes; /* others that they may ask for */
    const char *cgroup_parent;
    const char *runsc;          /* empty: looked for */
    const char *runsc_platform; /* empty: its own choice */
    const char *default_base;
    const char *snapshot_prefix;
    bool has_durable_turns; /* every snapshot is synced before it is acknowledged */
    const char *port_bind;
    const char *port_advertise; /* NULL or empty: port_bind */
    int network;                /* of sessions that do not say: enum cay_network_setting */
    char *secrets_key;          /* file; empty: in the data directory */
    int nesting;                /* who may choose it: enum cay_nesting_setting */
    int network_steering;       /* of filtered networks: enum cay_filter_way */
    const char *network_pool;
    struct cay_conf_list network_allow;
    struct cay_conf_list network_rules; /* of sessions that are filtered because they do not say */
    struct cay_conf_list network_sets;  /* NAME=RULE */
    const char *network_trust;          /* a file: who vouches for servers */
    int64_t network_ask_timeout_ms;     /* of questions about connections */
    int64_t max_sessions;               /* 0: as many as fit */
    int64_t reserve;              /* sandboxes that may wait for sessions to come; 0: none do */
    int64_t max_concurrent_tools; /* of a session that does not say; 0: no limit */
    int64_t tool_timeout_ms;      /* of commands of tools that name none; 0: each tool's own */
    int64_t pause_drain_ms;       /* how long a pause waits for tools that does not say */
    int64_t max_snapshots; /* of a session that does not say; 0: no limit; so with the next */
    bool takes_tool_snapshots;
    int64_t quota_sessions; /* of owners; 0: no limit; so with the others */
    uint64_t quota_memory_bytes;
    double quota_cpus;
    uint64_t quota_disk_bytes;
    int64_t quota_pids;
    int64_t quota_snapshots;
    int64_t quota_ports;
    int64_t quota_bases;
    int64_t quota_streams;
    uint64_t session_max_memory_bytes; /* 0: as much as this machine has */
    int64_t session_max_pids;          /* 0: no limit; so with the next */
    int64_t session_max_snapshots;
    int64_t port_first; /* ports of this machine that others than administrators may name */
    int64_t port_last;
    double default_cpus; /* 0: no limit; so with the others */
    uint64_t default_memory_bytes;
    int64_t default_pids;
    uint64_t default_disk_bytes;
    int64_t default_inodes;
    double pool_warn; /* used shares of the pool: degraded, and refused */
    double pool_critical;
    int64_t health_interval_ms;
    bool destroys_on_exit; /* for tests: sessions do not outlive the daemon */
};
