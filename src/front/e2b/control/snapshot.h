/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Snapshots that outlive their sandbox, and sandboxes made from them. Such a snapshot is a fork
 * that never runs: a session of its own, marked by labels (front/e2b/sandbox.h), which holds the
 * files of that instant and shares their data. A sandbox made from it is a fork of that fork.
 *
 * Its id is the session's with the tag "default", or OWNER/NAME:default if it was given a name. One
 * that is given the name of another takes its place; until that is gone, the newest counts.
 */

#include "front/e2b/control/handlers.h"

/* Tells whether a template's name stands for a snapshot. `session_id` is empty when it does not. */
typedef void cay_e2b_snapshot_fn(struct cay_rest_request *request, struct cay_str session_id);

/* Looks it up as the caller. `found` runs once, unless an error was answered. */
void cay_e2b_snapshot_find(struct cay_rest_request *request, struct cay_str name,
                           cay_e2b_snapshot_fn *found);

/* Answers 204, or the error. */
void cay_e2b_delete_snapshot(struct cay_rest_request *request, struct cay_str session_id);
