/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One cayd as a control. A sandbox is a session of it, and sandbox ids are session ids.
 *
 * `node` is the control itself and how it calls; `node_sandbox`, `node_process` and `node_stream`
 * are its slots.
 */

#include <pthread.h>

#include "api/cay_v1.h"
#include "client/rpc/client.h"
#include "lib/control/control_ops.h"
#include "lib/control/reach.h"

/* The kinds of limits that a request can set, and what the daemon calls them. */
enum { CAY_NODE_CPUS, CAY_NODE_MEMORY, CAY_NODE_PIDS, CAY_NODE_DISK, CAY_NODE_LIMITS };
extern const char *const cay_node_limit_names[CAY_NODE_LIMITS];

struct cay_node {
    struct cay_control control;
    struct cay_client *client;
    struct cay_place place;
    int64_t timeout_ms;
    pthread_mutex_t lock; /* of what follows, which is written once */
    bool is_asked;
    struct cay_control_capabilities capabilities;
    bool is_unkept[CAY_NODE_LIMITS]; /* nothing enforces these limits */
};

/* One use of a slot, which may take several calls. Its time is that of all of them together. */
struct cay_node_use {
    struct cay_node *node;
    struct cay_arena arena; /* of requests and answers */
    struct cay_call_options options;
    int64_t ends_ms; /* 0: never */
};

void cay_node_begin(struct cay_node_use *use, struct cay_control *control,
                    const struct cay_call_options *options);
void cay_node_end(struct cay_node_use *use);

[[nodiscard]] bool cay_node_call(struct cay_node_use *use, const struct cay_pb_method *method,
                                 const void *request, void *out_answer, struct cay_error *err);

/* The daemon was not there, or went away: the call may have been made or not. */
[[nodiscard]] bool cay_node_is_lost(const struct cay_error *err);

/* False with OUT_OF_MEMORY. */
bool cay_node_no_memory(struct cay_error *err);
[[nodiscard]] bool cay_node_pairs(struct cay_node_use *use, const struct cay_pair *pairs,
                                  size_t count, struct cay_pb_pairs *out, struct cay_error *err);

[[nodiscard]] struct cay_client *cay_node_client(struct cay_control *control); /* borrowed */

/* How a process is; `address` may be empty. */
[[nodiscard]] bool cay_node_tell(const struct cay_v1_process *process, const char *address,
                                 struct cay_process_status **out_status, struct cay_error *err);

/* The slots. */
bool cay_node_capabilities(struct cay_control *control, const struct cay_call_options *options,
                           const struct cay_control_capabilities **out_capabilities,
                           struct cay_error *err);
bool cay_node_create(struct cay_control *control, const struct cay_sandbox_request *wanted,
                     const struct cay_call_options *options, struct cay_sandbox_info **out_info,
                     struct cay_error *err);
bool cay_node_destroy(struct cay_control *control, const char *sandbox_id,
                      const struct cay_call_options *options, struct cay_error *err);
bool cay_node_list(struct cay_control *control, const struct cay_pair *labels, size_t label_count,
                   const struct cay_call_options *options, struct cay_sandbox_list **out_list,
                   struct cay_error *err);
bool cay_node_pause(struct cay_control *control, const char *sandbox_id,
                    const struct cay_call_options *options, struct cay_error *err);
bool cay_node_resume(struct cay_control *control, const char *sandbox_id,
                     const struct cay_call_options *options, struct cay_error *err);
bool cay_node_launch(struct cay_control *control, const struct cay_process_request *wanted,
                     const struct cay_call_options *options, struct cay_process_status **out_status,
                     struct cay_error *err);
bool cay_node_kill(struct cay_control *control, const char *sandbox_id, const char *process_id,
                   int number, const struct cay_call_options *options, struct cay_error *err);
bool cay_node_attach(struct cay_control *control, const char *sandbox_id, const char *process_id,
                     const struct cay_stream_options *options, struct cay_stream **out_stream,
                     struct cay_error *err);
bool cay_node_status(struct cay_control *control, const char *sandbox_id, const char *process_id,
                     const struct cay_call_options *options, struct cay_process_status **out_status,
                     struct cay_error *err);
