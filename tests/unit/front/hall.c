/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/front/hall.h"

#include <stdio.h>
#include <string.h>

#include "api/noun.h"
#include "front/e2b/sandbox.h"

static struct hall *of(struct cay_service *service)
{
    return CAY_CONTAINER_OF(service, struct hall, service);
}

static void note(struct hall *hall, const struct cay_call *call, struct cay_str what)
{
    size_t len = strlen(hall->calls);
    snprintf(hall->calls + len, sizeof(hall->calls) - len, "%s%s(%.*s)", len ? " " : "",
             call->method->name, (int)what.len, what.len ? what.ptr : "");
}

static void fail(struct cay_call *call, enum cay_reason reason)
{
    struct cay_error err = {};
    cay_fail(&err, reason, NULL);
    cay_call_fail(call, &err);
}

static void get_session(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_get_session_request *ask = call->request;
    struct hall *hall = of(service);
    note(hall, call, ask->session_id);
    struct cay_pb_pair mark = {CAY_STR(CAY_LABEL_HIDDEN), CAY_STR(CAY_E2B_SNAPSHOT)};
    struct cay_v1_session session = {
        .id = ask->session_id, .state = CAY_V1_SESSION_STATE_ACTIVE, .labels = {&mark, 1}};
    const struct cay_v1_get_session_response got = {.session = &session};
    if (hall->fault)
        fail(call, hall->fault);
    else if (hall->snapshot && cay_str_is(ask->session_id, hall->snapshot))
        cay_call_done(call, &got);
    else
        fail(call, CAY_R_SESSION_NOT_FOUND);
}

static void list_sessions(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_list_sessions_request *ask = call->request;
    const struct cay_v1_list_sessions_response none = {};
    size_t last = ask->labels.count;
    note(of(service), call, last ? ask->labels.items[last - 1].value : (struct cay_str){});
    cay_call_done(call, &none);
}

static void list_bases(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_list_bases_request *ask = call->request;
    struct hall *hall = of(service);
    struct cay_v1_base base = {.name = ask->name};
    struct cay_v1_list_bases_response list = {};
    note(hall, call, ask->name);
    if (hall->base && cay_str_is(ask->name, hall->base)) {
        list.bases.items = &base;
        list.bases.count = 1;
    }
    cay_call_done(call, &list);
}

static void create_session(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_create_session_request *ask = call->request;
    struct hall *hall = of(service);
    struct cay_v1_session session = {.id = CAY_STR("made"), .base = ask->base};
    struct cay_v1_session_tokens tokens = {.access_token = CAY_STR("token")};
    const struct cay_v1_create_session_response made = {.session = &session, .tokens = &tokens};
    note(hall, call, ask->base);
    if (!hall->base || !cay_str_is(ask->base, hall->base)) {
        fail(call, CAY_R_BASE_NOT_FOUND);
        return;
    }
    hall->timeout_ms = cay_noun_duration_ms(ask->lifecycle->timeout);
    hall->on_expiry = ask->lifecycle->on_expiry;
    cay_call_done(call, &made);
}

static void fork_session(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_fork_session_request *ask = call->request;
    struct cay_v1_session session = {.id = CAY_STR("made"), .base = CAY_STR("base")};
    struct cay_v1_forked_session fork = {.session = &session};
    const struct cay_v1_fork_session_response made = {.forks = {&fork, 1}};
    note(of(service), call, ask->session_id);
    cay_call_done(call, &made);
}

static void watch_cancelled(struct cay_call *call)
{
    fail(call, CAY_R_CANCELED);
}

static void watch_events(struct cay_service *service, struct cay_call *call)
{
    of(service)->watch = call;
    call->on_cancel = watch_cancelled;
}

static void authenticate(struct cay_service *, struct cay_str secret, struct cay_whois *whois)
{
    static const struct cay_caller bob = {.role = CAY_ROLE_USER, .owner = "bob", .key_id = "key-1"};
    struct cay_error err = {};
    bool is_good = cay_str_is(secret, "good") || cay_fail(&err, CAY_R_UNAUTHENTICATED, NULL);
    cay_whois_answer(whois, is_good ? &bob : NULL, is_good ? NULL : &err);
}

static cay_verb *const verbs[CAY_V1_METHOD_COUNT] = {
    [CAY_V1_SANDBOX_SERVICE_GET_SESSION] = get_session,
    [CAY_V1_SANDBOX_SERVICE_LIST_SESSIONS] = list_sessions,
    [CAY_V1_SANDBOX_SERVICE_CREATE_SESSION] = create_session,
    [CAY_V1_SANDBOX_SERVICE_FORK_SESSION] = fork_session,
    [CAY_V1_SANDBOX_SERVICE_WATCH_EVENTS] = watch_events,
    [CAY_V1_BASE_SERVICE_LIST_BASES] = list_bases,
};

static const struct cay_service_ops ops = {
    .name = "hall",
    .methods = cay_v1_methods,
    .method_count = CAY_V1_METHOD_COUNT,
    .verbs = verbs,
    .authenticate = authenticate,
};

void hall_init(struct hall *hall)
{
    *hall = (struct hall){.service.ops = &ops};
}
