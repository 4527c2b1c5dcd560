/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/listener.h"
#include "io/loop_internal.h"

enum { ACCEPTED_MAX = 16 };

struct fixture {
    struct cay_loop *loop;
    struct cay_listener listener;
    char dir[64];
    char path[96];
    char address[128];
    int fds[ACCEPTED_MAX];
    size_t count;
    struct cay_peer peer;
};

static struct fixture *current;

static void on_accepted(struct cay_listener *, int fd, const struct cay_peer *peer)
{
    assert_in_range(current->count, 0, ACCEPTED_MAX - 1);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
    current->fds[current->count++] = fd;
    current->peer = *peer;
}

static int setup(void **state)
{
    struct fixture *self = cay_new(struct fixture);
    assert_int_equal(cay_loop_create(&self->loop), 0);
    self->listener.fd = -1;
    self->listener.spare_fd = -1;
    snprintf(self->dir, sizeof(self->dir), "/tmp/cay-test-XXXXXX");
    assert_non_null(mkdtemp(self->dir));
    snprintf(self->path, sizeof(self->path), "%s/s", self->dir);
    snprintf(self->address, sizeof(self->address), "unix:%s", self->path);
    current = self;
    *state = self;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *self = *state;
    for (size_t i = 0; i < self->count; i++)
        close(self->fds[i]);
    cay_listener_close(&self->listener);
    cay_listener_close(&self->listener);
    assert_int_equal(access(self->path, F_OK), -1);
    rmdir(self->dir);
    cay_loop_destroy(self->loop);
    free(self);
    return 0;
}

static bool listen_on(struct fixture *self, const char *address, struct cay_error *err)
{
    return cay_listener_open(&self->listener, self->loop, address, on_accepted, err);
}

static void turn(struct fixture *self)
{
    for (int i = 0; i < 4; i++)
        uv_run(&self->loop->uv, UV_RUN_NOWAIT);
}

static int dial_unix(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, (void *)&address, sizeof(address)) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static int dial_tcp(const char *host, unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    inet_pton(AF_INET, host, &address.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (void *)&address, sizeof(address)), 0);
    return fd;
}

static unsigned port_of(const struct fixture *self)
{
    uint64_t port = 0;
    const char *colon = strrchr(self->listener.address, ':');
    assert_int_equal(cay_str_to_u64(cay_str(colon + 1), 65535, &port), 0);
    return (unsigned)port;
}

static void a_tcp_port_is_chosen_and_told(void **state)
{
    struct fixture *self = *state;
    struct cay_error err = {};
    assert_true(listen_on(self, "127.0.0.1:0", &err));
    assert_memory_equal(self->listener.address, "127.0.0.1:", 10);
    assert_true(port_of(self) > 0);
    cay_autoclose int client = dial_tcp("127.0.0.1", port_of(self));
    assert_true(client >= 0);
    turn(self);
    assert_int_equal(self->count, 1);
    assert_false(self->peer.is_unix);
    assert_memory_equal(self->peer.text, "127.0.0.1:", 10);
    /* A peer that vanishes is noticed. */
    int on = 0;
    socklen_t len = sizeof(on);
    assert_int_equal(getsockopt(self->fds[0], SOL_SOCKET, SO_KEEPALIVE, &on, &len), 0);
    assert_int_equal(on, 1);
    /* Nobody else gets the port. */
    struct cay_listener second;
    assert_false(cay_listener_open(&second, self->loop, self->listener.address, on_accepted, &err));
    assert_non_null(strstr(err.text, "Address already in use"));
}

static void a_port_alone_means_all_addresses(void **state)
{
    struct fixture *self = *state;
    struct cay_error err = {};
    assert_true(listen_on(self, ":0", &err));
    cay_autoclose int four = dial_tcp("127.0.0.1", port_of(self));
    assert_true(four >= 0);
    turn(self);
    assert_int_equal(self->count, 1);
    assert_memory_equal(self->peer.text, "127.0.0.1:", 10);
    cay_autoclose int six = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in6 loopback = {.sin6_family = AF_INET6,
                                    .sin6_port = htons((uint16_t)port_of(self)),
                                    .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    cay_autoclose int probe = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in6 any_port = loopback;
    any_port.sin6_port = 0;
    if (six < 0 || bind(probe, (void *)&any_port, sizeof(any_port)) < 0) {
        print_message("not checked over IPv6: this machine has none\n");
        return;
    }
    assert_int_equal(connect(six, (void *)&loopback, sizeof(loopback)), 0);
    turn(self);
    assert_int_equal(self->count, 2);
    assert_memory_equal(self->peer.text, "[::1]:", 6);
}

static void bad_addresses_get_a_sentence(void **state)
{
    struct fixture *self = *state;
    static const char *const bad[] = {"",
                                      "127.0.0.1",
                                      "127.0.0.1:",
                                      "127.0.0.1:x",
                                      "a:65536",
                                      "127.0.0.1:-1",
                                      "::1:80",
                                      "[::1:80",
                                      "[::1]",
                                      "256.0.0.1:80",
                                      "no.such.invalid:80",
                                      "127.0.0.1:80x",
                                      "unix:",
                                      "unix:/nonexistent/dir/s",
                                      "8.8.8.8:0"};
    for (size_t i = 0; i < CAY_COUNT(bad); i++) {
        struct cay_error err = {};
        if (listen_on(self, bad[i], &err))
            print_error("case %zu: %s\n", i, bad[i]);
        assert_int_equal(err.reason, CAY_R_INVALID_ARGUMENT);
        assert_true(strlen(err.text) > 15);
        assert_int_equal(self->listener.fd, -1);
    }
    char longer[200] = "unix:/";
    memset(longer + 6, 'x', sizeof(longer) - 7);
    struct cay_error err = {};
    assert_false(listen_on(self, longer, &err));
    assert_non_null(strstr(err.text, "too long"));
}

static void a_unix_socket_tells_who_calls(void **state)
{
    struct fixture *self = *state;
    struct cay_error err = {};
    assert_true(listen_on(self, self->address, &err));
    assert_string_equal(self->listener.address, self->address);
    struct stat info;
    assert_int_equal(stat(self->path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0660);
    cay_autoclose int client = dial_unix(self->path);
    assert_true(client >= 0);
    turn(self);
    assert_int_equal(self->count, 1);
    assert_true(self->peer.is_unix);
    assert_int_equal(self->peer.uid, getuid());
    assert_int_equal(self->peer.pid, getpid());
}

static void a_stale_socket_is_replaced_and_a_live_one_is_not(void **state)
{
    struct fixture *self = *state;
    struct cay_error err = {};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", self->path);
    int other = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(other, (void *)&address, sizeof(address)), 0);
    assert_int_equal(listen(other, 0), 0);
    assert_false(listen_on(self, self->address, &err));
    assert_int_equal(err.reason, CAY_R_ALREADY_EXISTS);
    assert_int_equal(access(self->path, F_OK), 0);
    /* Alive, though too busy to take another connection. */
    int clients[8];
    size_t count = 0;
    while (count < CAY_COUNT(clients) && (clients[count] = dial_unix(self->path)) >= 0)
        count++;
    assert_in_range(count, 0, CAY_COUNT(clients) - 1);
    assert_false(listen_on(self, self->address, &err));
    assert_int_equal(err.reason, CAY_R_ALREADY_EXISTS);
    assert_int_equal(access(self->path, F_OK), 0);
    while (count)
        close(clients[--count]);
    close(other);
    assert_true(listen_on(self, self->address, &err));
    int client = dial_unix(self->path);
    assert_true(client >= 0);
    close(client);
}

static void what_is_not_a_socket_stays(void **state)
{
    struct fixture *self = *state;
    struct cay_error err = {};
    close(open(self->path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    assert_false(listen_on(self, self->address, &err));
    assert_non_null(strstr(err.text, "is not a socket"));
    assert_int_equal(access(self->path, F_OK), 0);
    unlink(self->path);
}

/* In a child, with as few descriptors as it has open: connections are turned away, not left to wake
 * the loop for ever, and are taken again when there is room. */
static void run_out_of_descriptors(struct fixture *self)
{
    struct cay_error err = {};
    if (!listen_on(self, self->address, &err))
        _exit(1);
    int clients[3];
    for (int i = 0; i < 3; i++) {
        clients[i] = dial_unix(self->path);
        if (clients[i] < 0)
            _exit(2);
    }
    int highest = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(highest);
    struct rlimit limit = {(rlim_t)highest, (rlim_t)highest + 100};
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
        _exit(3);
    turn(self);
    char byte;
    if (self->count != 0 || recv(clients[0], &byte, 1, 0) != 0)
        _exit(4); /* the first was turned away */
    if (recv(clients[1], &byte, 1, 0) >= 0 || errno != EAGAIN)
        _exit(5); /* the others wait */
    limit.rlim_cur = (rlim_t)highest + 50;
    setrlimit(RLIMIT_NOFILE, &limit);
    for (int i = 0; i < 1000 && self->count < 2; i++) {
        uv_run(&self->loop->uv, UV_RUN_ONCE);
    }
    _exit(self->count == 2 ? 0 : 6);
}

static void running_out_of_descriptors_is_survived(void **state)
{
    struct fixture *self = *state;
    pid_t pid = fork();
    if (pid == 0) {
        alarm(10);
        struct fixture *child = cay_new(struct fixture);
        *child = *self;
        current = child;
        if (cay_loop_create(&child->loop) < 0)
            _exit(7);
        run_out_of_descriptors(child);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    unlink(self->path);
    assert_int_equal(status, 0);
}

static void a_closed_listener_takes_nothing(void **state)
{
    struct fixture *self = *state;
    struct cay_error err = {};
    assert_true(listen_on(self, self->address, &err));
    cay_autoclose int one = dial_unix(self->path);
    cay_autoclose int two = dial_unix(self->path);
    assert_true(one >= 0 && two >= 0);
    turn(self);
    assert_int_equal(self->count, 2);
    cay_listener_close(&self->listener);
    assert_int_equal(dial_unix(self->path), -1);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_tcp_port_is_chosen_and_told),
        CASE(a_port_alone_means_all_addresses),
        CASE(bad_addresses_get_a_sentence),
        CASE(a_unix_socket_tells_who_calls),
        CASE(a_stale_socket_is_replaced_and_a_live_one_is_not),
        CASE(what_is_not_a_socket_stays),
        CASE(running_out_of_descriptors_is_survived),
        CASE(a_closed_listener_takes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
