/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Names of snapshots: those that the host gives, and which ones callers may. A name is an id.
 *
 *     turn-0001                          a turn; the first word is snapshot_prefix
 *     branch-0001                        unsaved changes that a rollback left
 *     tool-ID-20261231T235959.123456Z    after a tool call; without an id: tool-2026…
 *     snapshot-RANDOM                    one that a caller took and gave no name
 *     base                               no snapshot: what the session was made of
 */

#include "base/error.h"
#include "base/id.h"

#define CAY_SNAPSHOT_BASE   "base"
#define CAY_SNAPSHOT_BRANCH "branch"

struct cay_session;

/* WORD-NUMBER, with the first number after `last` whose name is free in the session: one may be a
 * caller's, from before the prefix was what it is, or have come with an import. Returns it. */
int64_t cay_snapshot_name_next(const struct cay_session *session, const char *word, int64_t last,
                               char out[CAY_ID_SIZE]);

/* After a tool call at a time of the wall clock. Of its id, what a name may have. */
void cay_snapshot_name_after_tool(struct cay_str tool_call_id, int64_t now_ns,
                                  char out[CAY_ID_SIZE]);

/* As wanted, which was checked; empty: one of ours. */
void cay_snapshot_name_choose(struct cay_str wanted, char out[CAY_ID_SIZE]);

/* What stands for the base and not for a snapshot. */
[[nodiscard]] bool cay_snapshot_name_is_base(struct cay_str name);

/* A name that a snapshot may have, whoever gave it. */
[[nodiscard]] bool cay_snapshot_name_valid(struct cay_str name);

/* A caller's own name: INVALID_ARGUMENT for those that the host gives. */
[[nodiscard]] bool cay_snapshot_name_check(struct cay_str name, struct cay_error *err);
