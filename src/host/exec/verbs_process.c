/* SPDX-License-Identifier: Apache-2.0 */
#include "host/exec/verbs_process.h"

#include <signal.h>
#include <stdlib.h>

#include "api/limits.h"
#include "api/noun.h"
#include "base/utf8.h"
#include "host/exec/verbs.h"
#include "host/process/events.h"
#include "host/session/endless.h"
#include "host/session/host.h"

/* Looking at processes, waiting for them, and what is done to them. */

enum {
    WAIT_MS_MAX = 60 * 60 * 1000,
    KILL_AFTER_MS_MAX = 10 * 60 * 1000,
};

bool cay_process_lookup(struct cay_host *host, const struct cay_call *call,
                        struct cay_str session_id, struct cay_str process_id,
                        struct cay_session **out_session, struct cay_process **out_process,
                        struct cay_error *err)
{
    if (!cay_session_check(host, call, session_id, CAY_VERB_LOOK, out_session, err) ||
        !cay_session_check_build(*out_session, &call->caller, err))
        return false;
    *out_process = cay_processes_find(&(*out_session)->processes, process_id);
    if (*out_process)
        return true;
    cay_fail(err, CAY_R_PROCESS_NOT_FOUND,
             "there is no process '%.*s' in session '%s'; 'cay ps' lists them",
             (int)CAY_MIN(process_id.len, (size_t)CAY_LIMIT_ID_BYTES),
             process_id.len ? process_id.ptr : "", (*out_session)->id);
    return cay_error_fact(err, "session_id", "%s", (*out_session)->id);
}

bool cay_process_wait_ms(const struct google_protobuf_duration *wait, int64_t *out_ms,
                         struct cay_error *err)
{
    *out_ms = wait ? cay_noun_duration_ms(wait) : WAIT_MS_MAX;
    return (*out_ms >= 0 && *out_ms <= WAIT_MS_MAX) ||
           cay_fail(err, CAY_R_INVALID_ARGUMENT, "a wait must be 0 to 1 h");
}

/* --- list and status --- */

struct look {
    struct cay_survey survey;
    struct cay_call *call;
    struct cay_processes *table;
};

static void answer_list(struct look *self)
{
    const struct cay_v1_list_processes_request *request = self->call->request;
    struct cay_arena *arena = &self->call->arena;
    size_t size = request->page_size ? (size_t)request->page_size : CAY_LIMIT_PAGE_SIZE_DEFAULT;
    struct cay_v1_list_processes_response response = {
        .processes.items = cay_arena_array(arena, size, sizeof(struct cay_v1_process))};
    int64_t bytes = 0;
    bool is_past = !request->page_token.len;
    cay_list_for_each (struct cay_process, process, &self->table->list, in_table) {
        bool is_wanted = is_past && (request->include_exited || !cay_process_is_over(process)) &&
                         (!request->tag.len || cay_str_equal(request->tag, process->noun->tag));
        is_past = is_past || cay_str_is(request->page_token, process->id);
        if (!is_wanted || !response.processes.items)
            continue;
        size_t count = response.processes.count;
        if (count == size || bytes > CAY_LIMIT_PAGE_BYTES) {
            response.next_page_token = response.processes.items[count - 1].id;
            break;
        }
        /* A copy: what it borrows may be gone before it is sent. */
        const struct cay_v1_process *message = cay_process_message(process, arena);
        message = message ? cay_noun_copy(&cay_v1_process_desc, message, arena) : NULL;
        if (!message)
            continue;
        bytes += cay_pb_encoded_size(&cay_v1_process_desc, message);
        response.processes.items[response.processes.count++] = *message;
    }
    cay_call_done_kept(self->call, &response);
}

static void answer_status(struct look *self)
{
    const struct cay_v1_get_process_status_request *request = self->call->request;
    const struct cay_process *process = cay_processes_find(self->table, request->process_id);
    struct cay_error err = {};
    struct cay_v1_get_process_status_response response = {};
    if (process)
        response.process = cay_process_message(process, &self->call->arena);
    if (response.process) {
        cay_call_done(self->call, &response);
        return;
    }
    cay_fail(&err, CAY_R_PROCESS_NOT_FOUND, NULL);
    cay_call_fail(self->call, &err);
}

static void list_surveyed(struct cay_survey *survey)
{
    struct look *self = CAY_CONTAINER_OF(survey, struct look, survey);
    answer_list(self);
    free(self);
}

static void status_surveyed(struct cay_survey *survey)
{
    struct look *self = CAY_CONTAINER_OF(survey, struct look, survey);
    answer_status(self);
    free(self);
}

static void start_look(struct cay_call *call, struct cay_processes *table,
                       void (*done)(struct cay_survey *survey))
{
    struct look *self = cay_new(struct look);
    self->call = call;
    self->table = table;
    cay_processes_survey(table, &self->survey, done);
}

void cay_host_list_processes(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_list_processes_request *request = call->request;
    struct cay_session *session = NULL;
    struct cay_error err = {};
    if (request->page_size < 0 || request->page_size > CAY_LIMIT_PAGE_SIZE)
        cay_fail(&err, CAY_R_INVALID_ARGUMENT, "page_size must be 1 to %d", CAY_LIMIT_PAGE_SIZE);
    else
        (void)cay_session_check(cay_host_of(service), call, request->session_id, CAY_VERB_LOOK,
                                &session, &err);
    if (!err.reason && request->page_token.len &&
        !cay_processes_find(&session->processes, request->page_token))
        cay_fail(&err, CAY_R_INVALID_ARGUMENT,
                 "page_token: it is not valid any more; begin again with the first page");
    if (err.reason)
        cay_call_fail(call, &err);
    else
        start_look(call, &session->processes, list_surveyed);
}

void cay_host_get_process_status(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_get_process_status_request *request = call->request;
    struct cay_session *session = NULL;
    struct cay_process *process = NULL;
    struct cay_error err = {};
    if (cay_process_lookup(cay_host_of(service), call, request->session_id, request->process_id,
                           &session, &process, &err))
        start_look(call, &session->processes, status_surveyed);
    else
        cay_call_fail(call, &err);
}

/* --- wait and kill --- */

struct waiting {
    struct cay_process_watcher watcher;
    struct cay_timer timer;
    struct cay_call *call;
    bool is_kill;
};

static void answer_process(struct cay_call *call, const struct cay_process *process, bool is_kill,
                           bool was_over)
{
    struct cay_v1_process *message = cay_process_message(process, &call->arena);
    if (is_kill) {
        struct cay_v1_kill_process_response response = {.process = message,
                                                        .already_exited = was_over};
        cay_call_done(call, &response);
        return;
    }
    struct cay_v1_wait_process_response response = {.process = message,
                                                    .exited = cay_process_is_over(process)};
    cay_call_done(call, &response);
}

static void end_waiting(struct waiting *self, const struct cay_error *err)
{
    const struct cay_process *process = self->watcher.process;
    struct cay_call *call = self->call;
    bool is_kill = self->is_kill;
    cay_process_unwatch(&self->watcher);
    cay_timer_close(&self->timer);
    free(self);
    if (err)
        cay_call_fail(call, err);
    else
        answer_process(call, process, is_kill, false);
}

static void waiting_changed(struct cay_process_watcher *watcher)
{
    struct waiting *self = CAY_CONTAINER_OF(watcher, struct waiting, watcher);
    struct cay_error err = {};
    if (!watcher->process) {
        cay_fail(&err, CAY_R_PROCESS_NOT_FOUND, "the process went away with its session");
        end_waiting(self, &err);
    } else if (cay_process_is_over(watcher->process)) {
        end_waiting(self, NULL);
    }
}

static void waiting_over(struct cay_timer *timer)
{
    end_waiting(CAY_CONTAINER_OF(timer, struct waiting, timer), NULL);
}

static void waiting_cancelled(struct cay_call *call)
{
    struct cay_error err = {};
    cay_fail(&err, CAY_R_CANCELED, NULL);
    end_waiting(call->state, &err);
}

/* As far as it got: the caller asks again. */
static void waiting_restarts(struct cay_call *call)
{
    end_waiting(call->state, NULL);
}

static void start_waiting(struct cay_host *host, struct cay_call *call, struct cay_process *process,
                          bool is_kill, int64_t timeout_ms)
{
    struct waiting *self = cay_new(struct waiting);
    self->call = call;
    self->is_kill = is_kill;
    call->state = self;
    call->on_cancel = waiting_cancelled;
    call->on_restart = waiting_restarts;
    cay_process_watch(process, &self->watcher, waiting_changed);
    cay_timer_open(&self->timer, host->loop, waiting_over);
    if (!is_kill) {
        cay_timer_start(&self->timer, (uint64_t)timeout_ms, 0);
        cay_host_endless(host, call);
    }
}

void cay_host_wait_process(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_wait_process_request *request = call->request;
    struct cay_host *host = cay_host_of(service);
    struct cay_session *session = NULL;
    struct cay_process *process = NULL;
    int64_t timeout_ms = 0;
    struct cay_error err = {};
    if (!cay_process_wait_ms(request->timeout, &timeout_ms, &err) ||
        !cay_process_lookup(host, call, request->session_id, request->process_id, &session,
                            &process, &err))
        cay_call_fail(call, &err);
    else if (cay_process_is_over(process))
        answer_process(call, process, false, true);
    else
        start_waiting(host, call, process, false, timeout_ms);
}

static bool check_kill(const struct cay_v1_kill_process_request *request, struct cay_error *err)
{
    int64_t after_ms = cay_noun_duration_ms(request->kill_after);
    if (request->signal < 0 || request->signal > 64)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "signal must be 1 to 64, or 0 for SIGTERM");
    if (after_ms < 0 || after_ms > KILL_AFTER_MS_MAX)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "kill_after may be at most 10 min");
    return true;
}

void cay_host_kill_process(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_kill_process_request *request = call->request;
    struct cay_host *host = cay_host_of(service);
    struct cay_session *session = NULL;
    struct cay_process *process = NULL;
    struct cay_error err = {};
    if (!check_kill(request, &err) ||
        !cay_process_lookup(host, call, request->session_id, request->process_id, &session,
                            &process, &err)) {
        cay_call_fail(call, &err);
        return;
    }
    if (cay_process_is_over(process)) {
        answer_process(call, process, true, true);
        return;
    }
    int64_t after_ms = request->kill_after ? cay_noun_duration_ms(request->kill_after) : -1;
    bool is_tree = request->scope != CAY_V1_KILL_SCOPE_PROCESS;
    int number = request->signal ? request->signal : SIGTERM;
    if (!cay_process_signal(process, number, is_tree, after_ms, &err))
        cay_call_fail(call, &err);
    else if (request->wait && !cay_process_is_over(process))
        start_waiting(host, call, process, true, 0);
    else
        answer_process(call, process, true, false);
}

/* --- input and terminal --- */

void cay_host_send_input(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_send_input_request *request = call->request;
    struct cay_session *session = NULL;
    struct cay_process *process = NULL;
    struct cay_error err = {};
    struct cay_v1_send_input_response response = {};
    if (request->data.len > CAY_LIMIT_INPUT_BYTES)
        cay_fail(&err, CAY_R_INVALID_ARGUMENT, "data: %d bytes at most", CAY_LIMIT_INPUT_BYTES);
    else if (cay_process_lookup(cay_host_of(service), call, request->session_id,
                                request->process_id, &session, &process, &err))
        (void)cay_process_input(process, request->data, request->close, &err);
    if (err.reason)
        cay_call_fail(call, &err);
    else
        cay_call_done(call, &response);
}

void cay_host_close_input(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_close_input_request *request = call->request;
    struct cay_session *session = NULL;
    struct cay_process *process = NULL;
    struct cay_error err = {};
    struct cay_v1_close_input_response response = {};
    if (cay_process_lookup(cay_host_of(service), call, request->session_id, request->process_id,
                           &session, &process, &err) &&
        !cay_process_is_over(process))
        (void)cay_process_input(process, CAY_STR(""), true, &err);
    if (err.reason)
        cay_call_fail(call, &err);
    else
        cay_call_done(call, &response);
}

void cay_host_resize_pty(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_resize_pty_request *request = call->request;
    struct cay_session *session = NULL;
    struct cay_process *process = NULL;
    struct cay_error err = {};
    struct cay_v1_resize_pty_response response = {};
    if (cay_process_lookup(cay_host_of(service), call, request->session_id, request->process_id,
                           &session, &process, &err))
        (void)cay_process_resize(process, request->size, &err);
    if (err.reason)
        cay_call_fail(call, &err);
    else
        cay_call_done(call, &response);
}
