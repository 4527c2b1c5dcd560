/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "api/limits.h"
#include "host/exec/once.h"
#include "host/exec/tool_call.h"
#include "host/session/host.h"

/* A session may say how many of its tools run at the same time; the others wait, in the order of
 * their arrival. */

struct waiting {
    struct cay_list_node in_session;
    struct cay_call *call;
    struct cay_tool_call tool;
    cay_tool_start_fn *start;
};

static bool is_free(const struct cay_session *session)
{
    int32_t limit = session->spec->max_concurrent_tools;
    return limit <= 0 || session->tools_running < (unsigned)limit;
}

static struct waiting *take_first(struct cay_session *session)
{
    struct waiting *first =
        CAY_CONTAINER_OF(cay_list_first(&session->tools_waiting), struct waiting, in_session);
    cay_list_remove(&first->in_session);
    session->tools_waiting_count--;
    first->call->on_cancel = NULL;
    first->call->state = NULL;
    return first;
}

static void on_cancel(struct cay_call *call)
{
    struct waiting *self = call->state;
    struct cay_error err = {};
    cay_list_remove(&self->in_session);
    self->tool.session->tools_waiting_count--;
    call->on_cancel = NULL;
    call->state = NULL;
    cay_fail(&err, CAY_R_CANCELED, NULL);
    /* It never ran: what the end gives back is taken here. */
    self->tool.session->tools_running++;
    cay_tool_fail(call, &self->tool, &err);
    free(self);
}

static void begin(struct cay_call *call, struct cay_tool_call *tool, cay_tool_start_fn *start)
{
    tool->session->tools_running++;
    start(call, tool);
}

/* Whoever waited long finds the session as it is now. */
static void begin_waiting(struct waiting *self)
{
    struct cay_session *session = NULL;
    struct cay_error err = {};
    if (cay_session_check(self->tool.host, self->call, self->tool.session_id, CAY_VERB_TOOL,
                          &session, &err) &&
        session == self->tool.session) {
        begin(self->call, &self->tool, self->start);
    } else {
        if (!err.reason)
            cay_fail(&err, CAY_R_SESSION_NOT_FOUND, NULL);
        self->tool.session->tools_running++;
        cay_tool_fail(self->call, &self->tool, &err);
    }
    free(self);
}

void cay_tool_turn_take(struct cay_call *call, struct cay_tool_call *tool, cay_tool_start_fn *start)
{
    struct cay_session *session = tool->session;
    cay_session_ref(session);
    if (is_free(session)) {
        begin(call, tool, start);
        return;
    }
    if (session->tools_waiting_count >= CAY_LIMIT_TOOLS_WAITING) {
        struct cay_error err = {};
        cay_fail(&err, CAY_R_RESOURCE_EXHAUSTED,
                 "%d tools run in session '%s' and %d wait until they may; try again later",
                 session->spec->max_concurrent_tools, session->id, CAY_LIMIT_TOOLS_WAITING);
        cay_error_fact(&err, "limit", "%d", session->spec->max_concurrent_tools);
        session->tools_running++;
        cay_tool_fail(call, tool, &err);
        return;
    }
    struct waiting *self = cay_new(struct waiting);
    self->call = call;
    self->tool = *tool;
    self->start = start;
    call->state = self;
    call->on_cancel = on_cancel;
    cay_list_push_back(&session->tools_waiting, &self->in_session);
    session->tools_waiting_count++;
}

void cay_tool_turns_call(struct cay_session *session)
{
    /* One who is refused leaves inside: it is not the one to call the next, so that a thousand who
     * are refused are a loop and no tower. */
    if (session->is_calling_tools)
        return;
    session->is_calling_tools = true;
    while (!cay_list_empty(&session->tools_waiting) && is_free(session))
        begin_waiting(take_first(session));
    session->is_calling_tools = false;
}

void cay_tool_turn_leave(const struct cay_tool_call *tool)
{
    struct cay_session *session = tool->session;
    session->tools_running--;
    cay_tool_turns_call(session);
    cay_session_unref(session);
}

static void init(struct cay_session *session)
{
    cay_list_init(&session->tools_waiting);
    session->once = cay_new(struct cay_once_table);
    cay_once_init(session->once);
}

/* What was done is no longer so: results do not tell of it. */
static void undone(struct cay_session *session)
{
    cay_once_finish(session->once);
}

static void free_tools(struct cay_session *session)
{
    cay_once_finish(session->once);
    free(cay_take_ptr(session->once));
}

const struct cay_session_part cay_tools_part = {.init = init, .undone = undone, .free = free_tools};
