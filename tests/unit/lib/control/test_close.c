/* SPDX-License-Identifier: Apache-2.0 */
/* A control that is closed while others use it, and hosts that say nothing. */
#include "tests/unit/test.h"

#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "cay/control.h"

enum { CALLERS = 8 };

static struct sockaddr_un place = {.sun_family = AF_UNIX};
static char address[sizeof(place.sun_path) + 16];
static int listener = -1;

/* A host that takes connections and never answers. */
static int listen_silently(void **)
{
    const char *folder = getenv("TMPDIR");
    snprintf(place.sun_path, sizeof(place.sun_path), "%.80s/%d.sock", folder ? folder : "/tmp",
             getpid());
    snprintf(address, sizeof(address), "node:unix:%s", place.sun_path);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return listener < 0 || bind(listener, (struct sockaddr *)&place, sizeof(place)) < 0 ||
           listen(listener, CALLERS) < 0;
}

static int stop_listening(void **)
{
    close(listener);
    unlink(place.sun_path);
    return 0;
}

struct caller {
    pthread_t thread;
    struct cay_control *control;
    struct cay_cancel *cancel;
    struct cay_error err;
    bool is_done;
};

static void *list(void *state)
{
    struct caller *caller = state;
    struct cay_sandbox_list *found = NULL;
    struct cay_call_options options = CAY_CALL_OPTIONS;
    options.cancel = caller->cancel;
    caller->is_done = cay_control_list(caller->control, NULL, 0, &options, &found, &caller->err);
    return NULL;
}

static void calls_go_on_when_their_control_is_closed(void **)
{
    struct caller callers[CALLERS] = {};
    struct cay_control *control = NULL;
    int fds[CALLERS];
    assert_true(cay_control_open(address, NULL, &control, NULL));
    for (int i = 0; i < CALLERS; i++) {
        callers[i].control = control;
        assert_int_equal(pthread_create(&callers[i].thread, NULL, list, &callers[i]), 0);
    }
    for (int i = 0; i < CALLERS; i++) { /* once it is here, the call is under way */
        fds[i] = accept(listener, NULL, NULL);
        assert_true(fds[i] >= 0);
    }
    cay_control_close(control);
    for (int i = 0; i < CALLERS; i++)
        close(fds[i]);
    /* What may be repeated comes back once more. */
    close(listener);
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(callers[i].thread, NULL);
        assert_false(callers[i].is_done);
        assert_true(cay_error_is(&callers[i].err, "unavailable"));
    }
}

static void a_silent_host_takes_no_longer_than_it_may(void **)
{
    struct cay_control *control = NULL;
    struct cay_error err = {};
    const struct cay_control_capabilities *can = NULL;
    struct cay_control_options options = CAY_CONTROL_OPTIONS;
    struct cay_call_options call = CAY_CALL_OPTIONS;
    options.timeout_ms = 50;
    assert_true(cay_control_open(address, &options, &control, &err));
    assert_false(cay_control_capabilities(control, NULL, &can, &err));
    assert_true(cay_error_is(&err, "deadline_exceeded"));
    call.timeout_ms = 20;
    assert_false(cay_control_destroy(control, "s", &call, &err));
    assert_true(cay_error_is(&err, "deadline_exceeded"));
    assert_null(can);
    cay_control_close(control);
}

static void a_call_is_ended_by_another_thread(void **)
{
    struct caller caller = {};
    assert_true(cay_cancel_create(&caller.cancel, NULL));
    assert_true(cay_control_open(address, NULL, &caller.control, NULL));
    assert_int_equal(pthread_create(&caller.thread, NULL, list, &caller), 0);
    int fd = accept(listener, NULL, NULL);
    assert_true(fd >= 0);
    cay_cancel_fire(caller.cancel);
    pthread_join(caller.thread, NULL);
    assert_false(caller.is_done);
    assert_true(cay_error_is(&caller.err, "canceled"));
    close(fd);
    cay_control_close(caller.control);
    cay_cancel_destroy(caller.cancel);
}

static void a_host_that_is_not_there_is_unavailable(void **)
{
    struct cay_control *control = NULL;
    struct cay_error err = {};
    assert_true(cay_control_open("node:unix:/nowhere/cayd.sock", NULL, &control, &err));
    assert_false(cay_control_create(control, NULL, NULL, NULL, &err));
    assert_true(cay_error_is(&err, "unavailable"));
    assert_false(cay_control_destroy(control, "s", NULL, NULL));
    cay_control_close(control);
    assert_true(cay_control_open("node:", NULL, &control, &err));
    cay_control_close(control);
    assert_false(cay_control_open("node:ftp://host", NULL, &control, &err));
    assert_true(cay_error_is(&err, "invalid_argument"));
    struct cay_control_options options = CAY_CONTROL_OPTIONS;
    options.key = "two\nlines";
    assert_false(cay_control_open("node:", &options, &control, &err));
    assert_null(strstr(err.text, "lines"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, listen_silently, stop_listening)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(calls_go_on_when_their_control_is_closed),
        TEST(a_silent_host_takes_no_longer_than_it_may),
        TEST(a_call_is_ended_by_another_thread),
        TEST(a_host_that_is_not_there_is_unavailable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
