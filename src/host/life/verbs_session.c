/* SPDX-License-Identifier: Apache-2.0 */
#include "host/life/verbs_session.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/limits.h"
#include "api/noun.h"
#include "base/id.h"
#include "base/log.h"
#include "base/stop.h"
#include "host/base/base_record.h"
#include "host/base/host_base.h"
#include "host/life/birth.h"
#include "host/life/deadline.h"
#include "host/life/death.h"
#include "host/life/start.h"
#include "host/life/tokens.h"
#include "host/life/verbs.h"
#include "host/live/bindings.h"
#include "host/live/nesting.h"
#include "host/live/network.h"
#include "host/live/usage.h"
#include "host/owner/account.h"
#include "host/owner/account_quota.h"
#include "host/session/access.h"
#include "host/session/host.h"
#include "host/session/op.h"
#include "host/session/record.h"
#include "host/session/request.h"

static void fail(struct cay_call *call, const struct cay_error *err)
{
    cay_call_fail(call, err);
}

/* What the base says, where the request and the host say nothing. */
static bool add_settings(const struct cay_host *host, struct cay_call *call,
                         const struct cay_v1_base *base, struct cay_v1_session *spec,
                         struct cay_v1_resource_limits *limits, struct cay_error *err)
{
    static const struct cay_v1_base_settings nothing;
    const struct cay_v1_create_session_request *request = call->request;
    const struct cay_v1_base_settings *settings =
        base && base->settings ? base->settings : &nothing;
    struct cay_v1_resource_limits defaults;
    struct cay_error ignored = {};
    if (!cay_check_limits(settings->limits, &host->default_limits, &defaults, err) ||
        !cay_check_limits(request->limits, &defaults, limits, err))
        return false;
    if (!cay_noun_merge(&call->arena, settings->env, request->env, &spec->env))
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    spec->default_cwd = request->default_cwd.len ? request->default_cwd : settings->cwd;
    if (!spec->default_cwd.len)
        spec->default_cwd = CAY_STR("/workspace");
    spec->default_user = request->default_user;
    /* An image may name what cannot be a user (a group with it, for example). */
    if (!spec->default_user.len && cay_check_user(settings->user, &ignored))
        spec->default_user = settings->user;
    if (!spec->default_user.len)
        spec->default_user = CAY_STR("user");
    if (!cay_build_is_label(spec->labels))
        spec->start_command = settings->start_command;
    return cay_check_env(spec->env, err);
}

/* What a base asks for is nobody's word that nothing need isolate it. The steps of a build are the
 * host's. */
static bool choose_runtime(const struct cay_host *host, const struct cay_call *call,
                           const struct cay_v1_base *base, struct cay_runtime **out_runtime,
                           struct cay_error *err)
{
    const struct cay_v1_create_session_request *request = call->request;
    bool is_admin = call->caller.role == CAY_ROLE_ADMIN;
    bool is_asked = request->runtime.len || !base || !base->settings || call->caller.is_host;
    struct cay_str name = is_asked ? request->runtime : base->settings->runtime;
    return cay_runtimes_choose(&host->runtimes, name, is_asked && is_admin, out_runtime, err);
}

/* What the session is made of, from the request and the host's defaults. */
static bool make_spec(struct cay_host *host, struct cay_call *call, struct cay_v1_session *out_spec,
                      struct cay_base_found *out_base, struct cay_error *err)
{
    const struct cay_v1_create_session_request *request = call->request;
    struct cay_v1_resource_limits *limits =
        cay_arena_new(&call->arena, struct cay_v1_resource_limits);
    static const struct cay_v1_secret_binding_array none;
    struct cay_v1_secret_binding_array secrets = {};
    struct cay_v1_network_policy *network = NULL;
    struct cay_runtime *runtime = NULL;
    bool is_admin = call->caller.role == CAY_ROLE_ADMIN;
    struct cay_error base_err = {};
    if (!limits)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    struct cay_str base = request->base.len ? request->base : cay_str(host->settings->default_base);
    bool has_base = cay_bases_look_up(host, &call->caller, base, out_base, &base_err);
    if (!choose_runtime(host, call, has_base ? out_base->record : NULL, &runtime, err) ||
        !cay_nesting_check(host, runtime, request->nesting, is_admin, err) ||
        !cay_check_labels(request->labels, err) || !cay_check_env(request->env, err) ||
        !cay_network_choose(host, runtime, request->network, NULL, &call->arena, &network, err) ||
        !cay_bindings_choose(&none, &request->secrets, (struct cay_pb_strs){}, network,
                             &call->arena, &secrets, err) ||
        !cay_check_lifecycle(request->lifecycle, err) ||
        !cay_check_user(request->default_user, err) || !cay_check_cwd(request->default_cwd, err))
        return false;
    if (request->has_max_snapshots && request->max_snapshots < 0)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "max_snapshots: 0 or more");
    if (request->has_max_concurrent_tools && request->max_concurrent_tools < 0)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "max_concurrent_tools: 0 or more");
    *out_spec = (struct cay_v1_session){
        .labels = request->labels,
        .limits = limits,
        .network = network,
        .secrets = secrets,
        .runtime = cay_str(cay_runtime_name(runtime)),
        .nesting = request->nesting,
        .store = cay_str(cay_store_kind(host->store)),
        .max_snapshots = request->has_max_snapshots ? request->max_snapshots
                                                    : (int32_t)host->settings->max_snapshots,
        .max_concurrent_tools = request->has_max_concurrent_tools
                                    ? request->max_concurrent_tools
                                    : (int32_t)host->settings->max_concurrent_tools,
        .tool_snapshots = request->has_tool_snapshots ? request->tool_snapshots
                                                      : host->settings->takes_tool_snapshots,
        .lifecycle = request->lifecycle,
        .deadline = cay_deadline_of(request->lifecycle, &call->arena),
    };
    if (call->caller.is_host)
        out_spec->labels = cay_build_labels();
    if (!has_base) {
        *err = base_err;
        return false;
    }
    out_spec->base = cay_base_shown(out_base->key, &call->arena);
    return add_settings(host, call, out_base->record, out_spec, limits, err);
}

static bool choose_owner(const struct cay_call *call, struct cay_str wanted, char *out, size_t size,
                         struct cay_error *err)
{
    struct cay_str owner = wanted.len ? wanted : cay_str(call->caller.owner);
    if (!cay_id_check(owner, "owner", err))
        return false;
    if (call->caller.role != CAY_ROLE_ADMIN && !cay_str_is(owner, call->caller.owner))
        return cay_fail(err, CAY_R_PERMISSION_DENIED,
                        "only an admin key may make sessions for others");
    snprintf(out, size, "%.*s", (int)owner.len, owner.ptr);
    return true;
}

bool cay_session_choose_id(const struct cay_host *host, struct cay_str wanted, char *out,
                           size_t size, struct cay_error *err)
{
    if (!wanted.len) {
        do {
            cay_id_make(out, size, "s");
        } while (cay_map_get(&host->sessions.by_id, cay_str(out)));
        return true;
    }
    if (!cay_id_check(wanted, "session_id", err))
        return false;
    snprintf(out, size, "%.*s", (int)wanted.len, wanted.ptr);
    return true;
}

bool cay_session_check_room(const struct cay_host *host, size_t wanted, struct cay_error *err)
{
    size_t count = cay_map_count(&host->sessions.by_id);
    size_t max = (size_t)host->settings->max_sessions;
    if (!cay_host_is_still(host, err))
        return false;
    if (max && count + wanted > max)
        cay_fail(err, CAY_R_MAX_SESSIONS_REACHED,
                 "this host may have %zu sessions and has %zu; remove one or raise "
                 "max_sessions",
                 max, count);
    else
        return true;
    return cay_error_fact(err, "limit", "%zu", max);
}

static bool same_bytes(const struct cay_v1_session *a, const struct cay_v1_session *b)
{
    cay_auto(cay_buf_finish) struct cay_buf left;
    cay_auto(cay_buf_finish) struct cay_buf right;
    cay_buf_init(&left, CAY_LIMIT_MESSAGE_BYTES);
    cay_buf_init(&right, CAY_LIMIT_MESSAGE_BYTES);
    return cay_pb_encode(&cay_v1_session_desc, a, &left) == 0 &&
           cay_pb_encode(&cay_v1_session_desc, b, &right) == 0 &&
           cay_str_equal(cay_buf_str(&left), cay_buf_str(&right));
}

/* The first create is in the gate until it is done. */
static void joined(struct cay_op *op)
{
    struct cay_call *call = op->call;
    struct cay_session *session = op->session;
    struct cay_error err = op->err;
    struct cay_v1_create_session_response response = {};
    if (op->is_done && session->state == CAY_SESSION_ACTIVE && !session->is_gone)
        response = (struct cay_v1_create_session_response){
            .session = cay_session_message(session, &call->arena),
            .tokens = cay_session_tokens(session, &call->arena),
            .existing = true,
        };
    else if (!err.reason)
        cay_fail(&err, CAY_R_UNAVAILABLE,
                 "session '%s' could not be made, or is gone again; create it once more",
                 session->id);
    cay_op_leave(op);
    free(op);
    if (response.session)
        cay_call_done(call, &response);
    else
        cay_call_fail(call, &err);
}

static const struct cay_op_steps join_steps = {.end = joined};

/* A repeated create with the same parameters is the same create: the first answer may have been
 * lost. */
static void answer_existing(struct cay_call *call, struct cay_session *session, const char *owner,
                            const struct cay_v1_session *spec)
{
    struct cay_error err = {};
    struct cay_v1_session wanted = *spec;
    wanted.deadline = session->spec->deadline; /* counted from the first call */
    if (strcmp(session->owner, owner) != 0 || session->state == CAY_SESSION_DESTROYING ||
        !same_bytes(session->spec, &wanted)) {
        cay_fail(&err, CAY_R_SESSION_EXISTS, "the name '%s' is taken; choose another one",
                 session->id);
        fail(call, &err);
        return;
    }
    struct cay_op *op = cay_new(struct cay_op);
    cay_op_start_on(op, session, call, CAY_VERB_LOOK, false, &join_steps);
}

/* What is not ready is taken back, unless it is gone already. */
static void ready(struct cay_call *call, struct cay_session *session, const struct cay_error *err)
{
    if (err) {
        if (!session->is_gone)
            cay_death_start(session, "not_ready");
        cay_call_fail(call, err);
        return;
    }
    struct cay_v1_create_session_response response = {
        .session = cay_session_message(session, &call->arena),
        .tokens = cay_session_tokens(session, &call->arena),
    };
    cay_call_done(call, &response);
}

static void created(struct cay_birth *birth)
{
    struct cay_call *call = birth->call;
    struct cay_session *session = birth->session;
    if (birth->err.reason) {
        cay_call_fail(call, &birth->err);
        return;
    }
    cay_start_wait(session, call, ready);
}

void cay_host_create_session(struct cay_service *service, struct cay_call *call)
{
    struct cay_host *host = cay_host_of(service);
    const struct cay_v1_create_session_request *request = call->request;
    struct cay_v1_session spec = {};
    struct cay_base_found base;
    struct cay_error err = {};
    char id[CAY_ID_SIZE];
    char owner[CAY_ID_SIZE];
    if (!make_spec(host, call, &spec, &base, &err) ||
        !choose_owner(call, request->owner, owner, sizeof(owner), &err) ||
        !cay_session_choose_id(host, request->session_id, id, sizeof(id), &err)) {
        fail(call, &err);
        return;
    }
    struct cay_session *existing = cay_map_get(&host->sessions.by_id, cay_str(id));
    if (existing) {
        answer_existing(call, existing, owner, &spec);
        return;
    }
    if (!cay_session_check_room(host, 1, &err) ||
        !cay_quotas_check_sessions(host, &call->caller, owner, spec.limits, 1, NULL, &err)) {
        fail(call, &err);
        return;
    }
    /* By its alias: another may take its place at any moment. */
    bool is_host_base = strcmp(base.key, "host") == 0;
    if (is_host_base && !cay_host_base_need(host, call, cay_host_create_session))
        return;
    struct cay_session *session = cay_session_new(host, id, owner);
    cay_session_set_spec(session, &spec);
    const struct cay_birth_source source = {.base = is_host_base ? base.key : base.name,
                                            .is_user_wanted = request->default_user.len > 0};
    cay_birth_start(session, call, &source, request->lazy_start, created);
}

/* On disk it uses what was measured last: to measure now may take long. */
static struct cay_v1_session *message_with_usage(const struct cay_session *session,
                                                 struct cay_arena *arena)
{
    struct cay_v1_session *message = cay_session_message(session, arena);
    if (message && !message->usage)
        message->usage = cay_arena_new(arena, struct cay_v1_session_usage);
    if (message && message->usage) {
        cay_usage_read(session, message->usage, arena);
        message->usage->measured_at = cay_noun_time(arena, cay_clock_wall_ns());
    }
    return message;
}

void cay_host_get_session(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_get_session_request *request = call->request;
    struct cay_session *session = NULL;
    struct cay_error err = {};
    if (!cay_session_check(cay_host_of(service), call, request->session_id, CAY_VERB_LOOK, &session,
                           &err)) {
        fail(call, &err);
        return;
    }
    if (request->include_tokens && call->caller.session_id[0] &&
        call->caller.role != CAY_ROLE_ADMIN) {
        cay_fail(&err, CAY_R_PERMISSION_DENIED,
                 "include_tokens: a session's token does not get tokens; call with an API key");
        fail(call, &err);
        return;
    }
    struct cay_v1_get_session_response response = {
        .session = message_with_usage(session, &call->arena),
        .tokens = request->include_tokens ? cay_session_tokens(session, &call->arena) : NULL,
    };
    cay_call_done(call, &response);
}

static bool has_labels(const struct cay_session *session, struct cay_pb_pairs wanted)
{
    struct cay_pb_pairs labels = session->spec->labels;
    for (size_t i = 0; i < wanted.count; i++) {
        bool found = false;
        for (size_t j = 0; j < labels.count && !found; j++)
            found = cay_str_equal(labels.items[j].key, wanted.items[i].key) &&
                    cay_str_equal(labels.items[j].value, wanted.items[i].value);
        if (!found)
            return false;
    }
    return true;
}

/* Sessions that stand for something else are listed for who asks for such, nobody else. */
static bool is_hidden(const struct cay_session *session, struct cay_pb_pairs wanted)
{
    struct cay_pb_pairs labels = session->spec->labels;
    for (size_t i = 0; i < wanted.count; i++) {
        if (cay_str_is(wanted.items[i].key, CAY_LABEL_HIDDEN))
            return false;
    }
    for (size_t i = 0; i < labels.count; i++) {
        if (cay_str_is(labels.items[i].key, CAY_LABEL_HIDDEN))
            return labels.items[i].value.len > 0;
    }
    return false;
}

static int64_t to_ns(const struct google_protobuf_timestamp *stamp, int64_t absent)
{
    return stamp ? cay_noun_time_ns(stamp) : absent;
}

/* By whatever name the two say it. */
static bool is_base(const struct cay_call *call, const struct cay_session *session,
                    struct cay_str wanted)
{
    struct cay_base_found found;
    struct cay_error ignored = {};
    if (!cay_bases_look_up(session->host, &call->caller, wanted, &found, &ignored) || !found.record)
        return cay_str_equal(wanted, session->spec->base);
    return found.record == cay_bases_find(session->host, session->spec->base);
}

static bool is_listed(const struct cay_call *call, const struct cay_session *session)
{
    const struct cay_v1_list_sessions_request *request = call->request;
    if (session->is_gone || is_hidden(session, request->labels) ||
        (cay_build_is_label(session->spec->labels) && !cay_build_is_label(request->labels)))
        return false;
    if (!cay_may_know_session(&call->caller, cay_str(session->id), session->owner))
        return false;
    if ((request->owner.len && !cay_str_is(request->owner, session->owner)) ||
        (request->base.len && !is_base(call, session, request->base)) ||
        (request->parent_session_id.len &&
         !cay_str_equal(request->parent_session_id, session->spec->parent_session_id)) ||
        session->created_ns < to_ns(request->created_after, INT64_MIN) ||
        session->created_ns >= to_ns(request->created_before, INT64_MAX))
        return false;
    bool state_fits = request->states.count == 0;
    for (size_t i = 0; i < request->states.count; i++)
        state_fits = state_fits || (int)request->states.items[i] == (int)session->state;
    return state_fits && has_labels(session, request->labels);
}

static_assert((int)CAY_SESSION_FAILED == (int)CAY_V1_SESSION_STATE_FAILED,
              "the states of the table are those of the contract");

static struct cay_list_node *step(const struct cay_host *host, struct cay_list_node *node,
                                  bool is_ascending)
{
    const struct cay_list_node *head = &host->sessions.list.head;
    struct cay_list_node *next = is_ascending ? node->next : node->prev;
    return next == head ? NULL : next;
}

/* Where a page ended. It names no session that must still be there. */
struct place {
    int64_t created_ns;
    struct cay_str id; /* empty: before the first */
};

static struct cay_str place_of(const struct cay_session *session, struct cay_arena *arena)
{
    const char *text =
        cay_arena_printf(arena, "%016llx-%s", (unsigned long long)session->created_ns, session->id);
    return text ? cay_str(text) : (struct cay_str){};
}

static bool parse_place(struct cay_str token, struct place *out_place)
{
    enum { DIGITS = 16 };
    uint64_t number = 0;
    if (token.len <= DIGITS + 1 || token.ptr[DIGITS] != '-')
        return false;
    for (size_t i = 0; i < DIGITS; i++) {
        char c = token.ptr[i];
        if ((c < '0' || c > '9') && (c < 'a' || c > 'f'))
            return false;
        number = number << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    out_place->created_ns = (int64_t)number;
    out_place->id = (struct cay_str){token.ptr + DIGITS + 1, token.len - DIGITS - 1};
    return cay_id_valid(out_place->id);
}

static bool is_past(const struct place *place, const struct cay_session *session, bool is_ascending)
{
    if (!place->id.len)
        return true;
    if (session->created_ns != place->created_ns)
        return (session->created_ns > place->created_ns) == is_ascending;
    int order = strncmp(session->id, place->id.ptr, place->id.len);
    if (order == 0)
        order = session->id[place->id.len] != '\0';
    return is_ascending ? order > 0 : order < 0;
}

/* A page whose sessions are measured before it is sent. */
struct list_job {
    struct cay_job job;
    struct cay_call *call;
    struct cay_store *store;
    struct cay_v1_list_sessions_response page; /* in the call's arena, as are the trees */
    struct cay_session_trees *trees;
};

static void list_work(struct cay_job *job)
{
    struct list_job *self = CAY_CONTAINER_OF(job, struct list_job, job);
    (void)cay_stop_watch(&self->call->is_cancelled);
    for (size_t i = 0; i < self->page.sessions.count && !cay_stop_asked(); i++) {
        struct cay_v1_session_usage *usage = self->page.sessions.items[i].usage;
        if (usage)
            cay_usage_measure(self->store, &self->trees[i], usage);
    }
    (void)cay_stop_watch(NULL);
}

static void list_done(struct cay_job *job)
{
    struct list_job *self = CAY_CONTAINER_OF(job, struct list_job, job);
    for (size_t i = 0; i < self->page.sessions.count; i++)
        cay_session_trees_finish(&self->trees[i]);
    cay_call_done_kept(self->call, &self->page);
    free(self);
}

static void measure_page(struct cay_host *host, struct cay_call *call,
                         const struct cay_v1_list_sessions_response *page,
                         struct cay_session_trees *trees)
{
    struct list_job *self = cay_new(struct list_job);
    self->call = call;
    self->store = host->store;
    self->page = *page;
    self->trees = trees;
    self->job.work = list_work;
    self->job.done = list_done;
    self->job.lane = &cay_account_of(host, call->caller.owner)->search;
    cay_loop_submit(host->loop, &self->job);
}

void cay_host_list_sessions(struct cay_service *service, struct cay_call *call)
{
    struct cay_host *host = cay_host_of(service);
    const struct cay_v1_list_sessions_request *request = call->request;
    struct cay_error err = {};
    bool is_ascending = request->order == CAY_V1_ORDER_CREATED_ASC;
    size_t page_size =
        request->page_size ? (size_t)request->page_size : CAY_LIMIT_PAGE_SIZE_DEFAULT;
    struct cay_list_node *node = step(host, &host->sessions.list.head, is_ascending);
    if (request->page_size < 0 || request->page_size > CAY_LIMIT_PAGE_SIZE)
        cay_fail(&err, CAY_R_INVALID_ARGUMENT, "page_size must be 1 to %d", CAY_LIMIT_PAGE_SIZE);
    struct place place = {};
    if (request->page_token.len && !parse_place(request->page_token, &place))
        cay_fail(&err, CAY_R_INVALID_ARGUMENT,
                 "page_token: this list gave no such token; begin again with the first page");
    if (err.reason) {
        fail(call, &err);
        return;
    }
    struct cay_v1_list_sessions_response response = {
        .sessions.items = cay_arena_array(&call->arena, page_size, sizeof(struct cay_v1_session))};
    struct cay_str last_place = {};
    int64_t bytes = 0;
    struct cay_session_trees *trees =
        request->include_usage ? cay_arena_array(&call->arena, page_size, sizeof(*trees)) : NULL;
    for (; node && response.sessions.items; node = step(host, node, is_ascending)) {
        const struct cay_session *session = CAY_CONTAINER_OF(node, struct cay_session, in_table);
        if (!is_listed(call, session) || !is_past(&place, session, is_ascending))
            continue;
        if (response.sessions.count == page_size || bytes > CAY_LIMIT_PAGE_BYTES) {
            response.next_page_token = last_place;
            break;
        }
        last_place = place_of(session, &call->arena);
        const struct cay_v1_session *message = trees ? message_with_usage(session, &call->arena)
                                                     : cay_session_message(session, &call->arena);
        if (!message)
            break;
        if (trees)
            cay_session_trees_copy(session, &trees[response.sessions.count]);
        bytes += cay_pb_encoded_size(&cay_v1_session_desc, message);
        response.sessions.items[response.sessions.count++] = *message;
    }
    if (trees)
        measure_page(host, call, &response, trees);
    else
        cay_call_done_kept(call, &response);
}
