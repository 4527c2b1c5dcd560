/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "api/limits.h"
#include "api/noun.h"
#include "host/exec/attachment.h"
#include "host/exec/verbs.h"
#include "host/exec/verbs_process.h"
#include "host/process/orphan.h"
#include "host/session/host.h"

/* Terminal: both directions of a process with a terminal in one call. */

enum { TAIL_BYTES = 1024 * 1024 };

struct terminal {
    struct cay_attachment to;
    struct cay_v1_process_spec spec; /* of what is launched */
    struct cay_process_watcher watcher;
    const struct cay_v1_terminal_open *open; /* valid until the next message is asked for */
    struct cay_str input;                    /* waits for room; of the message at hand */
    struct cay_frame_size size;              /* as this client knows it */
    bool has_opened;
    bool is_read_only;
    bool is_closed; /* the client's half */
    bool *is_freed; /* of whoever is at work and wants to know; NULL: nobody */
};

static void end_terminal(struct terminal *self, const struct cay_error *err)
{
    struct cay_call *call = self->to.call;
    cay_process_unwatch(&self->watcher);
    cay_attachment_close(&self->to);
    if (self->is_freed)
        *self->is_freed = true;
    free(self);
    if (err)
        cay_call_fail(call, err);
    else
        cay_call_done(call, NULL);
}

/* The client has left, by closing its half or altogether. */
static void detach(struct terminal *self)
{
    struct cay_error err = {};
    cay_process_unwatch(&self->watcher);
    cay_attachment_leave(&self->to);
    cay_fail(&err, CAY_R_CANCELED, NULL);
    end_terminal(self, self->to.is_gone ? &err : NULL);
}

/* False when the caller went away inside: then `self` is gone, too. */
static bool send(struct terminal *self, const struct cay_v1_terminal_response *response)
{
    if (cay_attachment_send(&self->to, response))
        return true;
    detach(self);
    return false;
}

static void on_output(struct cay_reader *reader, const struct cay_frame_output *output,
                      uint64_t gap)
{
    struct terminal *self = CAY_CONTAINER_OF(reader, struct terminal, to.reader);
    struct cay_v1_output_chunk chunk = {
        .stream = CAY_V1_OUTPUT_STREAM_PTY,
        .offset = (int64_t)output->offset,
        .data = output->data,
        .dropped_bytes = (int64_t)gap,
    };
    const struct cay_v1_terminal_response response = {
        .which_frame = CAY_V1_TERMINAL_RESPONSE_FRAME_OUTPUT, .frame.output = &chunk};
    (void)send(self, &response);
}

static void on_ended(struct cay_reader *reader)
{
    struct terminal *self = CAY_CONTAINER_OF(reader, struct terminal, to.reader);
    struct cay_error err = {};
    if (!reader->process) {
        cay_process_unwatch(&self->watcher);
        cay_fail(&err, CAY_R_UNAVAILABLE, "the process went away with its session or daemon");
        end_terminal(self, &err);
        return;
    }
    const struct cay_v1_terminal_response response = {
        .which_frame = CAY_V1_TERMINAL_RESPONSE_FRAME_EXITED,
        .frame.exited = cay_process_message(reader->process, &self->to.call->arena)};
    if (response.frame.exited)
        (void)cay_attachment_send(&self->to, &response);
    end_terminal(self, NULL);
}

/* Passes waiting input on as far as it goes; asks for the next message when all of it went. */
static void pass_input(struct terminal *self)
{
    struct cay_error ignored = {};
    struct cay_process *process = self->to.reader.process;
    while (self->input.len) {
        size_t len = CAY_MIN(cay_process_input_room(process), self->input.len);
        if (!len)
            return;
        if (!cay_process_input(process, (struct cay_str){self->input.ptr, len}, false, &ignored)) {
            self->input = (struct cay_str){}; /* it has ended: its end comes */
            break;
        }
        self->input.ptr += len;
        self->input.len -= len;
    }
    if (!self->is_closed)
        cay_call_next(self->to.call);
}

static void on_changed(struct cay_process_watcher *watcher)
{
    struct terminal *self = CAY_CONTAINER_OF(watcher, struct terminal, watcher);
    const struct cay_process *process = watcher->process;
    if (!process)
        return; /* the reader ends the call */
    bool is_resized =
        self->size.rows != process->size.rows || self->size.columns != process->size.columns;
    self->size = process->size;
    if (is_resized) {
        struct cay_v1_pty_size size = {.rows = process->size.rows, .cols = process->size.columns};
        const struct cay_v1_terminal_response response = {
            .which_frame = CAY_V1_TERMINAL_RESPONSE_FRAME_RESIZED, .frame.resized = &size};
        if (!send(self, &response))
            return;
    }
    if (self->input.len)
        pass_input(self);
}

static bool on_beat(struct cay_attachment *to)
{
    struct terminal *self = CAY_CONTAINER_OF(to, struct terminal, to);
    struct cay_v1_heartbeat heartbeat = {};
    const struct cay_v1_terminal_response response = {
        .which_frame = CAY_V1_TERMINAL_RESPONSE_FRAME_HEARTBEAT, .frame.heartbeat = &heartbeat};
    return send(self, &response);
}

static void follow(struct terminal *self, struct cay_process *process)
{
    struct cay_error err = {};
    uint64_t start = process->has_output ? process->output_start : process->output_end;
    uint64_t tail = process->output_end - CAY_MIN((uint64_t)TAIL_BYTES, process->output_end);
    uint64_t offset = CAY_MAX(start, tail);
    if (self->open->has_offset)
        offset = CAY_MIN((uint64_t)CAY_MAX(self->open->offset, INT64_C(0)), process->output_end);
    self->to.reader.process = process;
    self->to.is_owner = self->to.launch.spec || process->is_orphan;
    if (self->to.is_gone || self->is_closed) {
        detach(self);
        return;
    }
    if (!(process->flags & CAY_EXEC_PTY))
        cay_fail(&err, CAY_R_FAILED_PRECONDITION, "process '%s' has no terminal", process->id);
    else if (cay_process_is_readable(process, true, &err) && self->open->size &&
             !cay_process_is_over(process))
        (void)cay_process_resize(process, self->open->size, &err);
    struct cay_v1_terminal_response response = {
        .which_frame = CAY_V1_TERMINAL_RESPONSE_FRAME_OPENED,
        .frame.opened = cay_process_message(process, &self->to.call->arena)};
    if (!err.reason && !response.frame.opened)
        cay_fail(&err, CAY_R_RESOURCE_EXHAUSTED,
                 "the answer takes more memory than a call may use");
    if (err.reason) {
        end_terminal(self, &err);
        return;
    }
    cay_process_claim(process);
    self->size = process->size;
    self->is_read_only = self->open->read_only;
    self->has_opened = true;
    if (!send(self, &response))
        return;
    self->to.reader.output = on_output;
    self->to.reader.ended = on_ended;
    cay_process_watch(process, &self->watcher, on_changed);
    bool is_freed = false;
    self->is_freed = &is_freed;
    cay_attachment_follow(&self->to, process, offset, UINT64_MAX, on_beat);
    if (is_freed)
        return;
    self->is_freed = NULL;
    cay_call_next(self->to.call);
}

static void launched(struct cay_launch *launch, struct cay_process *process,
                     const struct cay_error *err)
{
    struct terminal *self = CAY_CONTAINER_OF(launch, struct terminal, to.launch);
    if (err)
        end_terminal(self, err);
    else
        follow(self, process);
}

static void surveyed(struct cay_survey *survey)
{
    struct terminal *self = CAY_CONTAINER_OF(survey, struct terminal, to.survey);
    struct cay_process *process = cay_processes_find(self->to.table, self->open->target.process_id);
    struct cay_error err = {};
    if (process) {
        follow(self, process);
        return;
    }
    cay_fail(&err, CAY_R_PROCESS_NOT_FOUND, NULL);
    end_terminal(self, &err);
}

/* Without a program: the user's login shell, or what there is. */
static void choose_program(struct terminal *self)
{
    static struct cay_str shell[] = {
        CAY_STR("/bin/sh"), CAY_STR("-c"),
        CAY_STR("if [ -x \"$SHELL\" ]; then exec \"$SHELL\" -l; fi; exec /bin/sh -l")};
    if (!self->spec.argv.count)
        self->spec.argv = (struct cay_pb_strs){shell, CAY_COUNT(shell)};
}

static void open_terminal(struct terminal *self, const struct cay_v1_terminal_open *open)
{
    struct cay_call *call = self->to.call;
    struct cay_session *session = NULL;
    struct cay_process *process = NULL;
    struct cay_error err = {};
    self->open = open;
    if (open->which_target == CAY_V1_TERMINAL_OPEN_TARGET_PROCESS_ID) {
        if (!cay_process_lookup(self->to.host, call, open->session_id, open->target.process_id,
                                &session, &process, &err)) {
            end_terminal(self, &err);
            return;
        }
        self->to.table = &session->processes;
        cay_processes_survey(self->to.table, &self->to.survey, surveyed);
        return;
    }
    if (open->which_target == CAY_V1_TERMINAL_OPEN_TARGET_LAUNCH)
        self->spec = *open->target.launch;
    if (!self->spec.pty)
        self->spec.pty = open->size;
    choose_program(self);
    if (!cay_launch_check(&self->spec, &err)) {
        end_terminal(self, &err);
        return;
    }
    self->to.launch.call = call;
    self->to.launch.spec = &self->spec;
    self->to.launch.origin = CAY_V1_PROCESS_ORIGIN_LAUNCHED;
    self->to.launch.is_terminal = true;
    self->to.launch.has_reader = true;
    self->to.launch.done = launched;
    cay_launch_start(&self->to.launch, self->to.host, open->session_id);
}

static void on_message(struct cay_call *call, const void *message)
{
    struct terminal *self = call->state;
    const struct cay_v1_terminal_request *request = message;
    struct cay_error err = {};
    if (!message) {
        self->is_closed = true;
        cay_fail(&err, CAY_R_INVALID_ARGUMENT, "open: it is missing in the first message");
        if (self->has_opened)
            detach(self);
        else if (!self->open)
            end_terminal(self, &err);
        return;
    }
    bool is_freed = false;
    struct cay_process *process = self->to.reader.process;
    bool is_open = request->which_frame == CAY_V1_TERMINAL_REQUEST_FRAME_OPEN;
    if (is_open != !self->has_opened) {
        cay_fail(&err, CAY_R_INVALID_ARGUMENT, "only the first message may have open");
        end_terminal(self, &err);
        return;
    }
    if (is_open) {
        open_terminal(self, request->frame.open);
        return;
    }
    self->is_freed = &is_freed;
    if (request->which_frame == CAY_V1_TERMINAL_REQUEST_FRAME_INPUT && !self->is_read_only)
        self->input = request->frame.input;
    else if (request->which_frame == CAY_V1_TERMINAL_REQUEST_FRAME_RESIZE && !self->is_read_only &&
             cay_process_size(request->frame.resize, &self->size, &err))
        (void)cay_process_resize(process, request->frame.resize, &err);
    else if (request->which_frame == CAY_V1_TERMINAL_REQUEST_FRAME_SIGNAL && !self->is_read_only &&
             !cay_process_is_over(process))
        (void)cay_process_signal(process, CAY_MAX(CAY_MIN(request->frame.signal->signal, 64), 1),
                                 request->frame.signal->scope != CAY_V1_KILL_SCOPE_PROCESS, -1,
                                 &err);
    if (is_freed)
        return;
    self->is_freed = NULL;
    if (self->input.len > CAY_LIMIT_TERMINAL_INPUT_BYTES) {
        cay_fail(&err, CAY_R_INVALID_ARGUMENT, "input: %d bytes at most",
                 CAY_LIMIT_TERMINAL_INPUT_BYTES);
        end_terminal(self, &err);
        return;
    }
    pass_input(self);
}

static void on_room(struct cay_call *call)
{
    struct terminal *self = call->state;
    if (self->has_opened)
        cay_reader_go_on(&self->to.reader);
}

static void on_cancel(struct cay_call *call)
{
    struct terminal *self = call->state;
    self->to.is_gone = true;
    /* Inside a send, or while it is being started: whoever is at work goes on with it. */
    if (!self->to.is_sending && (self->has_opened || !self->open))
        detach(self);
}

void cay_host_terminal(struct cay_service *service, struct cay_call *call)
{
    struct terminal *self = cay_new(struct terminal);
    self->to.host = cay_host_of(service);
    self->to.call = call;
    call->state = self;
    call->on_message = on_message;
    call->on_room = on_room;
    call->on_cancel = on_cancel;
    cay_call_next(call);
}
