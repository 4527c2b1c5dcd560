/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The daemon's configuration: one table, from which flags, file, environment, --help and the man
 * page come. */

#include "base/conf.h"

/* Places in the lists of choices. */
enum { CAYD_NETWORK_NONE, CAYD_NETWORK_OPEN };
enum { CAYD_E2B_NETWORK_DEFAULT, CAYD_E2B_NETWORK_NONE, CAYD_E2B_NETWORK_OPEN };

struct cayd_conf {
    char *config;
    char *data;
    char *run;
    struct cay_conf_list listen;
    char *tls_cert;
    char *tls_key;
    bool insecure_no_auth;
    int log_level;  /* place in cayd_log_levels */
    int log_format; /* place in cayd_log_formats */
    bool access_log;
    int64_t max_connections;
    uint64_t body_memory;
    uint64_t owner_body_memory;
    int64_t head_timeout;
    int64_t idle_timeout;
    int64_t send_timeout;
    int64_t shutdown_timeout;
    char *store;
    char *runtime;
    char *init_path;
    char *cgroup_parent;
    char *default_base;
    char *snapshot_prefix;
    bool durable_turns;
    char *port_bind;
    char *port_advertise;
    bool e2b;
    char *e2b_domain;
    char *e2b_template;
    int e2b_network; /* one of CAYD_E2B_NETWORK_… */
    struct cay_conf_list e2b_images;
    int network; /* one of CAYD_NETWORK_… */
    char *network_pool;
    struct cay_conf_list network_allow;
    int64_t max_sessions;
    int64_t max_concurrent_tools;
    int64_t tool_timeout;
    int64_t pause_drain;
    int64_t max_snapshots;
    bool tool_snapshots;
    int64_t quota_sessions;
    uint64_t quota_memory;
    double quota_cpus;
    uint64_t quota_disk;
    int64_t quota_pids;
    int64_t quota_snapshots;
    int64_t quota_ports;
    int64_t quota_bases;
    int64_t quota_streams;
    uint64_t session_max_memory;
    int64_t session_max_pids;
    int64_t session_max_snapshots;
    int64_t port_first;
    int64_t port_last;
    double default_cpus;
    uint64_t default_memory;
    int64_t default_pids;
    uint64_t default_disk;
    int64_t default_inodes;
    double pool_warn;
    double pool_critical;
    int64_t health_interval;
    bool destroy_on_exit;
    bool check;
    bool print_config;
    bool print_config_man;
    bool help;
    bool version;
};

extern const struct cay_conf_entry cayd_conf_entries[];
extern const size_t cayd_conf_entry_count;

/* Flags, then the file they name, then the environment. A missing file is an error only when it was
 * asked for. */
[[nodiscard]] bool cayd_conf_load(struct cay_conf *conf, struct cayd_conf *values, int argc,
                                  const char *const *argv, struct cay_error *err);
