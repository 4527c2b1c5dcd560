/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What of a command can be judged without looking at where it is to run. Sentences name the field.
 */

#include "api/cay_v1.h"
#include "base/error.h"

[[nodiscard]] bool cay_check_env(struct cay_pb_pairs env, struct cay_error *err);
/* A command with its own environment, of which there may be more. */
[[nodiscard]] bool cay_check_argv(struct cay_pb_strs argv, struct cay_pb_pairs env,
                                  struct cay_error *err);
[[nodiscard]] bool cay_check_cwd(struct cay_str cwd, struct cay_error *err);
