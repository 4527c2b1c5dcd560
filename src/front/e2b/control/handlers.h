/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The handlers of the control plane, which run as the owner of the key, and what they share. */

#include "front/e2b/visit.h"
#include "front/rest/call.h"

/* sandbox.c: looks at the sandbox in the path, its tokens included. Answers itself when
 * there is none, or only a session that is no sandbox, as a snapshot is. What `found` gets is gone
 * when it returns. */
typedef void cay_e2b_sandbox_fn(struct cay_rest_request *request,
                                const struct cay_v1_get_session_response *got, void *state);
void cay_e2b_get_sandbox(struct cay_rest_request *request, cay_e2b_sandbox_fn *found, void *state);

/* Answers 204, or the error. */
cay_rest_done_fn cay_e2b_done_empty;

/* list.c: `limit` and `nextToken` of the query; answers 400 and returns false when they are
 * none. */
[[nodiscard]] bool cay_e2b_read_page(struct cay_rest_request *request, int32_t *out_size,
                                     struct cay_str *out_token);

/* One page of sessions, each as `write` has it (or not at all), and the token of the next; or the
 * error. */
typedef void cay_e2b_write_fn(struct cay_rest_request *request, struct cay_json_writer *json,
                              const struct cay_v1_session *session);
void cay_e2b_reply_list(struct cay_rest_request *request,
                        const struct cay_v1_list_sessions_response *list,
                        const struct cay_error *err, cay_e2b_write_fn *write);

cay_rest_handler cay_e2b_create;
cay_rest_handler cay_e2b_info;
cay_rest_handler cay_e2b_kill;
cay_rest_handler cay_e2b_set_timeout;
cay_rest_handler cay_e2b_refresh;
cay_rest_handler cay_e2b_pause;
cay_rest_handler cay_e2b_connect;
cay_rest_handler cay_e2b_list;
cay_rest_handler cay_e2b_list_running;
cay_rest_handler cay_e2b_logs;
cay_rest_handler cay_e2b_metrics;
cay_rest_handler cay_e2b_set_network;
cay_rest_handler cay_e2b_take_snapshot;
cay_rest_handler cay_e2b_list_snapshots;
cay_rest_handler cay_e2b_fork;
cay_rest_handler cay_e2b_template_alias;
cay_rest_handler cay_e2b_list_templates;
cay_rest_handler cay_e2b_order_template;
cay_rest_handler cay_e2b_start_build;
cay_rest_handler cay_e2b_build_status;
cay_rest_handler cay_e2b_files_link;
cay_rest_handler cay_e2b_put_files;
cay_rest_handler cay_e2b_assign_tags;
cay_rest_handler cay_e2b_remove_tags;
cay_rest_handler cay_e2b_list_tags;
cay_rest_handler cay_e2b_delete_template;
