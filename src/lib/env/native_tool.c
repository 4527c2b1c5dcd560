/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>

#include "api/limits.h"
#include "api/noun.h"
#include "base/clock.h"
#include "lib/env/native.h"
#include "lib/env/order.h"
#include "tool/tool.h"

/*
 * A tool call happens once, however often it is sent: it has an id, the caller's or one made up
 * here, and a call that broke off is sent again with it. It joins the first one while that runs,
 * and gets its result afterwards. Daemons remember that in memory, and small results only: what
 * they may have forgotten is sent again only if the tool changes nothing.
 *
 * When the caller gives up (deadline, cancel), a command goes on in the sandbox. That is as it
 * should be when the caller gave the id and can ask again by it. Otherwise nobody ever will, and
 * the command is ended.
 */

enum { REMEMBERED_BYTES_MAX = 512 * 1024 }; /* of text; daemons keep results of up to 1 MiB */

struct tool_run {
    struct cay_env *env;
    struct cay_origin *origin;
    struct cay_env_order order;
    int64_t begun_ms;
    bool is_lost; /* nobody knows any more what came of it */
};

static void run_finish(struct tool_run *run)
{
    cay_env_order_finish(&run->order);
}

static bool on_frame(void *state, const void *message, struct cay_error *err)
{
    struct tool_run *run = state;
    const struct cay_v1_execute_tool_stream_response *response = message;
    if (run->order.response)
        return cay_fail(err, CAY_R_INTERNAL, "the daemon told the result of a tool twice");
    if (response->which_frame == CAY_V1_EXECUTE_TOOL_STREAM_RESPONSE_FRAME_RESULT)
        return cay_env_order_take(&run->order, response->frame.result, err);
    if (response->which_frame == CAY_V1_EXECUTE_TOOL_STREAM_RESPONSE_FRAME_OUTPUT)
        cay_env_order_show(&run->order, response->frame.output);
    return true;
}

static bool attempt_stream(struct tool_run *run, const struct cay_call_options *options,
                           struct cay_error *err)
{
    const struct cay_v1_execute_tool_stream_request request = {
        .session_id = cay_native_session(run->env), .call = &run->order.call};
    if (!cay_client_call_stream_with(run->origin->client, options,
                                     &cay_v1_sandbox_service_execute_tool_stream_method, &request,
                                     on_frame, run, err)) {
        cay_tool_response_free(cay_take_ptr(run->order.response));
        return false;
    }
    return run->order.response || cay_env_order_take(&run->order, NULL, err);
}

static bool attempt_unary(struct tool_run *run, const struct cay_call_options *options,
                          struct cay_error *err)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, CAY_LIMIT_CALL_ARENA_BYTES);
    const struct cay_v1_execute_tool_request request = {.session_id = cay_native_session(run->env),
                                                        .call = &run->order.call};
    struct cay_v1_execute_tool_response response = {};
    return cay_client_call_with(run->origin->client, options,
                                &cay_v1_sandbox_service_execute_tool_method, &request, &arena,
                                &response, err) &&
           cay_env_order_take(&run->order, response.result, err);
}

static bool is_read_only(const struct tool_run *run)
{
    const struct cay_tool *tool = cay_tool_find(run->order.call.tool_name);
    return tool && tool->read_only;
}

/* Whether the daemon has been there since the first attempt. */
static bool is_same_daemon(struct tool_run *run, const struct cay_call_options *options,
                           struct cay_error *err)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, CAY_LIMIT_CALL_ARENA_BYTES);
    const struct cay_v1_health_check_request request = {};
    struct cay_v1_health_check_response response = {};
    int64_t since_ms = cay_clock_ms() - run->begun_ms;
    if (!cay_client_call_with(run->origin->client, options,
                              &cay_v1_sandbox_service_health_check_method, &request, &arena,
                              &response, err))
        return false;
    run->is_lost = cay_noun_duration_ms(response.uptime) <= since_ms;
    return !run->is_lost ||
           cay_fail(err, CAY_R_UNAVAILABLE,
                    "the daemon was restarted while '%.40s' ran, which may have been done; look "
                    "before you call it again",
                    run->order.request->tool_name);
}

static bool attempt(struct tool_run *run, const struct cay_native_repeat *repeat,
                    struct cay_error *err)
{
    if (repeat->attempts && !is_read_only(run) && !is_same_daemon(run, &repeat->options, err))
        return false;
    return run->order.request->progress ? attempt_stream(run, &repeat->options, err)
                                        : attempt_unary(run, &repeat->options, err);
}

static bool repeat_attempts(struct tool_run *run, const struct cay_call_options *options,
                            struct cay_error *err)
{
    const bool is_remembered = run->order.request->result_bytes_max <= REMEMBERED_BYTES_MAX;
    struct cay_native_repeat repeat;
    cay_native_repeat_begin(&repeat, run->origin, options);
    run->begun_ms = cay_clock_ms();
    while (!attempt(run, &repeat, err)) {
        if (!(is_remembered || is_read_only(run)) || run->is_lost ||
            !cay_native_repeat_again(&repeat, err))
            return false;
    }
    return true;
}

/* The id of the process that the call runs in; NULL when there is none. */
static const char *find_process(struct tool_run *run, const struct cay_call_options *options,
                                struct cay_arena *arena)
{
    const struct cay_v1_list_processes_request request = {
        .session_id = cay_native_session(run->env), .page_size = CAY_LIMIT_PAGE_SIZE};
    struct cay_v1_list_processes_response response = {};
    struct cay_error ignored = {};
    if (!cay_native_call(run->origin, options, &cay_v1_process_service_list_processes_method, false,
                         &request, arena, &response, &ignored))
        return NULL;
    for (size_t i = response.processes.count; i > 0; i--) { /* the newest last */
        const struct cay_v1_process *process = &response.processes.items[i - 1];
        if (cay_str_equal(process->tool_call_id, run->order.call.tool_call_id))
            return cay_arena_copy(arena, process->id);
    }
    return NULL;
}

static void end_command(struct tool_run *run)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, CAY_LIMIT_CALL_ARENA_BYTES);
    const int64_t until_ms = cay_native_tidy_until();
    struct cay_call_options tidy = cay_native_tidy_options(until_ms);
    const char *process_id = find_process(run, &tidy, &arena);
    if (!process_id)
        return;
    tidy = cay_native_tidy_options(until_ms);
    const struct cay_v1_kill_process_request request = {.session_id = cay_native_session(run->env),
                                                        .process_id = cay_str(process_id),
                                                        .signal = SIGKILL};
    struct cay_v1_kill_process_response response;
    struct cay_error ignored = {};
    (void)cay_native_call(run->origin, &tidy, &cay_v1_process_service_kill_process_method, false,
                          &request, &arena, &response, &ignored);
}

bool cay_native_execute_tool(struct cay_env *env, const struct cay_tool_request *request,
                             const struct cay_call_options *options,
                             struct cay_tool_response **out_response, struct cay_error *err)
{
    cay_auto(run_finish) struct tool_run run = {.env = env, .origin = cay_native_of(env)->origin};
    if (!cay_env_order_build(&run.order, request, err))
        return false;
    if (repeat_attempts(&run, options, err)) {
        *out_response = cay_take_ptr(run.order.response);
        return true;
    }
    bool has_given_up = err->reason == CAY_R_DEADLINE_EXCEEDED || err->reason == CAY_R_CANCELED;
    if (has_given_up && run.order.made_up_id[0] && !cay_is_file_op(request->tool_name))
        end_command(&run);
    return false;
}
