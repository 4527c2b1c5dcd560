/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <linux/rtnetlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "host/net/filter/filter.h"
#include "sys/netns.h"

enum { SOMEBODY = 54321 };

/* What a program inside does is done by a process that is root of a user namespace of its own, as
 * in a sandbox: the network namespace is not its. Its status is what `act` returns. */
static int inside(int netns_fd, int (*act)(const void *), const void *arg)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(20);
        if (setns(netns_fd, CLONE_NEWNET) < 0 || setresgid(SOMEBODY, SOMEBODY, SOMEBODY) < 0 ||
            setresuid(SOMEBODY, SOMEBODY, SOMEBODY) < 0 || unshare(CLONE_NEWUSER) < 0)
            _exit(255);
        _exit(act(arg));
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

struct place {
    const char *address;
    uint16_t port;
};

static socklen_t resolve(const struct place *place, struct sockaddr_storage *out)
{
    *out = (struct sockaddr_storage){};
    struct sockaddr_in *four = (struct sockaddr_in *)out;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)out;
    if (inet_pton(AF_INET, place->address, &four->sin_addr) == 1) {
        four->sin_family = AF_INET;
        four->sin_port = htons(place->port);
        return sizeof(*four);
    }
    assert_int_equal(inet_pton(AF_INET6, place->address, &six->sin6_addr), 1);
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(place->port);
    return sizeof(*six);
}

static int try_connect(const void *arg)
{
    struct sockaddr_storage to;
    socklen_t len = resolve(arg, &to);
    int fd = socket(to.ss_family, SOCK_STREAM, 0);
    return fd < 0 || connect(fd, (const struct sockaddr *)&to, len) < 0 ? errno : 0;
}

static int try_send(const void *arg)
{
    struct sockaddr_storage to;
    socklen_t len = resolve(arg, &to);
    int fd = socket(to.ss_family, SOCK_DGRAM, 0);
    return fd < 0 || sendto(fd, "x", 1, 0, (const struct sockaddr *)&to, len) < 0 ? errno : 0;
}

/* --- the world --- */

static enum cay_filter_way way;

struct world {
    int netns_fd;
    struct cay_filter filter;
};

/* As init sees to it: everybody inside may have port 53. */
static int free_ports(void *)
{
    int fd = open("/proc/sys/net/ipv4/ip_unprivileged_port_start", O_WRONLY);
    bool is_good = fd >= 0 && write(fd, "0", 1) == 1;
    close(fd);
    return is_good ? 0 : -EACCES;
}

static struct world open_world(void)
{
    struct world world = {.netns_fd = cay_netns_open(), .filter = CAY_FILTER_CLOSED};
    struct cay_error err = {};
    assert_true(world.netns_fd >= 0);
    assert_int_equal(cay_netns_visit(world.netns_fd, free_ports, NULL), 0);
    if (!cay_filter_open(world.netns_fd, way, &world.filter, &err))
        fail_msg("%s", err.text);
    return world;
}

static void close_world(struct world *world)
{
    cay_filter_close(&world->filter);
    close(world->netns_fd);
}

static bool is_ready(int fd)
{
    struct pollfd entry = {.fd = fd, .events = POLLIN};
    return poll(&entry, 1, 5000) == 1;
}

/* Whom the next connection was for. */
static void expect_connection(int listener, const char *address, uint16_t port)
{
    struct sockaddr_storage name = {};
    socklen_t len = sizeof(name);
    char text[INET6_ADDRSTRLEN];
    assert_true(is_ready(listener));
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &len), 0);
    if (way == CAY_FILTER_BY_TABLES)
        assert_int_equal(
            getsockopt(fd, name.ss_family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6, 80, &name, &len),
            0);
    if (name.ss_family == AF_INET) {
        const struct sockaddr_in *four = (const struct sockaddr_in *)&name;
        assert_non_null(inet_ntop(AF_INET, &four->sin_addr, text, sizeof(text)));
        assert_int_equal(ntohs(four->sin_port), port);
    } else {
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&name;
        assert_non_null(inet_ntop(AF_INET6, &six->sin6_addr, text, sizeof(text)));
        assert_int_equal(ntohs(six->sin6_port), port);
    }
    assert_string_equal(text, address);
    close(fd);
}

static void test_names_lead_here(void **)
{
    struct world world = open_world();
    const struct place four = {"198.18.7.9", 443};
    const struct place six = {"fd00:e900::7:9", 22};
    const struct place lookup = {"8.8.8.8", 53};
    assert_int_equal(inside(world.netns_fd, try_connect, &four), 0);
    expect_connection(world.filter.sockets[CAY_STEERED_TCP4], "198.18.7.9", 443);
    assert_int_equal(inside(world.netns_fd, try_connect, &six), 0);
    expect_connection(world.filter.sockets[CAY_STEERED_TCP6], "fd00:e900::7:9", 22);
    /* DNS by TCP, of any server. */
    assert_int_equal(inside(world.netns_fd, try_connect, &lookup), 0);
    expect_connection(world.filter.sockets[CAY_STEERED_TCP4], "8.8.8.8", 53);
    close_world(&world);
}

static void test_the_rest_is_refused(void **)
{
    static const struct place denied[] = {
        {"8.8.8.8", 443},     {"10.0.0.1", 80}, {"169.254.169.254", 80}, {"0.0.0.1", 80},
        {"2001:db8::1", 443}, {"fe80::1", 443}, {"fd00::1", 443},        {"64:ff9b::a00:1", 80}};
    static const struct place silent[] = {{"8.8.8.8", 443},    {"198.18.7.9", 443},
                                          {"198.18.7.9", 123}, {"fd00:e900::7", 443},
                                          {"224.0.0.1", 5353}, {"255.255.255.255", 67}};
    struct world world = open_world();
    for (size_t i = 0; i < CAY_COUNT(denied); i++) {
        int status = inside(world.netns_fd, try_connect, &denied[i]);
        if (status != EACCES && status != EINVAL && status != ENETUNREACH)
            fail_msg("%s: %s", denied[i].address, strerror(status));
    }
    for (size_t i = 0; i < CAY_COUNT(silent); i++) {
        int status = inside(world.netns_fd, try_send, &silent[i]);
        if (status != EACCES)
            fail_msg("%s: %s", silent[i].address, strerror(status));
    }
    close_world(&world);
}

static void test_ranges_open_and_close(void **)
{
    struct world world = open_world();
    struct cay_error err = {};
    struct cay_subnet ranges[2];
    const struct place four = {"10.1.2.3", 5432};
    const struct place other = {"10.2.2.3", 5432};
    const struct place six = {"2001:db8::5", 443};
    assert_true(cay_subnet_parse("10.1.0.0/16", &ranges[0]));
    assert_true(cay_subnet_parse("2001:db8::/32", &ranges[1]));
    assert_true(cay_filter_set_ranges(world.netns_fd, ranges, 2, &err));
    assert_int_equal(inside(world.netns_fd, try_connect, &four), 0);
    expect_connection(world.filter.sockets[CAY_STEERED_TCP4], "10.1.2.3", 5432);
    assert_int_equal(inside(world.netns_fd, try_connect, &six), 0);
    expect_connection(world.filter.sockets[CAY_STEERED_TCP6], "2001:db8::5", 443);
    assert_int_equal(inside(world.netns_fd, try_connect, &other), EACCES);
    assert_int_equal(inside(world.netns_fd, try_send, &four), EACCES);
    assert_true(cay_filter_set_ranges(world.netns_fd, ranges + 1, 1, &err));
    assert_int_equal(inside(world.netns_fd, try_connect, &four), EACCES);
    assert_int_equal(inside(world.netns_fd, try_connect, &six), 0);
    close_world(&world);
}

static int use_own_server(const void *arg)
{
    struct sockaddr_storage at;
    const struct place *places = arg; /* where it listens, how it is reached */
    socklen_t len = resolve(&places[0], &at);
    int listener = socket(at.ss_family, SOCK_STREAM, 0);
    if (bind(listener, (const struct sockaddr *)&at, len) < 0 || listen(listener, 4) < 0)
        return errno;
    int status = try_connect(&places[1]);
    struct pollfd entry = {.fd = listener, .events = POLLIN};
    /* A connection stands when it is in somebody's queue. */
    return status ? status : poll(&entry, 1, 0) == 1 ? 0 : 254;
}

static void test_own_servers(void **)
{
    static const struct place servers[][2] = {
        {{"127.0.0.1", 8000}, {"127.0.0.1", 8000}}, {{"0.0.0.0", 8001}, {"127.0.0.1", 8001}},
        {{"0.0.0.0", 8002}, {"198.18.0.1", 8002}},  {{"::1", 8003}, {"::1", 8003}},
        {{"::", 8004}, {"127.0.0.1", 8004}},        {{"127.0.0.53", 53}, {"127.0.0.53", 53}},
    };
    struct world world = open_world();
    for (size_t i = 0; i < CAY_COUNT(servers); i++) {
        int status = inside(world.netns_fd, use_own_server, servers[i]);
        if (status)
            fail_msg("%s: %s", servers[i][0].address, strerror(status));
    }
    close_world(&world);
}

/* Whatever somebody inside listens on, what is meant for the outside is not theirs. */
static void test_no_port_is_stolen(void **)
{
    static const struct place thieves[][2] = {
        {{"0.0.0.0", 443}, {"198.18.7.9", 443}},
        {{"198.18.7.9", 443}, {"198.18.7.9", 443}},
        {{"::", 443}, {"fd00:e900::7:9", 443}},
        {{"0.0.0.0", 53}, {"8.8.8.8", 53}},
    };
    struct world world = open_world();
    for (size_t i = 0; i < CAY_COUNT(thieves); i++) {
        /* It connected, and nobody came to the thief's own listener. */
        int status = inside(world.netns_fd, use_own_server, thieves[i]);
        if (status != 254 && status != EADDRINUSE)
            fail_msg("%s: %d", thieves[i][0].address, status);
    }
    close_world(&world);
}

/* A question and its answer, which comes from whom was asked. */
static int ask(const void *arg)
{
    struct sockaddr_storage to;
    char answer[16];
    socklen_t len = resolve(arg, &to);
    int fd = socket(to.ss_family, SOCK_DGRAM, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&to, len) < 0 || send(fd, "who", 3, 0) < 0)
        return errno;
    return recv(fd, answer, sizeof(answer), 0) == 2 && memcmp(answer, "me", 2) == 0 ? 0 : 254;
}

/* Answers one question, as the helper does: from the address it was sent to. */
static void answer_one(int fd)
{
    char data[16];
    union {
        struct cmsghdr header;
        char bytes[128];
    } control = {};
    struct sockaddr_storage peer = {};
    struct iovec part = {data, sizeof(data)};
    struct msghdr message = {.msg_name = &peer,
                             .msg_namelen = sizeof(peer),
                             .msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    assert_true(is_ready(fd));
    assert_int_equal(recvmsg(fd, &message, 0), 3);
    struct cmsghdr *info = CMSG_FIRSTHDR(&message);
    assert_non_null(info);
    if (info && info->cmsg_level == IPPROTO_IP) {
        struct in_pktinfo *four = (struct in_pktinfo *)(void *)CMSG_DATA(info);
        four->ipi_spec_dst = four->ipi_addr;
        four->ipi_ifindex = 0;
    } else if (info) {
        ((struct in6_pktinfo *)(void *)CMSG_DATA(info))->ipi6_ifindex = 0;
    }
    part = (struct iovec){(char[]){'m', 'e'}, 2};
    assert_int_equal(sendmsg(fd, &message, 0), 2);
}

static void ask_and_answer(const struct world *world, const char *server, enum cay_steered socket)
{
    const struct place place = {server, 53};
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(inside(world->netns_fd, ask, &place));
    answer_one(world->filter.sockets[socket]);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        fail_msg("%s: %d", server, status);
}

static void test_questions(void **)
{
    struct world world = open_world();
    ask_and_answer(&world, "8.8.8.8", CAY_STEERED_DNS4);
    ask_and_answer(&world, "127.0.0.1", CAY_STEERED_DNS4);
    ask_and_answer(&world, "198.18.0.2", CAY_STEERED_DNS4);
    ask_and_answer(&world, "2001:4860:4860::8888", CAY_STEERED_DNS6);
    close_world(&world);
}

/* --- what root inside may not do --- */

static int try_socket(const void *arg)
{
    const int *kind = arg;
    int fd = socket(kind[0], kind[1], kind[2]);
    return fd < 0 ? errno : 0;
}

static int try_option(const void *arg)
{
    const int *option = arg;
    const int on = 1;
    int fd = socket(option[0], SOCK_STREAM, 0);
    return setsockopt(fd, option[1], option[2], &on, sizeof(on)) < 0 ? errno : 0;
}

static int try_ping(const void *)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x08080808)};
    static const uint8_t echo[8] = {8};
    int fd = socket(AF_INET, SOCK_DGRAM, IPPROTO_ICMP);
    return fd < 0 || sendto(fd, echo, sizeof(echo), 0, (struct sockaddr *)&to, sizeof(to)) < 0
               ? errno
               : 0;
}

/* A change by netlink: header and message, without attributes that would be looked at first. */
static int try_netlink(const void *arg)
{
    const uint16_t *type = arg;
    struct {
        struct nlmsghdr header;
        uint8_t body[64];
    } request = {.header = {.nlmsg_len = sizeof(request),
                            .nlmsg_type = *type,
                            .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE},
                 .body = {AF_INET}};
    struct {
        struct nlmsghdr header;
        struct nlmsgerr error;
    } answer = {};
    int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    if (fd < 0 || send(fd, &request, sizeof(request), 0) < 0 ||
        recv(fd, &answer, sizeof(answer), 0) < 0)
        return errno;
    return answer.header.nlmsg_type == NLMSG_ERROR ? -answer.error.error : 254;
}

static int try_sysctl(const void *)
{
    int fd = open("/proc/sys/net/ipv4/ip_nonlocal_bind", O_WRONLY);
    return fd < 0 || write(fd, "1", 1) < 0 ? errno : 0;
}

static void test_root_inside(void **)
{
    static const int sockets[][3] = {{AF_INET, SOCK_RAW, IPPROTO_ICMP},
                                     {AF_INET, SOCK_RAW, IPPROTO_RAW},
                                     {AF_INET6, SOCK_RAW, IPPROTO_ICMPV6},
                                     {AF_PACKET, SOCK_RAW, 0},
                                     {AF_PACKET, SOCK_DGRAM, 0}};
    static const int options[][3] = {{AF_INET, SOL_IP, IP_TRANSPARENT},
                                     {AF_INET6, SOL_IPV6, IPV6_TRANSPARENT},
                                     {AF_INET, SOL_SOCKET, SO_MARK},
                                     {AF_INET, IPPROTO_TCP, 19 /* TCP_REPAIR */}};
    static const uint16_t changes[] = {RTM_NEWROUTE, RTM_DELROUTE, RTM_NEWRULE, RTM_DELRULE,
                                       RTM_NEWADDR,  RTM_DELADDR,  RTM_NEWLINK, RTM_DELLINK,
                                       RTM_NEWQDISC, RTM_NEWNEIGH};
    struct world world = open_world();
    for (size_t i = 0; i < CAY_COUNT(sockets); i++)
        assert_int_equal(inside(world.netns_fd, try_socket, sockets[i]), EPERM);
    for (size_t i = 0; i < CAY_COUNT(options); i++)
        assert_int_equal(inside(world.netns_fd, try_option, options[i]), EPERM);
    for (size_t i = 0; i < CAY_COUNT(changes); i++)
        assert_int_equal(inside(world.netns_fd, try_netlink, &changes[i]), EPERM);
    assert_int_equal(inside(world.netns_fd, try_ping, NULL), EACCES);
    assert_int_equal(inside(world.netns_fd, try_sysctl, NULL), EACCES);
    close_world(&world);
}

/* How many questions to different resolvers are taken, in hundreds. */
static int try_many(const void *)
{
    enum { MANY = 10'000, HUNDRED = 100 };
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    for (uint32_t i = 0; i < MANY; i++) {
        const struct sockaddr_in to = {
            .sin_family = AF_INET, .sin_port = htons(53), .sin_addr = {htonl(0x0a000001 + i)}};
        if (sendto(fd, "x", 1, 0, (const struct sockaddr *)&to, sizeof(to)) < 0)
            return errno == EPERM ? (int)i / HUNDRED : 255;
    }
    return MANY / HUNDRED;
}

static void test_bounded(void **)
{
    struct world world = open_world();
    static const struct place own[] = {{"127.0.0.1", 8000}, {"127.0.0.1", 8000}};
    static const struct place own6[] = {{"::1", 8000}, {"::1", 8000}};
    assert_int_equal(inside(world.netns_fd, try_many, NULL),
                     way == CAY_FILTER_BY_TABLES ? 81 : 100);
    /* What is within counts for nothing. */
    assert_int_equal(inside(world.netns_fd, use_own_server, own), 0);
    assert_int_equal(inside(world.netns_fd, use_own_server, own6), 0);
    close_world(&world);
}

/* --- life --- */

static void test_fails_closed(void **)
{
    struct world world = open_world();
    const struct place name = {"198.18.7.9", 443};
    cay_filter_close(&world.filter);
    assert_int_equal(inside(world.netns_fd, try_connect, &name), ECONNREFUSED);
    /* Furnished again, by another daemon. */
    struct cay_error err = {};
    assert_true(cay_filter_open(world.netns_fd, way, &world.filter, &err));
    assert_int_equal(inside(world.netns_fd, try_connect, &name), 0);
    expect_connection(world.filter.sockets[CAY_STEERED_TCP4], "198.18.7.9", 443);
    close_world(&world);
}

static void test_removed(void **)
{
    struct world world = open_world();
    struct cay_error err = {};
    struct cay_subnet range;
    static const struct place own[] = {{"127.0.0.1", 8000}, {"127.0.0.1", 8000}};
    const struct place outside[] = {{"198.18.7.9", 443}, {"10.1.2.3", 443}};
    assert_true(cay_subnet_parse("10.1.0.0/16", &range));
    assert_true(cay_filter_set_ranges(world.netns_fd, &range, 1, &err));
    cay_filter_close(&world.filter);
    for (int turn = 0; turn < 2; turn++) { /* also when there is nothing to remove */
        if (!cay_filter_remove(world.netns_fd, &err))
            fail_msg("%s", err.text);
        for (size_t i = 0; i < CAY_COUNT(outside); i++)
            assert_int_equal(inside(world.netns_fd, try_connect, &outside[i]), ENETUNREACH);
        assert_int_equal(inside(world.netns_fd, use_own_server, own), 0);
    }
    assert_true(cay_filter_open(world.netns_fd, way, &world.filter, &err));
    assert_int_equal(inside(world.netns_fd, try_connect, &outside[0]), 0);
    close_world(&world);
}

/* For this process and all that it starts. */
static bool refuse_bpf(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_bpf, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {CAY_COUNT(code), code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* Whoever may not load programs gets the other way, unless it is not wanted. */
static int choose(void)
{
    struct cay_error err = {};
    enum cay_filter_way found;
    if (!refuse_bpf())
        return 1;
    if (cay_filter_check(CAY_FILTER_BY_BPF, &found, &err) || !strstr(err.text, "sk_lookup"))
        return 2;
    if (!cay_filter_check(CAY_FILTER_ANY_WAY, &found, &err) || found != CAY_FILTER_BY_TABLES)
        return 3;
    if (setresuid(SOMEBODY, SOMEBODY, SOMEBODY) < 0)
        return 4;
    if (cay_filter_check(CAY_FILTER_ANY_WAY, &found, &err) || !strstr(err.text, ", nor by nft: "))
        return 5;
    return 0;
}

static void test_chosen(void **)
{
    int status = 0;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(20);
        _exit(choose());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

int main(int argc, char **)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_lead_here),
        cmocka_unit_test(test_the_rest_is_refused),
        cmocka_unit_test(test_ranges_open_and_close),
        cmocka_unit_test(test_own_servers),
        cmocka_unit_test(test_no_port_is_stolen),
        cmocka_unit_test(test_questions),
        cmocka_unit_test(test_root_inside),
        cmocka_unit_test(test_bounded),
        cmocka_unit_test(test_fails_closed),
        cmocka_unit_test(test_removed),
        cmocka_unit_test(test_chosen),
    };
    struct cay_error err = {};
    way = argc > 1 ? CAY_FILTER_BY_TABLES : CAY_FILTER_BY_BPF;
    if (!getenv("TEST_LIST") && !cay_filter_check(way, &way, &err)) {
        printf("1..0 # SKIP %s\n", err.text);
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
