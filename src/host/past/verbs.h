/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The verbs of this room, and its rows of the host's table. */

#include "host/session/host.h"

cay_verb cay_host_fork_session;
cay_verb cay_host_turn_complete;
cay_verb cay_host_create_snapshot;
cay_verb cay_host_list_snapshots;
cay_verb cay_host_delete_snapshot;
cay_verb cay_host_hold_snapshot;
cay_verb cay_host_rollback_session;
cay_verb cay_host_restore_paths;
cay_verb cay_host_diff_snapshots;

extern const struct cay_verb_row cay_past_verbs[];
