/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The directory that commands of a session start in. */

#include "base/base.h"

/* On a worker: makes the directory if nothing is there, for this user of the sandbox; its missing
 * parents belong to root. What is in the way stays. */
void cay_session_make_cwd(int root_fd, uint32_t id_base, struct cay_str user, struct cay_str cwd);
