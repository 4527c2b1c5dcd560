/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connection to the daemon through two named pipes (wire/frame/pipe.h). What the daemon writes
 * is read all the time, also while no daemon is there; the pipe to it is the link's descriptor, and
 * broken when the daemon is gone.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "init/init.h"

enum { FIRST_FREE_FD = 3 };

/* Chunks as they came; whole ones go into the link's buffer. */
static uint8_t raw[READ_BYTES];
static size_t raw_len;

int pipe_take_over(struct init *init)
{
    init->pipe_in_fd = fcntl(0, F_DUPFD_CLOEXEC, FIRST_FREE_FD);
    init->pipe_out_fd = fcntl(1, F_DUPFD_CLOEXEC, FIRST_FREE_FD);
    if (init->pipe_in_fd < 0 || init->pipe_out_fd < 0)
        return -errno;
    void *page = mmap(NULL, sizeof(struct cay_pipe_page), PROT_READ | PROT_WRITE, MAP_SHARED, 2, 0);
    if (page == MAP_FAILED)
        return -errno;
    init->page = page;
    return 0;
}

ssize_t pipe_read_first(const struct init *init, uint8_t *data, size_t size)
{
    uint8_t header[CAY_CHUNK_HEADER_BYTES];
    bool is_first = false;
    if (read(init->pipe_in_fd, header, sizeof(header)) != sizeof(header))
        return -EPROTO;
    int len = cay_chunk_get(header, &is_first);
    if (len < 0 || (size_t)len > size || !is_first ||
        read(init->pipe_in_fd, data, (size_t)len) != len)
        return -EPROTO;
    return len;
}

int pipe_watch(struct init *init)
{
    if (fcntl(init->pipe_in_fd, F_SETFL, O_RDWR | O_NONBLOCK) < 0 ||
        fcntl(init->pipe_out_fd, F_SETFL, O_WRONLY | O_NONBLOCK) < 0)
        return -errno;
    watch(init, init->pipe_in_fd, EPOLLIN, EVENT_PIPE, NULL);
    return 0;
}

/* Another daemon speaks. What the one before asked for is done, but not answered. */
static void change_daemon(struct init *init)
{
    struct link *link = &init->link;
    for (size_t before = 0; link->fd >= 0 && link->in_len && link->in_len != before;) {
        before = link->in_len;
        link->out.len = link->out_sent = 0;
        if (!link_consume(init, link))
            break;
    }
    link_close(init, link);
    link_open(init, link, init->pipe_out_fd);
    link->awaits_hello = true;
}

/* One whole chunk. False when the link has no room for it. */
static bool take_chunk(struct init *init, const uint8_t *data, size_t len, bool is_first)
{
    struct link *link = &init->link;
    if (is_first)
        change_daemon(init);
    if (link->fd < 0)
        return true;
    if (link->in_cap - link->in_len < len)
        return false;
    memcpy(link->in + link->in_len, data, len);
    link->in_len += len;
    if (!link_consume(init, link))
        link_close(init, link);
    return true;
}

static bool take_chunks(struct init *init)
{
    size_t at = 0;
    bool has_room = true;
    while (raw_len - at >= CAY_CHUNK_HEADER_BYTES) {
        bool is_first = false;
        int len = cay_chunk_get(raw + at, &is_first);
        if (len < 0) { /* nobody but the daemon writes here: nothing can be made of the rest */
            link_close(init, &init->link);
            at = raw_len;
            break;
        }
        size_t size = CAY_CHUNK_HEADER_BYTES + (size_t)len;
        if (raw_len - at < size)
            break;
        has_room = take_chunk(init, raw + at + CAY_CHUNK_HEADER_BYTES, (size_t)len, is_first);
        if (!has_room)
            break;
        at += size;
    }
    raw_len -= at;
    memmove(raw, raw + at, raw_len);
    return has_room;
}

/* What has no room waits for answers to leave (link_flush). */
static bool take_or_wait(struct init *init)
{
    bool has_room = take_chunks(init);
    if (has_room == init->pipe_waits) {
        init->pipe_waits = !has_room;
        watch_change(init, init->pipe_in_fd, has_room ? EPOLLIN : 0, EVENT_PIPE);
    }
    return has_room;
}

void pipe_readable(struct init *init)
{
    size_t room = 0;
    ssize_t got = 0;
    do {
        if (!take_or_wait(init))
            return;
        room = sizeof(raw) - raw_len;
        got = read(init->pipe_in_fd, raw + raw_len, room);
        if (got > 0)
            raw_len += (size_t)got;
    } while (got == (ssize_t)room || (got < 0 && errno == EINTR));
    (void)take_or_wait(init);
}
