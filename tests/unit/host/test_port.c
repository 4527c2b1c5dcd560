/* SPDX-License-Identifier: Apache-2.0 */
/* Connections to exposed ports, of several owners. */
#include "host/net/port.h"
#include "tests/unit/test.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/loop_internal.h"
#include "io/worker.h"

enum { MOST = 8, DIALS = 2 * MOST };

static void ignore(void *, bool)
{
}

static int listen_inside(uint16_t *out_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof(address);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (void *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, DIALS * 2), 0);
    assert_int_equal(getsockname(fd, (void *)&address, &len), 0);
    *out_port = ntohs(address.sin_port);
    return fd;
}

static struct cay_port *expose(struct cay_net *net, uint16_t inside, size_t *own_count)
{
    struct cay_port *port = NULL;
    struct cay_error err = {};
    const struct cay_port_options options = {
        .bind_address = "127.0.0.1", .port = inside, .seen = ignore, .own_count = own_count};
    int netns_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    assert_true(cay_port_open(net, &options, netns_fd, &port, &err));
    return port;
}

static int dial(struct cay_net *net, const struct cay_port *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(cay_port_host_port(port))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (void *)&address, sizeof(address)), 0);
    /* It is counted in the turn in which it is accepted. */
    uv_run(&net->loop->uv, UV_RUN_NOWAIT);
    return fd;
}

static void one_owners_ports_leave_connections_for_others(void **)
{
    struct cay_loop *loop = NULL;
    struct cay_net net;
    struct cay_error err = {};
    uint16_t inside = 0;
    size_t of_evil = 0;
    size_t of_polite = 0;
    int fds[DIALS + 1];
    if (geteuid() != 0) {
        print_message("# SKIP to dial in a network namespace needs root\n");
        skip();
    }
    assert_int_equal(cay_loop_create(&loop), 0);
    assert_true(cay_net_init(&net, loop, "127.0.0.1", NULL, &err));
    net.connection_count_max = MOST;
    cay_autoclose int inside_fd = listen_inside(&inside);
    struct cay_port *evil[] = {expose(&net, inside, &of_evil), expose(&net, inside, &of_evil)};
    struct cay_port *polite = expose(&net, inside, &of_polite);
    for (size_t i = 0; i < DIALS; i++)
        fds[i] = dial(&net, evil[i % 2]);
    assert_int_equal(of_evil, MOST / 2);
    fds[DIALS] = dial(&net, polite);
    assert_int_equal(of_polite, 1);
    assert_int_equal(net.connection_count, MOST / 2 + 1);
    for (size_t i = 0; i < CAY_COUNT(fds); i++)
        close(fds[i]);
    cay_port_close(evil[0]);
    cay_port_close(evil[1]);
    cay_port_close(polite);
    assert_int_equal(net.connection_count + of_evil + of_polite, 0);
    cay_loop_finish_jobs(loop);
    cay_net_finish(&net);
    cay_loop_destroy(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_owners_ports_leave_connections_for_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
