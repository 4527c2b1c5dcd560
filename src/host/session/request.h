/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What of a request can be judged without looking at any session. Sentences name the field. */

#include "api/argv.h"
#include "api/cay_v1.h"
#include "base/error.h"

/* What an operation does about tools that run. Zeroed: nothing. */
struct cay_drain {
    bool is_wanted; /* it waits for them, */
    bool goes_on;   /* and goes on when they take longer; otherwise it fails: TOOLS_IN_FLIGHT */
    int64_t limit_ms;
};

/* Of the sessions that steps of a build run in: not listed unless asked for, never kept over a
 * restart. No client gives it. */
#define CAY_BUILD_LABEL "cay.build"

[[nodiscard]] struct cay_pb_pairs cay_build_labels(void);
[[nodiscard]] bool cay_build_is_label(struct cay_pb_pairs labels);

[[nodiscard]] bool cay_check_labels(struct cay_pb_pairs labels, struct cay_error *err);

/* Fills in the host's defaults for what is not set. */
[[nodiscard]] bool cay_check_limits(const struct cay_v1_resource_limits *wanted,
                                    const struct cay_v1_resource_limits *defaults,
                                    struct cay_v1_resource_limits *out_limits,
                                    struct cay_error *err);

[[nodiscard]] bool cay_check_lifecycle(const struct cay_v1_lifecycle *lifecycle,
                                       struct cay_error *err);
/* How long from now a session may stay; NULL is fine. */
[[nodiscard]] bool cay_check_expire_in(const struct google_protobuf_duration *delay,
                                       struct cay_error *err);

/* How long to wait for tools. Unset, the drain stays as it is. */
[[nodiscard]] bool cay_check_drain(const struct google_protobuf_duration *timeout,
                                   struct cay_drain *out_drain, struct cay_error *err);

[[nodiscard]] bool cay_check_message(struct cay_str message, struct cay_error *err);

/* Can be a name or number of a user; empty: the default. */
[[nodiscard]] bool cay_check_user(struct cay_str user, struct cay_error *err);
