/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The daemon's configuration: one table, from which flags, file, environment, --help and the man
 * page come. What a room needs stands in a struct of that room, which the table fills. */

#include "base/conf.h"
#include "front/e2b/e2b.h"
#include "front/http/server.h"
#include "host/session/settings.h"

struct cayd_conf {
    char *config;
    struct cay_conf_list listen;
    char *tls_cert;
    char *tls_key;
    bool insecure_no_auth;
    int log_level;  /* place in the list of levels */
    int log_format; /* place in the list of formats */
    int64_t max_connections;
    uint64_t body_memory_bytes;
    uint64_t owner_body_memory_bytes;
    uint64_t shutdown_timeout_ms;
    char *init_path;
    bool check;
    bool print_config;
    bool print_config_man;
    bool help;
    bool version;
    struct cay_host_settings host;
    struct cay_e2b_options e2b;
    struct cay_server_options server;
};

extern const struct cay_conf_entry cayd_conf_entries[];
extern const size_t cayd_conf_entry_count;

/* Flags, then the file they name, then the environment. A missing file is an error only when it was
 * asked for. */
[[nodiscard]] bool cayd_conf_load(struct cay_conf *conf, struct cayd_conf *values, int argc,
                                  const char *const *argv, struct cay_error *err);
