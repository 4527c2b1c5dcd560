/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that runs out, at every allocation of a call in turn: an error, and nothing left behind.
 */
#include "tests/unit/test.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/cay_v1.h"
#include "client/rpc/client.h"

enum { ALLOCATIONS_MAX = 1000, BYTES_MAX = 1 << 20 };

static long left = -1; /* allocations that go well; negative: all do */

static bool is_out(void)
{
    if (left < 0)
        return false;
    return left == 0 || left-- == 0;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *ptr, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *ptr, size_t size);
char *__wrap_strdup(const char *text);

void *__wrap_malloc(size_t size)
{
    return is_out() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return is_out() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *ptr, size_t size)
{
    return is_out() ? NULL : __real_realloc(ptr, size);
}

char *__wrap_strdup(const char *text)
{
    return is_out() ? NULL : __real_strdup(text);
}

static char url[200];
static pid_t server;

/* Answers whatever ends with a body of known length; in a process of its own, whose memory lasts.
 */
static void serve(int listener)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                                 "Content-Length: 15\r\n\r\n{\"status\":\"ok\"}";
    static const char stream[] =
        "HTTP/1.1 200 OK\r\nContent-Type: application/connect+json\r\nContent-Length: 16\r\n\r\n"
        "\0\0\0\0\4{\"a\"\2\0\0\0\2{}";
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        char data[65536];
        ssize_t len = 0;
        if (fd < 0)
            _exit(0);
        while ((len = read(fd, data, sizeof(data) - 1)) > 0) {
            data[len] = '\0';
            bool is_stream = strstr(data, "connect+json") != NULL;
            const char *text = is_stream ? stream : answer;
            size_t size = is_stream ? sizeof(stream) - 1 : sizeof(answer) - 1;
            if (send(fd, text, size, MSG_NOSIGNAL) < 0)
                break;
        }
        close(fd);
    }
}

static int setup(void **)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/memory.sock", getenv("TMPDIR"));
    snprintf(url, sizeof(url), "unix:%s", address.sun_path);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(listener, 8) < 0)
        return -1;
    server = fork();
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        serve(listener);
    }
    close(listener);
    return server > 0 ? 0 : -1;
}

static int teardown(void **)
{
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    return unlink(url + strlen("unix:"));
}

static bool ask(struct cay_error *err)
{
    struct cay_client_options options = CAY_CLIENT_OPTIONS;
    struct cay_client *client = NULL;
    struct cay_text text = {};
    options.url = url;
    options.key = "cay_0123456789";
    options.ca_file = "/nowhere";
    bool is_done = cay_client_open(&options, &client, err) &&
                   cay_client_ask(client, "GetSession", "{}", NULL, &text, err) &&
                   cay_client_ask(client, "GetSession", "{}", NULL, NULL, err);
    cay_text_free(&text);
    cay_client_close(client);
    return is_done;
}

static bool stream(struct cay_error *err)
{
    struct cay_client_options options = CAY_CLIENT_OPTIONS;
    struct cay_client *client = NULL;
    struct cay_flow *flow = NULL;
    const char *message = NULL;
    size_t len = 0;
    options.url = url;
    bool is_done = cay_client_open(&options, &client, err) &&
                   cay_flow_open(client, "WatchEvents", NULL, &flow, err) &&
                   cay_flow_send(flow, "{}", 2, err) &&
                   cay_flow_receive(flow, &message, &len, err) == CAY_FLOW_MESSAGE &&
                   cay_flow_receive(flow, &message, &len, err) == CAY_FLOW_END;
    cay_flow_close(flow);
    cay_client_close(client);
    return is_done;
}

static bool cancel(struct cay_error *err)
{
    struct cay_cancel *made = NULL;
    bool is_done = cay_cancel_create(&made, err);
    cay_cancel_destroy(made);
    return is_done;
}

static void fail_at_each(bool (*work)(struct cay_error *err))
{
    struct cay_error err = {};
    long number = 0;
    for (; number < ALLOCATIONS_MAX; number++) {
        err = (struct cay_error){};
        left = number;
        bool is_done = work(&err);
        left = -1;
        if (is_done)
            break;
        if (!cay_error_is(&err, "out_of_memory") && !cay_error_is(&err, "message_too_large"))
            fail_msg("allocation %ld: %s: %s", number, cay_error_reason(&err), err.text);
    }
    assert_in_range(number, 1, ALLOCATIONS_MAX - 1);
}

static void a_call_survives(void **)
{
    fail_at_each(ask);
}

static void a_stream_survives(void **)
{
    fail_at_each(stream);
}

static void a_cancellation_survives(void **)
{
    fail_at_each(cancel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_survives),
        cmocka_unit_test(a_stream_survives),
        cmocka_unit_test(a_cancellation_survives),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
