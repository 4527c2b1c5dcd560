/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include <errno.h>
#include <string.h>

#include "wire/frame/decode.h"
#include "wire/frame/encode.h"

static const char *args[CAY_FRAME_ARGS_MAX + 1];
static const char *env[CAY_FRAME_ENV_MAX + 1];

/* What a decoder takes is within its limits, and says the same again when it is encoded. */
static void check_exec(const struct cay_frame *frame)
{
    static uint8_t memory[CAY_FRAME_BYTES_MAX];
    struct cay_frame_exec exec = {.args = args, .env = env};
    if (!cay_frame_get_exec(frame, &exec))
        return;
    FUZZ_CHECK(exec.arg_count >= 1 && exec.arg_count <= CAY_FRAME_ARGS_MAX);
    FUZZ_CHECK(exec.env_count <= CAY_FRAME_ENV_MAX && exec.window_bytes <= exec.ring_bytes);
    for (uint32_t i = 0; i < exec.arg_count; i++)
        FUZZ_CHECK(strlen(exec.args[i]) < frame->len);
    struct cay_frame_writer writer = {.data = memory, .cap = sizeof(memory)};
    FUZZ_CHECK(cay_frame_put_exec(&writer, frame->call, &exec));
    FUZZ_CHECK(writer.len == cay_frame_exec_size(&exec));
}

static void check_request(const struct cay_frame *frame)
{
    uint64_t number = 0;
    uint32_t count = 0;
    struct cay_frame_start start;
    struct cay_frame_hello hello;
    struct cay_frame_slot slot;
    struct cay_frame_signal signal;
    struct cay_frame_size size;
    check_exec(frame);
    if (cay_frame_get_start(frame, &start))
        FUZZ_CHECK(start.hostname.len <= CAY_FRAME_HOSTNAME_BYTES_MAX);
    (void)cay_frame_get_hello(frame, &hello);
    (void)cay_frame_get_size(frame, &size);
    if (cay_frame_get_slot(frame, &slot))
        FUZZ_CHECK(slot.index < CAY_FRAME_SLOTS_MAX);
    if (cay_frame_get_signal(frame, &signal))
        FUZZ_CHECK(signal.signal >= 1 && signal.signal <= 64);
    if (cay_frame_get_attach(frame, &number, &count))
        FUZZ_CHECK(count <= CAY_FRAME_RING_BYTES_MAX);
    if (cay_frame_get_read(frame, &number, &count))
        FUZZ_CHECK(count >= 1 && count <= CAY_FRAME_DATA_BYTES_MAX);
}

static void check_answer(const struct cay_frame *frame)
{
    static struct cay_frame_procs procs;
    struct cay_frame_ready ready;
    struct cay_frame_welcome welcome;
    struct cay_frame_started started;
    struct cay_frame_output output;
    struct cay_frame_exit exit;
    struct cay_frame_call call;
    struct cay_frame_detail detail;
    struct cay_frame_refused refused;
    struct cay_frame_piece piece;
    static struct cay_frame_who who;
    if (cay_frame_get_piece(frame, &piece))
        FUZZ_CHECK(piece.output.data.len < frame->len && piece.kept_offset <= piece.output.offset);
    if (cay_frame_get_who(frame, &who))
        FUZZ_CHECK(who.count <= CAY_FRAME_WHO_MAX && who.count <= who.total);
    if (cay_frame_get_ready(frame, &ready))
        FUZZ_CHECK(ready.stage < CAY_STAGES && ready.error < 4096);
    if (cay_frame_get_welcome(frame, &welcome))
        FUZZ_CHECK(welcome.slots.unused <= welcome.slots.total);
    (void)cay_frame_get_started(frame, &started);
    if (cay_frame_get_output(frame, &output))
        FUZZ_CHECK(output.data.len <= frame->len && output.stream <= CAY_STREAM_PTY);
    if (cay_frame_get_exit(frame, &exit))
        FUZZ_CHECK(exit.cause < CAY_CAUSES && exit.kept_offset <= exit.end_offset);
    if (cay_frame_get_call(frame, &call))
        FUZZ_CHECK(call.kept_offset <= call.end_offset);
    if (cay_frame_get_detail(frame, &detail))
        FUZZ_CHECK(detail.stdin_queued <= CAY_FRAME_STDIN_WINDOW_BYTES);
    if (cay_frame_get_procs(frame, &procs))
        FUZZ_CHECK(procs.count <= CAY_FRAME_PROCS_MAX && procs.count <= procs.total);
    if (cay_frame_get_refused(frame, &refused))
        FUZZ_CHECK(refused.error < 4096);
}

/* The stream of either side, in as many frames as there are. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum cay_frame_side sides[] = {CAY_FRAME_FROM_DAEMON, CAY_FRAME_FROM_INIT};
    for (size_t i = 0; i < CAY_COUNT(sides); i++) {
        size_t at = 0;
        for (;;) {
            struct cay_frame frame;
            ssize_t len = cay_frame_next(data + at, size - at, sides[i], &frame);
            FUZZ_CHECK(len == -EPROTO || (len >= 0 && (size_t)len <= size - at));
            if (len <= 0)
                break;
            check_request(&frame);
            check_answer(&frame);
            at += (size_t)len;
        }
    }
    return 0;
}
