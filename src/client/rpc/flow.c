/* SPDX-License-Identifier: Apache-2.0 */
#include "client/rpc/flow.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "api/limits.h"
#include "base/clock.h"
#include "base/sized.h"
#include "client/rpc/client_internal.h"
#include "client/rpc/talk.h"
#include "wire/gzip.h"

enum {
    READ_BYTES = 64 * 1024,
    READS_MAX = 16, /* in one step: a peer that never pauses does not hold up its caller */
    TRIES_MAX = 4,  /* of a call that may be repeated */
    AGAIN_MS = 30,  /* before the second; each pause is three times the one before */
};

struct cay_flow {
    struct cay_client *client;
    struct cay_cancel *cancel;
    const struct cay_pb_method *method;
    struct cay_talk talk;
    struct cay_line *line; /* NULL: between two of them, or over */
    struct cay_buf out;
    size_t out_sent;
    int64_t timeout_ms;
    int64_t deadline_ns; /* 0: none */
    int64_t again_ns;    /* not before that; 0: now */
    unsigned tries;      /* that failed */
    bool has_begun;      /* `out` holds the request, or its beginning */
    bool is_safe;        /* to be repeated */
    bool is_reused;      /* the line was used before */
    bool is_standing;    /* the line is open */
    bool has_given;      /* the caller has had a message */
    bool is_ended;       /* the client's stream is */
    bool is_cut_short;   /* the line took no more before all was sent */
    bool is_patient;     /* a step may wait */
    bool has_paused;     /* the last step left off before all was read */
    bool is_over;
    struct cay_error err; /* of a flow that is over; without a reason it went well */
};

static int64_t after_ms(int64_t ms)
{
    return cay_clock_ns() + ms * (int64_t)CAY_NS_PER_MS;
}

bool cay_flow_start(struct cay_client *client, const struct cay_pb_method *method,
                    const struct cay_call_options *given, struct cay_flow **out_flow,
                    struct cay_error *err)
{
    struct cay_call_options options;
    if (!cay_sized_take(given, &options, sizeof(options), "options (CAY_CALL_OPTIONS)", err))
        return false;
    struct cay_flow *flow = calloc(1, sizeof(*flow));
    if (!flow)
        return cay_fail(err, CAY_R_OUT_OF_MEMORY, NULL);
    bool is_stream = method->client_streaming || method->server_streaming;
    bool is_duplex = method->client_streaming && method->server_streaming;
    flow->client = cay_client_ref(client);
    flow->cancel = options.cancel;
    flow->method = method;
    flow->timeout_ms = options.timeout_ms ? CAY_MAX(options.timeout_ms, 0) : client->timeout_ms;
    flow->deadline_ns = flow->timeout_ms ? after_ms(flow->timeout_ms + CAY_CLIENT_GRACE_MS) : 0;
    flow->is_safe = method->no_side_effects || method->is_repeatable;
    cay_buf_init(&flow->out, (size_t)4 * CAY_LIMIT_MESSAGE_BYTES);
    cay_talk_init(&flow->talk, client, method, (struct cay_str){});
    flow->talk.timeout_ms = flow->timeout_ms;
    /* Packing costs more than it saves where no network is. */
    flow->talk.offers_gzip =
        is_stream && !is_duplex && !client->address.is_loopback && cay_gzip_is_there();
    flow->talk.is_relayed = client->proxy.host[0] && client->address.is_plain && !is_duplex;
    *out_flow = flow;
    return true;
}

void cay_flow_set_codec(struct cay_flow *flow, enum cay_codec codec)
{
    flow->talk.codec = codec == CAY_CODEC_JSON ? CAY_RPC_JSON : CAY_RPC_PROTO;
}

void cay_flow_set_patient(struct cay_flow *flow, bool is_patient)
{
    flow->is_patient = is_patient;
}

enum cay_codec cay_flow_codec(const struct cay_flow *flow)
{
    return flow->talk.codec == CAY_RPC_JSON ? CAY_CODEC_JSON : CAY_CODEC_PROTO;
}

void cay_flow_close(struct cay_flow *flow)
{
    if (!flow)
        return;
    cay_line_destroy(flow->line);
    if (flow->out.data)
        cay_wipe(flow->out.data, flow->out.cap); /* it holds the API key */
    cay_buf_finish(&flow->out);
    cay_talk_finish(&flow->talk);
    cay_client_close(flow->client);
    free(flow);
}

static enum cay_flow_news end(struct cay_flow *flow, const struct cay_error *err)
{
    const struct cay_answer *answer = &flow->talk.answer;
    bool is_clean = answer->is_complete && !answer->is_last && flow->out_sent == flow->out.len;
    flow->is_over = true;
    if (err)
        flow->err = *err;
    if (flow->line && is_clean && flow->is_standing)
        cay_client_rest_line(flow->client, cay_take_ptr(flow->line));
    cay_line_destroy(cay_take_ptr(flow->line));
    return err ? CAY_FLOW_FAILED : CAY_FLOW_END;
}

/* Before anything of an answer came, on a line that somebody else had left: most likely it was
 * closed while it rested. Where all was sent, though, the daemon may have read it before it died.
 */
static bool is_stale(const struct cay_flow *flow)
{
    return flow->is_reused && !flow->talk.answer.head.len && !flow->method->client_streaming &&
           (flow->is_safe || flow->is_cut_short);
}

static bool may_try_again(const struct cay_flow *flow, const struct cay_error *err)
{
    bool is_on_the_way = err->reason == CAY_R_UNAVAILABLE || err->reason == CAY_R_DAEMON_RESTARTING;
    /* A daemon that was not there in the first place is not waited for. */
    return is_on_the_way && flow->is_safe && !flow->has_given &&
           (flow->is_standing || flow->tries) && flow->tries + 1 < TRIES_MAX &&
           !flow->method->client_streaming;
}

static void restart(struct cay_flow *flow)
{
    cay_line_destroy(cay_take_ptr(flow->line));
    struct cay_talk *talk = &flow->talk;
    struct cay_talk fresh;
    cay_talk_init(&fresh, talk->client, talk->method, talk->headers);
    fresh.codec = talk->codec;
    fresh.timeout_ms = talk->timeout_ms;
    fresh.offers_gzip = talk->offers_gzip;
    fresh.is_relayed = talk->is_relayed;
    cay_talk_finish(talk);
    *talk = fresh;
    flow->out_sent = 0;
    flow->is_standing = false;
    flow->is_cut_short = false;
}

/* What went wrong on the way, or what the daemon said: the end, or another try. */
static enum cay_flow_news fail(struct cay_flow *flow, const struct cay_error *err)
{
    if (is_stale(flow) && err->reason == CAY_R_UNAVAILABLE) {
        restart(flow);
        flow->is_reused = false;
        flow->again_ns = 0;
        return CAY_FLOW_NOTHING;
    }
    if (!may_try_again(flow, err))
        return end(flow, err);
    int64_t pause_ms = AGAIN_MS;
    for (unsigned i = 0; i < flow->tries; i++)
        pause_ms *= 3;
    restart(flow);
    flow->is_reused = false;
    flow->tries++;
    flow->again_ns = after_ms(pause_ms);
    return CAY_FLOW_NOTHING;
}

static bool check_clock(struct cay_flow *flow, struct cay_error *err)
{
    if (cay_cancel_is_fired(flow->cancel))
        return cay_fail(err, CAY_R_CANCELED, "the call was canceled");
    if (flow->deadline_ns && cay_clock_ns() >= flow->deadline_ns)
        return cay_blame_late(&flow->client->address, !flow->is_standing, flow->timeout_ms, err);
    return true;
}

/* A line that stands: 1. None yet: 0. -1: *err. */
static int find_line(struct cay_flow *flow, struct cay_error *err)
{
    const struct cay_pb_method *method = flow->method;
    if (flow->is_standing)
        return 1;
    if (!flow->line && flow->again_ns > cay_clock_ns())
        return 0;
    /* What a client has streamed cannot be sent again: it gets a line of its own. */
    if (!flow->line && !flow->tries && !method->client_streaming) {
        flow->line = cay_client_take_line(flow->client);
        flow->is_reused = flow->line != NULL;
    }
    if (!flow->line) {
        bool is_duplex = method->client_streaming && method->server_streaming;
        flow->line = cay_line_create(flow->client, is_duplex, err);
        if (!flow->line)
            return -1;
    }
    int status = cay_line_advance(flow->line, err);
    flow->is_standing = status == 1;
    return status;
}

static bool is_refused(const struct cay_flow *flow)
{
    return flow->talk.answer.has_head && flow->talk.answer.status != 200;
}

static bool has_to_send(const struct cay_flow *flow)
{
    return flow->has_begun && flow->out_sent < flow->out.len && !is_refused(flow);
}

/* Sends what the line takes; true when that was something. A line that takes no more may still have
 * something to say. */
static bool send_some(struct cay_flow *flow)
{
    bool is_stream = flow->method->client_streaming;
    bool has_sent = false;
    while (has_to_send(flow)) {
        ssize_t sent = cay_line_send(flow->line, flow->out.data + flow->out_sent,
                                     flow->out.len - flow->out_sent);
        if (sent == -EAGAIN)
            break;
        if (sent < 0) {
            flow->is_cut_short = true;
            flow->talk.answer.is_last = true;
            flow->out_sent = flow->out.len;
            return false;
        }
        flow->out_sent += (size_t)sent;
        has_sent = true;
    }
    /* What a call that does not stream has sent is kept: it may have to be sent again. */
    if (!is_stream || !flow->out_sent ||
        (flow->out_sent < flow->out.len && flow->out_sent < CAY_LIMIT_SEND_HIGH_BYTES))
        return has_sent;
    cay_wipe(flow->out.data, CAY_MIN(flow->out_sent, (size_t)CAY_LIMIT_HEAD_BYTES)); /* the key */
    cay_buf_consume(&flow->out, flow->out_sent);
    flow->out_sent = 0;
    return has_sent;
}

/* Whether to wait for an answer, and for nothing else, is all there is to do. */
static bool has_only_to_wait(const struct cay_flow *flow)
{
    return flow->is_patient && !flow->cancel && !flow->deadline_ns && !has_to_send(flow);
}

/* True when something came, or the end did. */
static bool read_some(struct cay_flow *flow, struct cay_error *err, bool *out_is_bad)
{
    [[gnu::uninitialized]] char data[READ_BYTES]; /* to clear it takes longer than most reads */
    ssize_t got = cay_line_receive(flow->line, data, sizeof(data), has_only_to_wait(flow));
    if (got == -EAGAIN)
        return false;
    if (got <= 0)
        cay_talk_hang_up(&flow->talk);
    else
        *out_is_bad = !cay_talk_feed(&flow->talk, (struct cay_str){data, (size_t)got}, err);
    return true;
}

/* The next message that came, as bytes. */
static enum cay_flow_news advance(struct cay_flow *flow, struct cay_str *out_message)
{
    struct cay_error err = {};
    unsigned reads = 0;
    flow->has_paused = false;
    while (!flow->is_over) {
        bool is_bad = false;
        if (!check_clock(flow, &err))
            return end(flow, &err);
        int line = find_line(flow, &err);
        if (line < 0 && fail(flow, &err) == CAY_FLOW_FAILED)
            return CAY_FLOW_FAILED;
        if (line <= 0)
            return CAY_FLOW_NOTHING;
        bool has_asked = send_some(flow) && !flow->method->client_streaming;
        switch (cay_talk_next_bytes(&flow->talk, out_message, &err)) {
        case CAY_TALK_MESSAGE: flow->has_given = true; return CAY_FLOW_MESSAGE;
        case CAY_TALK_END: return end(flow, NULL);
        case CAY_TALK_FAILED:
            if (fail(flow, &err) == CAY_FLOW_FAILED)
                return CAY_FLOW_FAILED;
            continue;
        case CAY_TALK_NOTHING: break;
        }
        /* Who has only just asked has no answer yet: to look would be a call of the kernel's. */
        if (has_asked && !has_only_to_wait(flow))
            return CAY_FLOW_NOTHING;
        flow->has_paused = ++reads > READS_MAX;
        if (flow->has_paused || !read_some(flow, &err, &is_bad))
            return CAY_FLOW_NOTHING;
        if (is_bad)
            return end(flow, &err);
    }
    return flow->err.reason ? CAY_FLOW_FAILED : CAY_FLOW_END;
}

void cay_flow_push(struct cay_flow *flow)
{
    struct cay_error ignored;
    if (!flow->is_over && find_line(flow, &ignored) == 1)
        (void)send_some(flow);
}

static enum cay_flow_news told(const struct cay_flow *flow, enum cay_flow_news news,
                               struct cay_error *err)
{
    if (news == CAY_FLOW_FAILED && err)
        *err = flow->err;
    return news;
}

static bool is_misused(struct cay_flow *flow, bool is_end, struct cay_error *err)
{
    const struct cay_pb_method *method = flow->method;
    if (flow->is_ended || (!method->client_streaming && (is_end || flow->has_begun)))
        return !cay_fail(err, CAY_R_INVALID_ARGUMENT, "%s takes no more messages", method->name);
    return false;
}

/* The head of a client's stream goes before its first message. */
static bool begin_stream(struct cay_flow *flow, struct cay_error *err)
{
    if (flow->has_begun || !flow->method->client_streaming)
        return true;
    flow->has_begun = cay_talk_begin_bytes(&flow->talk, (struct cay_str){}, &flow->out, err);
    return flow->has_begun;
}

static bool send_bytes(struct cay_flow *flow, struct cay_str message, struct cay_error *err)
{
    if (!begin_stream(flow, err))
        return false;
    if (flow->method->client_streaming)
        return flow->is_over || cay_talk_give_bytes(&flow->talk, message, &flow->out, err);
    flow->has_begun = cay_talk_begin_bytes(&flow->talk, message, &flow->out, err);
    return flow->has_begun;
}

static bool send_end(struct cay_flow *flow, struct cay_error *err)
{
    if (!begin_stream(flow, err))
        return false;
    cay_talk_give_end(&flow->out);
    flow->is_ended = true;
    return !flow->out.failed || cay_fail(err, CAY_R_OUT_OF_MEMORY, NULL);
}

bool cay_flow_send(struct cay_flow *flow, const void *message, size_t len, struct cay_error *err)
{
    struct cay_error ignored;
    err = err ? err : &ignored;
    if (!flow || (!message && len))
        return cay_fail(
            err, CAY_R_INVALID_ARGUMENT,
            flow ? "there are none of %zu bytes to send" : "there is no flow for %zu bytes", len);
    if (is_misused(flow, !message, err))
        return false;
    return message ? send_bytes(flow, (struct cay_str){message, len}, err) : send_end(flow, err);
}

/* Ids that a client gave make the daemon do it once. */
static bool has_id(const struct cay_pb_method *method, const void *message)
{
    return cay_pb_text_at(method->input, message, "request_id").len ||
           cay_pb_text_at(method->input, message, "call.tool_call_id").len;
}

bool cay_flow_send_message(struct cay_flow *flow, const void *message, struct cay_error *err)
{
    cay_auto(cay_buf_finish) struct cay_buf body = {};
    assert(flow->method->input); /* not of those that have bytes only */
    if (is_misused(flow, !message, err))
        return false;
    if (!message)
        return send_end(flow, err);
    if (!cay_talk_encode(&flow->talk, message, &body, err))
        return false;
    flow->is_safe = flow->is_safe || has_id(flow->method, message);
    return send_bytes(flow, cay_buf_str(&body), err);
}

bool cay_flow_is_full(const struct cay_flow *flow)
{
    return flow && flow->out.len - flow->out_sent >= CAY_LIMIT_SEND_HIGH_BYTES;
}

enum cay_flow_news cay_flow_next_message(struct cay_flow *flow, struct cay_arena *arena,
                                         const void **out_message, struct cay_error *err)
{
    struct cay_str bytes = {};
    struct cay_error failure = {};
    enum cay_flow_news news = advance(flow, &bytes);
    if (news == CAY_FLOW_MESSAGE &&
        !cay_talk_decode(&flow->talk, bytes, arena, out_message, &failure))
        news = end(flow, &failure);
    return told(flow, news, err);
}

/* A flow stays as it is when a caller has no place for what comes of it. */
static bool check_places(const struct cay_flow *flow, const char *const *message, const size_t *len,
                         struct cay_error *err)
{
    struct cay_error ignored;
    return (flow && message && len) ||
           cay_fail(err ? err : &ignored, CAY_R_INVALID_ARGUMENT,
                    "to receive takes a flow, and places for a message and its length");
}

enum cay_flow_news cay_flow_step(struct cay_flow *flow, const char **out_message, size_t *out_len,
                                 struct cay_error *err)
{
    struct cay_str bytes = {};
    if (!check_places(flow, out_message, out_len, err))
        return CAY_FLOW_FAILED;
    enum cay_flow_news news = advance(flow, &bytes);
    if (news == CAY_FLOW_MESSAGE) {
        *out_message = bytes.len ? bytes.ptr : "";
        *out_len = bytes.len;
    }
    return told(flow, news, err);
}

enum cay_flow_news cay_flow_receive(struct cay_flow *flow, const char **out_message,
                                    size_t *out_len, struct cay_error *err)
{
    if (!check_places(flow, out_message, out_len, err))
        return CAY_FLOW_FAILED;
    if (!flow->has_begun && !flow->is_over) {
        struct cay_error failure = {};
        cay_fail(&failure, CAY_R_INVALID_ARGUMENT, "%s waits for its request; send it first",
                 flow->method->name);
        return told(flow, end(flow, &failure), err);
    }
    for (;;) {
        cay_flow_set_patient(flow, true);
        enum cay_flow_news news = cay_flow_step(flow, out_message, out_len, err);
        cay_flow_set_patient(flow, false);
        if (news != CAY_FLOW_NOTHING)
            return news;
        cay_flow_wait(flow, true, -1, 0, NULL);
    }
}

int cay_flow_fd(const struct cay_flow *flow)
{
    return flow && flow->line ? cay_line_fd(flow->line) : -1;
}

short cay_flow_events(const struct cay_flow *flow)
{
    return flow && flow->line ? cay_line_events(flow->line, true, has_to_send(flow)) : 0;
}

/* The first of three times, where 0 is never. */
static int64_t earliest(int64_t a, int64_t b, int64_t c)
{
    int64_t first = INT64_MAX;
    first = a && a < first ? a : first;
    first = b && b < first ? b : first;
    return c && c < first ? c : first;
}

int cay_flow_timeout_ms(const struct cay_flow *flow)
{
    if (!flow || flow->is_over)
        return 0;
    int64_t at_ns = earliest(flow->deadline_ns, flow->line ? 0 : flow->again_ns,
                             flow->line ? cay_line_deadline_ns(flow->line) : 0);
    /* A flow that has not begun to connect, or that left off, has something to do now. */
    if ((!flow->line && !flow->again_ns) || flow->has_paused)
        return 0;
    if (at_ns == INT64_MAX)
        return -1;
    int64_t left_ms = (at_ns - cay_clock_ns()) / (int64_t)CAY_NS_PER_MS + 1;
    return (int)CAY_MIN(CAY_MAX(left_ms, 0), (int64_t)INT32_MAX);
}

void cay_flow_wait(struct cay_flow *flow, bool reads, int other_fd, short other_events,
                   short *out_other_ready)
{
    short ours = flow->line ? cay_line_events(flow->line, reads, has_to_send(flow)) : 0;
    /* A hang-up is reported whether or not it is asked for: who waits for nothing is left out. */
    struct pollfd entries[] = {
        {.fd = ours ? cay_flow_fd(flow) : -1, .events = ours},
        {.fd = cay_cancel_fd(flow->cancel), .events = POLLIN},
        {.fd = other_events ? other_fd : -1, .events = other_events},
    };
    /* A signal ends the wait early, and whoever waits looks again. */
    (void)poll(entries, CAY_COUNT(entries), cay_flow_timeout_ms(flow));
    if (out_other_ready)
        *out_other_ready = entries[2].revents;
}
