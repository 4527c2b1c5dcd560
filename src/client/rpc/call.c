/* SPDX-License-Identifier: Apache-2.0 */
#include <poll.h>

#include "api/limits.h"
#include "client/rpc/client.h"
#include "client/rpc/flow.h"

/* Calls that block, as flows that are waited for. */

static void close_flow(struct cay_flow **flow)
{
    cay_flow_close(*flow);
}

static bool begin(struct cay_client *client, const struct cay_call_options *options,
                  const struct cay_pb_method *method, const void *request,
                  struct cay_flow **out_flow, struct cay_error *err)
{
    return cay_flow_start(client, method, options, out_flow, err) &&
           (!request || cay_flow_send_message(*out_flow, request, err));
}

/* Waits for one message: true with it, or when all went well without (*out_message NULL). */
static bool next(struct cay_flow *flow, struct cay_arena *arena, const void **out_message,
                 struct cay_error *err)
{
    cay_flow_set_patient(flow, true);
    for (;;) {
        enum cay_flow_news news = cay_flow_next_message(flow, arena, out_message, err);
        if (news == CAY_FLOW_END)
            *out_message = NULL;
        if (news != CAY_FLOW_NOTHING)
            return news != CAY_FLOW_FAILED;
        cay_flow_wait(flow, true, -1, 0, NULL);
    }
}

/* The one message of an answer, and its end. */
static bool finish(struct cay_flow *flow, const struct cay_pb_method *method,
                   struct cay_arena *arena, void *out_response, struct cay_error *err)
{
    const void *message = NULL;
    const void *more = NULL;
    if (!next(flow, arena, &message, err) || !next(flow, arena, &more, err))
        return false;
    memcpy(out_response, message, method->output->size_bytes);
    return true;
}

bool cay_client_call_with(struct cay_client *client, const struct cay_call_options *options,
                          const struct cay_pb_method *method, const void *request,
                          struct cay_arena *arena, void *out_response, struct cay_error *err)
{
    cay_auto(close_flow) struct cay_flow *flow = NULL;
    return begin(client, options, method, request, &flow, err) &&
           finish(flow, method, arena, out_response, err);
}

bool cay_client_call(struct cay_client *client, const struct cay_pb_method *method,
                     const void *request, struct cay_arena *arena, void *out_response,
                     struct cay_error *err)
{
    return cay_client_call_with(client, NULL, method, request, arena, out_response, err);
}

bool cay_client_call_stream_with(struct cay_client *client, const struct cay_call_options *options,
                                 const struct cay_pb_method *method, const void *request,
                                 cay_client_receiver *receive, void *state, struct cay_error *err)
{
    cay_auto(close_flow) struct cay_flow *flow = NULL;
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, CAY_LIMIT_CALL_ARENA_BYTES);
    if (!begin(client, options, method, request, &flow, err))
        return false;
    for (;;) {
        const void *message = NULL;
        cay_arena_finish(&arena);
        if (!next(flow, &arena, &message, err))
            return false;
        if (!message)
            return true;
        if (!receive(state, message, err))
            return false;
    }
}

bool cay_client_call_stream(struct cay_client *client, const struct cay_pb_method *method,
                            const void *request, cay_client_receiver *receive, void *state,
                            struct cay_error *err)
{
    return cay_client_call_stream_with(client, NULL, method, request, receive, state, err);
}

/* As much as there is room for; *in_out_is_over: there is no more. */
static bool produce_some(struct cay_flow *flow, cay_client_producer *produce, void *state,
                         struct cay_arena *arena, bool *in_out_is_over, struct cay_error *err)
{
    while (!*in_out_is_over && !cay_flow_is_full(flow)) {
        const void *message = NULL;
        cay_arena_finish(arena);
        if (!produce(state, arena, &message, err) || !cay_flow_send_message(flow, message, err))
            return false;
        *in_out_is_over = !message;
    }
    return true;
}

bool cay_client_call_upload(struct cay_client *client, const struct cay_pb_method *method,
                            cay_client_producer *produce, void *state, struct cay_arena *arena,
                            void *out_response, struct cay_error *err)
{
    cay_auto(close_flow) struct cay_flow *flow = NULL;
    cay_auto(cay_arena_finish) struct cay_arena piece;
    bool is_produced = false;
    const void *response = NULL;
    cay_arena_init(&piece, CAY_LIMIT_CALL_ARENA_BYTES);
    if (!cay_flow_start(client, method, NULL, &flow, err))
        return false;
    for (;;) {
        if (!response && !produce_some(flow, produce, state, &piece, &is_produced, err))
            return false;
        const void *message = NULL;
        switch (cay_flow_next_message(flow, arena, &message, err)) {
        case CAY_FLOW_MESSAGE: response = message; break;
        case CAY_FLOW_FAILED: return false;
        case CAY_FLOW_END: memcpy(out_response, response, method->output->size_bytes); return true;
        case CAY_FLOW_NOTHING:
            if (response || is_produced || cay_flow_is_full(flow))
                cay_flow_wait(flow, true, -1, 0, NULL);
            break;
        }
    }
}

/* The other side may have something for the daemon, and there is room for it. */
static bool can_feed(const struct cay_flow *flow, const struct cay_client_duplex *duplex,
                     bool is_over)
{
    return !is_over && !duplex->is_waiting && !duplex->is_held && !cay_flow_is_full(flow);
}

static bool feed(struct cay_flow *flow, struct cay_client_duplex *duplex, struct cay_arena *arena,
                 bool *in_out_is_over, struct cay_error *err)
{
    while (can_feed(flow, duplex, *in_out_is_over)) {
        const void *message = NULL;
        cay_arena_finish(arena);
        if (!duplex->produce(duplex->state, arena, &message, err))
            return false;
        if (!message && (duplex->is_waiting || duplex->is_held))
            return true;
        if (!cay_flow_send_message(flow, message, err))
            return false;
        *in_out_is_over = !message;
    }
    return true;
}

/* Waits for the daemon and for the other side, and lets the latter take more. */
static bool wait_for_both(struct cay_flow *flow, struct cay_client_duplex *duplex, bool is_over,
                          struct cay_error *err)
{
    short wants =
        (short)((duplex->is_waiting && !is_over ? POLLIN : 0) | (duplex->is_full ? POLLOUT : 0));
    short ready = 0;
    cay_flow_wait(flow, !duplex->is_full, duplex->fd, wants, &ready);
    if (ready & (POLLIN | POLLHUP | POLLERR))
        duplex->is_waiting = false;
    return !duplex->is_full || !(ready & (POLLOUT | POLLHUP | POLLERR)) ||
           duplex->flush(duplex->state, err);
}

/* The daemon is done; what it said last may not be written yet. */
static bool flush_rest(struct cay_client_duplex *duplex, struct cay_error *err)
{
    while (duplex->is_full) {
        struct pollfd entry = {.fd = duplex->fd, .events = POLLOUT};
        (void)poll(&entry, 1, -1);
        if (entry.revents && !duplex->flush(duplex->state, err))
            return false;
    }
    return true;
}

bool cay_client_call_duplex(struct cay_client *client, const struct cay_pb_method *method,
                            struct cay_client_duplex *duplex, struct cay_error *err)
{
    static const struct cay_call_options options = {.size = sizeof(options), .timeout_ms = -1};
    cay_auto(close_flow) struct cay_flow *flow = NULL;
    cay_auto(cay_arena_finish) struct cay_arena piece;
    cay_auto(cay_arena_finish) struct cay_arena arena;
    bool is_produced = false;
    cay_arena_init(&piece, CAY_LIMIT_CALL_ARENA_BYTES);
    cay_arena_init(&arena, CAY_LIMIT_CALL_ARENA_BYTES);
    if (!cay_flow_start(client, method, &options, &flow, err))
        return false;
    for (;;) {
        const void *message = NULL;
        enum cay_flow_news news = CAY_FLOW_NOTHING;
        if (!feed(flow, duplex, &piece, &is_produced, err))
            return false;
        cay_arena_finish(&arena);
        if (!duplex->is_full)
            news = cay_flow_next_message(flow, &arena, &message, err);
        else
            cay_flow_push(flow);
        if (news == CAY_FLOW_FAILED)
            return false;
        if (news == CAY_FLOW_END)
            return flush_rest(duplex, err);
        if (news == CAY_FLOW_MESSAGE && !duplex->receive(duplex->state, message, err))
            return false;
        if (news == CAY_FLOW_NOTHING && !can_feed(flow, duplex, is_produced) &&
            !wait_for_both(flow, duplex, is_produced, err))
            return false;
    }
}
