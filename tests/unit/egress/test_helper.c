/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helper of a filtered network, by its own program: a sandbox's namespace, in which clients are
 * roots of user namespaces of their own, and an internet, in which the helper dials, with a
 * resolver that lies where it can.
 */
#include "tests/unit/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "host/net/helper.h"
#include "sys/netdev.h"
#include "sys/netlink.h"
#include "sys/netns.h"
#include "sys/pidfd.h"

enum { SOMEBODY = 54321, HELPER_UID = 987654, SLOT = 7, WAIT_MS = 10'000 };

#define PUBLIC  "52.95.113.10"
#define PRIVATE "10.9.9.9"

static const char *program;
static enum cay_filter_way way;

/* --- the internet: all its addresses are its loopback's --- */

static int add_addresses(void *)
{
    static const char *const texts[] = {PUBLIC, PRIVATE};
    cay_autoclose int fd = cay_netlink_open(NETLINK_ROUTE, 0);
    int index = cay_netdev_find(fd, "lo");
    for (size_t i = 0; i < CAY_COUNT(texts); i++) {
        struct cay_ip address = {.family = AF_INET};
        if (inet_pton(AF_INET, texts[i], address.bytes) != 1 ||
            cay_netdev_add_address(fd, index, &address) < 0)
            return -EINVAL;
    }
    return 0;
}

static int serve_on(int type, uint16_t port, const char *address)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    const int on = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (fd < 0 || inet_pton(AF_INET, address, &at.sin_addr) != 1 ||
        bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 ||
        (type == SOCK_STREAM && listen(fd, 64) < 0))
        _exit(9);
    return fd;
}

/* "good…" is at the public address, "evil…" at the private one, "mixed…" at both, "long…" the
 * public one behind another name; all else is unknown. No name has an address of IPv6. */
static void answer_name(int fd)
{
    uint8_t bytes[600];
    struct sockaddr_in peer;
    socklen_t peer_len = sizeof(peer);
    ssize_t len = recvfrom(fd, bytes, 512, 0, (struct sockaddr *)&peer, &peer_len);
    if (len < 20)
        return;
    static const uint8_t fixed[] = {0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4};
    char first = (char)bytes[13];
    size_t end = 12;
    while (bytes[end])
        end += 1 + (size_t)bytes[end];
    bool is_a = bytes[end + 2] == 1;
    const char *addresses[] = {first == 'g' || first == 'm' || first == 'l' ? PUBLIC : NULL,
                               first == 'e' || first == 'm' ? PRIVATE : NULL};
    bytes[2] |= 0x80;
    bytes[3] = addresses[0] || addresses[1] ? 0x80 : 0x83;
    for (size_t i = 0; i < 2 && is_a; i++) {
        if (!addresses[i])
            continue;
        memcpy(bytes + len, fixed, sizeof(fixed));
        inet_pton(AF_INET, addresses[i], bytes + len + sizeof(fixed));
        len += (ssize_t)sizeof(fixed) + 4;
        bytes[7]++;
    }
    (void)sendto(fd, bytes, (size_t)len, 0, (const struct sockaddr *)&peer, peer_len);
}

/* Says "hi", and then what it is told. */
static void serve_one(int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fork() != 0) {
        close(fd);
        return;
    }
    char piece[65536];
    ssize_t len = 2;
    memcpy(piece, "hi", 2);
    while (len > 0 && send(fd, piece, (size_t)len, MSG_NOSIGNAL) == len)
        len = recv(fd, piece, sizeof(piece), 0);
    _exit(0);
}

static void run_resolver(int ready_fd)
{
    int fd = serve_on(SOCK_DGRAM, 53, "127.0.0.1");
    (void)!write(ready_fd, "r", 1);
    for (;;)
        answer_name(fd);
}

static void run_servers(int ready_fd)
{
    struct pollfd fds[] = {{serve_on(SOCK_STREAM, 7, PUBLIC), POLLIN, 0},
                           {serve_on(SOCK_STREAM, 7, PRIVATE), POLLIN, 0},
                           {serve_on(SOCK_STREAM, 80, PUBLIC), POLLIN, 0}};
    (void)!write(ready_fd, "r", 1);
    while (poll(fds, CAY_COUNT(fds), -1) > 0) {
        for (size_t i = 0; i < CAY_COUNT(fds); i++) {
            if (fds[i].revents)
                serve_one(fds[i].fd);
        }
    }
    _exit(0);
}

struct world {
    int inside_fd, outside_fd, dir_fd, names_fd, image_fd;
    char dir[64];
    pid_t servers, resolver;
    struct cay_filter filter;
    struct cay_helper helper;
    uint64_t serial;
};

static void start_helper(struct world *world)
{
    struct cay_error err = {};
    const struct cay_helper_options options = {.image_fd = world->image_fd,
                                               .dir_fd = world->dir_fd,
                                               .slot = SLOT,
                                               .netns_fd = world->outside_fd,
                                               .names_fd = world->names_fd,
                                               .uid = HELPER_UID,
                                               .filter = &world->filter};
    if (!cay_helper_start(&options, &world->helper, &err))
        fail_msg("%s", err.text);
}

static pid_t start_there(const struct world *world, void (*run)(int ready_fd))
{
    int ready[2];
    char go = 0;
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)signal(SIGCHLD, SIG_IGN);
        if (setns(world->outside_fd, CLONE_NEWNET) < 0)
            _exit(9);
        run(ready[1]);
        _exit(0);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &go, 1), 1);
    close(ready[0]);
    return pid;
}

static void stop(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static struct world *open_world(void)
{
    struct world *world = cay_new(struct world);
    struct cay_error err = {};
    const char *tmp = getenv("TMPDIR");
    *world = (struct world){.inside_fd = cay_netns_open(),
                            .outside_fd = cay_netns_open(),
                            .names_fd = memfd_create("names", MFD_CLOEXEC),
                            .image_fd = open(program, O_RDONLY | O_CLOEXEC),
                            .filter = CAY_FILTER_CLOSED,
                            .helper = CAY_HELPER_NONE};
    snprintf(world->dir, sizeof(world->dir), "%s/egress-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(world->dir));
    world->dir_fd = open(world->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(world->image_fd >= 0 && world->outside_fd >= 0 && world->inside_fd >= 0);
    assert_int_equal(cay_netns_visit(world->outside_fd, add_addresses, NULL), 0);
    world->servers = start_there(world, run_servers);
    world->resolver = start_there(world, run_resolver);
    if (!cay_filter_open(world->inside_fd, way, &world->filter, &err))
        fail_msg("%s", err.text);
    start_helper(world);
    return world;
}

static void close_world(struct world *world)
{
    cay_helper_kill(&world->helper);
    cay_filter_close(&world->filter);
    stop(world->servers);
    stop(world->resolver);
    cay_helper_remove_door(world->dir_fd, SLOT);
    close(world->inside_fd);
    close(world->outside_fd);
    close(world->dir_fd);
    close(world->names_fd);
    close(world->image_fd);
    assert_int_equal(rmdir(world->dir), 0);
    free(world);
}

/* --- the daemon's side --- */

/* The next of its kind; receipts between are skipped when something else is waited for. */
static void expect_news(struct world *world, enum cay_egress_kind kind,
                        struct cay_helper_news *out_news)
{
    for (;;) {
        struct pollfd entry = {.fd = world->helper.control_fd, .events = POLLIN};
        assert_int_equal(poll(&entry, 1, WAIT_MS), 1);
        int status = cay_helper_receive(&world->helper, out_news);
        if (status < 0)
            fail_msg("%s", strerror(-status));
        if (status == 1 && out_news->frame.kind == kind)
            return;
    }
}

static uint64_t set_policy_asking(struct world *world, uint32_t asks_ms, const char *const *allow,
                                  const char *deny)
{
    cay_auto(cay_buf_finish) struct cay_buf rules;
    struct cay_helper_news news;
    cay_buf_init(&rules, 65536);
    for (; *allow; allow++)
        cay_egress_rule_put(&rules, CAY_EGRESS_ALLOW, cay_str(*allow));
    if (deny)
        cay_egress_rule_put(&rules, CAY_EGRESS_DENY, cay_str(deny));
    assert_int_equal(
        cay_helper_set_policy(&world->helper, ++world->serial, asks_ms, cay_buf_str(&rules)), 0);
    expect_news(world, CAY_EGRESS_APPLIED, &news);
    assert_int_equal(news.frame.serial, world->serial);
    return news.frame.count;
}

static uint64_t set_policy(struct world *world, const char *const *allow, const char *deny)
{
    return set_policy_asking(world, 0, allow, deny);
}

static const char *const usual[] = {"*.test", "10.0.0.0/16", NULL};

/* --- clients --- */

static int inside(const struct world *world, int (*act)(const void *), const void *arg)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(20);
        if (setns(world->inside_fd, CLONE_NEWNET) < 0 ||
            setresuid(SOMEBODY, SOMEBODY, SOMEBODY) < 0 || unshare(CLONE_NEWUSER) < 0)
            _exit(255);
        _exit(act(arg));
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

enum { UNKNOWN = 100, NO_GREETING, NO_ECHO, NO_END };

static size_t write_question(const char *name, uint8_t type, uint8_t *out)
{
    size_t at = 12;
    memset(out, 0, at);
    out[1] = 9;
    out[2] = 1;
    out[5] = 1;
    while (*name) {
        size_t label = strcspn(name, ".");
        out[at++] = (uint8_t)label;
        memcpy(out + at, name, label);
        at += label;
        name += label + (name[label] == '.');
    }
    memcpy(out + at, (const uint8_t[]){0, 0, type, 0, 1}, 5);
    return at + 5;
}

/* Of any server: 0 and the address, the code of the answer, or -errno. */
static int look_up(const char *name, struct in_addr *out)
{
    struct sockaddr_in server = {
        .sin_family = AF_INET, .sin_port = htons(53), .sin_addr.s_addr = htonl(0x08080404)};
    uint8_t bytes[512];
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    size_t len = write_question(name, 1, bytes);
    if (connect(fd, (const struct sockaddr *)&server, sizeof(server)) < 0 ||
        send(fd, bytes, len, 0) < 0)
        return -errno;
    ssize_t got = recv(fd, bytes, sizeof(bytes), 0);
    close(fd);
    if (got < 12 || (bytes[3] & 15) || bytes[7] != 1)
        return got < 0 ? -errno : (bytes[3] & 15) ? bytes[3] & 15 : UNKNOWN;
    memcpy(out, bytes + got - 4, 4);
    return 0;
}

struct wish {
    const char *name; /* or an address */
    uint16_t port;
};

static int open_wish(const struct wish *wish)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(wish->port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (inet_pton(AF_INET, wish->name, &to.sin_addr) != 1 && look_up(wish->name, &to.sin_addr) != 0)
        return -UNKNOWN;
    return connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0 ? -errno : fd;
}

/* The greeting, an echo, and the end of both directions. */
static int talk(const void *arg)
{
    char piece[16];
    int fd = open_wish(arg);
    if (fd < 0)
        return -fd;
    ssize_t len = recv(fd, piece, 2, MSG_WAITALL);
    if (len != 2)
        return len < 0 ? errno : NO_GREETING;
    if (send(fd, "hello", 5, 0) != 5 || recv(fd, piece, 5, MSG_WAITALL) != 5 ||
        memcmp(piece, "hello", 5) != 0)
        return NO_ECHO;
    shutdown(fd, SHUT_WR);
    return recv(fd, piece, 1, 0) == 0 ? 0 : NO_END;
}

/* What the client says first, and how much comes back of it by the echo. */
struct words {
    struct wish wish;
    const char *text[3]; /* sent one after the other, each when all before it has come back */
    size_t len;          /* of the first, when it has bytes of any value */
};

static int speak(const void *arg)
{
    const struct words *words = arg;
    char piece[1024];
    int fd = open_wish(&words->wish);
    if (fd < 0)
        return -fd;
    bool is_greeted = false;
    for (size_t i = 0; i < CAY_COUNT(words->text) && words->text[i]; i++) {
        size_t len = i == 0 && words->len ? words->len : strlen(words->text[i]);
        if (send(fd, words->text[i], len, MSG_NOSIGNAL) != (ssize_t)len)
            return errno;
        if (!is_greeted && recv(fd, piece, 2, MSG_WAITALL) != 2)
            return NO_GREETING;
        is_greeted = true;
        ssize_t got = recv(fd, piece, len, MSG_WAITALL);
        if (got != (ssize_t)len)
            return got < 0 ? errno : NO_ECHO;
    }
    return 0;
}

/* A hello of TLS 1.2 with this name and nothing else. */
static size_t write_hello(const char *name, uint8_t *out)
{
    size_t len = strlen(name);
    const size_t extension = 9 + len;
    const size_t body = 2 + 32 + 1 + 4 + 2 + 2 + extension;
    size_t at = 0;
    const uint8_t head[] = {22,
                            3,
                            1,
                            (uint8_t)((body + 4) >> 8),
                            (uint8_t)(body + 4),
                            1,
                            0,
                            (uint8_t)(body >> 8),
                            (uint8_t)body,
                            3,
                            3};
    memcpy(out, head, sizeof(head));
    at += sizeof(head);
    memset(out + at, 7, 32);
    at += 32;
    const uint8_t middle[] = {0,
                              0,
                              2,
                              0x13,
                              1,
                              1,
                              0,
                              0,
                              (uint8_t)extension,
                              0,
                              0,
                              0,
                              (uint8_t)(len + 5),
                              0,
                              (uint8_t)(len + 3),
                              0,
                              0,
                              (uint8_t)len};
    memcpy(out + at, middle, sizeof(middle));
    at += sizeof(middle);
    memcpy(out + at, name, len);
    return at + len;
}

static int look(const void *arg)
{
    struct in_addr address;
    int status = look_up(arg, &address);
    if (status)
        return status < 0 ? 200 : status;
    return (ntohl(address.s_addr) & 0xFFFE0000) == 0xC6120000 ? 0 : 201;
}

static void expect(const struct world *world, int (*act)(const void *), const void *arg,
                   const char *what, int wanted)
{
    int status = inside(world, act, arg);
    if (status != wanted)
        fail_msg("%s: %d (%s)", what, status, strerror(status));
}

static void test_names(void **)
{
    struct world *world = open_world();
    const struct wish good = {"good.test", 7};
    const struct wish other = {"good.other", 7};
    (void)set_policy(world, usual, NULL);
    expect(world, look, "good.test", "allowed", 0);
    expect(world, look, "GOOD.Test", "in any case", 0);
    expect(world, look, "good.other", "not allowed", 3);
    expect(world, look, "test", "only below", 3);
    expect(world, talk, &good, "a server", 0);
    expect(world, talk, &other, "no server", UNKNOWN);
    /* An address that is no name's. */
    const struct wish nobody = {"198.18.77.7", 7};
    expect(world, talk, &nobody, "nobody's", ECONNRESET);
    close_world(world);
}

/* One after the other, as fast as answers come. */
static int look_at_many(const void *arg)
{
    char name[32];
    int status = 0;
    for (int i = 0; i < *(const int *)arg && status == 0; i++) {
        snprintf(name, sizeof(name), "n%d.many.test", i);
        status = look(name);
    }
    return status;
}

/* The last name that there is room for, and one more; and nobody dies of them. */
static void test_full_names(void **)
{
    struct world *world = open_world();
    const struct wish good = {"good.test", 7};
    const int most = CAY_EGRESS_NAMES_MAX - 1;
    (void)set_policy(world, usual, NULL);
    expect(world, talk, &good, "a server", 0);
    expect(world, look_at_many, &most, "as many as there is room for", 0);
    assert_int_not_equal(inside(world, look, "more.many.test"), 0);
    expect(world, talk, &good, "a server, afterwards", 0);
    close_world(world);
}

static void test_receipts(void **)
{
    struct world *world = open_world();
    struct cay_helper_news news;
    const struct wish good = {"good.test", 7};
    const struct cay_egress_receipt *receipt = &news.frame.receipt;
    (void)set_policy(world, usual, NULL);
    expect(world, talk, &good, "a server", 0);
    expect_news(world, CAY_EGRESS_RECEIPT, &news);
    assert_int_equal(receipt->verdict, CAY_EGRESS_ALLOWED);
    assert_int_equal(receipt->why, 0);
    assert_true(cay_str_is(receipt->name, "good.test"));
    assert_true(cay_str_is(receipt->rule, "*.test"));
    assert_int_equal(receipt->port, 7);
    assert_int_equal(receipt->family, 4);
    assert_memory_equal(receipt->address, ((uint8_t[]){52, 95, 113, 10}), 4);
    assert_int_equal(receipt->sent_bytes, 5);
    assert_int_equal(receipt->received_bytes, 7);
    assert_in_range(receipt->ended_ago_ms, 0, WAIT_MS);
    assert_int_equal(receipt->began_ago_ms, receipt->ended_ago_ms + receipt->duration_ms);
    expect(world, look, "good.other", "not allowed", 3);
    expect_news(world, CAY_EGRESS_RECEIPT, &news);
    assert_true(receipt->is_question);
    assert_int_equal(receipt->verdict, CAY_EGRESS_REFUSED);
    assert_true(cay_str_is(receipt->name, "good.other"));
    (void)set_policy(world, (const char *const[]){"good.test:8", NULL}, NULL);
    expect(world, talk, &good, "another port", ECONNRESET);
    expect_news(world, CAY_EGRESS_RECEIPT, &news);
    assert_int_equal(receipt->why, CAY_EGRESS_OTHER_PORT);
    assert_true(cay_str_is(receipt->rule, "good.test:8"));
    close_world(world);
}

enum { FLOOD = 1000, EARLY = 3 };

static int look_for_many(const void *)
{
    char name[32];
    struct in_addr address;
    for (int i = 0; i < FLOOD; i++) {
        snprintf(name, sizeof(name), "n%d.other", i);
        int status = look_up(name, &address);
        if (status != 3)
            return status < 0 ? -status : NO_END;
    }
    return 0;
}

/* What is refused is known here before it is known inside; of very much of it, how much it was. */
static void test_denials(void **)
{
    struct world *world = open_world();
    struct cay_helper_news news;
    const struct cay_egress_receipt *receipt = &news.frame.receipt;
    (void)set_policy(world, usual, NULL);
    for (int i = 0; i < EARLY; i++) {
        expect(world, look, "good.other", "not allowed", 3);
        do
            assert_int_equal(cay_helper_receive(&world->helper, &news), 1);
        while (news.frame.kind != CAY_EGRESS_RECEIPT);
        assert_true(receipt->is_question && cay_str_is(receipt->name, "good.other"));
    }
    expect(world, look_for_many, NULL, "a flood", 0);
    uint64_t seen = EARLY;
    size_t frames = 0;
    do {
        struct pollfd entry = {.fd = world->helper.control_fd, .events = POLLIN};
        assert_int_equal(poll(&entry, 1, WAIT_MS), 1);
        assert_int_equal(cay_helper_receive(&world->helper, &news), 1);
        seen += news.frame.kind == CAY_EGRESS_RECEIPT ? receipt->count : 0;
        frames++;
    } while (news.frame.kind != CAY_EGRESS_TOTALS || news.frame.totals.questions < EARLY + FLOOD);
    assert_int_equal(news.frame.totals.questions, EARLY + FLOOD);
    assert_int_equal(seen + news.frame.totals.lost, EARLY + FLOOD);
    assert_int_equal(news.frame.totals.refused, 0);
    assert_true(frames < FLOOD || !news.frame.totals.lost);
    close_world(world);
}

/* A name may be anybody's, and its addresses whatever that one says. */
static void test_rebinding(void **)
{
    struct world *world = open_world();
    struct cay_helper_news news;
    const struct wish evil = {"evil.test", 7};
    const struct wish mixed = {"mixed.test", 7};
    const struct wish number = {PRIVATE, 7};
    (void)set_policy(world, (const char *const[]){"*.test", NULL}, NULL);
    expect(world, talk, &evil, "a private address", ECONNRESET);
    expect_news(world, CAY_EGRESS_RECEIPT, &news);
    assert_int_equal(news.frame.receipt.why, CAY_EGRESS_GUARDED);
    expect(world, talk, &mixed, "the public one of two", 0);
    expect_news(world, CAY_EGRESS_RECEIPT, &news);
    assert_memory_equal(news.frame.receipt.address, ((uint8_t[]){52, 95, 113, 10}), 4);
    expect(world, talk, &number, "by number", EACCES);
    /* A rule that names it opens it. */
    (void)set_policy(world, (const char *const[]){"*.test", "10.9.0.0/16:7", NULL}, NULL);
    expect(world, talk, &evil, "a named range", 0);
    close_world(world);
}

/* The name that a client means must be the one that it connected to. */
static void test_other_names(void **)
{
    static const struct {
        const char *what;
        const char *text[3];
        int wanted;
    } requests[] = {
        {"its host", {"GET / HTTP/1.1\r\nHost: good.test\r\n\r\n"}, 0},
        {"another host", {"GET / HTTP/1.1\r\nHost: good.other\r\n\r\n"}, NO_GREETING},
        {"no host", {"GET / HTTP/1.1\r\n\r\n"}, NO_GREETING},
        {"two hosts", {"GET / HTTP/1.1\r\nHost: good.test\r\nHost: b\r\n\r\n"}, NO_GREETING},
        {"kept alive",
         {"GET / HTTP/1.1\r\nHost: good.test\r\n\r\n",
          "GET /2 HTTP/1.1\r\nHost: good.test\r\n\r\n"},
         0},
        {"changed later",
         {"GET / HTTP/1.1\r\nHost: good.test\r\n\r\n",
          "GET /2 HTTP/1.1\r\nHost: good.other\r\n\r\n"},
         ECONNRESET},
        {"another protocol", {"SSH-2.0-x\r\n", "anything"}, 0},
    };
    struct world *world = open_world();
    uint8_t hello[512];
    (void)set_policy(world, usual, NULL);
    for (size_t i = 0; i < CAY_COUNT(requests); i++) {
        struct words words = {.wish = {"good.test", 80}};
        memcpy(words.text, requests[i].text, sizeof(words.text));
        expect(world, speak, &words, requests[i].what, requests[i].wanted);
    }
    struct words words = {.wish = {"good.test", 80}, .text = {(const char *)hello}};
    words.len = write_hello("good.test", hello);
    expect(world, speak, &words, "its name in TLS", 0);
    words.len = write_hello("good.other", hello);
    expect(world, speak, &words, "another name in TLS", NO_GREETING);
    close_world(world);
}

static void test_deny_beats_allow(void **)
{
    struct world *world = open_world();
    const struct wish good = {"good.test", 7};
    const struct wish fine = {"goodness.test", 7};
    (void)set_policy(world, usual, "good.test");
    expect(world, talk, &good, "denied", UNKNOWN);
    expect(world, talk, &fine, "allowed", 0);
    (void)set_policy(world, (const char *const[]){"good.test:80", NULL}, NULL);
    expect(world, talk, &good, "on another port", ECONNRESET);
    close_world(world);
}

struct lasting {
    struct wish wish;
    int tell_fd, wait_fd;
};

/* Greeted, it tells so, and stays until it is cut. */
static int stay(const void *arg)
{
    const struct lasting *lasting = arg;
    char piece[2];
    int fd = open_wish(&lasting->wish);
    if (fd < 0 || recv(fd, piece, 2, MSG_WAITALL) != 2 || write(lasting->tell_fd, "x", 1) != 1)
        return NO_GREETING;
    return recv(fd, piece, 1, 0) < 0 ? errno : NO_END;
}

static void test_cut(void **)
{
    struct world *world = open_world();
    int tell[2];
    char go = 0;
    assert_int_equal(pipe2(tell, O_CLOEXEC), 0);
    const struct lasting lasting = {.wish = {"good.test", 7}, .tell_fd = tell[1]};
    (void)set_policy(world, usual, NULL);
    pid_t pid = fork();
    if (pid == 0)
        _exit(inside(world, stay, &lasting));
    assert_int_equal(read(tell[0], &go, 1), 1);
    /* What is still allowed goes on; what is not is cut. */
    assert_int_equal(set_policy(world, (const char *const[]){"good.test:7", NULL}, NULL), 0);
    assert_int_equal(set_policy(world, (const char *const[]){"other.test", NULL}, NULL), 1);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), ECONNRESET);
    close(tell[0]);
    close(tell[1]);
    close_world(world);
}

/* Addresses that were given out stay whose they were; who connects meanwhile waits. */
static int connect_slot(const void *arg)
{
    const struct wish wish = {arg, 7};
    return talk(&wish);
}

static void test_killed(void **)
{
    struct world *world = open_world();
    (void)set_policy(world, usual, NULL);
    expect(world, look, "good.test", "the first name", 0);
    assert_int_equal(cay_pidfd_signal(world->helper.pidfd, SIGKILL), 0);
    cay_helper_kill(&world->helper);
    start_helper(world);
    (void)set_policy(world, usual, NULL);
    expect(world, connect_slot, "198.18.1.0", "its address", 0);
    close_world(world);
}

/* The daemon goes, and the next one finds it with all that there is. */
static void test_left(void **)
{
    struct world *world = open_world();
    struct cay_helper_news news;
    const struct wish good = {"good.test", 7};
    (void)set_policy(world, usual, NULL);
    int old_pidfd = fcntl(world->helper.pidfd, F_DUPFD_CLOEXEC, 0);
    cay_helper_leave(&world->helper);
    cay_filter_close(&world->filter);
    expect(world, talk, &good, "without a daemon", 0);
    assert_int_equal(cay_helper_find(world->dir_fd, SLOT, &world->helper), 0);
    expect_news(world, CAY_EGRESS_HELLO, &news);
    assert_true(world->helper.pidfd >= 0);
    world->filter = news.filter;
    close(news.netns_fd);
    expect_news(world, CAY_EGRESS_RECEIPT, &news); /* of what happened meanwhile */
    assert_true(cay_str_is(news.frame.receipt.name, "good.test"));
    (void)set_policy(world, (const char *const[]){"other.test", NULL}, NULL);
    expect(world, talk, &good, "the new rules", UNKNOWN);
    /* The sockets are held here, too: nothing is lost with the helper. */
    cay_helper_kill(&world->helper);
    assert_int_equal(cay_pidfd_wait(old_pidfd, WAIT_MS), 0);
    cay_pidfd_reap(old_pidfd);
    close(old_pidfd);
    start_helper(world);
    (void)set_policy(world, usual, NULL);
    expect(world, talk, &good, "the next helper", 0);
    close_world(world);
}

/* Whoever looks names up is the daemon, which may be away. */
static void test_resolver_away(void **)
{
    struct world *world = open_world();
    const struct wish good = {"good.test", 7};
    const struct wish other = {"goodness.test", 7};
    (void)set_policy(world, usual, NULL);
    expect(world, talk, &good, "a server", 0);
    stop(world->resolver);
    expect(world, talk, &good, "by the addresses that it had", 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(inside(world, talk, &other));
    world->resolver = start_there(world, run_resolver);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), 0);
    close_world(world);
}

/* One that has stopped says no hello; it can be ended all the same. */
static void test_stopped(void **)
{
    struct world *world = open_world();
    struct cay_helper_news news;
    (void)set_policy(world, usual, NULL);
    int old_pidfd = fcntl(world->helper.pidfd, F_DUPFD_CLOEXEC, 0);
    assert_int_equal(cay_pidfd_signal(old_pidfd, SIGSTOP), 0);
    cay_helper_leave(&world->helper);
    assert_int_equal(cay_helper_find(world->dir_fd, SLOT, &world->helper), 0);
    assert_true(world->helper.pidfd >= 0);
    assert_int_equal(cay_helper_receive(&world->helper, &news), 0);
    cay_helper_kill(&world->helper);
    assert_int_equal(cay_pidfd_wait(old_pidfd, WAIT_MS), 0);
    cay_pidfd_reap(old_pidfd);
    close(old_pidfd);
    close_world(world);
}

static void test_ping(void **)
{
    struct world *world = open_world();
    struct cay_helper_news news;
    cay_helper_ping(&world->helper, 12);
    expect_news(world, CAY_EGRESS_PONG, &news);
    assert_int_equal(news.frame.serial, 12);
    close_world(world);
}

/* --- names that somebody is asked about --- */

enum { ASKS_MS = 60'000, ASKS_SHORTLY_MS = 300 };

static pid_t begin(const struct world *world, int (*act)(const void *), const void *arg)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(inside(world, act, arg));
    return pid;
}

static int end_of(pid_t pid)
{
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WEXITSTATUS(status);
}

static void expect_ask(struct world *world, const char *name, uint32_t count,
                       struct cay_helper_news *out_news)
{
    do
        expect_news(world, CAY_EGRESS_ASK, out_news);
    while (out_news->frame.ask.left_ms && out_news->frame.ask.count < count);
    assert_true(cay_str_is(out_news->frame.ask.name, name));
    assert_int_equal(out_news->frame.ask.port, 7);
    assert_int_equal(out_news->frame.ask.count, count);
}

static void expect_refusal(struct world *world, enum cay_egress_why why)
{
    struct cay_helper_news news;
    expect_news(world, CAY_EGRESS_RECEIPT, &news);
    assert_int_equal(news.frame.receipt.verdict, CAY_EGRESS_REFUSED);
    assert_int_equal(news.frame.receipt.why, why);
}

static void test_asked(void **)
{
    struct world *world = open_world();
    struct cay_helper_news news;
    const struct wish unknown = {"good.other", 7};
    const struct wish good = {"good.test", 7};
    (void)set_policy_asking(world, ASKS_MS, usual, "denied.other");
    expect(world, look, "denied.other", "denied", 3);
    expect(world, look, "good.other", "unknown", 0);
    pid_t first = begin(world, talk, &unknown);
    expect_ask(world, "good.other", 1, &news);
    uint32_t id = news.frame.ask.id;
    assert_in_range(news.frame.ask.left_ms, 1, ASKS_MS);
    pid_t second = begin(world, talk, &unknown);
    expect_ask(world, "good.other", 2, &news);
    assert_int_equal(news.frame.ask.id, id);
    expect(world, talk, &good, "what a rule allows waits for nobody", 0);
    assert_int_equal(cay_helper_answer(&world->helper, id + 1, true), 0); /* is no question */
    assert_int_equal(cay_helper_answer(&world->helper, id, true), 0);
    assert_int_equal(end_of(first), 0);
    assert_int_equal(end_of(second), 0);
    /* That was for those who waited. */
    first = begin(world, talk, &unknown);
    expect_ask(world, "good.other", 1, &news);
    assert_int_not_equal(news.frame.ask.id, id);
    assert_int_equal(cay_helper_answer(&world->helper, news.frame.ask.id, false), 0);
    assert_int_equal(end_of(first), ECONNRESET);
    do
        expect_news(world, CAY_EGRESS_RECEIPT, &news);
    while (news.frame.receipt.verdict == CAY_EGRESS_ALLOWED);
    assert_int_equal(news.frame.receipt.why, CAY_EGRESS_REJECTED);
    close_world(world);
}

static void test_ask_ends(void **)
{
    static const char *const allowing[] = {"good.other:7", NULL};
    struct world *world = open_world();
    struct cay_helper_news news;
    const struct wish unknown = {"good.other", 7};
    (void)set_policy_asking(world, ASKS_SHORTLY_MS, usual, NULL);
    expect(world, talk, &unknown, "nobody answers", ECONNRESET);
    expect_refusal(world, CAY_EGRESS_UNANSWERED);
    expect_ask(world, "good.other", 0, &news);
    assert_int_equal(news.frame.ask.left_ms, 0);
    /* The rules answer, too. */
    (void)set_policy_asking(world, ASKS_MS, usual, NULL);
    pid_t pid = begin(world, talk, &unknown);
    expect_ask(world, "good.other", 1, &news);
    (void)set_policy_asking(world, ASKS_MS, usual, "good.other");
    assert_int_equal(end_of(pid), ECONNRESET);
    (void)set_policy_asking(world, ASKS_MS, usual, NULL);
    pid = begin(world, talk, &unknown);
    expect_ask(world, "good.other", 1, &news);
    (void)set_policy_asking(world, ASKS_MS, allowing, NULL);
    assert_int_equal(end_of(pid), 0);
    close_world(world);
}

/* What one answer has let through goes on as long as names are asked about. */
static void test_asked_and_cut(void **)
{
    struct world *world = open_world();
    struct cay_helper_news news;
    int told[2];
    char go = 0;
    assert_int_equal(pipe2(told, O_CLOEXEC), 0);
    const struct lasting lasting = {.wish = {"good.other", 7}, .tell_fd = told[1]};
    (void)set_policy_asking(world, ASKS_MS, usual, NULL);
    pid_t pid = begin(world, stay, &lasting);
    expect_ask(world, "good.other", 1, &news);
    assert_int_equal(cay_helper_answer(&world->helper, news.frame.ask.id, true), 0);
    assert_int_equal(read(told[0], &go, 1), 1);
    assert_int_equal(set_policy_asking(world, ASKS_MS, usual, "other.other"), 0);
    assert_int_equal(set_policy(world, usual, NULL), 1);
    assert_int_equal(end_of(pid), ECONNRESET);
    close(told[0]);
    close(told[1]);
    close_world(world);
}

/* The next daemon hears the question, too, and its answer counts. */
static void test_asked_again(void **)
{
    struct world *world = open_world();
    struct cay_helper_news news;
    const struct wish unknown = {"good.other", 7};
    (void)set_policy_asking(world, ASKS_MS, usual, NULL);
    pid_t pid = begin(world, talk, &unknown);
    expect_ask(world, "good.other", 1, &news);
    uint32_t id = news.frame.ask.id;
    cay_helper_leave(&world->helper);
    cay_filter_close(&world->filter);
    assert_int_equal(cay_helper_find(world->dir_fd, SLOT, &world->helper), 0);
    expect_news(world, CAY_EGRESS_HELLO, &news);
    world->filter = news.filter;
    close(news.netns_fd);
    expect_ask(world, "good.other", 1, &news);
    assert_int_equal(news.frame.ask.id, id);
    assert_int_equal(cay_helper_answer(&world->helper, id, true), 0);
    assert_int_equal(end_of(pid), 0);
    close_world(world);
}

/* They stay until the last one is connected, and leave without a word. */
static int connect_to_many(const void *)
{
    struct wish wish = {.port = 7};
    char name[32];
    char piece[1];
    wish.name = name;
    for (int i = 0; i < CAY_EGRESS_ASKS_MAX; i++) {
        snprintf(name, sizeof(name), "n%d.other", i);
        if (open_wish(&wish) < 0)
            return UNKNOWN;
    }
    int fd = open_wish(&(struct wish){"more.other", 7});
    return fd < 0 ? -fd : recv(fd, piece, 1, 0) < 0 ? errno : NO_END;
}

static void test_many_asked(void **)
{
    struct world *world = open_world();
    struct cay_helper_news news;
    const struct wish good = {"good.test", 7};
    (void)set_policy_asking(world, ASKS_MS, usual, NULL);
    expect(world, connect_to_many, NULL, "one too many", ECONNRESET);
    expect(world, connect_to_many, NULL, "the same again", ECONNRESET);
    expect(world, talk, &good, "what is allowed", 0);
    uint32_t first = 0;
    for (int i = 0; i < CAY_EGRESS_ASKS_MAX; i++) {
        expect_news(world, CAY_EGRESS_ASK, &news);
        assert_int_not_equal(news.frame.ask.id, first);
        first = first ? first : news.frame.ask.id;
    }
    (void)set_policy(world, usual, NULL);
    close_world(world);
}

static int flood(const void *arg)
{
    enum { MANY = 1100 };
    const struct wish *wish = arg;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(wish->port)};
    if (look_up(wish->name, &to.sin_addr) != 0)
        return UNKNOWN;
    for (int i = 0; i < MANY; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0)
            return errno == EMFILE ? 0 : errno;
    }
    return 0;
}

/* A large stream each way, through a helper that others flood. */
static int stream(const void *arg)
{
    enum { BYTES = 8 << 20, PIECE = 32768 };
    static char piece[PIECE];
    int fd = open_wish(arg);
    if (fd < 0 || recv(fd, piece, 2, MSG_WAITALL) != 2)
        return NO_GREETING;
    if (fork() == 0) {
        for (size_t sent = 0; sent < BYTES; sent += PIECE) {
            if (send(fd, piece, PIECE, 0) != PIECE)
                _exit(1);
        }
        shutdown(fd, SHUT_WR);
        _exit(0);
    }
    size_t got = 0;
    ssize_t len = 0;
    while ((len = recv(fd, piece, PIECE, 0)) > 0)
        got += (size_t)len;
    return got == BYTES ? 0 : len < 0 ? errno : NO_ECHO;
}

static void test_load(void **)
{
    struct world *world = open_world();
    const struct wish good = {"good.test", 7};
    (void)set_policy(world, usual, NULL);
    expect(world, stream, &good, "a stream", 0);
    expect(world, flood, &good, "a flood", 0);
    /* Those of the flood end when the helper comes to them; until then one more is too many. */
    struct timespec pause = {.tv_nsec = 20'000'000};
    int status = NO_GREETING;
    for (int i = 0; i < 500 && status == NO_GREETING; i++) {
        status = inside(world, stream, &good);
        if (status)
            nanosleep(&pause, NULL);
    }
    assert_int_equal(status, 0);
    close_world(world);
}

/* What it is, as the host's root sees it. */
static void test_confined(void **)
{
    static const char *const lines[] = {"CapEff:\t0000000000000000",
                                        "CapBnd:\t0000000000000000",
                                        "NoNewPrivs:\t1",
                                        "Seccomp:\t2",
                                        "Groups:\t \n",
                                        "Uid:\t987654\t987654\t987654\t987654"};
    struct world *world = open_world();
    char path[64];
    static char text[8192];
    (void)set_policy(world, usual, NULL); /* it is where it wants to be */
    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", world->helper.pidfd);
    FILE *file = fopen(path, "re");
    int pid = 0;
    while (file && fgets(text, sizeof(text), file)) {
        if (strncmp(text, "Pid:", 4) == 0)
            pid = (int)strtol(text + 4, NULL, 10);
    }
    assert_non_null(file);
    (void)fclose(file);
    snprintf(path, sizeof(path), "/proc/%d/status", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = read(fd, text, sizeof(text) - 1);
    assert_true(len > 0);
    close(fd);
    text[len] = '\0';
    for (size_t i = 0; i < CAY_COUNT(lines); i++) {
        if (!strstr(text, lines[i]))
            fail_msg("no '%s' in %s", lines[i], text);
    }
    close_world(world);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_full_names),
        cmocka_unit_test(test_receipts),
        cmocka_unit_test(test_denials),
        cmocka_unit_test(test_other_names),
        cmocka_unit_test(test_rebinding),
        cmocka_unit_test(test_deny_beats_allow),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_left),
        cmocka_unit_test(test_load),
        cmocka_unit_test(test_resolver_away),
        cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_ping),
        cmocka_unit_test(test_confined),
        cmocka_unit_test(test_asked),
        cmocka_unit_test(test_ask_ends),
        cmocka_unit_test(test_asked_and_cut),
        cmocka_unit_test(test_asked_again),
        cmocka_unit_test(test_many_asked),
    };
    struct cay_error err = {};
    program = argc > 1 ? argv[1] : NULL;
    way = argc > 2 ? CAY_FILTER_BY_TABLES : CAY_FILTER_BY_BPF;
    if (!getenv("TEST_LIST") && !cay_filter_check(way, &way, &err)) {
        printf("1..0 # SKIP %s\n", err.text);
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
