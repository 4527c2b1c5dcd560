/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stdalign.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "init/init.h"

enum {
    HELLO_BYTES = CAY_FRAME_HEADER_BYTES + 28,
    /* A longer frame's pages are given back. The kernel's own have at most this size. */
    IN_KEEP_BYTES = 65536,
    IN_BYTES = (CAY_FRAME_BYTES_MAX + IN_KEEP_BYTES - 1) / IN_KEEP_BYTES * IN_KEEP_BYTES,
};
static_assert(OUT_BYTES % IN_KEEP_BYTES == 0);

/* One trusted connection at a time, so one buffer each way. A candidate needs room for HELLO only,
 * and no byte behind it is read before it is trusted. */
static uint8_t hello_buffer[HELLO_BYTES];

static bool is_pipe(const struct init *init, const struct link *link)
{
    return link->fd >= 0 && link->fd == init->pipe_out_fd;
}

bool link_open_buffers(struct init *init)
{
    const size_t size = IN_BYTES + OUT_BYTES;
    void *room = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED)
        return false;
    init->in_buffer = room;
    init->out_buffer = init->in_buffer + IN_BYTES;
    return true;
}

void link_rest(const struct init *init)
{
    if (!init->link.in_len)
        (void)madvise(init->in_buffer, IN_BYTES, MADV_DONTNEED);
    if (!init->link.out.len)
        (void)madvise(init->out_buffer, OUT_BYTES, MADV_DONTNEED);
}

void link_open(struct init *init, struct link *link, int fd)
{
    bool trusted = link == &init->link;
    uint32_t events = fd == init->pipe_out_fd ? 0 : EPOLLIN;
    *link = (struct link){
        .fd = fd,
        .trusted = trusted,
        .in = trusted ? init->in_buffer : hello_buffer,
        .in_cap = trusted ? (size_t)IN_BYTES : sizeof(hello_buffer),
        .events = events,
        .out = {.data = init->out_buffer, .cap = trusted ? OUT_BYTES : 0},
    };
    watch(init, fd, events, trusted ? EVENT_LINK : EVENT_CANDIDATE, NULL);
}

void link_close(struct init *init, struct link *link)
{
    if (link->fd < 0)
        return;
    unwatch(init, link->fd);
    if (!is_pipe(init, link))
        close(link->fd);
    link->fd = -1;
    while (link->fd_count)
        close(link->fds[--link->fd_count]);
    if (link->trusted) {
        init->next_room = -1;
        calls_detach(init);
    }
}

void link_accept(struct init *init)
{
    int fd = accept4(init->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return;
    link_close(init, &init->candidate);
    link_open(init, &init->candidate, fd);
    /* Its HELLO may be there already: then it counts before any deadline. */
    link_readable(init, &init->candidate);
}

static void welcome(struct init *init, uint64_t nonce)
{
    struct cay_frame_welcome answer = {
        .version = CAY_FRAME_VERSION,
        .nonce = nonce,
        .call_max = init->call_max,
        .slots = slots_report(init),
    };
    for (uint32_t i = 0; i < init->calls_used; i++)
        answer.calls += init->calls[i].id != 0;
    (void)cay_frame_put_welcome(&init->link.out, &answer);
}

static bool is_daemon(const struct init *init, const struct cay_frame *frame,
                      struct cay_frame_hello *out_hello)
{
    return frame->type == CAY_FRAME_HELLO && cay_frame_get_hello(frame, out_hello) &&
           out_hello->version >= CAY_FRAME_VERSION_MIN && out_hello->version <= CAY_FRAME_VERSION &&
           cay_equal_constant_time(out_hello->token, sizeof(out_hello->token), init->spec.token,
                                   sizeof(init->spec.token));
}

bool link_greet(struct init *init, struct link *link, const struct cay_frame *frame)
{
    struct cay_frame_hello hello;
    if (!is_daemon(init, frame, &hello))
        return false;
    link->awaits_hello = false;
    welcome(init, hello.nonce);
    return true;
}

/* The newest connection that knows the token takes over: the daemon before it is gone, or about to
 * find out. */
static void promote(struct init *init, const struct cay_frame *frame)
{
    struct cay_frame_hello hello;
    int fd = init->candidate.fd;
    if (!is_daemon(init, frame, &hello)) {
        link_close(init, &init->candidate);
        return;
    }
    unwatch(init, fd);
    init->candidate.fd = -1;
    link_close(init, &init->link);
    link_open(init, &init->link, fd);
    welcome(init, hello.nonce);
    link_readable(init, &init->link);
}

static void take_fds(struct link *link, struct msghdr *message)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd = -1;
            memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
            if (link->fd_count < FDS_WAITING_MAX)
                link->fds[link->fd_count++] = fd;
            else
                close(fd);
        }
    }
}

static ssize_t receive(struct link *link)
{
    alignas(struct cmsghdr) char control[CMSG_SPACE(FDS_WAITING_MAX * sizeof(int))];
    struct iovec part = {.iov_base = link->in + link->in_len,
                         .iov_len = link->in_cap - link->in_len};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (link->trusted) {
        message.msg_control = control;
        message.msg_controllen = sizeof(control);
    }
    ssize_t got = recvmsg(link->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got > 0 && link->trusted)
        take_fds(link, &message);
    return got < 0 ? -errno : got;
}

bool link_consume(struct init *init, struct link *link)
{
    size_t at = 0;
    bool healthy = true;
    while (healthy && link->fd >= 0 && cay_frame_room(&link->out) >= OUT_RESERVE_BYTES / 2) {
        struct cay_frame frame;
        ssize_t size =
            cay_frame_next(link->in + at, link->in_len - at, CAY_FRAME_FROM_DAEMON, &frame);
        if (size == 0)
            break;
        healthy = size > 0 && (link->awaits_hello ? link_greet(init, link, &frame)
                                                  : request(init, link, &frame));
        at += size > 0 ? (size_t)size : 0;
    }
    if (at > 0) {
        size_t longest = link->in_len;
        link->in_len -= at;
        memmove(link->in, link->in + at, link->in_len);
        if (longest > IN_KEEP_BYTES && link->in_len < IN_KEEP_BYTES)
            (void)madvise(init->in_buffer + IN_KEEP_BYTES, IN_BYTES - IN_KEEP_BYTES, MADV_DONTNEED);
    }
    return healthy;
}

/* What there is to be read of a pipe is that nobody reads it. Asked again: between the event and
 * us another daemon may have come, whom its HELLO in the other pipe has made the link's already. */
static bool is_broken(const struct link *link)
{
    struct pollfd entry = {.fd = link->fd};
    return poll(&entry, 1, 0) > 0 && entry.revents & (POLLERR | POLLHUP);
}

void link_readable(struct init *init, struct link *link)
{
    if (is_pipe(init, link)) {
        if (is_broken(link))
            link_close(init, link);
        return;
    }
    for (;;) {
        /* Full of frames whose answers have no room yet: no end, and nothing is read until then. */
        if (link->in_len == link->in_cap)
            return;
        ssize_t got = receive(link);
        if (got == -EINTR)
            continue;
        if (got == -EAGAIN)
            return;
        if (got <= 0) {
            link_close(init, link);
            return;
        }
        link->in_len += (size_t)got;
        if (link == &init->candidate) {
            struct cay_frame frame;
            ssize_t size = cay_frame_next(link->in, link->in_len, CAY_FRAME_FROM_DAEMON, &frame);
            if (size == HELLO_BYTES)
                promote(init, &frame);
            else if (size != 0 || link->in_len == link->in_cap)
                link_close(init, link);
            return;
        }
        bool was_full = link->in_len == link->in_cap;
        if (!link_consume(init, link)) {
            link_close(init, link);
            return;
        }
        if (!was_full)
            return;
    }
}

void link_refuse(struct init *init, uint64_t call, enum cay_frame_type type, int error)
{
    struct cay_frame_refused refused = {.type = (uint8_t)type, .error = (uint32_t)-error};
    (void)cay_frame_put_refused(&init->link.out, call, &refused);
}

/* Sends what is there. True when all of it went. */
static bool send_some(const struct init *init, struct link *link)
{
    bool by_pipe = is_pipe(init, link);
    while (link->out_sent < link->out.len) {
        const uint8_t *data = link->out.data + link->out_sent;
        size_t len = link->out.len - link->out_sent;
        ssize_t sent = by_pipe ? write(link->fd, data, len)
                               : send(link->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno == EINTR)
                continue;
            break;
        }
        link->out_sent += (size_t)sent;
    }
    bool all = link->out_sent == link->out.len;
    if (all)
        link->out.len = link->out_sent = 0;
    return all;
}

void link_flush(struct init *init)
{
    struct link *link = &init->link;
    if (link->fd < 0)
        return;
    bool all = true;
    do {
        stdio_pump(init);
        if (!link->out.len)
            break;
        all = send_some(init, link);
        /* Frames that waited for room of their answers. */
        if (all && link->in_len && !link_consume(init, link)) {
            link_close(init, link);
            return;
        }
        if (all && init->pipe_waits)
            pipe_readable(init);
    } while (all && link->fd >= 0 && link->out.len);
    bool reads = !is_pipe(init, link) && link->in_len < link->in_cap;
    uint32_t events = (reads ? EPOLLIN : 0u) | (all ? 0u : EPOLLOUT);
    if (link->fd >= 0 && link->events != events) {
        link->events = events;
        watch_change(init, link->fd, events, EVENT_LINK);
    }
}
