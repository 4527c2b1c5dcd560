/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helper that looks into TLS, by its own program: a sandbox's namespace with a client that
 * trusts this host's authority, an internet with a server whose certificate another one signed,
 * and us in the daemon's place.
 */
#include "tests/unit/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/authority/authority.h"
#include "host/net/helper.h"
#include "sys/netdev.h"
#include "sys/netlink.h"
#include "sys/netns.h"
#include "wire/egress/secrets.h"

enum {
    SOMEBODY = 54321,
    HELPER_UID = 987654,
    SLOT = 7,
    WAIT_MS = 10'000,
    REPLY_MAX = 1 << 20,
    HTTPS = 443,
    BIG_BYTES = 8 << 20,
};

#define PUBLIC "52.95.113.10"
#define VALUE  "sk-the-value-itself"
#define PLACE  "cay-secret-0123456789abcdef0123456789abcdef"
#define PLACE2 "cay-secret-ffffffffffffffffffffffffffffffff"
#define HOST   "Host: good.test\r\n"

static const char *program;

struct world {
    int inside_fd, outside_fd, dir_fd, names_fd, image_fd;
    char dir[64], trust[96], heard[96];
    struct cay_authority *ours, *theirs;
    pid_t server, resolver;
    struct cay_filter filter;
    struct cay_helper helper;
    uint64_t serial;
    unsigned leaf_count;
    bool is_mute; /* no leaves */
};

/* --- the internet --- */

static int add_address(void *)
{
    cay_autoclose int fd = cay_netlink_open(NETLINK_ROUTE, 0);
    struct cay_ip address = {.family = AF_INET};
    (void)inet_pton(AF_INET, PUBLIC, address.bytes);
    return cay_netdev_add_address(fd, cay_netdev_find(fd, "lo"), &address);
}

static int serve_on(int type, uint16_t port, const char *address)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    const int on = 1;
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (inet_pton(AF_INET, address, &at.sin_addr) != 1 ||
        bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 ||
        (type == SOCK_STREAM && listen(fd, 64) < 0))
        _exit(9);
    return fd;
}

/* Every name is at the one address; none has one of IPv6. */
static void run_resolver(const struct world *, int ready_fd)
{
    static const uint8_t fixed[] = {0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4};
    int fd = serve_on(SOCK_DGRAM, 53, "127.0.0.1");
    (void)!write(ready_fd, "r", 1);
    for (;;) {
        uint8_t bytes[600];
        struct sockaddr_in peer;
        socklen_t peer_len = sizeof(peer);
        ssize_t len = recvfrom(fd, bytes, 512, 0, (struct sockaddr *)&peer, &peer_len);
        size_t end = 12;
        while (len > 20 && bytes[end])
            end += 1 + (size_t)bytes[end];
        bytes[2] |= 0x80;
        bytes[3] = 0x80;
        if (bytes[end + 2] == 1) {
            memcpy(bytes + len, fixed, sizeof(fixed));
            (void)inet_pton(AF_INET, PUBLIC, bytes + len + sizeof(fixed));
            len += (ssize_t)sizeof(fixed) + 4;
            bytes[7] = 1;
        }
        (void)sendto(fd, bytes, (size_t)len, 0, (const struct sockaddr *)&peer, peer_len);
    }
}

static SSL_CTX *server_context(struct cay_str pem)
{
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    BIO *text = BIO_new_mem_buf(pem.ptr, (int)pem.len);
    X509 *leaf = PEM_read_bio_X509(text, NULL, NULL, NULL);
    X509 *above = PEM_read_bio_X509(text, NULL, NULL, NULL);
    EVP_PKEY *key = PEM_read_bio_PrivateKey(text, NULL, NULL, NULL);
    if (SSL_CTX_use_certificate(context, leaf) != 1 || SSL_CTX_use_PrivateKey(context, key) != 1)
        _exit(9);
    (void)SSL_CTX_add_extra_chain_cert(context, above);
    X509_free(leaf);
    EVP_PKEY_free(key);
    BIO_free(text);
    return context;
}

static void say(SSL *ssl, const char *text)
{
    if (SSL_write(ssl, text, (int)strlen(text)) <= 0)
        _exit(0);
}

/* Up to the empty line; 0 at the end. */
static size_t hear_head(SSL *ssl, char *out, size_t size)
{
    size_t len = 0;
    while (len < size - 1 && (len < 4 || memcmp(out + len - 4, "\r\n\r\n", 4) != 0)) {
        if (SSL_read(ssl, out + len, 1) <= 0)
            return 0;
        len++;
    }
    out[len] = '\0';
    return len;
}

static size_t hear_body(SSL *ssl, const char *head)
{
    char piece[16384];
    const char *length = strstr(head, "Content-Length: ");
    size_t left = length ? strtoul(length + 16, NULL, 10) : 0;
    size_t sum = 0;
    if (strstr(head, "Transfer-Encoding: chunked")) { /* up to the last chunk, as it came */
        while (sum < 5 || memcmp(piece + sum - 5, "0\r\n\r\n", 5) != 0) {
            if (SSL_read(ssl, piece + sum, 1) <= 0)
                _exit(0);
            sum++;
        }
        return sum;
    }
    while (left) {
        int len = SSL_read(ssl, piece, (int)CAY_MIN(left, sizeof(piece)));
        if (len <= 0)
            _exit(0);
        left -= (size_t)len;
        sum += (size_t)len;
    }
    return sum;
}

static void answer_with(SSL *ssl, const char *head, const char *body, size_t len)
{
    char text[256];
    snprintf(text, sizeof(text), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", len);
    say(ssl, text);
    if (strncmp(head, "HEAD", 4) != 0 && len && SSL_write(ssl, body, (int)len) <= 0)
        _exit(0);
}

static void answer_big(SSL *ssl)
{
    static char piece[65536];
    char text[128];
    memset(piece, 'b', sizeof(piece));
    snprintf(text, sizeof(text), "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", BIG_BYTES);
    say(ssl, text);
    for (size_t sent = 0; sent < BIG_BYTES; sent += sizeof(piece)) {
        if (SSL_write(ssl, piece, sizeof(piece)) <= 0)
            _exit(0);
    }
}

static void answer_ws(SSL *ssl)
{
    char piece[256];
    int len;
    say(ssl, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
             "Connection: Upgrade\r\n\r\n");
    while ((len = SSL_read(ssl, piece, sizeof(piece))) > 0)
        (void)SSL_write(ssl, piece, len);
    _exit(0);
}

/* What it does is said by the path. */
static void serve_request(SSL *ssl, const char *head)
{
    const char *path = strchr(head, '/');
    char number[32];
    bool has_body = strstr(head, "Expect:") == NULL;
    size_t sum = has_body ? hear_body(ssl, head) : 0;
    if (strncmp(path, "/chunked", 8) == 0) {
        say(ssl, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
        say(ssl, "2\r\nde\r\n0\r\n\r\n");
    } else if (strncmp(path, "/until", 6) == 0) {
        say(ssl, "HTTP/1.1 200 OK\r\n\r\nall that there is");
        SSL_shutdown(ssl);
        _exit(0);
    } else if (strncmp(path, "/cut", 4) == 0) {
        say(ssl, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nnot all");
        _exit(0);
    } else if (strncmp(path, "/events", 7) == 0) {
        say(ssl, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n");
        (void)SSL_read(ssl, number, 1); /* the next when the client has left, only */
        _exit(0);
    } else if (strncmp(path, "/upload", 7) == 0) {
        if (!has_body) {
            say(ssl, "HTTP/1.1 100 Continue\r\n\r\n");
            sum = hear_body(ssl, head);
        }
        snprintf(number, sizeof(number), "%zu", sum);
        answer_with(ssl, head, number, strlen(number));
    } else if (strncmp(path, "/big", 4) == 0) {
        answer_big(ssl);
    } else if (strncmp(path, "/ws", 3) == 0) {
        answer_ws(ssl);
    } else {
        answer_with(ssl, head, head, strlen(head));
    }
}

/* Its certificate is for good.test and, by the other context, for nobody that is asked for. */
static void serve_one(int fd, SSL_CTX *good, SSL_CTX *bad, const char *heard_path)
{
    char head[65536];
    char name[256] = "";
    ssize_t len = 0;
    /* Which one is told by the hello: a name that begins with 'w' gets the wrong one. */
    len = recv(fd, head, sizeof(head), MSG_PEEK);
    bool is_wrong = len > 0 && memmem(head, (size_t)len, "wrong.test", 10);
    SSL *ssl = SSL_new(is_wrong ? bad : good);
    SSL_set_fd(ssl, fd);
    if (SSL_accept(ssl) != 1)
        _exit(0);
    (void)name;
    while (hear_head(ssl, head, sizeof(head))) {
        int log = open(heard_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        (void)!write(log, head, strlen(head));
        close(log);
        serve_request(ssl, head);
    }
    _exit(0);
}

static void run_server(const struct world *world, int ready_fd)
{
    struct cay_buf good;
    struct cay_buf bad;
    cay_buf_init(&good, CAY_AUTHORITY_LEAF_BYTES_MAX);
    cay_buf_init(&bad, CAY_AUTHORITY_LEAF_BYTES_MAX);
    if (cay_authority_leaf(world->theirs, CAY_STR("good.test"), &good) < 0 ||
        cay_authority_leaf(world->theirs, CAY_STR("nobody.test"), &bad) < 0)
        _exit(9);
    SSL_CTX *good_context = server_context(cay_buf_str(&good));
    SSL_CTX *bad_context = server_context(cay_buf_str(&bad));
    int listener = serve_on(SOCK_STREAM, HTTPS, PUBLIC);
    (void)!write(ready_fd, "r", 1);
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0 && fork() == 0)
            serve_one(fd, good_context, bad_context, world->heard);
        close(fd);
    }
}

/* --- the world --- */

static pid_t start_there(const struct world *world, void (*run)(const struct world *, int ready_fd))
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
        run(world, ready[1]);
        _exit(0);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &go, 1), 1);
    close(ready[0]);
    return pid;
}

static void start_helper(struct world *world)
{
    struct cay_error err = {};
    const struct cay_helper_options options = {.image_fd = world->image_fd,
                                               .dir_fd = world->dir_fd,
                                               .slot = SLOT,
                                               .netns_fd = world->outside_fd,
                                               .names_fd = world->names_fd,
                                               .uid = HELPER_UID,
                                               .trust_path = world->trust,
                                               .filter = &world->filter};
    if (!cay_helper_start(&options, &world->helper, &err))
        fail_msg("%s", err.text);
}

static struct cay_authority *make_authority(const struct world *world, const char *name)
{
    struct cay_authority *authority = NULL;
    assert_int_equal(mkdirat(world->dir_fd, name, 0700), 0);
    int fd = openat(world->dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(cay_authority_open(fd, &authority), 0);
    assert_true(cay_authority_certificate(authority).len > 0);
    return authority;
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
    snprintf(world->trust, sizeof(world->trust), "%s/trust", world->dir);
    snprintf(world->heard, sizeof(world->heard), "%s/heard", world->dir);
    world->ours = make_authority(world, "ours");
    world->theirs = make_authority(world, "theirs");
    struct cay_str pem = cay_authority_certificate(world->theirs);
    cay_autoclose int trust = open(world->trust, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(write(trust, pem.ptr, pem.len), pem.len);
    assert_int_equal(cay_netns_visit(world->outside_fd, add_address, NULL), 0);
    world->server = start_there(world, run_server);
    world->resolver = start_there(world, run_resolver);
    if (!cay_filter_open(world->inside_fd, CAY_FILTER_BY_BPF, &world->filter, &err))
        fail_msg("%s", err.text);
    start_helper(world);
    return world;
}

static void stop(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void close_world(struct world *world)
{
    static const char *const files[] = {"trust", "heard", "ours/authority.pem",
                                        "theirs/authority.pem"};
    cay_helper_kill(&world->helper);
    cay_filter_close(&world->filter);
    stop(world->server);
    stop(world->resolver);
    cay_helper_remove_door(world->dir_fd, SLOT);
    cay_authority_close(world->ours);
    cay_authority_close(world->theirs);
    for (size_t i = 0; i < CAY_COUNT(files); i++)
        (void)unlinkat(world->dir_fd, files[i], 0);
    (void)unlinkat(world->dir_fd, "ours", AT_REMOVEDIR);
    (void)unlinkat(world->dir_fd, "theirs", AT_REMOVEDIR);
    close(world->inside_fd);
    close(world->outside_fd);
    close(world->dir_fd);
    close(world->names_fd);
    close(world->image_fd);
    assert_int_equal(rmdir(world->dir), 0);
    free(world);
}

/* --- the daemon's side --- */

static void give_leaf(struct world *world, struct cay_str name)
{
    cay_auto(cay_buf_finish) struct cay_buf pem;
    cay_buf_init(&pem, CAY_AUTHORITY_LEAF_BYTES_MAX);
    assert_int_equal(cay_authority_leaf(world->ours, name, &pem), 0);
    assert_int_equal(cay_helper_give_leaf(&world->helper, name, cay_buf_str(&pem)), 0);
    world->leaf_count++;
}

/* The next of its kind within the time; names are vouched for meanwhile. */
static bool await(struct world *world, enum cay_egress_kind kind, int wait_ms,
                  struct cay_helper_news *out_news)
{
    for (;;) {
        struct pollfd entry = {.fd = world->helper.control_fd, .events = POLLIN};
        if (poll(&entry, 1, wait_ms) != 1)
            return false;
        int status = cay_helper_receive(&world->helper, out_news);
        if (status < 0)
            fail_msg("the helper: %s", strerror(-status));
        if (status == 1 && out_news->frame.kind == CAY_EGRESS_LEAF_WANTED && !world->is_mute)
            give_leaf(world, out_news->frame.name);
        if (status == 1 && out_news->frame.kind == kind)
            return true;
    }
}

static uint64_t set_policy(struct world *world, const char *const *allow, const char *const *deny)
{
    cay_auto(cay_buf_finish) struct cay_buf rules;
    struct cay_helper_news news;
    cay_buf_init(&rules, 65536);
    for (; *allow; allow++)
        cay_egress_rule_put(&rules, CAY_EGRESS_ALLOW, cay_str(*allow));
    for (; deny && *deny; deny++)
        cay_egress_rule_put(&rules, CAY_EGRESS_DENY, cay_str(*deny));
    assert_int_equal(cay_helper_set_policy(&world->helper, ++world->serial, 0, cay_buf_str(&rules)),
                     0);
    do
        assert_true(await(world, CAY_EGRESS_APPLIED, WAIT_MS, &news));
    while (news.frame.serial != world->serial);
    return news.frame.count;
}

static void set_secret(struct world *world, const char *value)
{
    const struct cay_egress_secret secrets[] = {
        {CAY_STR("good.test"), CAY_STR("authorization"), CAY_STR(PLACE), cay_str(value)},
        {CAY_STR("wrong.test"), CAY_STR("authorization"), CAY_STR(PLACE2), cay_str(value)},
        {CAY_STR("good.test"), CAY_STR("x-key"), CAY_STR(PLACE), cay_str(value)},
    };
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, CAY_EGRESS_SECRETS_BYTES_MAX);
    for (size_t i = 0; i < CAY_COUNT(secrets) && value[0]; i++)
        cay_egress_secret_put(&text, &secrets[i]);
    assert_int_equal(cay_helper_set_secrets(&world->helper, cay_buf_str(&text)), 0);
}

static const char *const usual[] = {"*.test", NULL};

static struct world *open_usual(void)
{
    struct world *world = open_world();
    set_secret(world, VALUE);
    (void)set_policy(world, usual, NULL);
    return world;
}

/* What the server has heard, of all requests. */
static char *all_heard(const struct world *world)
{
    char *text = cay_alloc(REPLY_MAX);
    cay_autoclose int fd = open(world->heard, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? 0 : read(fd, text, REPLY_MAX - 1);
    assert_true(len >= 0);
    return text;
}

/* --- clients --- */

static size_t write_question(const char *name, uint8_t *out)
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
    memcpy(out + at, (const uint8_t[]){0, 0, 1, 0, 1}, 5);
    return at + 5;
}

static int connect_to(const char *name)
{
    struct sockaddr_in server = {
        .sin_family = AF_INET, .sin_port = htons(53), .sin_addr.s_addr = htonl(0x08080404)};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(HTTPS)};
    uint8_t bytes[512];
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    size_t len = write_question(name, bytes);
    if (connect(fd, (const struct sockaddr *)&server, sizeof(server)) < 0 ||
        send(fd, bytes, len, 0) < 0)
        _exit(101);
    ssize_t got = recv(fd, bytes, sizeof(bytes), 0);
    if (got < 12 || bytes[7] != 1)
        _exit(102);
    memcpy(&to.sin_addr, bytes + got - 4, 4);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0)
        _exit(103);
    return fd;
}

struct wish {
    const char *name;
    const char *alpn;    /* as it goes over the wire; NULL: none */
    const char *text[6]; /* each is sent when something has come for the one before */
    size_t wanted;       /* bytes after which it leaves; 0: at the end */
    size_t body;         /* so many more bytes are sent behind the first text */
};

static SSL_CTX *client_context(const struct world *world, const struct wish *wish)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    struct cay_str pem = cay_authority_certificate(world->ours);
    BIO *text = BIO_new_mem_buf(pem.ptr, (int)pem.len);
    X509 *root = PEM_read_bio_X509(text, NULL, NULL, NULL);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context), root);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    if (wish->alpn)
        (void)SSL_CTX_set_alpn_protos(context, (const unsigned char *)wish->alpn,
                                      (unsigned)strlen(wish->alpn));
    X509_free(root);
    BIO_free(text);
    return context;
}

static int talk(const struct world *world, const struct wish *wish, int out_fd)
{
    static char piece[65536];
    SSL *ssl = SSL_new(client_context(world, wish));
    SSL_set_fd(ssl, connect_to(wish->name));
    SSL_set_tlsext_host_name(ssl, wish->name);
    SSL_set1_host(ssl, wish->name);
    if (SSL_connect(ssl) != 1)
        return 104;
    if (wish->alpn && SSL_version(ssl) < TLS1_2_VERSION)
        return 105;
    size_t total = 0;
    for (size_t i = 0; i < CAY_COUNT(wish->text) && wish->text[i]; i++) {
        if (SSL_write(ssl, wish->text[i], (int)strlen(wish->text[i])) <= 0)
            return 106;
        memset(piece, 'u', sizeof(piece));
        for (size_t left = i == 0 ? wish->body : 0; left;) {
            int sent = SSL_write(ssl, piece, (int)CAY_MIN(left, sizeof(piece)));
            if (sent <= 0)
                return 107;
            left -= (size_t)sent;
        }
        if (i + 1 == CAY_COUNT(wish->text) || !wish->text[i + 1])
            break;
        int len = SSL_read(ssl, piece, sizeof(piece));
        if (len <= 0)
            return 108;
        total += (size_t)len;
        (void)!write(out_fd, piece, (size_t)len);
    }
    for (;;) {
        int len = wish->wanted && total >= wish->wanted ? 0 : SSL_read(ssl, piece, sizeof(piece));
        if (len > 0) {
            total += (size_t)len;
            (void)!write(out_fd, piece, (size_t)len);
            continue;
        }
        if (wish->wanted && total >= wish->wanted)
            return 0;
        return SSL_get_error(ssl, len) == SSL_ERROR_ZERO_RETURN ? 0 : 109;
    }
}

/* Its exit code; what came back, as a text in *out_reply (REPLY_MAX at most; the rest is counted
 * in *out_total). */
static int ask(struct world *world, const struct wish *wish, char **out_reply, size_t *out_total)
{
    int ends[2];
    struct cay_helper_news news;
    char *reply = cay_alloc(REPLY_MAX + 1);
    size_t len = 0;
    size_t total = 0;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(20);
        (void)signal(SIGPIPE, SIG_IGN);
        close(ends[0]);
        if (setns(world->inside_fd, CLONE_NEWNET) < 0 ||
            setresuid(SOMEBODY, SOMEBODY, SOMEBODY) < 0 || unshare(CLONE_NEWUSER) < 0)
            _exit(255);
        _exit(talk(world, wish, ends[1]));
    }
    close(ends[1]);
    for (;;) {
        char piece[65536];
        struct pollfd fds[] = {{ends[0], POLLIN, 0}, {world->helper.control_fd, POLLIN, 0}};
        assert_true(poll(fds, world->is_mute ? 1 : 2, WAIT_MS) > 0);
        if (fds[1].revents)
            (void)await(world, CAY_EGRESS_LEAF_WANTED, 0, &news);
        if (!fds[0].revents)
            continue;
        ssize_t got = read(ends[0], piece, sizeof(piece));
        if (got <= 0)
            break;
        size_t kept = CAY_MIN((size_t)got, REPLY_MAX - len);
        memcpy(reply + len, piece, kept);
        len += kept;
        total += (size_t)got;
    }
    close(ends[0]);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    *out_reply = reply;
    if (out_total)
        *out_total = total;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void expect(struct world *world, const struct wish *wish, int code, const char *part)
{
    cay_autofree char *reply = NULL;
    int got = ask(world, wish, &reply, NULL);
    if (got != code || !strstr(reply, part))
        fail_msg("%d, and:\n%.2000s\nwhere there should be %d and '%s'", got, reply, code, part);
}

/* --- what is promised --- */

static void test_placed(void **)
{
    struct world *world = open_usual();
    const struct wish wish = {
        .name = "good.test",
        .alpn = "\x02h2\x08http/1.1",
        .text = {"GET /echo HTTP/1.1\r\n" HOST "Authorization: Bearer " PLACE "\r\n"
                 "X-Other: 1\r\nConnection: close\r\n\r\n"},
        .wanted = 40,
    };
    expect(world, &wish, 0, "200 OK");
    cay_autofree char *heard = all_heard(world);
    assert_non_null(strstr(heard, "Authorization: Bearer " VALUE "\r\nX-Other: 1\r\n"));
    assert_null(strstr(heard, PLACE));
    close_world(world);
}

/* "user:PLACE" */
static void test_basic(void **)
{
    struct world *world = open_usual();
    const struct wish wish = {
        .name = "good.test",
        .text = {"GET /echo HTTP/1.1\r\n" HOST "Authorization: basic "
                 "dXNlcjpjYXktc2VjcmV0LTAxMjM0NTY3ODlhYmNkZWYwMTIzNDU2Nzg5YWJjZGVm\r\n\r\n"},
        .wanted = 40,
    };
    expect(world, &wish, 0, "200 OK");
    cay_autofree char *heard = all_heard(world);
    assert_non_null(strstr(heard, "Authorization: Basic dXNlcjpzay10aGUtdmFsdWUtaXRzZWxm\r\n"));
    close_world(world);
}

static void test_not_elsewhere(void **)
{
    static const char *const requests[] = {
        "GET /echo?key=" PLACE " HTTP/1.1\r\n" HOST "\r\n",
        "GET /" PLACE " HTTP/1.1\r\n" HOST "\r\n",
        "GET /echo HTTP/1.1\r\n" HOST "X-Other: " PLACE "\r\n\r\n",
        "GET /echo HTTP/1.1\r\n" HOST "X-" PLACE ": 1\r\n\r\n",
        "GET /echo HTTP/1.1\r\n" HOST "Authorization: Bearer " PLACE2 "\r\n\r\n",
        "GET /echo HTTP/1.1\r\nHost: other.test\r\nAuthorization: " PLACE "\r\n\r\n",
        "GET /echo HTTP/1.1\r\nHost: good.test:80\r\nAuthorization: " PLACE "\r\n\r\n",
        "TRACE /echo HTTP/1.1\r\n" HOST "Authorization: " PLACE "\r\n\r\n",
        "GET /echo HTTP/1.1\r\n" HOST "Upgrade: h2c\r\nAuthorization: " PLACE "\r\n\r\n",
        "GET https://good.test/ HTTP/1.1\r\n" HOST "Authorization: " PLACE "\r\n\r\n",
        "POST / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "GET / HTTP/1.1\r\n" HOST "Authorization : " PLACE "\r\n\r\n",
        "GET / HTTP/1.1\r\n" HOST "A: b\nAuthorization: " PLACE "\r\n\r\n",
    };
    struct world *world = open_usual();
    for (size_t i = 0; i < CAY_COUNT(requests); i++) {
        const struct wish wish = {.name = "good.test", .text = {requests[i]}};
        expect(world, &wish, 0, "HTTP/1.1 403 Forbidden\r\n");
    }
    cay_autofree char *heard = all_heard(world);
    assert_string_equal(heard, "");
    close_world(world);
}

/* Bodies are not looked at: there it stays a word. */
static void test_body(void **)
{
    struct world *world = open_usual();
    const struct wish wish = {
        .name = "good.test",
        .text = {"POST /upload HTTP/1.1\r\n" HOST "Content-Length: 43\r\n\r\n" PLACE},
        .wanted = 40,
    };
    expect(world, &wish, 0, "\r\n\r\n43");
    close_world(world);
}

static void test_kept_alive(void **)
{
    struct world *world = open_usual();
    const struct wish wish = {
        .name = "good.test",
        .text = {"GET /1 HTTP/1.1\r\n" HOST "X-Key: " PLACE "\r\n\r\n",
                 "GET /2 HTTP/1.1\r\n" HOST "Authorization: " PLACE "\r\n\r\n",
                 "GET /3 HTTP/1.1\r\nHost: other.test\r\nAuthorization: " PLACE "\r\n\r\n"},
    };
    expect(world, &wish, 0, "HTTP/1.1 403 Forbidden\r\n");
    cay_autofree char *heard = all_heard(world);
    assert_non_null(strstr(heard, "GET /1 HTTP/1.1\r\n" HOST "X-Key: " VALUE "\r\n"));
    assert_non_null(strstr(heard, "GET /2 HTTP/1.1\r\n" HOST "Authorization: " VALUE "\r\n"));
    assert_null(strstr(heard, "/3"));
    close_world(world);
}

static void test_rotated(void **)
{
    struct world *world = open_usual();
    const struct wish wish = {
        .name = "good.test",
        .text = {"GET /1 HTTP/1.1\r\n" HOST "Authorization: " PLACE "\r\n\r\n"},
        .wanted = 40,
    };
    expect(world, &wish, 0, "200 OK");
    set_secret(world, "sk-another");
    expect(world, &wish, 0, "200 OK");
    cay_autofree char *heard = all_heard(world);
    assert_non_null(strstr(heard, "Authorization: sk-another\r\n"));
    assert_int_equal(world->leaf_count, 1);
    /* Without one it is a connection like any other: the server's own certificate, which this
     * client does not trust. */
    set_secret(world, "");
    cay_autofree char *reply = NULL;
    assert_int_equal(ask(world, &wish, &reply, NULL), 104);
    close_world(world);
}

static void test_wrong_certificate(void **)
{
    struct world *world = open_usual();
    struct cay_helper_news news;
    const struct wish wish = {
        .name = "wrong.test",
        .text = {"GET / HTTP/1.1\r\nHost: wrong.test\r\nAuthorization: " PLACE2 "\r\n\r\n"},
    };
    expect(world, &wish, 0, "HTTP/1.1 502 Bad Gateway\r\n");
    expect(world, &wish, 0, "certificate is not good for the name: hostname mismatch");
    cay_autofree char *heard = all_heard(world);
    assert_string_equal(heard, "");
    (void)news;
    close_world(world);
}

static void test_bodies(void **)
{
    static const struct {
        const char *request, *part;
        size_t wanted;
    } cases[] = {
        {"GET /chunked HTTP/1.1\r\n" HOST "\r\n", "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", 60},
        {"GET /until HTTP/1.1\r\n" HOST "\r\n", "all that there is", 0},
        {"GET /events HTTP/1.1\r\n" HOST "\r\n", "data: 1\n\n", 60},
        {"HEAD /echo HTTP/1.1\r\n" HOST "\r\n", "Content-Length: ", 30},
        {"POST /upload HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello", "\r\n\r\n5", 39},
        {"POST /upload HTTP/1.1\r\n" HOST
         "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
         "\r\n\r\n15", 40},
    };
    struct world *world = open_usual();
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        const struct wish wish = {
            .name = "good.test", .text = {cases[i].request}, .wanted = cases[i].wanted};
        expect(world, &wish, 0, cases[i].part);
    }
    const struct wish cut = {.name = "good.test", .text = {"GET /cut HTTP/1.1\r\n" HOST "\r\n"}};
    expect(world, &cut, 109, "not all"); /* and it does not look like all */
    close_world(world);
}

static void test_continued(void **)
{
    struct world *world = open_usual();
    const struct wish wish = {
        .name = "good.test",
        .text = {"POST /upload HTTP/1.1\r\n" HOST
                 "Expect: 100-continue\r\nContent-Length: 3\r\n\r\n",
                 "abc"},
        .wanted = 60,
    };
    expect(world, &wish, 0, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n");
    close_world(world);
}

static void test_websocket(void **)
{
    struct world *world = open_usual();
    const struct wish wish = {
        .name = "good.test",
        .text = {"GET /ws HTTP/1.1\r\n" HOST "Upgrade: websocket\r\nConnection: Upgrade\r\n"
                 "Authorization: Bearer " PLACE "\r\n\r\n",
                 "\x81\x05hello", "GET / HTTP/1.1\r\nHost: other.test\r\n\r\n"},
        .wanted = 110,
    };
    expect(world, &wish, 0, "\x81\x05hello");
    close_world(world);
}

static void test_large(void **)
{
    struct world *world = open_usual();
    char head[128];
    cay_autofree char *reply = NULL;
    size_t total = 0;
    const struct wish down = {
        .name = "good.test", .text = {"GET /big HTTP/1.1\r\n" HOST "\r\n"}, .wanted = BIG_BYTES};
    assert_int_equal(ask(world, &down, &reply, &total), 0);
    assert_true(total >= BIG_BYTES);
    snprintf(head, sizeof(head), "POST /upload HTTP/1.1\r\n" HOST "Content-Length: %d\r\n\r\n",
             BIG_BYTES);
    const struct wish up = {.name = "good.test", .text = {head}, .body = BIG_BYTES, .wanted = 40};
    expect(world, &up, 0, "\r\n\r\n8388608");
    close_world(world);
}

static void test_rules(void **)
{
    static const char *const allow[] = {"GET https://good.test/repos/*", "POST https://good.test/x",
                                        NULL};
    static const struct {
        const char *line, *part;
        size_t wanted;
    } cases[] = {
        {"GET /repos/a?b=c", "200 OK", 30},
        {"GET /repos/a%20b", "200 OK", 30},
        {"POST /x", "200 OK", 30},
        {"GET /x", "403 Forbidden", 0},
        {"GET /user", "'GET https://good.test/repos/*' allows other requests only", 0},
        {"GET /repos/../user", "403 Forbidden", 0},
        {"GET /repos/%2e%2e/user", "403 Forbidden", 0},
        {"GET /repos/..%2fuser", "403 Forbidden", 0},
        {"GET /repos/..%5cuser", "403 Forbidden", 0},
        {"DELETE /repos/a", "403 Forbidden", 0},
    };
    struct world *world = open_world();
    (void)set_policy(world, allow, NULL);
    for (size_t i = 0; i < CAY_COUNT(cases); i++) {
        char request[256];
        snprintf(request, sizeof(request), "%s HTTP/1.1\r\n" HOST "\r\n", cases[i].line);
        const struct wish wish = {
            .name = "good.test", .text = {request}, .wanted = cases[i].wanted};
        expect(world, &wish, 0, cases[i].part);
    }
    close_world(world);
}

static void test_receipts(void **)
{
    static const char *const deny[] = {"* https://good.test/closed/*", NULL};
    struct world *world = open_world();
    struct cay_helper_news news;
    const struct wish wish = {.name = "good.test",
                              .text = {"GET /open?q=1 HTTP/1.1\r\n" HOST "\r\n",
                                       "PUT /closed/a HTTP/1.1\r\n" HOST "\r\n"}};
    set_secret(world, "");
    (void)set_policy(world, usual, deny);
    give_leaf(world, CAY_STR("good.test"));
    world->is_mute = true; /* its news are for later */
    expect(world, &wish, 0, "'* https://good.test/closed/*' denies it");
    world->is_mute = false;
    bool is_allowed_told = false;
    bool is_refused_told = false;
    for (int i = 0; i < 2; i++) {
        assert_true(await(world, CAY_EGRESS_RECEIPT, WAIT_MS, &news));
        const struct cay_egress_receipt *receipt = &news.frame.receipt;
        assert_true(cay_str_is(receipt->name, "good.test"));
        if (receipt->verdict == CAY_EGRESS_ALLOWED) {
            is_allowed_told = receipt->status == 200 && cay_str_is(receipt->method, "GET") &&
                              cay_str_is(receipt->path, "/open");
        } else {
            is_refused_told = receipt->why == CAY_EGRESS_BY_RULE && receipt->status == 403 &&
                              cay_str_is(receipt->method, "PUT") &&
                              cay_str_is(receipt->path, "/closed/a");
        }
    }
    assert_true(is_allowed_told && is_refused_told);
    assert_false(await(world, CAY_EGRESS_RECEIPT, 600, &news));
    close_world(world);
}

/* Other connections wait for no leaf; one that never comes is not waited for without end. */
static void test_not_tls(void **)
{
    struct world *world = open_usual();
    const struct wish odd = {
        .name = "good.test",
        .alpn = "\x02h2",
        .text = {"GET / HTTP/1.1\r\n" HOST "\r\n"},
    };
    expect(world, &odd, 104, "");
    close_world(world);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_placed),
        cmocka_unit_test(test_basic),
        cmocka_unit_test(test_not_elsewhere),
        cmocka_unit_test(test_body),
        cmocka_unit_test(test_kept_alive),
        cmocka_unit_test(test_rotated),
        cmocka_unit_test(test_wrong_certificate),
        cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_continued),
        cmocka_unit_test(test_websocket),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_receipts),
        cmocka_unit_test(test_not_tls),
    };
    if (argc < 2)
        return 2;
    program = argv[1];
    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
