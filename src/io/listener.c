/* SPDX-License-Identifier: Apache-2.0 */
#include "io/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "io/heirs.h"

enum {
    BACKLOG = 1024,
    ACCEPTS_PER_TURN = 64, /* a flood of connections must not starve the ones we have */
    RETRY_MS = 100,

    /* A peer whose machine or network is gone says nothing: after two minutes it is known. */
    KEEPALIVE_IDLE_S = 60,
    KEEPALIVE_INTERVAL_S = 15,
    KEEPALIVE_PROBES = 4,
};

static void set_tcp_options(int fd)
{
    static const struct {
        int level;
        int name;
        int value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S},
        {IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S},
        {IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES},
    };
    for (size_t i = 0; i < CAY_COUNT(options); i++)
        (void)setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int));
}

static void describe_tcp(const struct sockaddr_storage *address, char *out, size_t len)
{
    char host[INET6_ADDRSTRLEN] = "?";
    if (address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const void *)address;
        if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) {
            inet_ntop(AF_INET, six->sin6_addr.s6_addr + 12, host, sizeof(host));
            snprintf(out, len, "%s:%u", host, ntohs(six->sin6_port));
            return;
        }
        inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof(host));
        snprintf(out, len, "[%s]:%u", host, ntohs(six->sin6_port));
    } else {
        const struct sockaddr_in *four = (const void *)address;
        inet_ntop(AF_INET, &four->sin_addr, host, sizeof(host));
        snprintf(out, len, "%s:%u", host, ntohs(four->sin_port));
    }
}

/* Whoever has an address of IPv6 has the other 2^64 of its network too. */
static void describe_origin(const struct sockaddr_storage *address, char *out, size_t len)
{
    const struct sockaddr_in6 *six = (const void *)address;
    bool is_network = address->ss_family == AF_INET6 && !IN6_IS_ADDR_V4MAPPED(&six->sin6_addr);
    if (is_network) {
        char host[INET6_ADDRSTRLEN] = "?";
        struct in6_addr network = {};
        memcpy(&network, &six->sin6_addr, sizeof(network) / 2);
        inet_ntop(AF_INET6, &network, host, sizeof(host));
        snprintf(out, len, "%s/64", host);
    } else {
        describe_tcp(address, out, len);
        *strrchr(out, ':') = '\0';
    }
}

static bool describe_peer(int fd, const struct sockaddr_storage *address, bool is_unix,
                          struct cay_peer *out_peer)
{
    *out_peer = (struct cay_peer){.is_unix = is_unix};
    if (!is_unix) {
        set_tcp_options(fd);
        describe_tcp(address, out_peer->text, sizeof(out_peer->text));
        describe_origin(address, out_peer->from, sizeof(out_peer->from));
        return true;
    }
    struct ucred credentials;
    socklen_t len = sizeof(credentials);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &len) < 0)
        return false;
    out_peer->uid = credentials.uid;
    out_peer->pid = credentials.pid;
    snprintf(out_peer->text, sizeof(out_peer->text), "uid=%u pid=%d", credentials.uid,
             credentials.pid);
    snprintf(out_peer->from, sizeof(out_peer->from), "uid=%u", credentials.uid);
    return true;
}

bool cay_peer_of(int fd, struct cay_peer *out_peer)
{
    struct sockaddr_storage address = {};
    socklen_t len = sizeof(address);
    return getpeername(fd, (struct sockaddr *)&address, &len) == 0 &&
           describe_peer(fd, &address, address.ss_family == AF_UNIX, out_peer);
}

void cay_listener_refuse(int fd, const char *farewell)
{
    char unread[4096];
    if (farewell) {
        /* What was not read would make the kernel take back what is said. */
        (void)!recv(fd, unread, sizeof(unread), MSG_DONTWAIT);
        (void)!send(fd, farewell, strlen(farewell), MSG_DONTWAIT | MSG_NOSIGNAL);
        (void)shutdown(fd, SHUT_WR);
    }
    close(fd);
}

static int open_spare(void)
{
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Out of descriptors: the connection would stay in the backlog and wake us for ever. Take it with
 * the spare descriptor and hang up at once, then rest a moment. */
static void turn_away(struct cay_listener *listener)
{
    if (listener->spare_fd < 0) /* somebody else was faster the last time */
        listener->spare_fd = open_spare();
    if (listener->spare_fd >= 0) {
        close(listener->spare_fd);
        int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0)
            cay_listener_refuse(fd, listener->farewell);
        listener->spare_fd = open_spare();
    }
    cay_watch_set(&listener->watch, 0);
    cay_timer_start(&listener->retry, RETRY_MS, 0);
}

static void on_retry(struct cay_timer *timer)
{
    struct cay_listener *listener = CAY_CONTAINER_OF(timer, struct cay_listener, retry);
    cay_watch_set(&listener->watch, CAY_READY_READ);
}

static void on_ready(struct cay_watch *watch, unsigned)
{
    struct cay_listener *listener = CAY_CONTAINER_OF(watch, struct cay_listener, watch);
    for (int i = 0; i < ACCEPTS_PER_TURN && listener->fd >= 0; i++) {
        struct sockaddr_storage address = {};
        socklen_t len = sizeof(address);
        int fd =
            accept4(listener->fd, (struct sockaddr *)&address, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            if (errno == EINTR || errno == ECONNABORTED)
                continue;
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
                turn_away(listener);
            return;
        }
        struct cay_peer peer;
        if (describe_peer(fd, &address, listener->is_unix, &peer))
            listener->accepted(listener, fd, &peer);
        else
            close(fd);
    }
}

/* From who served before us, if there is such a one. */
static bool inherit(struct cay_listener *listener, const struct sockaddr *address)
{
    bool is_managed = false;
    listener->fd = cay_heirs_take(cay_loop_heirs(listener->loop), address, &is_managed);
    if (is_managed)
        listener->heir_name = NULL;
    return listener->fd >= 0;
}

/* A socket file nobody listens on is left from a crash and may go; a live one may not. */
static bool remove_stale(const struct sockaddr_un *address, struct cay_error *err)
{
    struct stat info;
    if (lstat(address->sun_path, &info) < 0)
        return errno == ENOENT || cay_fail_errno(err, CAY_R_INVALID_ARGUMENT, -errno, "socket '%s'",
                                                 address->sun_path);
    if (!S_ISSOCK(info.st_mode))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "'%s' exists and is not a socket",
                        address->sun_path);
    cay_autoclose int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int status = connect(probe, (const struct sockaddr *)address, sizeof(*address)) < 0 ? errno : 0;
    if (status == 0 || status == EAGAIN) /* EAGAIN: it has as many waiting as it can have */
        return cay_fail(err, CAY_R_ALREADY_EXISTS,
                        "another daemon listens on '%s'; give this one its own --run directory",
                        address->sun_path);
    if (status != ECONNREFUSED)
        return cay_fail_errno(err, CAY_R_INVALID_ARGUMENT, -status, "socket '%s' is in the way",
                              address->sun_path);
    unlink(address->sun_path);
    return true;
}

static bool bind_unix(struct cay_listener *listener, const char *path, struct cay_error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!*path) /* the kernel would take it for an abstract name, which has no permissions */
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "'unix:' needs the path of a socket");
    if (strlen(path) >= sizeof(address.sun_path))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "socket path '%s' is too long (%zu bytes at most)", path,
                        sizeof(address.sun_path) - 1);
    memcpy(address.sun_path, path, strlen(path));
    bool is_inherited = inherit(listener, (const struct sockaddr *)&address);
    if (!is_inherited && !remove_stale(&address, err))
        return false;
    if (!is_inherited)
        listener->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* Group members may talk to the daemon; peer credentials decide what they may do. Nobody can
     * connect before listen(), and the umask belongs to all threads: the mode is set in between. */
    if (listener->fd < 0 ||
        (!is_inherited &&
         (bind(listener->fd, (void *)&address, sizeof(address)) < 0 || chmod(path, 0660) < 0)))
        return cay_fail_errno(err, CAY_R_INVALID_ARGUMENT, -errno, "cannot listen on 'unix:%s'",
                              path);
    listener->is_unix = true;
    listener->unix_path = listener->heir_name ? cay_strdup(path) : NULL;
    snprintf(listener->address, sizeof(listener->address), "unix:%s", path);
    return true;
}

static bool split_host_port(const char *address, char *host, size_t host_len, const char **out_port,
                            struct cay_error *err)
{
    const char *colon = strrchr(address, ':');
    size_t len = colon ? (size_t)(colon - address) : 0;
    const char *start = address;
    if (len >= 2 && start[0] == '[' && start[len - 1] == ']') {
        start++;
        len -= 2;
    } else if (colon && memchr(start, ':', len)) {
        colon = NULL; /* a bare IPv6 address: the port cannot be told from it */
    }
    uint64_t port = 0;
    if (!colon || len >= host_len || cay_str_to_u64(cay_str(colon + 1), 65535, &port) < 0)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "'%s' is not an address; write HOST:PORT, [IPV6]:PORT or unix:/path",
                        address);
    memcpy(host, start, len);
    host[len] = '\0';
    *out_port = colon + 1;
    return true;
}

static int bind_address(struct cay_listener *listener, const struct addrinfo *to)
{
    int on = 1;
    int off = 0;
    if (inherit(listener, to->ai_addr))
        return 0;
    listener->fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener->fd < 0)
        return -errno;
    /* "::" takes IPv4 too, whatever the machine's default is. */
    if (to->ai_family == AF_INET6)
        (void)setsockopt(listener->fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (setsockopt(listener->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
        bind(listener->fd, to->ai_addr, to->ai_addrlen) == 0)
        return 0;
    int status = -errno;
    close(cay_take_fd(listener->fd));
    return status;
}

/* A name may have addresses of a family this machine does not have: the first that works is it. */
static int bind_first(struct cay_listener *listener, const struct addrinfo *found, int family)
{
    int status = -EAFNOSUPPORT;
    for (const struct addrinfo *to = found; to && status < 0; to = to->ai_next) {
        if (family == AF_UNSPEC || to->ai_family == family)
            status = bind_address(listener, to);
    }
    return status;
}

static bool bind_tcp(struct cay_listener *listener, const char *address, struct cay_error *err)
{
    char host[256];
    const char *port = NULL;
    if (!split_host_port(address, host, sizeof(host), &port, err))
        return false;
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    int status = getaddrinfo(*host ? host : NULL, port, &hints, &found);
    if (status != 0)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "cannot listen on '%s': %s", address,
                        gai_strerror(status));
    status = *host ? -EAFNOSUPPORT : bind_first(listener, found, AF_INET6);
    if (status == -EAFNOSUPPORT || status == -EADDRNOTAVAIL)
        status = bind_first(listener, found, AF_UNSPEC);
    freeaddrinfo(found);
    if (status < 0)
        return cay_fail_errno(err, CAY_R_INVALID_ARGUMENT, status, "cannot listen on '%s'",
                              address);
    struct sockaddr_storage bound = {};
    socklen_t len = sizeof(bound);
    (void)getsockname(listener->fd, (struct sockaddr *)&bound, &len);
    describe_tcp(&bound, listener->address, sizeof(listener->address));
    return true;
}

static bool start(struct cay_listener *listener, struct cay_error *err)
{
    int status = listen(listener->fd, BACKLOG) < 0 ? -errno : 0;
    if (status == 0)
        status = cay_watch_open(&listener->watch, listener->loop, listener->fd, on_ready);
    if (status < 0) {
        cay_fail_errno(err, CAY_R_INVALID_ARGUMENT, status, "cannot listen on '%s'",
                       listener->address);
        cay_listener_close(listener);
        return false;
    }
    listener->spare_fd = open_spare();
    cay_timer_open(&listener->retry, listener->loop, on_retry);
    cay_watch_set(&listener->watch, CAY_READY_READ);
    return true;
}

bool cay_listener_open(struct cay_listener *listener, struct cay_loop *loop, const char *address,
                       void (*accepted)(struct cay_listener *listener, int fd,
                                        const struct cay_peer *peer),
                       struct cay_error *err)
{
    *listener = (struct cay_listener){
        .accepted = accepted,
        .loop = loop,
        .fd = -1,
        .spare_fd = -1,
        .heir_name = CAY_HEIR_LISTENER,
    };
    bool is_unix = strncmp(address, "unix:", 5) == 0;
    bool bound = is_unix ? bind_unix(listener, address + 5, err) : bind_tcp(listener, address, err);
    if (!bound) {
        cay_listener_close(listener);
        return false;
    }
    return start(listener, err);
}

bool cay_listener_open_managed(struct cay_listener *listener, struct cay_loop *loop, int fd,
                               void (*accepted)(struct cay_listener *listener, int fd,
                                                const struct cay_peer *peer),
                               struct cay_error *err)
{
    struct sockaddr_storage bound = {};
    socklen_t len = sizeof(bound) - 1;
    *listener = (struct cay_listener){.accepted = accepted, .loop = loop, .fd = fd, .spare_fd = -1};
    (void)getsockname(fd, (struct sockaddr *)&bound, &len);
    listener->is_unix = bound.ss_family == AF_UNIX;
    if (listener->is_unix)
        snprintf(listener->address, sizeof(listener->address), "unix:%s",
                 ((const struct sockaddr_un *)(const void *)&bound)->sun_path);
    else
        describe_tcp(&bound, listener->address, sizeof(listener->address));
    return start(listener, err);
}

void cay_listener_close(struct cay_listener *listener)
{
    cay_watch_close(&listener->watch);
    cay_timer_close(&listener->retry);
    if (listener->spare_fd >= 0)
        close(cay_take_fd(listener->spare_fd));
    struct cay_heirs *heirs = listener->loop ? cay_loop_heirs(listener->loop) : NULL;
    bool is_given = listener->fd >= 0 && cay_heirs_collects(heirs) &&
                    cay_heirs_give(heirs, listener->fd, listener->heir_name);
    if (is_given)
        listener->fd = -1;
    else if (listener->fd >= 0)
        close(cay_take_fd(listener->fd));
    if (listener->unix_path && !is_given)
        unlink(listener->unix_path);
    free(cay_take_ptr(listener->unix_path));
}
