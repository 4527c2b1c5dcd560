/* SPDX-License-Identifier: Apache-2.0 */
#include "host/exec/run.h"

#include <signal.h>
#include <stdlib.h>

#include "api/noun.h"
#include "host/life/pause.h"
#include "host/process/linger.h"
#include "host/process/result.h"
#include "host/session/host.h"

static void finish(struct cay_run *run, struct cay_process *process,
                   struct cay_v1_exec_result *result, const struct cay_error *err)
{
    struct cay_call *call = run->launch.call;
    if (run->launch.is_counted)
        cay_pause_tool_ended(run->launch.session);
    /* The call may outlive the run: a snapshot may come before its answer. */
    call->on_room = NULL;
    call->on_cancel = NULL;
    call->state = NULL;
    cay_reader_close(&run->reader);
    cay_timer_close(&run->wait);
    run->style->answer(run, process, result, err);
    cay_capture_finish(&run->out);
    cay_capture_finish(&run->err_out);
    free(run);
}

static void on_output(struct cay_reader *reader, const struct cay_frame_output *output,
                      uint64_t gap)
{
    struct cay_run *run = CAY_CONTAINER_OF(reader, struct cay_run, reader);
    /* Also of a call that was left: one that happens once is asked for again. */
    cay_capture_add(output->stream == CAY_STREAM_STDERR ? &run->err_out : &run->out, output->data);
    if (run->style->output && !run->launch.call->is_cancelled)
        reader->is_full = !run->style->output(run, output, gap);
    if (run->launch.call->is_cancelled)
        reader->is_full = false; /* nobody listens: let it flow */
}

/* How a command ended that ran for the call alone. What counts is what was missed here. */
static bool take_result(struct cay_run *run, const struct cay_process *process,
                        struct cay_v1_exec_result **out_result, struct cay_error *err)
{
    const struct cay_v1_exec_result *known = process->result;
    /* The lack of memory of a sandbox that ends as a whole is the command's own end. */
    bool is_lost = !process->exit.cause && !(known && known->cause == CAY_V1_END_CAUSE_OOM);
    if (is_lost && known && known->message.len)
        return cay_fail(err, process->end_reason ? process->end_reason : CAY_R_UNAVAILABLE, "%.*s",
                        (int)known->message.len, known->message.ptr);
    if (is_lost)
        return cay_fail(err, CAY_R_UNAVAILABLE, NULL);
    if (process->exit.cause && !cay_result_began(&process->exit, err))
        return false;
    struct cay_v1_exec_result *result =
        known ? cay_noun_copy(&cay_v1_exec_result_desc, known, &run->launch.call->arena) : NULL;
    if (!result)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                        "the answer takes more memory than a call may use");
    result->dropped_bytes = (int64_t)run->reader.dropped_bytes;
    *out_result = result;
    return true;
}

/* Called from within the process's walk over its readers: it is not freed before that ends. */
static void command_ended(struct cay_run *run, struct cay_process *process)
{
    struct cay_v1_exec_result *result = NULL;
    struct cay_error err = {};
    bool is_good = take_result(run, process, &result, &err);
    cay_process_unfollow(process);
    if (is_good && run->style->keeps) {
        cay_process_show(process);
        cay_process_changed(process);
    }
    if (process->is_hidden)
        cay_process_forget(process);
    finish(run, is_good ? process : NULL, result, is_good ? NULL : &err);
}

static void on_ended(struct cay_reader *reader)
{
    struct cay_run *run = CAY_CONTAINER_OF(reader, struct cay_run, reader);
    struct cay_process *process = reader->process;
    bool is_for_call = run->launch.is_for_call;
    struct cay_error err = {};
    if (process && is_for_call) {
        command_ended(run, process);
        return;
    }
    if (is_for_call)
        cay_fail(&err, CAY_R_UNAVAILABLE, NULL);
    else if (!process)
        cay_fail(&err, CAY_R_PROCESS_NOT_FOUND, "the process went away with its session");
    finish(run, process, process ? process->result : NULL, process ? NULL : &err);
}

static void on_wait_over(struct cay_timer *timer)
{
    struct cay_run *run = CAY_CONTAINER_OF(timer, struct cay_run, wait);
    struct cay_process *process = run->reader.process;
    if (run->launch.is_for_call && (process->is_exiting || cay_process_is_over(process)))
        return; /* its end is on its way */
    cay_reader_close(&run->reader);
    if (run->launch.is_for_call)
        cay_process_go_on(process);
    finish(run, process, NULL, NULL);
}

static void on_room(struct cay_call *call)
{
    struct cay_run *run = call->state;
    cay_reader_go_on(&run->reader);
}

static void on_cancel(struct cay_call *call)
{
    struct cay_run *run = call->state;
    struct cay_process *process = run->reader.process;
    struct cay_error err = {};
    if (!process)
        return; /* it is being started: `launched` comes */
    /* First: a process that waits for its restart ends inside the signal, and its readers with it.
     */
    if (!run->launch.is_for_call)
        cay_reader_close(&run->reader);
    if (process->kills_on_disconnect)
        (void)cay_process_signal(process, SIGKILL, true, -1, &err);
    if (run->launch.is_for_call) { /* followed to its end all the same */
        cay_reader_go_on(&run->reader);
        return;
    }
    cay_fail(&err, CAY_R_CANCELED, NULL);
    finish(run, NULL, NULL, &err);
}

static void launched(struct cay_launch *launch, struct cay_process *process,
                     const struct cay_error *err)
{
    struct cay_run *run = CAY_CONTAINER_OF(launch, struct cay_run, launch);
    bool is_left = !launch->is_for_call && launch->call->is_cancelled;
    if (err || run->wait_ms < 0 || is_left) {
        finish(run, process, NULL, err);
        return;
    }
    run->reader.process = process;
    run->reader.output = on_output;
    run->reader.ended = on_ended;
    run->reader.is_callers = launch->is_for_call;
    if (run->style->started)
        run->style->started(run, process);
    if (run->wait_ms) {
        cay_timer_open(&run->wait, launch->session->host->loop, on_wait_over);
        cay_timer_start(&run->wait, (uint64_t)run->wait_ms, 0);
    }
    cay_reader_open(&run->reader, process, 0, UINT64_MAX);
}

void cay_run_start(struct cay_run *run, struct cay_host *host, struct cay_str session_id)
{
    struct cay_call *call = run->launch.call;
    cay_capture_init(&run->out, run->result_bytes_max);
    cay_capture_init(&run->err_out, run->result_bytes_max);
    call->state = run;
    call->on_room = on_room;
    call->on_cancel = on_cancel;
    run->launch.done = launched;
    cay_launch_start(&run->launch, host, session_id);
}
