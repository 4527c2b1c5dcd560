/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/sized.h"
#include "lib/control/control_ops.h"
#include "lib/control/result.h"
#include "lib/entry.h"

enum { SIGNAL_MAX = 64, PORT_MAX = 65535, SIDE_MAX = 65535 };

static const struct cay_control_ops *const kinds[] = {
    &cay_control_node,
};

/* --- opening and closing --- */

struct cay_control *cay_control_ref(struct cay_control *control)
{
    atomic_fetch_add(&control->refs, 1);
    return control;
}

void cay_control_unref(struct cay_control *control)
{
    if (atomic_fetch_sub(&control->refs, 1) == 1)
        control->ops->close(control);
}

static const struct cay_control_ops *find_kind(const char *address, const char **out_rest)
{
    for (size_t i = 0; i < CAY_COUNT(kinds); i++) {
        size_t len = strlen(kinds[i]->name);
        if (strncmp(address, kinds[i]->name, len) == 0 && address[len] == ':') {
            *out_rest = address + len + 1;
            return kinds[i];
        }
    }
    return NULL;
}

bool cay_control_open(const char *address, const struct cay_control_options *options,
                      struct cay_control **out_control, struct cay_error *err)
{
    struct cay_error ignored;
    struct cay_control_options own;
    struct cay_control *control = NULL;
    const char *rest = NULL;
    err = err ? err : &ignored;
    if (!out_control)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "there is no place for the control");
    if (!cay_entry_text(address, "address", err) ||
        !cay_sized_take(options, &own, sizeof(own), "cay_control_options", err))
        return false;
    if (own.timeout_ms < 0)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "timeout_ms: 0 or more milliseconds");
    const struct cay_control_ops *ops = find_kind(address, &rest);
    if (!ops)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "there is no control '%.80s'; write node:URL, e.g. "
                        "node:unix:/run/cay/cayd.sock",
                        address);
    if (!ops->open(rest, &own, &control, err))
        return false;
    control->ops = ops;
    atomic_init(&control->refs, 1);
    *out_control = control;
    return true;
}

void cay_control_close(struct cay_control *control)
{
    if (control)
        cay_control_unref(control);
}

/* --- what every call begins and ends with --- */

/* On true the control lives until `leave`. */
static bool enter(struct cay_control *control, const struct cay_call_options *options,
                  struct cay_call_options *own, struct cay_error *err)
{
    if (!control)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "the control is missing");
    if (!cay_sized_take(options, own, sizeof(*own), "cay_call_options", err))
        return false;
    (void)cay_control_ref(control);
    return true;
}

static bool leave(struct cay_control *control, bool is_done, struct cay_error *err)
{
    if (!is_done && err->reason == CAY_R_NOT_SUPPORTED)
        err->reason = CAY_R_CAPABILITY_NOT_SUPPORTED; /* the sentence stays the host's */
    cay_control_unref(control);
    return is_done;
}

static bool cannot(const struct cay_control *control, const char *what, struct cay_error *err)
{
    return cay_fail(err, CAY_R_CAPABILITY_NOT_SUPPORTED, "a control of the kind '%s' cannot %s",
                    control->ops->name, what);
}

bool cay_control_capabilities(struct cay_control *control, const struct cay_call_options *options,
                              const struct cay_control_capabilities **out_capabilities,
                              struct cay_error *err)
{
    struct cay_error ignored;
    struct cay_call_options own;
    err = err ? err : &ignored;
    if (!out_capabilities)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "there is no place for the capabilities");
    if (!enter(control, options, &own, err))
        return false;
    return leave(control, control->ops->capabilities(control, &own, out_capabilities, err), err);
}

/* --- sandboxes --- */

static bool check_sandbox(const struct cay_sandbox_request *request, struct cay_error *err)
{
    /* Not by what it must not be: NaN is neither. */
    if (!(request->cpus >= 0) || request->memory_bytes < 0 || request->disk_bytes < 0 ||
        request->process_count < 0)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "a limit is above 0, or 0 for the host's default");
    return cay_entry_word(request->sandbox_id, "sandbox_id", err) &&
           cay_entry_word(request->template_name, "template_name", err) &&
           cay_entry_word(request->network, "network", err) &&
           cay_entry_word(request->runtime, "runtime", err) &&
           cay_entry_pairs(request->labels, request->label_count, "labels", err);
}

bool cay_control_create(struct cay_control *control, const struct cay_sandbox_request *request,
                        const struct cay_call_options *options, struct cay_sandbox_info **out_info,
                        struct cay_error *err)
{
    struct cay_error ignored;
    struct cay_call_options own;
    struct cay_sandbox_request wanted;
    struct cay_sandbox_info *info = NULL;
    err = err ? err : &ignored;
    if (!cay_sized_take(request, &wanted, sizeof(wanted), "cay_sandbox_request", err) ||
        !check_sandbox(&wanted, err) || !enter(control, options, &own, err))
        return false;
    bool is_done = control->ops->create(control, &wanted, &own, &info, err);
    if (is_done && out_info)
        *out_info = info;
    else
        cay_sandbox_info_free(info);
    return leave(control, is_done, err);
}

typedef bool on_sandbox(struct cay_control *control, const char *sandbox_id,
                        const struct cay_call_options *options, struct cay_error *err);

static bool call_on_sandbox(struct cay_control *control, on_sandbox *slot, const char *what,
                            const char *sandbox_id, const struct cay_call_options *options,
                            struct cay_error *err)
{
    struct cay_error ignored;
    struct cay_call_options own;
    err = err ? err : &ignored;
    if (!cay_entry_text(sandbox_id, "sandbox_id", err) || !enter(control, options, &own, err))
        return false;
    bool is_done = slot ? slot(control, sandbox_id, &own, err) : cannot(control, what, err);
    return leave(control, is_done, err);
}

bool cay_control_destroy(struct cay_control *control, const char *sandbox_id,
                         const struct cay_call_options *options, struct cay_error *err)
{
    return call_on_sandbox(control, control ? control->ops->destroy : NULL, "destroy sandboxes",
                           sandbox_id, options, err);
}

bool cay_control_pause(struct cay_control *control, const char *sandbox_id,
                       const struct cay_call_options *options, struct cay_error *err)
{
    return call_on_sandbox(control, control ? control->ops->pause : NULL, "pause sandboxes",
                           sandbox_id, options, err);
}

bool cay_control_resume(struct cay_control *control, const char *sandbox_id,
                        const struct cay_call_options *options, struct cay_error *err)
{
    return call_on_sandbox(control, control ? control->ops->resume : NULL, "resume sandboxes",
                           sandbox_id, options, err);
}

bool cay_control_list(struct cay_control *control, const struct cay_pair *labels,
                      size_t label_count, const struct cay_call_options *options,
                      struct cay_sandbox_list **out_list, struct cay_error *err)
{
    struct cay_error ignored;
    struct cay_call_options own;
    err = err ? err : &ignored;
    if (!out_list)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "there is no place for the list");
    if (!cay_entry_pairs(labels, label_count, "labels", err) || !enter(control, options, &own, err))
        return false;
    bool is_done = control->ops->list
                       ? control->ops->list(control, labels, label_count, &own, out_list, err)
                       : cannot(control, "list sandboxes", err);
    return leave(control, is_done, err);
}

/* --- processes --- */

static bool check_process(const struct cay_process_request *request, struct cay_error *err)
{
    if (!cay_entry_text(request->sandbox_id, "sandbox_id", err) ||
        !cay_entry_text(request->binary, "binary", err) ||
        !cay_entry_pairs(request->environment, request->environment_count, "environment", err))
        return false;
    if (request->expose_port < 0 || request->expose_port > PORT_MAX)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "expose_port must be 1 to %d, or 0 for none",
                        PORT_MAX);
    if (request->arg_count && !request->args)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "there are no arguments, but their number is %zu", request->arg_count);
    for (size_t i = 0; i < request->arg_count; i++) {
        if (!request->args[i])
            return cay_fail(err, CAY_R_INVALID_ARGUMENT, "argument %zu is missing", i + 1);
        if (!cay_entry_word(request->args[i], "args", err))
            return false;
    }
    if (request->rows < 0 || request->rows > SIDE_MAX || request->columns < 0 ||
        request->columns > SIDE_MAX)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "rows, columns: 1 to %d, or 0 for no terminal",
                        SIDE_MAX);
    return cay_entry_word(request->cwd, "cwd", err) && cay_entry_word(request->user, "user", err);
}

bool cay_control_launch(struct cay_control *control, const struct cay_process_request *request,
                        const struct cay_call_options *options,
                        struct cay_process_status **out_status, struct cay_error *err)
{
    struct cay_error ignored;
    struct cay_call_options own;
    struct cay_process_request wanted;
    struct cay_process_status *status = NULL;
    err = err ? err : &ignored;
    if (!cay_sized_take(request, &wanted, sizeof(wanted), "cay_process_request", err) ||
        !check_process(&wanted, err) || !enter(control, options, &own, err))
        return false;
    bool is_done = control->ops->launch ? control->ops->launch(control, &wanted, &own, &status, err)
                                        : cannot(control, "launch processes", err);
    if (is_done && out_status)
        *out_status = status;
    else
        cay_process_status_free(status);
    return leave(control, is_done, err);
}

bool cay_control_kill(struct cay_control *control, const char *sandbox_id, const char *process_id,
                      int number, const struct cay_call_options *options, struct cay_error *err)
{
    struct cay_error ignored;
    struct cay_call_options own;
    err = err ? err : &ignored;
    if (!cay_entry_text(sandbox_id, "sandbox_id", err) ||
        !cay_entry_text(process_id, "process_id", err))
        return false;
    if (number < 0 || number > SIGNAL_MAX)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "a signal is 1 to %d, or 0 for SIGTERM",
                        SIGNAL_MAX);
    if (!enter(control, options, &own, err))
        return false;
    bool is_done = control->ops->kill
                       ? control->ops->kill(control, sandbox_id, process_id, number, &own, err)
                       : cannot(control, "end processes", err);
    return leave(control, is_done, err);
}

bool cay_control_status(struct cay_control *control, const char *sandbox_id, const char *process_id,
                        const struct cay_call_options *options,
                        struct cay_process_status **out_status, struct cay_error *err)
{
    struct cay_error ignored;
    struct cay_call_options own;
    err = err ? err : &ignored;
    if (!out_status)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "there is no place for the status");
    if (!cay_entry_text(sandbox_id, "sandbox_id", err) ||
        !cay_entry_text(process_id, "process_id", err) || !enter(control, options, &own, err))
        return false;
    bool is_done = control->ops->status ? control->ops->status(control, sandbox_id, process_id,
                                                               &own, out_status, err)
                                        : cannot(control, "tell of processes", err);
    return leave(control, is_done, err);
}

bool cay_stream_open(struct cay_control *control, const char *sandbox_id, const char *process_id,
                     const struct cay_stream_options *options, struct cay_stream **out_stream,
                     struct cay_error *err)
{
    struct cay_error ignored;
    struct cay_call_options unused;
    struct cay_stream_options own;
    err = err ? err : &ignored;
    if (!out_stream)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "there is no place for the stream");
    if (!cay_entry_text(sandbox_id, "sandbox_id", err) ||
        !cay_entry_text(process_id, "process_id", err) ||
        !cay_sized_take(options, &own, sizeof(own), "cay_stream_options", err))
        return false;
    if (own.offset < 0)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "offset: 0 or more");
    if (!enter(control, NULL, &unused, err))
        return false;
    bool is_done = control->ops->attach ? control->ops->attach(control, sandbox_id, process_id,
                                                               &own, out_stream, err)
                                        : cannot(control, "talk to processes", err);
    return leave(control, is_done, err);
}

/* --- results --- */

void cay_sandbox_info_free(struct cay_sandbox_info *info)
{
    cay_result_free(info);
}

void cay_sandbox_list_free(struct cay_sandbox_list *list)
{
    cay_result_free(list);
}

void cay_process_status_free(struct cay_process_status *status)
{
    cay_result_free(status);
}
