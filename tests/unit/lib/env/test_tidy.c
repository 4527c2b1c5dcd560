/* SPDX-License-Identifier: Apache-2.0 */
/* How long environments stay with a daemon that takes every word and says none. */
#include "tests/unit/test.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "cay/env.h"

enum {
    TIMEOUT_MS = 100,
    GRACE_MS = 500, /* as cay/client.h and cay/env.h have them */
    TIDY_MS = 1000,
    SLACK_MS = 500, /* of a machine under load */
};

static int listen_somewhere(char *url, size_t size)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    snprintf(url, size, "native:http://127.0.0.1:%u", ntohs(address.sin_port));
    return fd;
}

static int64_t create(const char *url, const struct cay_call_options *options, const char *reason)
{
    struct cay_env *env = NULL;
    struct cay_error err = {};
    assert_true(cay_env_open(url, NULL, &env, &err));
    int64_t begun_ms = cay_clock_ms();
    assert_false(cay_env_create(env, NULL, options, &err));
    int64_t took_ms = cay_clock_ms() - begun_ms;
    assert_true(cay_error_is(&err, reason));
    cay_env_close(env);
    return took_ms;
}

static void a_create_is_back_soon_after_its_timeout(void **)
{
    char url[64];
    int fd = listen_somewhere(url, sizeof(url));
    struct cay_call_options options = CAY_CALL_OPTIONS;
    options.timeout_ms = TIMEOUT_MS;
    assert_in_range(create(url, &options, "deadline_exceeded"), TIMEOUT_MS,
                    TIMEOUT_MS + GRACE_MS + TIDY_MS + SLACK_MS);
    close(fd);
}

static void a_create_is_back_soon_after_a_cancel(void **)
{
    char url[64];
    int fd = listen_somewhere(url, sizeof(url));
    struct cay_call_options options = CAY_CALL_OPTIONS;
    struct cay_error err = {};
    assert_true(cay_cancel_create(&options.cancel, &err));
    cay_cancel_fire(options.cancel);
    assert_in_range(create(url, &options, "canceled"), 0, TIDY_MS + SLACK_MS);
    cay_cancel_destroy(options.cancel);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_create_is_back_soon_after_its_timeout),
        cmocka_unit_test(a_create_is_back_soon_after_a_cancel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
