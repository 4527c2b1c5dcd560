/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What flags say, as the API takes it. All live in the run's arena; what is wrong is said with an
 * example of how to write it.
 */

#include "api/cay_v1.h"
#include "cli/command.h"

/* The text of a flag; empty when it was not given. */
[[nodiscard]] struct cay_str cay_values_text(const struct cay_cli *cli, const char *flag);

/* --env A=b --env C=d. */
[[nodiscard]] bool cay_values_pairs(struct cay_cli *cli, const char *flag,
                                    struct cay_pb_pairs *out_pairs, struct cay_error *err);

/* --unset A --unset C. */
[[nodiscard]] bool cay_values_names(struct cay_cli *cli, const char *flag,
                                    struct cay_pb_strs *out_names, struct cay_error *err);

/* NULL when the flag was not given. 0 is a time like any other. */
[[nodiscard]] bool cay_values_wait(struct cay_cli *cli, const char *flag,
                                   struct google_protobuf_duration **out_duration,
                                   struct cay_error *err);

/* A limit: NULL when the flag was not given, or is 0. */
[[nodiscard]] bool cay_values_duration(struct cay_cli *cli, const char *flag,
                                       struct google_protobuf_duration **out_duration,
                                       struct cay_error *err);

/* --cpus, --memory, --pids, --disk and --inodes; NULL when none was given. */
[[nodiscard]] bool cay_values_limits(struct cay_cli *cli,
                                     struct cay_v1_resource_limits **out_limits,
                                     struct cay_error *err);

/* A number from `min` to `max`; *out_is_given says whether the flag was there. */
[[nodiscard]] bool cay_values_number(struct cay_cli *cli, const char *flag, int32_t min,
                                     int32_t max, bool *out_is_given, int32_t *out_number,
                                     struct cay_error *err);

/* on or off; *out_is_given says whether the flag was there. */
[[nodiscard]] bool cay_values_switch(struct cay_cli *cli, const char *flag, bool *out_is_given,
                                     bool *out_is_on, struct cay_error *err);

/* What CAY_FLAGS_LIFECYCLE say; NULL when none was given. */
[[nodiscard]] bool cay_values_lifecycle(struct cay_cli *cli,
                                        struct cay_v1_lifecycle **out_lifecycle,
                                        struct cay_error *err);

/* What CAY_FLAG_NETWORK says, and CAY_FLAG_PORTS where the command has them, and of an existing
 * session what else it has; NULL when none was given. */
[[nodiscard]] bool cay_values_network(struct cay_cli *cli, struct cay_str session_id,
                                      struct cay_v1_network_policy **out_network,
                                      struct cay_error *err);

/* What CAY_FLAG_SECRET says. */
[[nodiscard]] bool cay_values_secrets(struct cay_cli *cli,
                                      struct cay_v1_secret_binding_array *out_secrets,
                                      struct cay_error *err);
/* The same for a new session, whose network is filtered then if no flag says what it is. */
[[nodiscard]] bool cay_values_new_secrets(struct cay_cli *cli,
                                          struct cay_v1_secret_binding_array *out_secrets,
                                          struct cay_v1_network_policy **in_out_network,
                                          struct cay_error *err);

/* "none", "open", "filtered" or "ask" */
const char *cay_values_network_name(const struct cay_v1_network_policy *policy);
/* "private", "exposed" or "public" */
const char *cay_values_ports_name(const struct cay_v1_network_policy *network);

/* For the tables of the commands that take limits, or rules for the end. */
/* clang-format off */
#define CAY_FLAGS_LIMITS                                                                          \
    {.name = "cpus", .value = "N", .help = "processors it may use, e.g. 0.5 or 2"},                \
    {.name = "memory", .value = "SIZE", .help = "memory it may use, e.g. 512M or 2G"},             \
    {.name = "pids", .value = "N", .help = "processes and threads it may have at once"}
#define CAY_FLAGS_DISK                                                                            \
    {.name = "disk", .value = "SIZE", .help = "bytes it may add on disk, its snapshots included"}, \
    {.name = "inodes", .value = "N", .help = "files and directories it may add, as with --disk"}
#define CAY_FLAG_NETWORK                                                                          \
    {.name = "network", .value = "MODE", .help = "none: loopback only; open: the internet; filtered: what --allow names; ask: it, and what somebody lets through"}, \
    {.name = "allow", .value = "RULE", .help = "a rule of a filtered network: what it reaches, e.g. example.org:443, @npm"},                  \
    {.name = "deny", .value = "RULE", .help = "the same for what it does not reach, whatever allows it"}
#define CAY_FLAG_PORTS                                                                            \
    {.name = "ports", .value = "WHO", .help = "who reaches its ports without a key: private: nobody; exposed: anybody those of 'cay port'; public: anybody all"}, \
    {.name = "mask-host", .value = "HOST", .help = "what servers inside are told they were called, e.g. 'localhost:${PORT}'"}
#define CAY_FLAG_SECRET                                                                           \
    {.name = "secret", .value = "VARIABLE=SECRET@HOST[:HEADER]", .help = "a secret ('cay secret set') that it uses at one host and never sees"}
#define CAY_FLAG_RUNTIME(otherwise)                                                              \
    {.name = "runtime", .value = "RUNTIME", .help = "what isolates its commands; " otherwise}
#define CAY_FLAG_TOOL_SNAPSHOTS                                                                   \
    {.name = "tool-snapshots", .value = "on|off", .help = "take a snapshot after each tool call that may change files"}
#define CAY_FLAGS_LIFECYCLE                                                                       \
    {.name = "expire-in", .value = "DURATION", .help = "how long it has from now on, e.g. 30m"},           \
    {.name = "on-expiry", .value = "ACTION", .help = "what happens then: destroy, pause or stop"},         \
    {.name = "idle-after", .value = "DURATION", .help = "it counts as idle after this time without a call"}, \
    {.name = "on-idle", .value = "ACTION", .help = "what happens then: pause, stop or destroy"},           \
    {.name = "auto-resume", .help = "let the next call resume it when it sleeps"}
/* clang-format on */

/* Every value of a flag that may be given again. */
[[nodiscard]] bool cay_values_texts(struct cay_cli *cli, const char *flag,
                                    struct cay_pb_strs *out_strs, struct cay_error *err);

/* Words as a list of strings. */
[[nodiscard]] bool cay_values_words(struct cay_cli *cli, const char *const *words, size_t count,
                                    struct cay_pb_strs *out_strs, struct cay_error *err);
