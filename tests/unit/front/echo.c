/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/front/echo.h"

#include <stdlib.h>

#include "api/cay_v1.h"

enum { MESSAGE_BYTES = 32 * 1024 };

struct echo_state {
    struct echo *echo;
    int64_t left;
    int64_t step;
    int64_t bytes;
    int64_t messages;
};

static struct echo *echo_of(struct cay_service *service)
{
    return CAY_CONTAINER_OF(service, struct echo, service);
}

static void on_cancel(struct cay_call *call)
{
    struct echo_state *state = call->state;
    struct cay_error err = {};
    struct echo *echo = state->echo;
    echo->cancelled_count++;
    for (size_t i = 0; i < echo->held_count; i++) {
        if (echo->held[i] == call)
            return; /* answered by echo_release, after its caller is gone */
    }
    echo->open_count--;
    cay_fail(&err, CAY_R_CANCELED, NULL);
    cay_call_fail(call, &err);
}

static struct echo_state *begin(struct cay_service *service, struct cay_call *call)
{
    struct echo_state *state = cay_arena_new(&call->arena, struct echo_state);
    state->echo = echo_of(service);
    state->echo->open_count++;
    call->state = state;
    call->on_cancel = on_cancel;
    return state;
}

static void end(struct cay_call *call, const void *response)
{
    struct echo_state *state = call->state;
    state->echo->open_count--;
    cay_call_done(call, response);
}

static void list_keys(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_list_keys_request *request = call->request;
    struct cay_v1_list_keys_response response = {.next_page_token = request->owner};
    begin(service, call);
    end(call, &response);
}

static void remove_file(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_remove_file_request *request = call->request;
    struct echo *echo = echo_of(service);
    struct cay_v1_remove_file_response response = {.removed = 1};
    begin(service, call);
    if (cay_str_is(request->session_id, "now") || echo->held_count == ECHO_HELD_MAX)
        end(call, &response);
    else
        echo->held[echo->held_count++] = call;
}

void echo_release(struct echo *echo)
{
    struct cay_v1_remove_file_response response = {.removed = 1};
    while (echo->held_count)
        end(echo->held[--echo->held_count], &response);
}

static void send_file(struct cay_call *call)
{
    struct echo_state *state = call->state;
    while (state->left > 0) {
        int64_t len = CAY_MIN(state->left, state->step);
        struct cay_v1_read_file_response response = {
            .which_frame = CAY_V1_READ_FILE_RESPONSE_FRAME_DATA,
            .frame.data = {state->echo->filler, (size_t)len},
        };
        state->left -= len;
        if (!cay_call_send(call, &response))
            return;
    }
    end(call, NULL);
}

static void read_file(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_read_file_request *request = call->request;
    struct echo_state *state = begin(service, call);
    int64_t step_max = (int64_t)state->echo->filler_len;
    state->left = request->length;
    state->step = request->offset > 0 ? CAY_MIN(request->offset, step_max)
                                      : CAY_MIN((int64_t)MESSAGE_BYTES, step_max);
    call->on_room = send_file;
    send_file(call);
}

static void on_write(struct cay_call *call, const void *message)
{
    struct echo_state *state = call->state;
    const struct cay_v1_write_file_request *request = message;
    if (!request) {
        struct cay_v1_write_file_response response = {.bytes_written = state->bytes,
                                                      .entries_written = state->messages};
        end(call, &response);
        return;
    }
    state->messages++;
    if (request->which_frame == CAY_V1_WRITE_FILE_REQUEST_FRAME_DATA)
        state->bytes += (int64_t)request->frame.data.len;
    cay_call_next(call);
}

static void write_file(struct cay_service *service, struct cay_call *call)
{
    begin(service, call);
    call->on_message = on_write;
    cay_call_next(call);
}

static void on_input(struct cay_call *call, const void *message)
{
    const struct cay_v1_terminal_request *request = message;
    if (!request) {
        end(call, NULL);
        return;
    }
    struct cay_v1_output_chunk chunk = {};
    if (request->which_frame == CAY_V1_TERMINAL_REQUEST_FRAME_INPUT)
        chunk.data = request->frame.input;
    struct cay_v1_terminal_response response = {
        .which_frame = CAY_V1_TERMINAL_RESPONSE_FRAME_OUTPUT, .frame.output = &chunk};
    if (cay_call_send(call, &response))
        cay_call_next(call);
}

static void terminal(struct cay_service *service, struct cay_call *call)
{
    begin(service, call);
    call->on_message = on_input;
    call->on_room = cay_call_next;
    cay_call_next(call);
}

static const struct cay_caller tester = {
    .role = CAY_ROLE_USER, .owner = "tester", .key_id = "key-1"};

static void find_caller(struct cay_service *, struct cay_call *call)
{
    const struct cay_v1_find_caller_request *request = call->request;
    struct cay_v1_caller caller = {
        .owner = cay_str(tester.owner), .role = CAY_V1_KEY_ROLE_USER, .key_id = CAY_STR("key-1")};
    struct cay_v1_find_caller_response response = {
        .caller = cay_str_is(request->secret, "good") ? &caller : NULL};
    cay_call_done(call, &response);
}

static void tell(struct cay_whois *whois, bool is_good)
{
    struct cay_error err = {};
    cay_fail(&err, CAY_R_UNAUTHENTICATED, NULL);
    cay_whois_answer(whois, is_good ? &tester : NULL, is_good ? NULL : &err);
}

static void authenticate(struct cay_service *service, struct cay_str secret,
                         struct cay_whois *whois)
{
    static const struct cay_caller gateway = {
        .role = CAY_ROLE_ADMIN, .owner = "gateway", .key_id = "key-2", .may_vouch = true};
    struct echo *echo = echo_of(service);
    bool is_good = cay_str_is(secret, "good");
    if (cay_str_is(secret, "trusted")) {
        cay_whois_answer(whois, &gateway, NULL);
        return;
    }
    if (!echo->thinks || echo->asking_count == ECHO_HELD_MAX) {
        tell(whois, is_good);
        return;
    }
    echo->asking_is_good[echo->asking_count] = is_good;
    echo->asking[echo->asking_count++] = whois;
}

static void forget(struct cay_service *service, struct cay_whois *whois)
{
    struct echo *echo = echo_of(service);
    for (size_t i = 0; i < echo->asking_count; i++) {
        if (echo->asking[i] == whois)
            echo->asking[i] = NULL;
    }
}

void echo_tell(struct echo *echo)
{
    size_t count = echo->asking_count;
    for (size_t i = 0; i < count; i++) {
        if (echo->asking[i])
            tell(cay_take_ptr(echo->asking[i]), echo->asking_is_good[i]);
    }
    echo->asking_count = 0;
}

static cay_verb *const verbs[CAY_V1_METHOD_COUNT] = {
    [CAY_V1_KEY_SERVICE_LIST_KEYS] = list_keys,   [CAY_V1_FILE_SERVICE_REMOVE_FILE] = remove_file,
    [CAY_V1_FILE_SERVICE_READ_FILE] = read_file,  [CAY_V1_FILE_SERVICE_WRITE_FILE] = write_file,
    [CAY_V1_PROCESS_SERVICE_TERMINAL] = terminal, [CAY_V1_KEY_SERVICE_FIND_CALLER] = find_caller,
};

static const struct cay_service_ops ops = {
    .name = "echo",
    .methods = cay_v1_methods,
    .method_count = CAY_V1_METHOD_COUNT,
    .verbs = verbs,
    .authenticate = authenticate,
    .forget = forget,
};

void echo_init(struct echo *echo)
{
    *echo = (struct echo){.service.ops = &ops, .filler_len = MESSAGE_BYTES};
    echo->filler = cay_alloc(MESSAGE_BYTES);
}

void echo_finish(struct echo *echo)
{
    echo_release(echo);
    free((void *)(uintptr_t)cay_take_ptr(echo->filler));
}
