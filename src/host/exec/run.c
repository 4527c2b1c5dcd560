/* SPDX-License-Identifier: Apache-2.0 */
#include "host/exec/run.h"

#include <stdlib.h>

#include "api/limits.h"
#include "host/file/users.h"
#include "host/life/pause.h"
#include "host/process/events.h"
#include "host/process/record.h"
#include "host/process/result.h"
#include "host/session/host.h"

enum { ACK_STEP_BYTES = CAY_LIMIT_OUTPUT_WINDOW_BYTES / 4 };

static void finish(struct cay_run *run, struct cay_v1_exec_result *result,
                   const struct cay_error *err)
{
    if (run->session && run->has_begun && run->style->is_tool)
        cay_pause_tool_ended(run->session);
    /* The call may outlive the run: a snapshot may come before its answer. */
    run->call->on_room = NULL;
    run->call->on_cancel = NULL;
    run->call->state = NULL;
    run->style->answer(run, result, err);
    cay_timer_close(&run->wait);
    cay_capture_finish(&run->out);
    cay_capture_finish(&run->err_out);
    free(run);
}

static void ack(struct cay_run *run)
{
    if (run->seen_offset == run->acked_offset)
        return;
    run->acked_offset = run->seen_offset;
    cay_exec_ack(&run->exec, run->acked_offset);
}

static void on_output(struct cay_exec *exec, const struct cay_frame_output *output)
{
    struct cay_run *run = CAY_CONTAINER_OF(exec, struct cay_run, exec);
    run->gap_bytes = output->offset > run->seen_offset ? output->offset - run->seen_offset : 0;
    run->dropped_bytes += run->gap_bytes;
    run->seen_offset = output->offset + output->data.len;
    /* Nobody listens to a call that was left: let it flow. One that happens once is asked for
     * again, though, and then gives all it has printed. */
    const bool is_left = run->call->is_cancelled;
    const bool is_kept = is_left ? run->tool_call_id.len > 0 : !run->style->output;
    if (is_kept)
        cay_capture_add(output->stream == CAY_STREAM_STDERR ? &run->err_out : &run->out,
                        output->data);
    run->is_stalled = !is_left && run->style->output && !run->style->output(run, output);
    if (!run->is_stalled && run->seen_offset - run->acked_offset >= ACK_STEP_BYTES)
        ack(run);
}

static void on_ended(struct cay_exec *exec, const struct cay_exec_end *end)
{
    struct cay_run *run = CAY_CONTAINER_OF(exec, struct cay_run, exec);
    if (!end->exit) {
        finish(run, NULL, end->err);
        return;
    }
    struct cay_v1_exec_result *result = cay_arena_new(&run->call->arena, struct cay_v1_exec_result);
    struct cay_error err = {};
    if (!cay_result_began(end->exit, &err)) {
        finish(run, NULL, &err);
        return;
    }
    if (!result) {
        cay_fail(&err, CAY_R_RESOURCE_EXHAUSTED,
                 "the answer takes more memory than a call may use");
        finish(run, NULL, &err);
        return;
    }
    /* What came after the last piece we saw was lost with the ring. */
    if (end->exit->end_offset > run->seen_offset)
        run->dropped_bytes += end->exit->end_offset - run->seen_offset;
    const struct cay_leftovers leftovers = {end->who, end->leftover_id, end->killed};
    cay_result_fill(end->exit, &leftovers, run->started_ns, (int64_t)run->dropped_bytes,
                    &run->call->arena, result);
    run->exit = end->exit;
    run->who = end->who;
    if (run->exec.kill_cause)
        result->cause = run->exec.kill_cause;
    cay_result_say(result, &run->call->arena);
    finish(run, result, NULL);
}

static void on_room(struct cay_call *call)
{
    struct cay_run *run = call->state;
    if (!run->is_stalled)
        return;
    run->is_stalled = false;
    ack(run);
}

static void on_cancel(struct cay_call *call)
{
    struct cay_run *run = call->state;
    if (!run->has_begun)
        return;
    if (run->kills_on_disconnect)
        cay_exec_kill(&run->exec);
    run->is_stalled = false;
    ack(run);
}

struct cay_process *cay_run_process(struct cay_run *run)
{
    struct cay_processes *table = &run->session->processes;
    struct cay_process *process = cay_processes_of_call(table, run->exec.call, false);
    if (process)
        return process;
    const struct cay_v1_process_spec spec = {.argv = run->command.argv, .tag = run->tag};
    process = cay_process_new(table, run->origin);
    process->call = run->exec.call;
    process->started_ns = run->started_ns;
    process->state = CAY_V1_PROCESS_STATE_RUNNING;
    process->is_plain = true;
    process->kills_on_disconnect = run->kills_on_disconnect;
    cay_process_describe(process, &spec, cay_str(run->frame.cwd), cay_str(run->user.name),
                         run->tool_call_id);
    return process;
}

/* It takes a while: from now on it is listed, can be killed, and is found again by another daemon.
 */
static void on_lingers(struct cay_exec *exec)
{
    struct cay_process *process = cay_run_process(CAY_CONTAINER_OF(exec, struct cay_run, exec));
    process->has_output = process->is_followed = true;
    cay_process_write(process);
    cay_process_changed(process);
}

/* Waited for long enough: it goes on, and keeps its output from here on. */
static void on_wait_over(struct cay_timer *timer)
{
    struct cay_run *run = CAY_CONTAINER_OF(timer, struct cay_run, wait);
    if (run->exec.is_exited)
        return; /* its end is on its way */
    struct cay_process *process = cay_run_process(run);
    process->is_plain = process->is_followed = false;
    process->has_output = true;
    process->output_end = run->seen_offset;
    cay_process_write(process);
    cay_exec_leave(&run->exec);
    finish(run, NULL, NULL);
}

static bool run_begin(struct cay_op *op, struct cay_error *err)
{
    struct cay_run *run = CAY_CONTAINER_OF(op, struct cay_run, op);
    struct cay_session *session = op->session;
    if (!session->live)
        return cay_fail(err, CAY_R_UNAVAILABLE, "the sandbox of session '%s' is gone; try again",
                        session->id);
    if (run->call->is_cancelled && run->kills_on_disconnect)
        return cay_fail(err, CAY_R_CANCELED, NULL);
    run->exec.output = on_output;
    run->exec.ended = on_ended;
    run->exec.lingers = on_lingers;
    if (run->stdin_data.len > cay_link_stdin_window(session->processes.link))
        return cay_fail(err, CAY_R_NOT_SUPPORTED,
                        "the sandbox was started by an older cayd and takes less input");
    if (!cay_live_exec(session->live, &run->exec, &run->frame, err))
        return false;
    run->started_ns = cay_clock_wall_ns();
    run->has_begun = true;
    if (run->style->is_tool)
        session->tools_in_flight++;
    if (run->command.has_stdin)
        cay_exec_stdin(&run->exec, run->stdin_data, true);
    if (run->wait_ms) {
        cay_timer_open(&run->wait, session->host->loop, on_wait_over);
        cay_timer_start(&run->wait, (uint64_t)run->wait_ms, 0);
    }
    return true;
}

static void run_passed(struct cay_op *op)
{
    struct cay_run *run = CAY_CONTAINER_OF(op, struct cay_run, op);
    bool is_done = op->is_done;
    struct cay_error err = op->err;
    cay_op_leave(op);
    if (!is_done)
        finish(run, NULL, &err);
    else if (run->style->started)
        run->style->started(run);
}

static const struct cay_op_steps passage = {
    .begin = run_begin,
    .end = run_passed,
};

static void awake(struct cay_call *, struct cay_session *session, void *context,
                  const struct cay_error *err)
{
    struct cay_run *run = context;
    struct cay_error refused = {};
    if (!err && !cay_command_build(&run->command, session, &run->user, &run->call->arena,
                                   &run->frame, &refused))
        err = &refused;
    if (err)
        finish(run, NULL, err);
    else
        cay_op_start_on(&run->op, session, run->call, CAY_VERB_EXEC, false, &passage);
}

void cay_run_start(struct cay_run *run, struct cay_host *host, struct cay_str session_id)
{
    struct cay_error err = {};
    cay_capture_init(&run->out, run->result_bytes_max);
    cay_capture_init(&run->err_out, run->result_bytes_max);
    run->call->state = run;
    run->call->on_room = on_room;
    run->call->on_cancel = on_cancel;
    if (!cay_session_check(host, run->call, session_id, CAY_VERB_EXEC, &run->session, &err) ||
        !cay_command_check(&run->command, &err)) {
        run->session = NULL;
        finish(run, NULL, &err);
        return;
    }
    cay_wake_as(run->session, run->call, run->command.user, true, &run->user, awake, run);
}
