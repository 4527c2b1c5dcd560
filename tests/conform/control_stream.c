/* SPDX-License-Identifier: Apache-2.0 */
/* What every control promises of processes that are talked to: pipes, terminals, both at once. */
#include "tests/conform/control_world.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "cay/stream.h"

enum { MUCH_BYTES = 4 * 1024 * 1024, SAID_BYTES = 4096 };

/* A script of sh in a sandbox of its own, and a stream to it. */
struct talk {
    const char *sandbox_id;
    struct cay_process_status *process;
    struct cay_stream *stream;
    char said[SAID_BYTES]; /* on standard output and standard error, as far as it was read */
    size_t said_len;
    bool is_on_error; /* something of it was on standard error */
};

static void launch(struct talk *talk, const char *script, int rows, int columns)
{
    const char *const args[] = {"-c", script};
    struct cay_process_request request = CAY_PROCESS_REQUEST;
    *talk = (struct talk){.sandbox_id = world_create(NULL)};
    request.sandbox_id = talk->sandbox_id;
    request.binary = "sh";
    request.args = args;
    request.arg_count = 2;
    request.has_input = rows == 0;
    request.rows = rows;
    request.columns = columns;
    assert_done(cay_control_launch(world.control, &request, NULL, &talk->process, &world.err));
    assert_done(cay_stream_open(world.control, talk->sandbox_id, talk->process->process_id, NULL,
                                &talk->stream, &world.err));
}

static void hang_up(struct talk *talk)
{
    cay_stream_close(talk->stream);
    cay_process_status_free(talk->process);
}

static void say(struct talk *talk, const char *text)
{
    assert_done(cay_stream_write(talk->stream, text, strlen(text), NULL, &world.err));
}

static void hear(struct talk *talk, const struct cay_stream_piece *piece)
{
    assert_true(talk->said_len + piece->len < sizeof(talk->said));
    assert_int_equal(piece->offset, talk->said_len);
    assert_int_equal(piece->dropped_bytes, 0);
    memcpy(talk->said + talk->said_len, piece->data, piece->len);
    talk->said_len += piece->len;
    talk->said[talk->said_len] = '\0';
    talk->is_on_error |= piece->stream == 2;
}

/* Reads until it has said that. */
static void await(struct talk *talk, const char *text)
{
    while (!strstr(talk->said, text)) {
        const struct cay_stream_piece *piece = NULL;
        enum cay_flow_news news = cay_stream_read(talk->stream, &piece, &world.err);
        if (news != CAY_FLOW_MESSAGE)
            fail_msg("'%s' was awaited, and '%s' came: %s", text, talk->said, world.err.text);
        hear(talk, piece);
    }
}

static const struct cay_process_status *await_end(struct talk *talk)
{
    const struct cay_stream_piece *piece = NULL;
    enum cay_flow_news news = CAY_FLOW_NOTHING;
    while ((news = cay_stream_read(talk->stream, &piece, &world.err)) == CAY_FLOW_MESSAGE)
        hear(talk, piece);
    assert_done(news == CAY_FLOW_END);
    assert_int_equal(cay_stream_read(talk->stream, &piece, &world.err), CAY_FLOW_END);
    assert_non_null(cay_stream_status(talk->stream));
    return cay_stream_status(talk->stream);
}

#define ECHO "while read -r line; do echo \"heard $line\"; done; echo bye >&2; exit 3"

static void a_program_hears_and_answers(void **)
{
    struct talk talk;
    launch(&talk, ECHO, 0, 0);
    say(&talk, "one\n");
    await(&talk, "heard one\n");
    assert_null(cay_stream_status(talk.stream));
    say(&talk, "");
    say(&talk, "two\nthree");
    assert_done(cay_stream_close_input(talk.stream, NULL, &world.err));
    assert_done(cay_stream_close_input(talk.stream, NULL, &world.err));
    const struct cay_process_status *status = await_end(&talk);
    assert_non_null(strstr(talk.said, "heard two\n"));
    assert_non_null(strstr(talk.said, "bye\n"));
    assert_true(talk.is_on_error);
    assert_int_equal(status->state, CAY_PROCESS_EXITED);
    assert_true(status->has_exit_code);
    assert_int_equal(status->exit_code, 3);
    assert_string_equal(status->process_id, talk.process->process_id);
    assert_string_equal(status->address, "");
    assert_false(cay_stream_write(talk.stream, "x", 1, NULL, &world.err));
    hang_up(&talk);
}

static void a_terminal_is_typed_at_and_resized(void **)
{
    struct talk talk;
    launch(&talk, "busybox stty size; read line; busybox stty size; read line; exit 4", 30, 100);
    await(&talk, "30 100");
    assert_done(cay_stream_resize(talk.stream, 41, 121, NULL, &world.err));
    say(&talk, "\r");
    await(&talk, "41 121");
    assert_fails("invalid_argument", cay_stream_resize(talk.stream, 0, 80, NULL, &world.err));
    assert_fails("invalid_argument", cay_stream_resize(talk.stream, 24, 70000, NULL, &world.err));
    say(&talk, "\x04");
    assert_int_equal(await_end(&talk)->exit_code, 4);
    hang_up(&talk);
}

static void *write_much(void *context)
{
    struct talk *talk = context;
    struct cay_error err = {};
    char *data = malloc(MUCH_BYTES);
    for (size_t i = 0; data && i < MUCH_BYTES; i++)
        data[i] = (char)(i * 31 / 7);
    bool is_done = data && cay_stream_write(talk->stream, data, MUCH_BYTES, NULL, &err) &&
                   cay_stream_close_input(talk->stream, NULL, &err);
    if (!is_done)
        fprintf(stderr, "%s\n", err.text);
    free(data);
    return is_done ? talk : NULL;
}

static void much_goes_both_ways_at_once(void **)
{
    struct talk talk;
    pthread_t thread;
    void *is_written = NULL;
    const struct cay_stream_piece *piece = NULL;
    enum cay_flow_news news = CAY_FLOW_NOTHING;
    int64_t at = 0;
    /* It takes its time, so that the input is full for a while. */
    launch(&talk, "sleep 0.2; cat", 0, 0);
    assert_int_equal(pthread_create(&thread, NULL, write_much, &talk), 0);
    while ((news = cay_stream_read(talk.stream, &piece, &world.err)) == CAY_FLOW_MESSAGE) {
        assert_int_equal(piece->offset, at + piece->dropped_bytes);
        for (size_t i = 0; i < piece->len; i++)
            assert_true(piece->data[i] == (char)(((size_t)piece->offset + i) * 31 / 7));
        at = piece->offset + (int64_t)piece->len;
    }
    assert_done(news == CAY_FLOW_END);
    assert_int_equal(pthread_join(thread, &is_written), 0);
    assert_non_null(is_written);
    assert_int_equal(at, MUCH_BYTES);
    hang_up(&talk);
}

static void a_loop_of_the_callers_drives_it(void **)
{
    struct talk talk;
    enum cay_flow_news news = CAY_FLOW_NOTHING;
    bool is_said = false;
    launch(&talk, ECHO, 0, 0);
    say(&talk, "a\n");
    for (int64_t end_ms = world_now_ms() + PATIENCE_MS; news != CAY_FLOW_END;) {
        const struct cay_stream_piece *piece = NULL;
        struct pollfd entry = {.fd = cay_stream_fd(talk.stream),
                               .events = cay_stream_events(talk.stream)};
        assert_true(world_now_ms() < end_ms);
        (void)poll(&entry, 1, cay_stream_timeout_ms(talk.stream));
        while ((news = cay_stream_step(talk.stream, &piece, &world.err)) == CAY_FLOW_MESSAGE)
            hear(&talk, piece);
        assert_done(news != CAY_FLOW_FAILED);
        if (!is_said && strstr(talk.said, "heard a"))
            is_said = cay_stream_close_input(talk.stream, NULL, &world.err);
    }
    assert_non_null(strstr(talk.said, "bye"));
    hang_up(&talk);
}

static void *fire(void *context)
{
    world_sleep_ms(50);
    cay_cancel_fire(context);
    return NULL;
}

static void another_thread_ends_the_wait(void **)
{
    struct talk talk;
    pthread_t thread;
    struct cay_stream_options options = CAY_STREAM_OPTIONS;
    const struct cay_stream_piece *piece = NULL;
    struct cay_stream *stream = NULL;
    assert_done(cay_cancel_create(&options.cancel, &world.err));
    launch(&talk, "echo out; read line", 0, 0);
    await(&talk, "out\n");
    options.offset = 2;
    assert_done(cay_stream_open(world.control, talk.sandbox_id, talk.process->process_id, &options,
                                &stream, &world.err));
    assert_int_equal(cay_stream_read(stream, &piece, &world.err), CAY_FLOW_MESSAGE);
    assert_int_equal(piece->offset, 2);
    assert_memory_equal(piece->data, "t\n", 2);
    assert_int_equal(pthread_create(&thread, NULL, fire, options.cancel), 0);
    assert_int_equal(cay_stream_read(stream, &piece, &world.err), CAY_FLOW_FAILED);
    assert_true(cay_error_is(&world.err, "canceled"));
    pthread_join(thread, NULL);
    cay_stream_close(stream);
    cay_cancel_destroy(options.cancel);
    /* The other one, and the process, know nothing of it. */
    say(&talk, "\n");
    assert_int_equal(await_end(&talk)->exit_code, 0);
    hang_up(&talk);
}

static void a_talk_goes_on_after_a_restart(void **)
{
    char answer[WORD_BYTES];
    struct talk talk;
    launch(&talk, ECHO, 0, 0);
    say(&talk, "before\n");
    await(&talk, "heard before\n");
    if (!world_help("restart", answer)) {
        print_message("nobody restarts this host\n");
        hang_up(&talk);
        skip();
    }
    say(&talk, "after\n");
    await(&talk, "heard after\n");
    assert_done(cay_stream_close_input(talk.stream, NULL, &world.err));
    assert_int_equal(await_end(&talk)->exit_code, 3);
    hang_up(&talk);
}

static void a_stream_outlives_its_control(void **)
{
    struct cay_control_options options = CAY_CONTROL_OPTIONS;
    struct cay_control *control = NULL;
    struct talk talk;
    launch(&talk, ECHO, 0, 0);
    cay_stream_close(talk.stream);
    options.key = world.key;
    assert_done(cay_control_open(world.address, &options, &control, &world.err));
    assert_done(cay_stream_open(control, talk.sandbox_id, talk.process->process_id, NULL,
                                &talk.stream, &world.err));
    cay_control_close(control);
    say(&talk, "still\n");
    await(&talk, "heard still\n");
    hang_up(&talk);
}

static void what_is_missing_is_said(void **)
{
    const struct cay_stream_piece *piece = NULL;
    struct cay_stream *stream = NULL;
    const char *id = world_create(NULL);
    const char *process = world_launch(id, "sleep 1000");
    struct cay_stream_options options = CAY_STREAM_OPTIONS;
    assert_fails("invalid_argument", cay_stream_open(NULL, id, process, NULL, &stream, &world.err));
    assert_fails("invalid_argument",
                 cay_stream_open(world.control, NULL, process, NULL, &stream, &world.err));
    assert_fails("invalid_argument",
                 cay_stream_open(world.control, id, "", NULL, &stream, &world.err));
    assert_fails("invalid_argument",
                 cay_stream_open(world.control, id, process, NULL, NULL, &world.err));
    options.offset = -1;
    assert_fails("invalid_argument",
                 cay_stream_open(world.control, id, process, &options, &stream, &world.err));
    assert_null(stream);
    assert_int_equal(cay_stream_read(NULL, &piece, NULL), CAY_FLOW_FAILED);
    assert_int_equal(cay_stream_step(NULL, &piece, &world.err), CAY_FLOW_FAILED);
    assert_int_equal(cay_stream_fd(NULL), -1);
    assert_int_equal(cay_stream_events(NULL), 0);
    assert_int_equal(cay_stream_timeout_ms(NULL), 0);
    assert_null(cay_stream_status(NULL));
    assert_fails("invalid_argument", cay_stream_write(NULL, "x", 1, NULL, &world.err));
    assert_fails("invalid_argument", cay_stream_close_input(NULL, NULL, &world.err));
    assert_fails("invalid_argument", cay_stream_resize(NULL, 24, 80, NULL, &world.err));
    cay_stream_close(NULL);
    /* One without an input, and without a terminal. */
    assert_done(cay_stream_open(world.control, id, process, NULL, &stream, &world.err));
    assert_int_equal(cay_stream_read(stream, NULL, &world.err), CAY_FLOW_FAILED);
    assert_fails("invalid_argument", cay_stream_write(stream, NULL, 1, NULL, &world.err));
    assert_false(cay_stream_write(stream, "x", 1, NULL, &world.err));
    assert_int_equal(cay_error_code(&world.err), CAY_CODE_FAILED_PRECONDITION);
    assert_false(cay_stream_resize(stream, 24, 80, NULL, NULL));
    cay_stream_close(stream);
    assert_done(cay_stream_open(world.control, id, "no-such-process", NULL, &stream, &world.err));
    assert_int_equal(cay_stream_read(stream, &piece, &world.err), CAY_FLOW_FAILED);
    assert_true(cay_error_is(&world.err, "process_not_found"));
    cay_stream_close(stream);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(a_program_hears_and_answers),   TEST(a_terminal_is_typed_at_and_resized),
        TEST(much_goes_both_ways_at_once),   TEST(a_loop_of_the_callers_drives_it),
        TEST(another_thread_ends_the_wait),  TEST(a_talk_goes_on_after_a_restart),
        TEST(a_stream_outlives_its_control), TEST(what_is_missing_is_said),
    };
    world_open(argc, argv);
    return cmocka_run_group_tests_name("control_stream", tests, NULL, NULL);
}
