/* SPDX-License-Identifier: Apache-2.0 */
#include "host/life/start.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/noun.h"
#include "base/log.h"
#include "host/base/base_record.h"
#include "host/session/chore.h"
#include "host/session/host.h"
#include "io/loop.h"

enum {
    READY_WITHIN_MS = 60 * 1000,
    TRY_MS_MAX = 10 * 1000, /* one run of the ready command */
    PAUSE_MS_FIRST = 20,    /* between two */
    PAUSE_MS_MAX = 500,
    TAIL_BYTES = 150, /* of output that an error shows */
};

struct cay_start_waiting {
    struct cay_session *session;
    struct cay_call *call;
    struct cay_pb_strs ready_command;
    cay_ready_fn *ready;
    struct cay_timer timer;
    uint64_t until_ms;
    uint64_t pause_ms;
    bool is_over;
    char tail[TAIL_BYTES + 1];
    size_t tail_len;
    struct cay_error err;
};

/* By the timer: this may be inside of what the sandbox says, which may have to go. */
static void finish(struct cay_start_waiting *self)
{
    self->is_over = true;
    cay_timer_start(&self->timer, 0, 0);
}

static void answer(struct cay_start_waiting *self)
{
    struct cay_session *session = self->session;
    session->start_waiting = NULL;
    cay_timer_close(&self->timer);
    self->ready(self->call, session, self->err.reason ? &self->err : NULL);
    cay_session_unref(session);
    free(self);
}

/* The end of what was printed, as one line. */
static void keep_tail(struct cay_start_waiting *self, struct cay_str data)
{
    for (size_t i = 0; i < data.len; i++) {
        if (self->tail_len == TAIL_BYTES)
            memmove(self->tail, self->tail + 1, --self->tail_len);
        bool is_plain = (unsigned char)data.ptr[i] >= ' ' && data.ptr[i] != 0x7f;
        self->tail[self->tail_len++] = is_plain ? data.ptr[i] : ' ';
    }
    while (self->tail_len && self->tail[self->tail_len - 1] == ' ')
        self->tail_len--;
    self->tail[self->tail_len] = '\0';
    /* Not in the middle of a character. */
    size_t skip = 0;
    while (skip < self->tail_len && ((unsigned char)self->tail[skip] & 0xc0) == 0x80)
        skip++;
    memmove(self->tail, self->tail + skip, self->tail_len + 1 - skip);
    self->tail_len -= skip;
}

static const struct cay_process *start_process(const struct cay_session *session)
{
    cay_list_for_each_back(struct cay_process, process, &session->processes.list, in_table)
    {
        if (process->noun && cay_str_is(process->noun->tag, CAY_START_TAG))
            return process;
    }
    return NULL;
}

/* With the rights of the session's owner. */
static struct cay_chore *chore_of(const struct cay_session *session, unsigned method)
{
    struct cay_caller owner = {.role = CAY_ROLE_USER, .is_host = true};
    snprintf(owner.owner, sizeof(owner.owner), "%s", session->owner);
    return cay_chore_new(session->host, method, &owner);
}

static bool take_output(void *context, const void *message)
{
    struct cay_start_waiting *self = context;
    const struct cay_v1_attach_process_response *frame = message;
    if (frame->which_frame == CAY_V1_ATTACH_PROCESS_RESPONSE_FRAME_OUTPUT)
        keep_tail(self, frame->frame.output->data);
    return true;
}

static void took_output(void *context, const void *, const struct cay_error *)
{
    struct cay_start_waiting *self = context;
    const struct cay_process *process = start_process(self->session);
    const struct cay_v1_exec_result *result = process ? process->result : NULL;
    cay_fail(&self->err, CAY_R_NOT_READY, "the start command ended with status %d%s%s",
             result ? result->exit_code : -1, self->tail_len ? ": " : "", self->tail);
    finish(self);
}

/* It is over: what did it say? */
static void tell_end(struct cay_start_waiting *self, const struct cay_process *process)
{
    struct cay_chore *chore = chore_of(self->session, CAY_V1_PROCESS_SERVICE_ATTACH_PROCESS);
    struct cay_v1_attach_process_request *ask = cay_errand_message(&chore->errand);
    ask->session_id = cay_str(self->session->id);
    ask->which_target = CAY_V1_ATTACH_PROCESS_REQUEST_TARGET_PROCESS_ID;
    ask->target.process_id = cay_arena_str(&chore->errand.call.arena, cay_str(process->id));
    ask->tail_bytes = TAIL_BYTES;
    ask->no_follow = true;
    chore->on_message = take_output;
    self->tail_len = 0;
    cay_chore_start(chore, took_output, self);
}

static void tried(void *context, const void *response, const struct cay_error *err)
{
    struct cay_start_waiting *self = context;
    const struct cay_v1_launch_process_response *answer = response;
    const struct cay_v1_process *process = answer ? answer->process : NULL;
    const struct cay_v1_exec_result *result = process ? process->result : NULL;
    uint64_t now_ms = cay_loop_now_ms(self->session->host->loop);
    if (result && result->has_exit_code && result->exit_code == 0) {
        finish(self);
        return;
    }
    self->tail_len = 0;
    if (err)
        keep_tail(self, cay_str(err->text));
    for (size_t i = 0; answer && i < answer->output.count; i++)
        keep_tail(self, answer->output.items[i].data);
    if (now_ms >= self->until_ms || self->call->is_cancelled || self->session->is_gone) {
        cay_fail(&self->err, CAY_R_NOT_READY, "the ready command did not succeed within %d s%s%s",
                 READY_WITHIN_MS / 1000, self->tail_len ? ": " : "", self->tail);
        finish(self);
        return;
    }
    cay_timer_start(&self->timer, self->pause_ms, 0);
    self->pause_ms = CAY_MIN(self->pause_ms * 2, (uint64_t)PAUSE_MS_MAX);
}

static void try_ready(struct cay_start_waiting *self)
{
    static struct google_protobuf_duration longest = {.seconds = TRY_MS_MAX / 1000};
    const struct cay_process *process = start_process(self->session);
    if (process && cay_process_is_over(process) && process->result &&
        !(process->result->has_exit_code && process->result->exit_code == 0)) {
        tell_end(self, process);
        return;
    }
    struct cay_chore *chore = chore_of(self->session, CAY_V1_PROCESS_SERVICE_LAUNCH_PROCESS);
    struct cay_v1_launch_process_request *ask = cay_errand_message(&chore->errand);
    struct cay_v1_process_spec *spec =
        cay_arena_new(&chore->errand.call.arena, struct cay_v1_process_spec);
    struct cay_v1_exec_policy *policy =
        cay_arena_new(&chore->errand.call.arena, struct cay_v1_exec_policy);
    if (spec && policy) {
        policy->timeout = &longest;
        spec->argv = self->ready_command;
        spec->tag = CAY_STR(CAY_READY_TAG);
        spec->policy = policy;
    }
    ask->session_id = cay_str(self->session->id);
    ask->spec = spec;
    ask->wait = &longest;
    ask->max_output_bytes = 4096;
    cay_chore_start(chore, tried, self);
}

static void on_timer(struct cay_timer *timer)
{
    struct cay_start_waiting *self = CAY_CONTAINER_OF(timer, struct cay_start_waiting, timer);
    if (self->is_over)
        answer(self);
    else
        try_ready(self);
}

/* The start command runs, or does not. */
static void settled(struct cay_start_waiting *self)
{
    if (self->session->start_problem[0]) {
        cay_fail(&self->err, CAY_R_NOT_READY, "the start command cannot be started: %s",
                 self->session->start_problem);
        finish(self);
    } else if (!self->ready_command.count) {
        finish(self);
    } else {
        try_ready(self);
    }
}

static void started(void *context, const void *, const struct cay_error *err)
{
    struct cay_session *session = context;
    session->is_starting = false;
    if (err) {
        snprintf(session->start_problem, sizeof(session->start_problem), "%.150s", err->text);
        cay_log(CAY_WARN, "session.start_failed", CAY_S("session", session->id), CAY_ERR(err));
    }
    if (session->start_waiting)
        settled(session->start_waiting);
    cay_session_unref(session);
}

void cay_start_soon(struct cay_session *session)
{
    if (!session->spec->start_command.count || session->is_starting)
        return;
    struct cay_chore *chore = chore_of(session, CAY_V1_PROCESS_SERVICE_LAUNCH_PROCESS);
    struct cay_v1_launch_process_request *ask = cay_errand_message(&chore->errand);
    struct cay_v1_process_spec *spec =
        cay_arena_new(&chore->errand.call.arena, struct cay_v1_process_spec);
    struct cay_str *argv = cay_arena_array(
        &chore->errand.call.arena, session->spec->start_command.count, sizeof(struct cay_str));
    session->is_starting = true;
    session->start_problem[0] = '\0';
    cay_session_ref(session);
    if (spec && argv) {
        /* The session's spec may change meanwhile. */
        for (size_t i = 0; i < session->spec->start_command.count; i++)
            argv[i] =
                cay_arena_str(&chore->errand.call.arena, session->spec->start_command.items[i]);
        spec->argv = (struct cay_pb_strs){argv, session->spec->start_command.count};
        spec->tag = CAY_STR(CAY_START_TAG);
    }
    ask->session_id = cay_arena_str(&chore->errand.call.arena, cay_str(session->id));
    ask->spec = spec;
    cay_chore_start(chore, started, session);
}

void cay_start_wait(struct cay_session *session, struct cay_call *call, cay_ready_fn *ready)
{
    const struct cay_v1_base *base = cay_bases_find(session->host, session->spec->base);
    if (!session->live || !session->spec->start_command.count || !base || !base->settings) {
        ready(call, session, NULL);
        return;
    }
    /* The base may go meanwhile. */
    const struct cay_v1_base_settings *settings =
        cay_noun_copy(&cay_v1_base_settings_desc, base->settings, &call->arena);
    struct cay_start_waiting *self = cay_new(struct cay_start_waiting);
    self->session = session;
    self->call = call;
    self->ready_command = settings ? settings->ready_command : (struct cay_pb_strs){};
    self->ready = ready;
    self->until_ms = cay_loop_now_ms(session->host->loop) + READY_WITHIN_MS;
    self->pause_ms = PAUSE_MS_FIRST;
    cay_timer_open(&self->timer, session->host->loop, on_timer);
    cay_session_ref(session);
    session->start_waiting = self;
    if (!session->is_starting)
        settled(self);
}
