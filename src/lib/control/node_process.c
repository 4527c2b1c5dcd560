/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>

#include "api/limits.h"
#include "base/id.h"
#include "lib/control/node_internal.h"
#include "lib/control/result.h"
#include "lib/entry.h"

static enum cay_process_state state_of(const struct cay_v1_process *process)
{
    bool is_new = process->state == CAY_V1_PROCESS_STATE_STARTING ||
                  process->state == CAY_V1_PROCESS_STATE_RESTARTING;
    if (process->state == CAY_V1_PROCESS_STATE_EXITED)
        return CAY_PROCESS_EXITED;
    return is_new ? CAY_PROCESS_STARTING : CAY_PROCESS_RUNNING;
}

static bool fill_status(const struct cay_v1_process *process, const char *address,
                        struct cay_process_status *status, struct cay_error *err)
{
    struct cay_arena *arena = cay_result_arena(status);
    const struct cay_v1_exec_result *result = process->result;
    bool is_over = state_of(process) == CAY_PROCESS_EXITED && result;
    *status = (struct cay_process_status){
        .process_id = cay_arena_copy(arena, process->id),
        .address = cay_arena_copy(arena, cay_str(address)),
        .state = state_of(process),
        .has_exit_code = is_over && result->has_exit_code,
        .exit_code = is_over && result->has_exit_code ? result->exit_code : 0,
        .signal = is_over ? result->signal : 0,
        .is_listening = process->ports.count && process->ports.items[0].listening,
    };
    return (status->process_id && status->address) || cay_node_no_memory(err);
}

bool cay_node_tell(const struct cay_v1_process *process, const char *address,
                   struct cay_process_status **out_status, struct cay_error *err)
{
    struct cay_process_status *status = cay_result_new(sizeof(*status));
    if (!status)
        return cay_node_no_memory(err);
    if (!fill_status(process, address, status, err)) {
        cay_result_free(status);
        return false;
    }
    *out_status = status;
    return true;
}

/* A port that cannot be reached from here is an error for who wants it now; it is no reason to be
 * silent about a process. */
static bool make_status(const struct cay_node *node, const struct cay_v1_process *process,
                        bool must_reach, struct cay_process_status **out_status,
                        struct cay_error *err)
{
    char address[CAY_REACH_BYTES] = "";
    if (process->ports.count &&
        !cay_place_reach(&node->place, process->ports.items, address, err) && must_reach)
        return false;
    return cay_node_tell(process, address, out_status, err);
}

static bool find(struct cay_node_use *use, struct cay_str session_id, struct cay_str process_id,
                 struct cay_v1_process **out_process, struct cay_error *err)
{
    const struct cay_v1_get_process_status_request request = {.session_id = session_id,
                                                              .process_id = process_id};
    struct cay_v1_get_process_status_response answer = {};
    if (!cay_node_call(use, &cay_v1_process_service_get_process_status_method, &request, &answer,
                       err))
        return false;
    if (!answer.process)
        return cay_fail(err, CAY_R_INTERNAL, "the daemon does not say how the process is");
    *out_process = answer.process;
    return true;
}

static bool send_signal(struct cay_node_use *use, struct cay_str session_id,
                        struct cay_str process_id, int number, struct cay_error *err)
{
    const struct cay_v1_kill_process_request request = {
        .session_id = session_id, .process_id = process_id, .signal = number};
    struct cay_v1_kill_process_response answer = {};
    return cay_node_call(use, &cay_v1_process_service_kill_process_method, &request, &answer, err);
}

/* By an id of its own: when the answer is lost, the call may be made again. */
static bool start(struct cay_node_use *use, struct cay_v1_launch_process_request *request,
                  struct cay_v1_process **out_process, struct cay_error *err)
{
    struct cay_v1_launch_process_response answer = {};
    char id[CAY_ID_SIZE];
    if (!cay_entry_id(id, sizeof(id), "launch-", err))
        return false;
    request->request_id = cay_str(id);
    if (!cay_node_call(use, &cay_v1_process_service_launch_process_method, request, &answer, err))
        return false;
    if (!answer.process)
        return cay_fail(err, CAY_R_INTERNAL, "the daemon does not say which process it started");
    *out_process = answer.process;
    return true;
}

static bool put_argv(struct cay_node_use *use, const struct cay_process_request *wanted,
                     struct cay_pb_strs *out, struct cay_error *err)
{
    if (wanted->arg_count >= CAY_LIMIT_ARG_COUNT)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "a program has at most %d arguments",
                        CAY_LIMIT_ARG_COUNT - 1);
    out->count = wanted->arg_count + 1;
    out->items = cay_arena_array(&use->arena, out->count, sizeof(*out->items));
    if (!out->items)
        return cay_node_no_memory(err);
    out->items[0] = cay_str(wanted->binary);
    for (size_t i = 0; i < wanted->arg_count; i++)
        out->items[i + 1] = cay_str(wanted->args[i]);
    return true;
}

bool cay_node_launch(struct cay_control *control, const struct cay_process_request *wanted,
                     const struct cay_call_options *options, struct cay_process_status **out_status,
                     struct cay_error *err)
{
    struct cay_v1_port_request port = {.port = (uint32_t)wanted->expose_port};
    struct cay_v1_pty_size size = {.rows = (uint32_t)wanted->rows,
                                   .cols = (uint32_t)wanted->columns};
    struct cay_v1_process_spec spec = {
        .cwd = cay_str(wanted->cwd),
        .user = cay_str(wanted->user),
        .stdin_open = wanted->has_input,
        .pty = wanted->rows || wanted->columns ? &size : NULL,
        .expose_port = wanted->expose_port ? &port : NULL,
    };
    struct cay_v1_launch_process_request request = {.session_id = cay_str(wanted->sandbox_id),
                                                    .spec = &spec};
    struct cay_v1_process *process = NULL;
    struct cay_error ignored;
    cay_auto(cay_node_end) struct cay_node_use use;
    cay_node_begin(&use, control, options);
    if (!put_argv(&use, wanted, &spec.argv, err) ||
        !cay_node_pairs(&use, wanted->environment, wanted->environment_count, &spec.env, err) ||
        !start(&use, &request, &process, err))
        return false;
    if (make_status(use.node, process, true, out_status, err))
        return true;
    /* The caller will not know of it, or cannot use it. */
    (void)send_signal(&use, request.session_id, process->id, SIGKILL, &ignored);
    return false;
}

bool cay_node_kill(struct cay_control *control, const char *sandbox_id, const char *process_id,
                   int number, const struct cay_call_options *options, struct cay_error *err)
{
    cay_auto(cay_node_end) struct cay_node_use use;
    cay_node_begin(&use, control, options);
    return send_signal(&use, cay_str(sandbox_id), cay_str(process_id), number, err);
}

bool cay_node_status(struct cay_control *control, const char *sandbox_id, const char *process_id,
                     const struct cay_call_options *options, struct cay_process_status **out_status,
                     struct cay_error *err)
{
    struct cay_v1_process *process = NULL;
    cay_auto(cay_node_end) struct cay_node_use use;
    cay_node_begin(&use, control, options);
    return find(&use, cay_str(sandbox_id), cay_str(process_id), &process, err) &&
           make_status(use.node, process, false, out_status, err);
}
