/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Who did what, when, with which key: a file that is only ever added to. Loop thread only. */

#include "base/buf.h"
#include "io/loop.h"

struct cay_audit;

/* The file is `audit.log` in the directory, which stays the caller's. */
[[nodiscard]] struct cay_audit *cay_audit_create(struct cay_loop *loop, int dir_fd);
/* Waits for nothing: call after the jobs of the loop are done. Writes what is left. */
void cay_audit_destroy(struct cay_audit *audit);

/* One line, without its end. Never blocks; beyond a bound lines are counted, not kept. */
void cay_audit_add(struct cay_audit *audit, struct cay_str line);
