/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Snapshots of a session, in its table of them. */

#include "host/session/session.h"

struct cay_snapshot *cay_snapshot_new(struct cay_session *session, const char *name,
                                      const char *store_id, const struct cay_v1_snapshot *spec);
void cay_snapshot_free(struct cay_session *session, struct cay_snapshot *snapshot);
/* Replaces what clients see of it. What they said of it is in the database only (record.h). */
void cay_snapshot_set_spec(struct cay_session *session, struct cay_snapshot *snapshot,
                           const struct cay_v1_snapshot *spec);

/* The same, or SNAPSHOT_NOT_FOUND. */
struct cay_snapshot *cay_find_snapshot(const struct cay_session *session, struct cay_str name,
                                       struct cay_error *err);

/* There are some that were not looked after (aftermath.h), or may be: that is done soon. */
void cay_snapshots_look_after(struct cay_host *host);

extern const struct cay_session_part cay_snapshots_part;
