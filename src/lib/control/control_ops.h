/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * For who adds a kind of control: a table like cay_control_node, and its line in the registry
 * (control.c). The functions of cay/control.h stand before every slot: they have checked what can
 * be checked without knowing the kind, `options` is never NULL and is of our own version, outputs
 * and err are never NULL, and the control lives until the slot returns.
 *
 * Slots block, may be called by several threads at once, and leave outputs alone when they fail. A
 * slot that is NULL fails with CAPABILITY_NOT_SUPPORTED, and so does what fails with NOT_SUPPORTED.
 */

#include <stdatomic.h>

#include "base/error.h"
#include "cay/stream.h"

struct cay_control_ops;

/* The first member of every kind's own struct. */
struct cay_control {
    const struct cay_control_ops *ops;
    atomic_size_t refs; /* the caller's, and one for each call under way */
};

struct cay_control_ops {
    const char *name; /* what stands before the colon of an address */

    /* `rest` is what stands behind the colon. It waits for nobody. The caller fills in `ops` and
     * `refs`. Reasons: INVALID_ARGUMENT, OUT_OF_MEMORY. */
    bool (*open)(const char *rest, const struct cay_control_options *options,
                 struct cay_control **out_control, struct cay_error *err);
    void (*close)(struct cay_control *control);

    /* Asks once; the same pointer every time. */
    bool (*capabilities)(struct cay_control *control, const struct cay_call_options *options,
                         const struct cay_control_capabilities **out_capabilities,
                         struct cay_error *err);

    /* Safe to repeat when the request has an id. */
    bool (*create)(struct cay_control *control, const struct cay_sandbox_request *request,
                   const struct cay_call_options *options, struct cay_sandbox_info **out_info,
                   struct cay_error *err);
    /* Safe to repeat; what is not there is destroyed. */
    bool (*destroy)(struct cay_control *control, const char *sandbox_id,
                    const struct cay_call_options *options, struct cay_error *err);
    /* All of them, in one go. */
    bool (*list)(struct cay_control *control, const struct cay_pair *labels, size_t label_count,
                 const struct cay_call_options *options, struct cay_sandbox_list **out_list,
                 struct cay_error *err);

    bool (*pause)(struct cay_control *control, const char *sandbox_id,
                  const struct cay_call_options *options, struct cay_error *err);
    bool (*resume)(struct cay_control *control, const char *sandbox_id,
                   const struct cay_call_options *options, struct cay_error *err);

    /* An address that it answers is reached from here, or the launch fails and nothing runs. */
    bool (*launch)(struct cay_control *control, const struct cay_process_request *request,
                   const struct cay_call_options *options, struct cay_process_status **out_status,
                   struct cay_error *err);
    bool (*kill)(struct cay_control *control, const char *sandbox_id, const char *process_id,
                 int number, const struct cay_call_options *options, struct cay_error *err);
    bool (*status)(struct cay_control *control, const char *sandbox_id, const char *process_id,
                   const struct cay_call_options *options, struct cay_process_status **out_status,
                   struct cay_error *err);
    /* Waits for nobody. The stream holds the control by cay_control_ref. */
    bool (*attach)(struct cay_control *control, const char *sandbox_id, const char *process_id,
                   const struct cay_stream_options *options, struct cay_stream **out_stream,
                   struct cay_error *err);
};

/* For what outlives the call that made it. */
struct cay_control *cay_control_ref(struct cay_control *control);
void cay_control_unref(struct cay_control *control);

extern const struct cay_control_ops cay_control_node;
