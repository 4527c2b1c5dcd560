/* SPDX-License-Identifier: Apache-2.0 */
#include "host/net/dns.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/net/dns_internal.h"
#include "sys/netns.h"
#include "wire/dns.h"

enum {
    DNS_PORT = 53,
    SERVER_MS_MAX = 3'000, /* then the next one is asked */
    PIECES_PER_TURN = 16,
};

/* One datagram on its way to a server and back. */
struct question {
    struct cay_list_node in_dns;
    struct cay_dns *dns;
    struct sockaddr_in from;
    size_t server; /* asked now */
    uint8_t asked_id[2];
    uint8_t own_id[2];
    int fd;
    struct cay_watch watch;
    struct cay_timer limit;
    size_t len;
    uint8_t bytes[];
};

/* --- by UDP --- */

static void free_question(struct question *question)
{
    cay_watch_close(&question->watch);
    cay_timer_close(&question->limit);
    if (question->fd >= 0)
        close(question->fd);
    cay_list_remove(&question->in_dns);
    question->dns->question_count--;
    free(question);
}

static void answer(const struct cay_dns *dns, const struct sockaddr_in *to, const void *bytes,
                   size_t len)
{
    /* What does not fit now is lost, as datagrams are. */
    (void)sendto(dns->udp_fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL, (const struct sockaddr *)to,
                 sizeof(*to));
}

static void refuse(const struct cay_dns *dns, const struct sockaddr_in *to, const uint8_t *bytes,
                   enum cay_dns_code code)
{
    uint8_t refusal[CAY_DNS_HEADER_BYTES];
    cay_dns_refuse(bytes, code, refusal);
    answer(dns, to, refusal, sizeof(refusal));
}

/* Nobody could be asked: better said than waited for. */
static void give_up(struct question *question)
{
    memcpy(question->bytes, question->asked_id, sizeof(question->asked_id));
    refuse(question->dns, &question->from, question->bytes, CAY_DNS_FAILED);
    free_question(question);
}

static void on_answer(struct cay_watch *watch, unsigned);

/* A socket of its own for every server, from a port of its own. */
static bool ask(struct question *question, const struct cay_dns_server *server)
{
    cay_watch_close(&question->watch);
    if (question->fd >= 0)
        close(cay_take_fd(question->fd));
    const struct sockaddr *address = (const void *)&server->address;
    question->fd =
        socket(address->sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP);
    if (question->fd < 0 || connect(question->fd, address, server->len) < 0 ||
        send(question->fd, question->bytes, question->len, MSG_NOSIGNAL) < 0 ||
        cay_watch_open(&question->watch, question->dns->loop, question->fd, on_answer) < 0)
        return false;
    cay_watch_set(&question->watch, CAY_READY_READ);
    cay_timer_start(&question->limit, SERVER_MS_MAX, 0);
    return true;
}

/* Asks the server at hand, or the first after it that can be asked. */
static void ask_on(struct question *question)
{
    const struct cay_dns_servers *servers = &question->dns->servers;
    for (; question->server < servers->count; question->server++) {
        if (ask(question, &servers->list[question->server]))
            return;
    }
    give_up(question);
}

static void ask_next(struct question *question)
{
    question->server++;
    ask_on(question);
}

static void on_answer(struct cay_watch *watch, unsigned)
{
    struct question *question = CAY_CONTAINER_OF(watch, struct question, watch);
    uint8_t *bytes = (uint8_t *)cay_loop_scratch(question->dns->loop);
    ssize_t len = recv(question->fd, bytes, CAY_LOOP_SCRATCH_BYTES, 0);
    if (len < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (len < 0) { /* refused: nobody is there */
        ask_next(question);
        return;
    }
    if (!cay_dns_is_answer(bytes, (size_t)len, question->own_id))
        return;
    memcpy(bytes, question->asked_id, sizeof(question->asked_id));
    answer(question->dns, &question->from, bytes, (size_t)len);
    free_question(question);
}

static void on_question_limit(struct cay_timer *timer)
{
    ask_next(CAY_CONTAINER_OF(timer, struct question, limit));
}

static void take_question(struct cay_dns *dns, const uint8_t *bytes, size_t len,
                          const struct sockaddr_in *from)
{
    if (len > CAY_DNS_QUESTION_BYTES || !cay_dns_is_question(bytes, len))
        return;
    enum cay_dns_code code = cay_dns_check(bytes, len);
    if (code != CAY_DNS_GOOD) {
        refuse(dns, from, bytes, code);
        return;
    }
    if (dns->question_count >= CAY_DNS_QUESTIONS)
        return;
    struct question *question = cay_alloc(sizeof(struct question) + len);
    question->dns = dns;
    question->from = *from;
    question->fd = -1;
    question->len = len;
    memcpy(question->bytes, bytes, len);
    memcpy(question->asked_id, bytes, sizeof(question->asked_id));
    if (getrandom(question->own_id, sizeof(question->own_id), 0) < 0)
        memcpy(question->own_id, bytes, sizeof(question->own_id));
    memcpy(question->bytes, question->own_id, sizeof(question->own_id));
    cay_timer_open(&question->limit, dns->loop, on_question_limit);
    cay_list_push_back(&dns->questions, &question->in_dns);
    dns->question_count++;
    cay_dns_servers_refresh(&dns->servers, "/etc/resolv.conf");
    ask_on(question);
}

static void on_udp(struct cay_watch *watch, unsigned)
{
    struct cay_dns *dns = CAY_CONTAINER_OF(watch, struct cay_dns, udp_watch);
    uint8_t bytes[CAY_DNS_QUESTION_BYTES + 1];
    for (int i = 0; i < PIECES_PER_TURN; i++) {
        struct sockaddr_in from = {};
        socklen_t from_len = sizeof(from);
        ssize_t len = recvfrom(dns->udp_fd, bytes, sizeof(bytes), MSG_DONTWAIT,
                               (struct sockaddr *)&from, &from_len);
        if (len < 0)
            return;
        take_question(dns, bytes, (size_t)len, &from);
    }
}

static void on_tcp(struct cay_watch *watch, unsigned)
{
    struct cay_dns *dns = CAY_CONTAINER_OF(watch, struct cay_dns, tcp_watch);
    int fd = accept4(dns->tcp_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0)
        cay_dns_take_connection(dns, fd);
}

/* --- both --- */

static int open_socket(int type)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(DNS_PORT),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1;
    cay_autoclose int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
        bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
        (type == SOCK_STREAM && listen(fd, CAY_DNS_CONNECTIONS) < 0))
        return -errno;
    return cay_take_fd(fd);
}

static int open_sockets(void *context)
{
    struct cay_dns *dns = context;
    dns->udp_fd = open_socket(SOCK_DGRAM);
    if (dns->udp_fd < 0)
        return dns->udp_fd;
    dns->tcp_fd = open_socket(SOCK_STREAM);
    return CAY_MIN(dns->tcp_fd, 0);
}

int cay_dns_open(struct cay_loop *loop, int netns_fd, struct cay_dns **out_dns)
{
    struct cay_dns *dns = cay_new(struct cay_dns);
    dns->loop = loop;
    dns->udp_fd = -1;
    dns->tcp_fd = -1;
    cay_list_init(&dns->questions);
    cay_list_init(&dns->connections);
    int status = cay_netns_visit(netns_fd, open_sockets, dns);
    if (status == 0)
        status = cay_watch_open(&dns->udp_watch, loop, dns->udp_fd, on_udp);
    if (status == 0)
        status = cay_watch_open(&dns->tcp_watch, loop, dns->tcp_fd, on_tcp);
    if (status < 0) {
        cay_dns_close(dns);
        return status;
    }
    cay_watch_set(&dns->udp_watch, CAY_READY_READ);
    cay_watch_set(&dns->tcp_watch, CAY_READY_READ);
    *out_dns = dns;
    return 0;
}

void cay_dns_close(struct cay_dns *dns)
{
    if (!dns)
        return;
    cay_list_for_each (struct question, question, &dns->questions, in_dns)
        free_question(question);
    cay_dns_drop_connections(dns);
    cay_watch_close(&dns->udp_watch);
    cay_watch_close(&dns->tcp_watch);
    if (dns->udp_fd >= 0)
        close(dns->udp_fd);
    if (dns->tcp_fd >= 0)
        close(dns->tcp_fd);
    free(dns);
}
