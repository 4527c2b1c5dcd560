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
    hall->caller = call->caller;
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
    struct cay_v1_session_tokens tokens = {.access_token = CAY_STR("access"),
                                           .traffic_token = CAY_STR("traffic")};
    const struct cay_v1_get_session_response box = {.session = hall->sandbox,
                                                    .tokens = ask->include_tokens ? &tokens : NULL};
    if (hall->fault)
        fail(call, hall->fault);
    else if (hall->sandbox && cay_str_equal(ask->session_id, hall->sandbox->id))
        cay_call_done(call, &box);
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
    if (hall->refusal.reason) {
        cay_call_fail(call, &hall->refusal);
        return;
    }
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

/* --- in the sandbox --- */

/* Writes a call down and refuses it if that is to be. */
static bool enter(struct cay_service *service, struct cay_call *call, struct cay_str what)
{
    struct hall *hall = of(service);
    note(hall, call, what);
    if (!hall->refusal.reason)
        return true;
    cay_call_fail(call, &hall->refusal);
    return false;
}

static void resume_session(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_resume_session_request *ask = call->request;
    const struct cay_v1_resume_session_response done = {.session = of(service)->sandbox};
    if (enter(service, call, ask->session_id))
        cay_call_done(call, &done);
}

static void list_processes(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_list_processes_request *ask = call->request;
    struct cay_str argv[] = {CAY_STR("sleep"), CAY_STR("9")};
    struct cay_v1_process process = {.pid = 7,
                                     .tag = CAY_STR("nap"),
                                     .cwd = CAY_STR("/tmp"),
                                     .argv = {argv, CAY_COUNT(argv)},
                                     .origin = CAY_V1_PROCESS_ORIGIN_LAUNCHED};
    const struct cay_v1_list_processes_response list = {.processes = {&process, 1}};
    if (enter(service, call, ask->session_id))
        cay_call_done(call, &list);
}

static void kill_process(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_kill_process_request *ask = call->request;
    const struct cay_v1_kill_process_response done = {};
    if (enter(service, call, ask->process_id))
        cay_call_done(call, &done);
}

static void send_input(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_send_input_request *ask = call->request;
    struct hall *hall = of(service);
    const struct cay_v1_send_input_response done = {};
    snprintf(hall->told, sizeof(hall->told), "%.*s", (int)ask->data.len, ask->data.ptr);
    if (enter(service, call, ask->process_id))
        cay_call_done(call, &done);
}

static void stat_file(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_stat_file_request *ask = call->request;
    struct cay_v1_file_info info = {
        .name = CAY_STR("it"), .path = ask->path, .type = CAY_V1_FILE_TYPE_FILE, .size = 3};
    const struct cay_v1_stat_file_response done = {.info = &info};
    if (enter(service, call, ask->path))
        cay_call_done(call, &done);
}

static void read_file(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_read_file_request *ask = call->request;
    struct cay_v1_file_info info = {.path = ask->path, .type = CAY_V1_FILE_TYPE_FILE, .size = 3};
    const struct cay_v1_read_file_response head = {
        .which_frame = CAY_V1_READ_FILE_RESPONSE_FRAME_INFO, .frame.info = &info};
    const struct cay_v1_read_file_response data = {
        .which_frame = CAY_V1_READ_FILE_RESPONSE_FRAME_DATA, .frame.data = CAY_STR("abc")};
    if (!enter(service, call, ask->path))
        return;
    (void)cay_call_send(call, &head);
    (void)cay_call_send(call, &data);
    cay_call_done(call, NULL);
}

/* The program has heard enough when the head of a request is there. */
static void port_told(struct cay_call *call, const void *message)
{
    const struct cay_v1_connect_port_request *ask = message;
    struct hall *hall = call->state;
    size_t len = strlen(hall->told);
    if (!ask) {
        cay_call_done(call, NULL);
        return;
    }
    if (ask->which_frame == CAY_V1_CONNECT_PORT_REQUEST_FRAME_OPEN) {
        char port[8];
        snprintf(port, sizeof(port), "%d", (int)ask->frame.open->port);
        note(hall, call, cay_str(port));
        if (!hall->program)
            fail(call, CAY_R_PORT_NOT_OPEN);
        else
            cay_call_next(call);
        return;
    }
    snprintf(hall->told + len, sizeof(hall->told) - len, "%.*s", (int)ask->frame.data.len,
             ask->frame.data.ptr);
    if (!strstr(hall->told, "\r\n\r\n")) {
        cay_call_next(call);
        return;
    }
    const struct cay_v1_connect_port_response answer = {.which_frame =
                                                            CAY_V1_CONNECT_PORT_RESPONSE_FRAME_DATA,
                                                        .frame.data = cay_str(hall->program)};
    (void)cay_call_send(call, &answer);
    cay_call_done(call, NULL);
}

static void connect_port(struct cay_service *service, struct cay_call *call)
{
    of(service)->told[0] = '\0';
    call->state = of(service);
    call->on_message = port_told;
    cay_call_next(call);
}

/* --- */

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
    [CAY_V1_SANDBOX_SERVICE_RESUME_SESSION] = resume_session,
    [CAY_V1_PROCESS_SERVICE_LIST_PROCESSES] = list_processes,
    [CAY_V1_PROCESS_SERVICE_KILL_PROCESS] = kill_process,
    [CAY_V1_PROCESS_SERVICE_SEND_INPUT] = send_input,
    [CAY_V1_PROCESS_SERVICE_CONNECT_PORT] = connect_port,
    [CAY_V1_FILE_SERVICE_STAT_FILE] = stat_file,
    [CAY_V1_FILE_SERVICE_READ_FILE] = read_file,
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
