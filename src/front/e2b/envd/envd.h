/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What clients expect to answer at port 49983 of a sandbox: health, files, and RPCs about processes
 * and files. It is all done from outside, by verbs of the hallway.
 */

#include "front/e2b/visit.h"

/* Owns what is for that port; signed URLs of files; and what browsers ask before they send such a
 * request. */
extern const struct cay_door cay_e2b_envd_door;

/* Is it the path of one of the services? */
[[nodiscard]] bool cay_e2b_envd_owns(struct cay_str path);

cay_rest_handler cay_e2b_envd_health;
cay_rest_handler cay_e2b_envd_envs;
cay_rest_handler cay_e2b_envd_metrics;
cay_rest_handler cay_e2b_files_get;
cay_rest_handler cay_e2b_files_post;
cay_rest_handler cay_e2b_process_list;
cay_rest_handler cay_e2b_process_start;
cay_rest_handler cay_e2b_process_connect;
cay_rest_handler cay_e2b_process_update;
cay_rest_handler cay_e2b_process_send_input;
cay_rest_handler cay_e2b_process_stream_input;
cay_rest_handler cay_e2b_process_send_signal;
cay_rest_handler cay_e2b_process_close_stdin;
cay_rest_handler cay_e2b_filesystem_stat;
cay_rest_handler cay_e2b_filesystem_make_dir;
cay_rest_handler cay_e2b_filesystem_move;
cay_rest_handler cay_e2b_filesystem_list_dir;
cay_rest_handler cay_e2b_filesystem_remove;
cay_rest_handler cay_e2b_filesystem_watch_dir;
cay_rest_handler cay_e2b_filesystem_create_watcher;
cay_rest_handler cay_e2b_filesystem_get_watcher_events;
cay_rest_handler cay_e2b_filesystem_remove_watcher;
