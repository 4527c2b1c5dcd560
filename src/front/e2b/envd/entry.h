/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Files and paths as clients inside a sandbox see them. */

#include "front/e2b/visit.h"

/* The path as the hallway takes it: from the user's home unless it is absolute. An empty one is
 * that of commands. */
[[nodiscard]] struct cay_str cay_e2b_path(struct cay_rest_request *request, struct cay_str path);

/* EntryInfo, an object. */
void cay_e2b_write_entry(struct cay_json_writer *json, const struct cay_v1_file_info *info);

/* "metadata":{…}, if there is some. */
void cay_e2b_write_metadata(struct cay_json_writer *json, const struct cay_v1_file_info *info);
