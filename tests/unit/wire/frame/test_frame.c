/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "wire/frame/decode.h"
#include "wire/frame/encode.h"

static uint8_t memory[CAY_FRAME_BYTES_MAX * 2];
static const char *args[CAY_FRAME_ARGS_MAX + 1];
static const char *env[CAY_FRAME_ENV_MAX + 1];

static struct cay_frame_writer fresh(void)
{
    return (struct cay_frame_writer){.data = memory, .cap = sizeof(memory)};
}

static struct cay_frame only_frame(const struct cay_frame_writer *writer, enum cay_frame_side side)
{
    struct cay_frame frame;
    assert_int_equal(cay_frame_next(writer->data, writer->len, side, &frame), writer->len);
    return frame;
}

static struct cay_frame_exec sample_exec(void)
{
    static const char *sample_args[] = {"sh", "-c", "echo \"$A\"", "", NULL};
    static const char *sample_env[] = {"A=b", "EMPTY=", NULL};
    return (struct cay_frame_exec){
        .flags = CAY_EXEC_STDIN | CAY_EXEC_TELL_START,
        .uid = 1000,
        .gid = 1001,
        .group_count = 2,
        .groups = {4, 27},
        .wall_ms = 30000,
        .quiet_ms = 5000,
        .ring_bytes = 65536,
        .window_bytes = 32768,
        .cwd = "/workspace",
        .arg_count = 4,
        .env_count = 2,
        .args = sample_args,
        .env = sample_env,
    };
}

static void exec_comes_back_as_it_was(void **)
{
    struct cay_frame_writer writer = fresh();
    struct cay_frame_exec sent = sample_exec();
    assert_true(cay_frame_put_exec(&writer, 77, &sent));
    assert_int_equal(writer.len, cay_frame_exec_size(&sent));
    struct cay_frame frame = only_frame(&writer, CAY_FRAME_FROM_DAEMON);
    assert_int_equal(frame.type, CAY_FRAME_EXEC);
    assert_int_equal(frame.call, 77);
    struct cay_frame_exec got = {.args = args, .env = env};
    assert_true(cay_frame_get_exec(&frame, &got));
    assert_int_equal(got.uid, 1000);
    assert_int_equal(got.gid, 1001);
    assert_int_equal(got.groups[1], 27);
    assert_int_equal(got.wall_ms, 30000);
    assert_int_equal(got.quiet_ms, 5000);
    assert_int_equal(got.window_bytes, 32768);
    assert_string_equal(got.cwd, "/workspace");
    for (uint32_t i = 0; i < sent.arg_count; i++)
        assert_string_equal(got.args[i], sent.args[i]);
    assert_null(got.args[4]);
    assert_string_equal(got.env[1], "EMPTY=");
    assert_null(got.env[2]);
}

static void exec_out_of_its_limits_is_refused(void **)
{
    static const char *no_name[] = {"", NULL};
    struct cay_frame_exec wrong[] = {sample_exec(), sample_exec(), sample_exec(), sample_exec(),
                                     sample_exec(), sample_exec(), sample_exec(), sample_exec()};
    wrong[0].flags = 1u << 20;
    wrong[1].arg_count = 0;
    wrong[2].ring_bytes = 5000;
    wrong[3].ring_bytes = CAY_FRAME_RING_BYTES_MAX * 2;
    wrong[4].window_bytes = wrong[4].ring_bytes * 2;
    wrong[5].cwd = "relative";
    wrong[6].wall_ms = UINT64_MAX;
    wrong[7].args = no_name;
    wrong[7].arg_count = 1;
    for (size_t i = 0; i < CAY_COUNT(wrong); i++) {
        struct cay_frame_writer writer = fresh();
        assert_true(cay_frame_put_exec(&writer, 1, &wrong[i]));
        struct cay_frame frame = only_frame(&writer, CAY_FRAME_FROM_DAEMON);
        struct cay_frame_exec got = {.args = args, .env = env};
        assert_false(cay_frame_get_exec(&frame, &got));
    }
    struct cay_frame_writer writer = fresh();
    struct cay_frame_exec good = sample_exec();
    assert_true(cay_frame_put_exec(&writer, 0, &good));
    struct cay_frame frame = only_frame(&writer, CAY_FRAME_FROM_DAEMON);
    struct cay_frame_exec got = {.args = args, .env = env};
    assert_false(cay_frame_get_exec(&frame, &got));
}

static void a_string_with_a_nul_inside_is_refused(void **)
{
    struct cay_frame_writer writer = fresh();
    struct cay_frame_exec sent = sample_exec();
    assert_true(cay_frame_put_exec(&writer, 1, &sent));
    for (size_t i = 0; i + 10 < writer.len; i++) {
        if (memcmp(memory + i, "/workspace", 10) == 0)
            memory[i + 4] = 0;
    }
    struct cay_frame frame = only_frame(&writer, CAY_FRAME_FROM_DAEMON);
    struct cay_frame_exec got = {.args = args, .env = env};
    assert_false(cay_frame_get_exec(&frame, &got));
}

static void exit_comes_back_as_it_was(void **)
{
    struct cay_frame_writer writer = fresh();
    struct cay_frame_exit sent = {
        .cause = CAY_CAUSE_OOM,
        .signal = 9,
        .code = 0,
        .end_offset = UINT64_C(1) << 40,
        .kept_offset = 17,
        .wall_usec = 1,
        .user_usec = 2,
        .system_usec = 3,
        .memory_peak_bytes = 4,
        .stdout_bytes = 5,
        .leftovers = 6,
        .oom_kills = 7,
        .slots = {3, 2, 1},
    };
    assert_true(cay_frame_put_exit(&writer, 5, &sent));
    struct cay_frame frame = only_frame(&writer, CAY_FRAME_FROM_INIT);
    struct cay_frame_exit got;
    assert_true(cay_frame_get_exit(&frame, &got));
    assert_memory_equal(&got, &sent, sizeof(got));
    sent.kept_offset = sent.end_offset + 1;
    writer = fresh();
    assert_true(cay_frame_put_exit(&writer, 5, &sent));
    frame = only_frame(&writer, CAY_FRAME_FROM_INIT);
    assert_false(cay_frame_get_exit(&frame, &got));
}

static void output_knows_its_stream_and_its_place(void **)
{
    struct cay_frame_writer writer = fresh();
    struct cay_frame_output sent = {
        .stream = CAY_STREAM_STDERR, .offset = 123456789, .data = CAY_STR("bytes\0more")};
    assert_true(cay_frame_put_output(&writer, 9, &sent));
    struct cay_frame frame = only_frame(&writer, CAY_FRAME_FROM_INIT);
    struct cay_frame_output got;
    assert_true(cay_frame_get_output(&frame, &got));
    assert_int_equal(got.stream, CAY_STREAM_STDERR);
    assert_int_equal(got.offset, 123456789);
    assert_true(cay_str_equal(got.data, sent.data));
    sent.offset = UINT64_MAX - 2;
    writer = fresh();
    assert_true(cay_frame_put_output(&writer, 9, &sent));
    frame = only_frame(&writer, CAY_FRAME_FROM_INIT);
    assert_false(cay_frame_get_output(&frame, &got));
}

static void spawn_says_what_exec_cannot(void **)
{
    struct cay_frame_exec sent[] = {sample_exec(), sample_exec(), sample_exec()};
    static char large[CAY_FRAME_EXEC_BYTES_MAX + 1];
    static const char *many[CAY_FRAME_EXEC_ENV_MAX + 2];
    const char *large_args[] = {"sh", large, NULL};
    sent[0].flags |= CAY_EXEC_PTY;
    sent[0].size = (struct cay_frame_size){24, 80};
    memset(large, 'x', sizeof(large) - 1);
    sent[1].args = large_args;
    sent[1].arg_count = 2;
    for (size_t i = 0; i <= CAY_FRAME_EXEC_ENV_MAX; i++)
        many[i] = "A=b";
    sent[2].env = many;
    sent[2].env_count = CAY_FRAME_EXEC_ENV_MAX + 1;
    for (size_t i = 0; i < CAY_COUNT(sent); i++) {
        struct cay_frame_writer writer = fresh();
        struct cay_frame_exec got = {.args = args, .env = env};
        assert_false(cay_frame_exec_is_plain(&sent[i]));
        assert_true(cay_frame_put_exec(&writer, 7, &sent[i]));
        assert_int_equal(writer.len, cay_frame_exec_size(&sent[i]));
        struct cay_frame frame = only_frame(&writer, CAY_FRAME_FROM_DAEMON);
        assert_int_equal(frame.type, CAY_FRAME_SPAWN);
        assert_true(cay_frame_get_exec(&frame, &got));
        assert_int_equal(got.flags, sent[i].flags);
        assert_int_equal(got.size.columns, sent[i].size.columns);
        assert_string_equal(got.args[1], sent[i].args[1]);
        assert_int_equal(got.env_count, sent[i].env_count);
    }
}

static void later_frames_come_back_as_they_were(void **)
{
    struct cay_frame_writer writer = fresh();
    struct cay_frame_detail sent = {.flags = CAY_EXEC_PTY,
                                    .size = {3, 4},
                                    .stdin_total = 5,
                                    .stdin_queued = 6,
                                    .stdin_open = true,
                                    .stdout_bytes = 7};
    struct cay_frame_detail got = {};
    assert_true(cay_frame_put_detail(&writer, 8, &sent));
    struct cay_frame frame = only_frame(&writer, CAY_FRAME_FROM_INIT);
    assert_true(cay_frame_get_detail(&frame, &got));
    assert_int_equal(got.size.rows, 3);
    assert_int_equal(got.stdin_total, 5);
    assert_true(got.stdin_open && got.stdin_queued == 6 && got.stdout_bytes == 7);
    uint64_t offset = 0;
    uint32_t len_max = 0;
    writer = fresh();
    assert_true(cay_frame_put_read(&writer, 8, 1234567, 4096));
    frame = only_frame(&writer, CAY_FRAME_FROM_DAEMON);
    assert_true(cay_frame_get_read(&frame, &offset, &len_max));
    assert_true(offset == 1234567 && len_max == 4096);
    writer = fresh();
    assert_true(cay_frame_put_read(&writer, 8, 0, 0));
    frame = only_frame(&writer, CAY_FRAME_FROM_DAEMON);
    assert_false(cay_frame_get_read(&frame, &offset, &len_max));
    struct cay_frame_size size = {.rows = 50, .columns = 132};
    writer = fresh();
    assert_true(cay_frame_put_size(&writer, 8, &size));
    frame = only_frame(&writer, CAY_FRAME_FROM_DAEMON);
    size = (struct cay_frame_size){};
    assert_true(cay_frame_get_size(&frame, &size));
    assert_true(size.rows == 50 && size.columns == 132);
}

static void an_init_that_says_no_version_is_the_first(void **)
{
    struct cay_frame_writer writer = fresh();
    struct cay_frame_ready ready = {.version = CAY_FRAME_VERSION};
    assert_true(cay_frame_put_ready(&writer, &ready));
    struct cay_frame frame = only_frame(&writer, CAY_FRAME_FROM_INIT);
    assert_true(cay_frame_get_ready(&frame, &ready));
    assert_int_equal(ready.version, CAY_FRAME_VERSION);
    frame.len = 8;
    assert_true(cay_frame_get_ready(&frame, &ready));
    assert_int_equal(ready.version, 1);
    frame.len = 10;
    assert_false(cay_frame_get_ready(&frame, &ready));
}

static void a_frame_is_not_taken_from_the_wrong_side(void **)
{
    struct cay_frame_writer writer = fresh();
    struct cay_frame frame;
    assert_true(cay_frame_put_u64(&writer, CAY_FRAME_PING, 0, 1));
    assert_int_equal(cay_frame_next(memory, writer.len, CAY_FRAME_FROM_INIT, &frame), -EPROTO);
    assert_int_equal(cay_frame_next(memory, writer.len, CAY_FRAME_FROM_DAEMON, &frame), writer.len);
}

static void a_piece_of_a_frame_asks_for_more_and_a_wrong_header_does_not(void **)
{
    struct cay_frame_writer writer = fresh();
    struct cay_frame_exec sent = sample_exec();
    struct cay_frame frame;
    assert_true(cay_frame_put_exec(&writer, 1, &sent));
    for (size_t len = 0; len < writer.len; len++)
        assert_int_equal(cay_frame_next(memory, len, CAY_FRAME_FROM_DAEMON, &frame), 0);
    memory[3] = 0x7f;
    assert_int_equal(cay_frame_next(memory, writer.len, CAY_FRAME_FROM_DAEMON, &frame), -EPROTO);
    memory[3] = 0;
    memory[5] = 1;
    assert_int_equal(cay_frame_next(memory, writer.len, CAY_FRAME_FROM_DAEMON, &frame), -EPROTO);
    memory[5] = 0;
    memory[4] = 200;
    assert_int_equal(cay_frame_next(memory, writer.len, CAY_FRAME_FROM_DAEMON, &frame), -EPROTO);
}

static void what_does_not_fit_is_not_written(void **)
{
    uint8_t small[20];
    struct cay_frame_writer writer = {.data = small, .cap = sizeof(small)};
    assert_false(cay_frame_put_u64(&writer, CAY_FRAME_PING, 0, 1));
    assert_int_equal(writer.len, 0);
    assert_true(cay_frame_put_empty(&writer, CAY_FRAME_LIST, 0));
    assert_int_equal(writer.len, CAY_FRAME_HEADER_BYTES);
}

/* Every decoder on one frame, whatever it is: nothing may crash, and what is taken is within its
 * limits. */
static void decode_all(const struct cay_frame *frame)
{
    static struct cay_frame_procs procs;
    uint64_t a = 0;
    uint32_t b = 0;
    struct cay_frame_start start;
    struct cay_frame_ready ready;
    struct cay_frame_hello hello;
    struct cay_frame_welcome welcome;
    struct cay_frame_slot slot;
    struct cay_frame_signal signal;
    struct cay_frame_started started;
    struct cay_frame_output output;
    struct cay_frame_exit exit;
    struct cay_frame_call call;
    struct cay_frame_refused refused;
    struct cay_frame_exec exec = {.args = args, .env = env};
    if (cay_frame_get_exec(frame, &exec)) {
        assert_true(exec.arg_count <= CAY_FRAME_ARGS_MAX && exec.env_count <= CAY_FRAME_ENV_MAX);
        for (uint32_t i = 0; i < exec.arg_count; i++)
            assert_true(strlen(exec.args[i]) <= frame->len);
    }
    if (cay_frame_get_start(frame, &start))
        assert_true(start.hostname.len <= CAY_FRAME_HOSTNAME_BYTES_MAX);
    if (cay_frame_get_ready(frame, &ready))
        assert_true(ready.stage < CAY_STAGES);
    (void)cay_frame_get_hello(frame, &hello);
    if (cay_frame_get_welcome(frame, &welcome))
        assert_true(welcome.slots.unused <= welcome.slots.total);
    if (cay_frame_get_slot(frame, &slot))
        assert_true(slot.index < CAY_FRAME_SLOTS_MAX);
    if (cay_frame_get_signal(frame, &signal))
        assert_in_range(signal.signal, 1, 64);
    (void)cay_frame_get_attach(frame, &a, &b);
    (void)cay_frame_get_started(frame, &started);
    if (cay_frame_get_output(frame, &output))
        assert_true(output.data.len <= frame->len);
    if (cay_frame_get_exit(frame, &exit))
        assert_true(exit.cause < CAY_CAUSES && exit.kept_offset <= exit.end_offset);
    (void)cay_frame_get_call(frame, &call);
    if (cay_frame_get_procs(frame, &procs))
        assert_true(procs.count <= CAY_FRAME_PROCS_MAX);
    (void)cay_frame_get_refused(frame, &refused);
    struct cay_frame_detail detail;
    struct cay_frame_size size;
    if (cay_frame_get_detail(frame, &detail))
        assert_true(detail.stdin_queued <= CAY_FRAME_STDIN_WINDOW_BYTES);
    if (cay_frame_get_read(frame, &a, &b))
        assert_in_range(b, 1, CAY_FRAME_DATA_BYTES_MAX);
    (void)cay_frame_get_size(frame, &size);
    (void)cay_frame_get_u64(frame, &a);
    (void)cay_frame_get_u32(frame, &b);
    assert_non_null(cay_frame_stage_name(b));
}

/* A fixed sequence: a failure comes again. */
static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void damaged_frames_never_crash_a_decoder(void **)
{
    static uint8_t damaged[4096];
    struct cay_frame_exec exec = sample_exec();
    struct cay_frame_exit exit = {.cause = CAY_CAUSE_EXITED};
    struct cay_frame_start start = {.mode = CAY_FRAME_MODE_PLAIN, .hostname = CAY_STR("host")};
    struct cay_frame_output output = {.stream = CAY_STREAM_STDOUT, .data = CAY_STR("x")};
    struct cay_frame_writer writer = fresh();
    assert_true(cay_frame_put_exec(&writer, 3, &exec) && cay_frame_put_exit(&writer, 3, &exit) &&
                cay_frame_put_start(&writer, &start) && cay_frame_put_output(&writer, 3, &output));
    assert_true(writer.len < sizeof(damaged));
    uint32_t state = 1;
    size_t accepted = 0;
    for (int round = 0; round < 200000; round++) {
        memcpy(damaged, memory, writer.len);
        for (uint32_t hits = next_random(&state) % 6; hits > 0; hits--)
            damaged[next_random(&state) % writer.len] = (uint8_t)next_random(&state);
        size_t at = 0;
        while (at < writer.len) {
            struct cay_frame frame;
            ssize_t size =
                cay_frame_next(damaged + at, writer.len - at, CAY_FRAME_FROM_DAEMON, &frame);
            if (size <= 0)
                size = cay_frame_next(damaged + at, writer.len - at, CAY_FRAME_FROM_INIT, &frame);
            if (size <= 0)
                break;
            decode_all(&frame);
            accepted++;
            at += (size_t)size;
        }
    }
    assert_true(accepted > 100000);
}

static void noise_never_crashes_a_decoder(void **)
{
    static uint8_t noise[512];
    uint32_t state = 7;
    for (int round = 0; round < 100000; round++) {
        size_t len = next_random(&state) % sizeof(noise);
        for (size_t i = 0; i < len; i++)
            noise[i] = (uint8_t)(next_random(&state) % (round % 2 ? 256 : 4));
        struct cay_frame frame = {
            .type = CAY_FRAME_EXEC, .call = 1, .payload = noise, .len = (uint32_t)len};
        decode_all(&frame);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exec_comes_back_as_it_was),
        cmocka_unit_test(exec_out_of_its_limits_is_refused),
        cmocka_unit_test(a_string_with_a_nul_inside_is_refused),
        cmocka_unit_test(exit_comes_back_as_it_was),
        cmocka_unit_test(output_knows_its_stream_and_its_place),
        cmocka_unit_test(spawn_says_what_exec_cannot),
        cmocka_unit_test(later_frames_come_back_as_they_were),
        cmocka_unit_test(an_init_that_says_no_version_is_the_first),
        cmocka_unit_test(a_frame_is_not_taken_from_the_wrong_side),
        cmocka_unit_test(a_piece_of_a_frame_asks_for_more_and_a_wrong_header_does_not),
        cmocka_unit_test(what_does_not_fit_is_not_written),
        cmocka_unit_test(damaged_frames_never_crash_a_decoder),
        cmocka_unit_test(noise_never_crashes_a_decoder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
