/* SPDX-License-Identifier: Apache-2.0 */
/* The link against an init that lies. */
#include "tests/unit/test.h"

#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/runtime/link.h"
#include "host/runtime/runtime_ops.h"
#include "wire/frame/decode.h"
#include "wire/frame/encode.h"

static int init_fd = -1;
static bool is_first = true;
static int exits;

static bool connect_fake(struct cay_sandbox *, struct cay_connection *out_connection,
                         struct cay_error *)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    init_fd = ends[1];
    *out_connection = (struct cay_connection){
        .fd = ends[0], .out_fd = -1, .is_first = is_first, .version = CAY_FRAME_VERSION};
    memset(out_connection->token, 7, CAY_FRAME_TOKEN_BYTES);
    return true;
}

static const struct cay_runtime_ops ops = {.name = "lying", .connect = connect_fake};
static struct cay_runtime lying = {.ops = &ops};
static struct cay_sandbox sandbox = {.runtime = &lying, .id = "x"};

static void on_exited(void *, uint64_t, const struct cay_frame_exit *)
{
    exits++;
}

static struct cay_link *open_link(bool first)
{
    static const struct cay_link_handlers handlers = {.exited = on_exited};
    struct cay_link *link = NULL;
    struct cay_error err = {};
    is_first = first;
    exits = 0;
    assert_true(cay_link_open(&sandbox, &handlers, NULL, &link, &err));
    return link;
}

static void close_link(struct cay_link *link)
{
    cay_link_close(link);
    close(init_fd);
}

static void say(const void *data, size_t len)
{
    assert_int_equal(send(init_fd, data, len, MSG_NOSIGNAL), len);
}

static void expect_death(struct cay_link *link, enum cay_reason reason)
{
    struct cay_error err = {};
    assert_false(cay_link_step(link, &err));
    assert_int_equal(err.reason, reason);
    close_link(link);
}

static void noise_closes_the_link(void **)
{
    struct cay_link *link = open_link(true);
    say("GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27);
    expect_death(link, CAY_R_RUNTIME_FAILED);
}

static void frames_of_the_daemon_are_not_taken_from_init(void **)
{
    uint8_t data[64];
    struct cay_frame_writer writer = {.data = data, .cap = sizeof(data)};
    struct cay_link *link = open_link(true);
    assert_true(cay_frame_put_u64(&writer, CAY_FRAME_PING, 0, 1));
    say(data, writer.len);
    expect_death(link, CAY_R_RUNTIME_FAILED);
}

static void nothing_counts_before_the_welcome_and_its_nonce(void **)
{
    uint8_t data[128];
    struct cay_frame_writer writer = {.data = data, .cap = sizeof(data)};
    struct cay_link *link = open_link(false);
    assert_true(cay_frame_put_u64(&writer, CAY_FRAME_PONG, 0, 1));
    say(data, writer.len);
    expect_death(link, CAY_R_RUNTIME_FAILED);

    link = open_link(false);
    writer.len = 0;
    struct cay_frame_welcome welcome = {.version = CAY_FRAME_VERSION, .nonce = 1};
    assert_true(cay_frame_put_welcome(&writer, &welcome));
    say(data, writer.len);
    expect_death(link, CAY_R_RUNTIME_FAILED);
}

/* What the link greets init with. */
static uint64_t nonce_said(void)
{
    uint8_t data[128];
    struct cay_frame frame;
    struct cay_frame_hello hello = {};
    ssize_t len = recv(init_fd, data, sizeof(data), 0);
    assert_true(len > 0);
    assert_int_equal(cay_frame_next(data, (size_t)len, CAY_FRAME_FROM_DAEMON, &frame), len);
    assert_true(cay_frame_get_hello(&frame, &hello));
    return hello.nonce;
}

static void the_greeting_tells_nothing_of_the_daemons_memory(void **)
{
    const uint64_t far = UINT64_C(1) << 40; /* farther than any two things on one heap */
    uint64_t last = 0;
    for (int i = 0; i < 3; i++) {
        struct cay_link *link = open_link(false);
        uint64_t nonce = nonce_said();
        uint64_t here = (uintptr_t)link;
        assert_true(nonce > here ? nonce - here > far : here - nonce > far);
        assert_true(nonce != last);
        last = nonce;
        close_link(link);
    }
}

static void slots_that_were_never_given_are_not_believed(void **)
{
    uint8_t data[256];
    struct cay_frame_writer writer = {.data = data, .cap = sizeof(data)};
    struct cay_frame_exit exit = {.cause = CAY_CAUSE_EXITED, .slots = {.total = 3, .unused = 3}};
    struct cay_link *link = open_link(true);
    assert_true(cay_frame_put_exit(&writer, 1, &exit));
    say(data, writer.len);
    expect_death(link, CAY_R_RUNTIME_FAILED);
    assert_int_equal(exits, 0);
}

static void a_frame_in_pieces_is_one_frame(void **)
{
    uint8_t data[256];
    struct cay_frame_writer writer = {.data = data, .cap = sizeof(data)};
    struct cay_frame_exit exit = {.cause = CAY_CAUSE_EXITED};
    struct cay_link *link = open_link(true);
    struct cay_error err = {};
    assert_true(cay_frame_put_exit(&writer, 1, &exit));
    for (size_t i = 0; i < writer.len; i++) {
        assert_int_equal(exits, 0);
        say(data + i, 1);
        assert_true(cay_link_step(link, &err));
    }
    assert_int_equal(exits, 1);
    close_link(link);
}

static void an_init_that_reads_nothing_fills_a_bounded_buffer(void **)
{
    static char big[100000];
    memset(big, 'x', sizeof(big) - 1);
    const char *args[] = {"echo", big, NULL};
    const char *env[] = {NULL};
    struct cay_frame_exec exec = {
        .ring_bytes = 4096, .cwd = "/", .arg_count = 2, .args = args, .env = env};
    struct cay_link *link = open_link(true);
    struct cay_error err = {};
    uint64_t call = 1;
    while (call < 1000 && cay_link_exec(link, call, &exec, &err))
        call++;
    assert_true(call < 100);
    assert_int_equal(err.reason, CAY_R_RESOURCE_EXHAUSTED);
    assert_true(cay_link_wants(link) & POLLOUT);
    close_link(link);
}

static void the_end_of_init_is_told_as_unavailable(void **)
{
    struct cay_link *link = open_link(true);
    shutdown(init_fd, SHUT_RDWR);
    expect_death(link, CAY_R_UNAVAILABLE);
}

static void a_command_that_cannot_be_sent_is_refused_here(void **)
{
    const char *args[] = {"true", NULL};
    const char *env[] = {NULL};
    struct cay_frame_exec exec = {.ring_bytes = 4096, .cwd = "/", .args = args, .env = env};
    struct cay_link *link = open_link(true);
    struct cay_error err = {};
    assert_false(cay_link_exec(link, 1, &exec, &err));
    assert_int_equal(err.reason, CAY_R_INVALID_ARGUMENT);
    exec.arg_count = 1;
    assert_false(cay_link_exec(link, 0, &exec, &err));
    assert_false(cay_link_signal(link, 1, 65, CAY_TARGET_TREE, &err));
    assert_int_equal(err.reason, CAY_R_INVALID_ARGUMENT);
    close_link(link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(noise_closes_the_link),
        cmocka_unit_test(frames_of_the_daemon_are_not_taken_from_init),
        cmocka_unit_test(nothing_counts_before_the_welcome_and_its_nonce),
        cmocka_unit_test(the_greeting_tells_nothing_of_the_daemons_memory),
        cmocka_unit_test(slots_that_were_never_given_are_not_believed),
        cmocka_unit_test(a_frame_in_pieces_is_one_frame),
        cmocka_unit_test(an_init_that_reads_nothing_fills_a_bounded_buffer),
        cmocka_unit_test(the_end_of_init_is_told_as_unavailable),
        cmocka_unit_test(a_command_that_cannot_be_sent_is_refused_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
