/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The directory that commands of a session start in. */

#include "base/base.h"
#include "base/error.h"

/* On a worker: makes the directory if nothing is there, for this user of the sandbox; its missing
 * parents belong to root. What is in the way stays. False only when there is no such user. */
[[nodiscard]] bool cay_session_make_cwd(int root_fd, uint32_t id_base, struct cay_str user,
                                        struct cay_str cwd, struct cay_error *err);
