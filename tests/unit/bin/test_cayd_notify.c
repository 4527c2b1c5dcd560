/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/base.h"
#include "bin/cayd_notify.h"

/* A manager's socket under `name`, "@…" for an abstract one. */
static int open_manager(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(name);
    assert_true(len < sizeof(address.sun_path));
    memcpy(address.sun_path, name, len);
    if (name[0] == '@')
        address.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(fd >= 0);
    assert_return_code(bind(fd, (struct sockaddr *)&address,
                            (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)),
                       errno);
    setenv("NOTIFY_SOCKET", name, 1);
    return fd;
}

static void assert_hears(int fd, const char *expected)
{
    char text[64] = "";
    ssize_t got = recv(fd, text, sizeof(text) - 1, 0);
    assert_return_code(got, errno);
    assert_string_equal(text, expected);
    assert_int_equal(recv(fd, text, sizeof(text), 0), -1);
}

static void a_manager_with_a_path_is_told(void **)
{
    const char *tmp = getenv("TMPDIR");
    char dir[96];
    char name[108];
    snprintf(dir, sizeof(dir), "%s/notify-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(dir));
    snprintf(name, sizeof(name), "%s/s", dir);
    int fd = open_manager(name);
    cayd_notify("READY=1");
    assert_hears(fd, "READY=1");
    close(fd);
    unlink(name);
    rmdir(dir);
}

static void a_manager_with_an_abstract_name_is_told(void **)
{
    char name[64];
    snprintf(name, sizeof(name), "@cay-test-notify-%d", (int)getpid());
    int fd = open_manager(name);
    cayd_notify("STOPPING=1");
    assert_hears(fd, "STOPPING=1");
    close(fd);
}

static void without_a_manager_nothing_happens(void **)
{
    char long_name[200];
    memset(long_name, 'a', sizeof(long_name));
    long_name[0] = '/';
    long_name[sizeof(long_name) - 1] = '\0';
    static const char *const names[] = {"", "/", "@", "relative", "/no/such/socket", "vsock:2:1"};
    unsetenv("NOTIFY_SOCKET");
    cayd_notify("READY=1");
    for (size_t i = 0; i < CAY_COUNT(names); i++) {
        setenv("NOTIFY_SOCKET", names[i], 1);
        cayd_notify("READY=1");
    }
    setenv("NOTIFY_SOCKET", long_name, 1);
    cayd_notify("READY=1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_manager_with_a_path_is_told),
        cmocka_unit_test(a_manager_with_an_abstract_name_is_told),
        cmocka_unit_test(without_a_manager_nothing_happens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
