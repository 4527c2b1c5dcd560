/* SPDX-License-Identifier: Apache-2.0 */
#include "host/build/build_log.h"

#include "base/clock.h"
#include "base/utf8.h"
#include "io/loop.h"

enum { HEARTBEAT_MS = 30 * 1000 };

void cay_build_log_init(struct cay_build_log *log, struct cay_call *call, struct cay_loop *loop)
{
    log->call = call;
    log->loop = loop;
    log->said_ms = cay_loop_now_ms(loop);
}

static void send(struct cay_build_log *log, const struct cay_v1_build_base_response *frame)
{
    log->is_sending = true;
    log->said_ms = cay_loop_now_ms(log->loop);
    if (!log->call->is_cancelled && !cay_call_send(log->call, frame))
        log->is_full = true;
    log->is_sending = false;
}

/* Programs print what they like; a message is text. */
static void make_text(char *line, size_t len)
{
    if (cay_utf8_valid((struct cay_str){line, len}))
        return;
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)line[i] >= 0x80)
            line[i] = '?';
    }
}

void cay_build_log_line(struct cay_build_log *log, const char *level, struct cay_str line)
{
    struct google_protobuf_timestamp now = {.seconds = cay_clock_wall_ns() / CAY_NS_PER_SEC,
                                            .nanos =
                                                (int32_t)(cay_clock_wall_ns() % CAY_NS_PER_SEC)};
    struct cay_v1_build_log noun = {
        .time = &now, .step = log->step, .level = cay_str(level), .message = line};
    const struct cay_v1_build_base_response frame = {
        .which_frame = CAY_V1_BUILD_BASE_RESPONSE_FRAME_LOG, .frame.log = &noun};
    send(log, &frame);
}

void cay_build_log_flush(struct cay_build_log *log)
{
    struct cay_str line = {log->line, log->line_len};
    if (!line.len)
        return;
    log->line_len = 0;
    make_text(log->line, line.len);
    if (log->seen)
        log->seen(log->context, line);
    else
        cay_build_log_line(log, "info", line);
}

void cay_build_log_bytes(struct cay_build_log *log, struct cay_str bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        char c = bytes.ptr[i];
        if (c != '\n' && c != '\r')
            log->line[log->line_len++] = c;
        if (c == '\n' || c == '\r' || log->line_len == sizeof(log->line))
            cay_build_log_flush(log);
    }
}

void cay_build_log_progress(struct cay_build_log *log, double fraction, const char *message)
{
    struct cay_v1_build_progress progress = {
        .step = log->step, .steps = log->steps, .fraction = fraction, .message = cay_str(message)};
    const struct cay_v1_build_base_response frame = {
        .which_frame = CAY_V1_BUILD_BASE_RESPONSE_FRAME_PROGRESS, .frame.progress = &progress};
    if (fraction <= log->fraction)
        return;
    log->fraction = fraction;
    send(log, &frame);
}

void cay_build_log_tick(struct cay_build_log *log)
{
    struct cay_v1_heartbeat heartbeat = {};
    const struct cay_v1_build_base_response frame = {
        .which_frame = CAY_V1_BUILD_BASE_RESPONSE_FRAME_HEARTBEAT, .frame.heartbeat = &heartbeat};
    if (cay_loop_now_ms(log->loop) - log->said_ms >= HEARTBEAT_MS && !log->is_full)
        send(log, &frame);
}

void cay_build_log_base(struct cay_build_log *log, struct cay_v1_base *base)
{
    const struct cay_v1_build_base_response frame = {
        .which_frame = CAY_V1_BUILD_BASE_RESPONSE_FRAME_BASE, .frame.base = base};
    send(log, &frame);
}
