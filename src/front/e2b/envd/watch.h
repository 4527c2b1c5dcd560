/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the two ways to watch a directory share: the stream and the pollers. */

#include "front/e2b/visit.h"

/* What a client that missed changes is told: neither way has a message for it. */
#define CAY_E2B_WATCH_MISSED \
    "changes came faster than they were taken and some were missed; list the directory and go on"

/* The message of the request as one of the hallway's, which lives in the request's arena. Answers
 * and returns NULL when it is none. */
[[nodiscard]] const struct cay_v1_watch_dir_request *
cay_e2b_watch_read(struct cay_rest_request *request);

/* FilesystemEvent, an object. */
void cay_e2b_write_watch_event(struct cay_json_writer *json, const struct cay_v1_file_event *event);
