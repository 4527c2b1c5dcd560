/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "api/limits.h"
#include "api/noun.h"
#include "host/exec/attachment.h"
#include "host/exec/verbs.h"
#include "host/exec/verbs_process.h"
#include "host/process/orphan.h"
#include "host/session/host.h"

/* AttachProcess: the output of a process from any offset, as a stream; also of one it starts. */

static void end_attach(struct cay_attachment *self, const struct cay_error *err)
{
    struct cay_call *call = self->call;
    cay_attachment_close(self);
    free(self);
    if (err)
        cay_call_fail(call, err);
    else
        cay_call_done(call, NULL);
}

static void end_cancelled(struct cay_attachment *self)
{
    struct cay_error err = {};
    cay_attachment_leave(self);
    cay_fail(&err, CAY_R_CANCELED, NULL);
    end_attach(self, &err);
}

static void on_output(struct cay_reader *reader, const struct cay_frame_output *output,
                      uint64_t gap)
{
    struct cay_attachment *self = CAY_CONTAINER_OF(reader, struct cay_attachment, reader);
    struct cay_v1_output_chunk chunk = {
        .stream = cay_process_stream(output->stream),
        .offset = (int64_t)output->offset,
        .data = output->data,
        .dropped_bytes = (int64_t)gap,
    };
    const struct cay_v1_attach_process_response response = {
        .which_frame = CAY_V1_ATTACH_PROCESS_RESPONSE_FRAME_OUTPUT, .frame.output = &chunk};
    if (!cay_attachment_send(self, &response))
        end_cancelled(self);
}

static void on_ended(struct cay_reader *reader)
{
    struct cay_attachment *self = CAY_CONTAINER_OF(reader, struct cay_attachment, reader);
    const struct cay_process *process = reader->process;
    struct cay_error err = {};
    if (!process) {
        cay_fail(&err, CAY_R_UNAVAILABLE, "the process went away with its session or daemon");
        end_attach(self, &err);
        return;
    }
    struct cay_v1_process *message = cay_process_message(process, &self->call->arena);
    if (cay_process_is_over(process) && message && message->result) {
        /* What counts here is what this reader missed. */
        struct cay_v1_exec_result result = *message->result;
        result.dropped_bytes = (int64_t)reader->dropped_bytes;
        message->result = &result;
        const struct cay_v1_attach_process_response response = {
            .which_frame = CAY_V1_ATTACH_PROCESS_RESPONSE_FRAME_EXITED, .frame.exited = message};
        (void)cay_attachment_send(self, &response);
    }
    end_attach(self, NULL);
}

static bool on_beat(struct cay_attachment *self)
{
    struct cay_v1_heartbeat heartbeat = {};
    const struct cay_v1_attach_process_response response = {
        .which_frame = CAY_V1_ATTACH_PROCESS_RESPONSE_FRAME_HEARTBEAT,
        .frame.heartbeat = &heartbeat};
    if (cay_attachment_send(self, &response))
        return true;
    end_cancelled(self);
    return false;
}

static void on_room(struct cay_call *call)
{
    struct cay_attachment *self = call->state;
    if (self->reader.process)
        cay_reader_go_on(&self->reader);
}

static void on_cancel(struct cay_call *call)
{
    struct cay_attachment *self = call->state;
    self->is_gone = true;
    /* Inside a send, or while it is being started: whoever is at work goes on with it. */
    if (!self->is_sending && self->reader.process)
        end_cancelled(self);
}

/* The first frame, then output from the offset on. */
static void follow(struct cay_attachment *self, struct cay_process *process, uint64_t offset,
                   uint64_t limit)
{
    struct cay_error err = {};
    size_t readers = 0;
    cay_list_for_each (struct cay_reader, reader, &process->readers, in_process)
        readers += !reader->is_callers;
    self->reader.process = process;
    if (self->is_gone) {
        end_cancelled(self);
        return;
    }
    struct cay_v1_attach_process_response response = {
        .which_frame = CAY_V1_ATTACH_PROCESS_RESPONSE_FRAME_ATTACHED,
        .frame.attached = cay_process_message(process, &self->call->arena)};
    if (readers >= CAY_LIMIT_PROCESS_READERS)
        cay_fail(&err, CAY_R_RESOURCE_EXHAUSTED,
                 "%d clients are attached to process '%s'; detach one of them first",
                 CAY_LIMIT_PROCESS_READERS, process->id);
    else if (!response.frame.attached)
        cay_fail(&err, CAY_R_RESOURCE_EXHAUSTED,
                 "the answer takes more memory than a call may use");
    if (err.reason) {
        end_attach(self, &err);
        return;
    }
    response.frame.attached->attached++;
    if (!cay_attachment_send(self, &response)) {
        end_cancelled(self);
        return;
    }
    self->reader.output = on_output;
    self->reader.ended = on_ended;
    cay_attachment_follow(self, process, offset, limit, on_beat);
}

static void launched(struct cay_launch *launch, struct cay_process *process,
                     const struct cay_error *err)
{
    struct cay_attachment *self = CAY_CONTAINER_OF(launch, struct cay_attachment, launch);
    if (err)
        end_attach(self, err);
    else
        follow(self, process, 0, UINT64_MAX);
}

static void surveyed(struct cay_survey *survey)
{
    struct cay_attachment *self = CAY_CONTAINER_OF(survey, struct cay_attachment, survey);
    const struct cay_v1_attach_process_request *request = self->call->request;
    struct cay_process *process = cay_processes_find(self->table, request->target.process_id);
    struct cay_error err = {};
    if (!process)
        cay_fail(&err, CAY_R_PROCESS_NOT_FOUND, NULL);
    if (!process || !cay_process_is_readable(process, !request->no_follow, &err)) {
        end_attach(self, &err);
        return;
    }
    uint64_t start = process->has_output ? process->output_start : process->output_end;
    uint64_t offset = 0; /* who wants all is told how much of it is no longer there */
    if (request->has_offset)
        offset = CAY_MIN((uint64_t)request->offset, process->output_end);
    else if (request->tail_bytes)
        offset = CAY_MAX(start, process->output_end -
                                    CAY_MIN((uint64_t)request->tail_bytes, process->output_end));
    self->is_owner = request->resume;
    if (request->resume || !process->kills_on_disconnect)
        cay_process_claim(process);
    follow(self, process, offset, request->no_follow ? process->output_end : UINT64_MAX);
}

static bool check(const struct cay_v1_attach_process_request *request, struct cay_error *err)
{
    if (request->which_target == CAY_V1_ATTACH_PROCESS_REQUEST_TARGET_LAUNCH)
        return cay_launch_check(request->target.launch, err);
    if (request->which_target != CAY_V1_ATTACH_PROCESS_REQUEST_TARGET_PROCESS_ID)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "the first message must have process_id or launch");
    if ((request->has_offset && request->offset < 0) || request->tail_bytes < 0)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "offset and tail_bytes must not be negative");
    if (request->has_offset && request->tail_bytes)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "tail_bytes and offset exclude each other");
    return true;
}

void cay_host_attach_process(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_attach_process_request *request = call->request;
    struct cay_host *host = cay_host_of(service);
    bool is_launch = request->which_target == CAY_V1_ATTACH_PROCESS_REQUEST_TARGET_LAUNCH;
    struct cay_session *session = NULL;
    struct cay_process *process = NULL;
    struct cay_error err = {};
    if (!check(request, &err) ||
        (!is_launch && !cay_process_lookup(host, call, request->session_id,
                                           request->target.process_id, &session, &process, &err))) {
        cay_call_fail(call, &err);
        return;
    }
    struct cay_attachment *self = cay_new(struct cay_attachment);
    self->host = host;
    self->call = call;
    call->state = self;
    call->on_cancel = on_cancel;
    call->on_room = on_room;
    if (!is_launch) {
        self->table = &session->processes;
        cay_processes_survey(self->table, &self->survey, surveyed);
        return;
    }
    const struct cay_v1_process_spec *spec = request->target.launch;
    self->launch.call = call;
    self->launch.spec = spec;
    self->is_owner = true;
    self->launch.origin = CAY_V1_PROCESS_ORIGIN_LAUNCHED;
    self->launch.is_plain = spec->policy && spec->policy->kill_on_disconnect && !spec->restart;
    self->launch.has_reader = true;
    self->launch.shows_failure = true;
    self->launch.done = launched;
    cay_launch_start(&self->launch, host, request->session_id);
}
