/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cay-probe hold DIR TOKEN [ADDRESS]`: has one of everything that processes share, says what and
 * where, and gives it all up when its input ends. On the host and in a sandbox alike.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <mqueue.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "probe/probe.h"

enum { LISTENERS_MAX = 5, NAME_BYTES = 16 };

struct holder {
    char secret[PROBE_PATH_BYTES];
    char socket[PROBE_PATH_BYTES];
    char queue[64];
    char address[INET_ADDRSTRLEN];
    char name[NAME_BYTES];
    const char *token;
    int segment;
    int port;
    struct pollfd listeners[LISTENERS_MAX + 1]; /* the last is the input */
    size_t listener_count;
};

static void add_listener(struct holder *holder, int fd)
{
    if (fd >= 0 && listen(fd, 16) == 0)
        holder->listeners[holder->listener_count++] = (struct pollfd){.fd = fd, .events = POLLIN};
}

static void listen_unix(struct holder *holder, const char *path, bool is_abstract)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || len + is_abstract >= sizeof(address.sun_path))
        return;
    memcpy(address.sun_path + is_abstract, path, len);
    if (bind(fd, (struct sockaddr *)&address,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + is_abstract + len)) == 0)
        add_listener(holder, fd);
}

/* The first one chooses the port, the others have the same one. */
static void listen_inet(struct holder *holder, const char *text)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)holder->port)};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (inet_pton(AF_INET, text, &address.sin_addr) != 1 || fd < 0 ||
        bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) < 0)
        return;
    holder->port = ntohs(address.sin_port);
    add_listener(holder, fd);
}

static void listen_inet6(struct holder *holder)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6,
                                   .sin6_addr = IN6ADDR_LOOPBACK_INIT,
                                   .sin6_port = htons((uint16_t)holder->port)};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        add_listener(holder, fd);
}

/* Of the first device that is up and not loopback. */
static void find_address(struct holder *holder)
{
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) < 0)
        return;
    for (const struct ifaddrs *one = all; one && !holder->address[0]; one = one->ifa_next) {
        if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET ||
            one->ifa_flags & IFF_LOOPBACK || !(one->ifa_flags & IFF_UP))
            continue;
        struct sockaddr_in address;
        memcpy(&address, one->ifa_addr, sizeof(address));
        (void)inet_ntop(AF_INET, &address.sin_addr, holder->address, sizeof(holder->address));
    }
    freeifaddrs(all);
}

static bool hold_secret(struct holder *holder)
{
    int fd = open(holder->secret, O_CREAT | O_RDWR | O_CLOEXEC, 0644);
    if (fd < 0 || dprintf(fd, "%s\n", holder->token) < 0 || flock(fd, LOCK_EX) < 0)
        return false;
    /* Of a sandbox's image, which its neighbours have, too. */
    int shared = open("/planted/shared", O_RDONLY | O_CLOEXEC);
    return shared < 0 || flock(shared, LOCK_EX | LOCK_NB) == 0 || errno == EWOULDBLOCK;
}

static void hold_messages(struct holder *holder)
{
    struct mq_attr attr = {.mq_maxmsg = 1, .mq_msgsize = 64};
    mqd_t queue = mq_open(holder->queue, O_CREAT | O_RDWR, 0666, &attr);
    if (queue != (mqd_t)-1)
        (void)mq_send(queue, holder->token, strlen(holder->token), 0);
    uint32_t key = 2166136261u;
    for (const char *at = holder->token; *at; at++)
        key = (key ^ (unsigned char)*at) * 16777619u;
    int id = shmget((key_t)(key & 0x7fffffff), 4096, IPC_CREAT | 0666);
    char *text = id < 0 ? (char *)-1 : shmat(id, NULL, 0);
    if (text == (char *)-1)
        return;
    snprintf(text, 4096, "%s", holder->token);
    holder->segment = (int)(key & 0x7fffffff);
}

static void serve(struct holder *holder)
{
    struct pollfd *input = &holder->listeners[holder->listener_count];
    *input = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    char byte;
    for (;;) {
        if (poll(holder->listeners, holder->listener_count + 1, -1) < 0 && errno != EINTR)
            return;
        if (input->revents && read(STDIN_FILENO, &byte, 1) <= 0)
            return;
        for (size_t i = 0; i < holder->listener_count; i++) {
            cay_autoclose int fd = holder->listeners[i].revents
                                       ? accept4(holder->listeners[i].fd, NULL, NULL, SOCK_CLOEXEC)
                                       : -1;
            if (fd >= 0)
                (void)!write(fd, holder->token, strlen(holder->token));
        }
    }
}

static void let_go(const struct holder *holder)
{
    (void)unlink(holder->secret);
    (void)unlink(holder->socket);
    (void)mq_unlink(holder->queue);
    if (holder->segment)
        (void)shmctl(shmget(holder->segment, 0, 0), IPC_RMID, NULL);
}

int hold(int argc, char **argv)
{
    static struct holder holder;
    if (argc < 2)
        return 2;
    holder.token = argv[1];
    snprintf(holder.secret, sizeof(holder.secret), "%s/secret", argv[0]);
    snprintf(holder.socket, sizeof(holder.socket), "%s/socket", argv[0]);
    snprintf(holder.queue, sizeof(holder.queue), "/cay-%.40s", holder.token);
    snprintf(holder.name, sizeof(holder.name), "prize-%.8s", holder.token);
    (void)prctl(PR_SET_NAME, holder.name);
    (void)signal(SIGPIPE, SIG_IGN);
    if (!hold_secret(&holder)) {
        fprintf(stderr, "cay-probe: %s: %s\n", holder.secret, strerror(errno));
        return 1;
    }
    hold_messages(&holder);
    find_address(&holder);
    listen_inet(&holder, "127.0.0.1");
    listen_inet6(&holder);
    if (holder.address[0])
        listen_inet(&holder, holder.address);
    listen_unix(&holder, holder.socket, false);
    listen_unix(&holder, holder.queue + 1, true);
    printf("token=%s name=%s secret=%s socket=%s queue=%s port=%d segment=%d pid=%d%s%s\n",
           holder.token, holder.name, holder.secret, holder.socket, holder.queue, holder.port,
           holder.segment, (int)getpid(), holder.address[0] ? " address=" : "", holder.address);
    fflush(stdout);
    serve(&holder);
    let_go(&holder);
    return 0;
}
