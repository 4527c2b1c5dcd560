/* SPDX-License-Identifier: Apache-2.0 */
#include "api/limits.h"
#include "api/noun.h"
#include "base/clock.h"
#include "front/e2b/control/handlers.h"
#include "front/e2b/control/shape.h"
#include "front/e2b/control/template.h"
#include "front/rest/call.h"
#include "wire/e2b/filter.h"

/* Lists of sandboxes, in pages. */

enum { LIMIT_MAX = 100 };

void cay_e2b_reply_list(struct cay_rest_request *request,
                        const struct cay_v1_list_sessions_response *list,
                        const struct cay_error *err, cay_e2b_write_fn *write)
{
    if (err) {
        cay_rest_reply_error(request, err);
        return;
    }
    cay_auto(cay_buf_finish) struct cay_buf body;
    cay_buf_init(&body, CAY_LIMIT_MESSAGE_BYTES);
    struct cay_json_writer json = {.buf = &body};
    cay_json_array_begin(&json);
    for (size_t i = 0; i < list->sessions.count; i++)
        write(request, &json, &list->sessions.items[i]);
    cay_json_array_end(&json);
    const struct cay_http_header next = {CAY_STR("x-next-token"), list->next_page_token};
    cay_rest_reply_json_with(request, 200, cay_buf_str(&body), &next, next.value.len > 0);
}

static void write_one(struct cay_rest_request *request, struct cay_json_writer *json,
                      const struct cay_v1_session *session)
{
    if (cay_e2b_is_sandbox(session))
        cay_e2b_write_listed(json, cay_e2b_visit(request)->e2b, session);
}

static void listed(struct cay_rest_request *request, struct cay_rest_call *, const void *response,
                   const struct cay_error *err)
{
    cay_e2b_reply_list(request, response, err, write_one);
}

bool cay_e2b_read_page(struct cay_rest_request *request, int32_t *out_size,
                       struct cay_str *out_token)
{
    uint64_t size = LIMIT_MAX;
    struct cay_str limit = cay_rest_query(request, "limit");
    if (limit.len && (cay_str_to_u64(limit, LIMIT_MAX, &size) < 0 || size == 0)) {
        cay_rest_reply_fault(request, 400, "limit must be 1 to 100");
        return false;
    }
    *out_size = (int32_t)size;
    *out_token = cay_rest_query(request, "nextToken");
    return true;
}

static bool read_states(struct cay_str text, struct cay_v1_list_sessions_request *ask,
                        struct cay_arena *arena)
{
    enum { STATES = 2 };
    struct cay_str part;
    ask->states.items = cay_arena_array(arena, STATES, sizeof(*ask->states.items));
    if (!ask->states.items)
        return false;
    if (!text.len)
        text = CAY_STR("running,paused");
    bool has_running = false;
    bool has_paused = false;
    while (cay_str_split(&text, ',', &part)) {
        has_running = has_running || cay_str_is(part, "running");
        has_paused = has_paused || cay_str_is(part, "paused");
        if (!cay_str_is(part, "running") && !cay_str_is(part, "paused"))
            return false;
    }
    if (has_running)
        ask->states.items[ask->states.count++] = CAY_V1_SESSION_STATE_ACTIVE;
    if (has_paused)
        ask->states.items[ask->states.count++] = CAY_V1_SESSION_STATE_PAUSED;
    return true;
}

static const char *read_filter(struct cay_rest_request *request,
                               struct cay_v1_list_sessions_request *ask, struct cay_arena *arena,
                               struct cay_str states)
{
    struct cay_str metadata = cay_rest_query(request, "metadata");
    struct cay_str after = cay_rest_query(request, "startedAfter");
    struct cay_str order = cay_rest_query(request, "order");
    int64_t after_ns = 0;
    if (metadata.len && cay_e2b_filter_parse(metadata, CAY_LIMIT_LABELS, arena, &ask->labels) < 0)
        return "metadata is not a filter";
    if (!read_states(states, ask, arena))
        return "state: running, paused, or both";
    if (after.len && cay_time_parse(after, &after_ns) < 0)
        return "startedAfter: not a time";
    if (after.len)
        ask->created_after = cay_noun_time(arena, after_ns);
    if (order.len && !cay_str_is(order, "asc") && !cay_str_is(order, "desc"))
        return "order: asc or desc";
    ask->order = cay_str_is(order, "asc") ? CAY_V1_ORDER_CREATED_ASC : CAY_V1_ORDER_CREATED_DESC;
    return NULL;
}

static void list_filtered(struct cay_rest_request *request)
{
    struct cay_rest_call *call = cay_rest_call_new(request, CAY_V1_SANDBOX_SERVICE_LIST_SESSIONS);
    struct cay_v1_list_sessions_request *ask = cay_rest_call_message(call);
    *ask = *(struct cay_v1_list_sessions_request *)request->state;
    /* Also for an admin it is a list of what is their own. */
    ask->owner = cay_str(request->caller.owner);
    cay_rest_call_start(call, listed);
}

/* Sandboxes may outlive their template. */
static void list_of_template(struct cay_rest_request *request, struct cay_str name,
                             const struct cay_v1_base *)
{
    struct cay_v1_list_sessions_request *filter = request->state;
    filter->base = name.len ? name : cay_rest_query(request, "template");
    list_filtered(request);
}

static void list(struct cay_rest_request *request, struct cay_str states)
{
    int32_t page_size = 0;
    struct cay_str token;
    if (!cay_e2b_read_page(request, &page_size, &token))
        return;
    struct cay_v1_list_sessions_request *filter =
        cay_arena_new(&request->arena, struct cay_v1_list_sessions_request);
    const char *fault =
        filter ? read_filter(request, filter, &request->arena, states) : "the request is too large";
    if (fault) {
        cay_rest_reply_fault(request, 400, fault);
        return;
    }
    struct cay_str template = cay_rest_query(request, "template");
    filter->page_size = page_size;
    filter->page_token = token;
    request->state = filter;
    if (template.len)
        cay_e2b_template_find(request, template, list_of_template);
    else
        list_filtered(request);
}

void cay_e2b_list(struct cay_rest_request *request)
{
    list(request, cay_rest_query(request, "state"));
}

/* The old form knows no paused ones. */
void cay_e2b_list_running(struct cay_rest_request *request)
{
    list(request, CAY_STR("running"));
}
