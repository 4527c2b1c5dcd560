/* SPDX-License-Identifier: Apache-2.0 */
#include "host/net/listening.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "sys/netns.h"

enum {
    STATE_LISTEN = 10,  /* as the kernel's table has it */
    LINES_MAX = 65'536, /* a sandbox decides how many there are */
    TABLES = 2,
};

struct cay_listening {
    struct cay_job job;
    cay_listening_fn *done;
    void *owner; /* NULL after a cancel */
    int netns_fd;
    uint16_t port;
    int fds[TABLES];
    bool is_listening;
    bool is_cancelled;
};

static int open_tables(void *context)
{
    struct cay_listening *self = context;
    self->fds[0] = open("/proc/thread-self/net/tcp", O_RDONLY | O_CLOEXEC);
    self->fds[1] = open("/proc/thread-self/net/tcp6", O_RDONLY | O_CLOEXEC);
    return 0;
}

/* Of those that a connection to the loopback reaches. The table has the words of an address in the
 * machine's order. */
static bool is_reached(const char *address)
{
    static const char *const reached[] = {"::", "::1", "::ffff:0.0.0.0", "::ffff:127.0.0.1"};
    uint32_t words[4];
    char text[40];
    bool is_four = strlen(address) == 8;
    for (size_t i = is_four ? 2 : 0; i < CAY_COUNT(reached); i++) {
        if (inet_pton(AF_INET6, reached[i], words) != 1)
            continue;
        snprintf(text, sizeof(text), "%08X%08X%08X%08X", words[0], words[1], words[2], words[3]);
        if (strcmp(is_four ? text + 24 : text, address) == 0)
            return true;
    }
    return false;
}

/* The kernel lists those that listen first. */
static bool is_in_table(FILE *table, uint16_t wanted)
{
    char line[512];
    for (int i = 0; i < LINES_MAX && fgets(line, sizeof(line), table); i++) {
        char address[33];
        unsigned port = 0;
        unsigned state = 0;
        if (sscanf(line, " %*u: %32[0-9A-F]:%4x %*[0-9A-F]:%*4x %2x", address, &port, &state) != 3)
            continue; /* the title */
        if (state != STATE_LISTEN)
            return false;
        if (port == wanted && is_reached(address))
            return true;
    }
    return false;
}

static void work(struct cay_job *job)
{
    struct cay_listening *self = CAY_CONTAINER_OF(job, struct cay_listening, job);
    if (cay_netns_visit(self->netns_fd, open_tables, self) < 0)
        return;
    for (int i = 0; i < TABLES; i++) {
        FILE *table = self->fds[i] >= 0 ? fdopen(self->fds[i], "r") : NULL;
        if (!table) {
            if (self->fds[i] >= 0)
                close(self->fds[i]);
            continue;
        }
        self->is_listening = self->is_listening || is_in_table(table, self->port);
        fclose(table);
    }
}

static void worked(struct cay_job *job)
{
    struct cay_listening *self = CAY_CONTAINER_OF(job, struct cay_listening, job);
    cay_listening_fn *done = self->is_cancelled ? NULL : self->done;
    void *owner = self->owner;
    bool is_listening = self->is_listening;
    close(self->netns_fd);
    free(self);
    if (done)
        done(owner, is_listening);
}

struct cay_listening *cay_listening_start(struct cay_loop *loop, int netns_fd, uint16_t port,
                                          cay_listening_fn *done, void *owner)
{
    int own_fd = fcntl(netns_fd, F_DUPFD_CLOEXEC, 0);
    if (own_fd < 0)
        return NULL;
    struct cay_listening *self = cay_new(struct cay_listening);
    *self = (struct cay_listening){.job = {.work = work, .done = worked},
                                   .done = done,
                                   .owner = owner,
                                   .netns_fd = own_fd,
                                   .port = port,
                                   .fds = {-1, -1}};
    if (cay_loop_try_submit(loop, &self->job))
        return self;
    close(own_fd);
    free(self);
    return NULL;
}

void cay_listening_cancel(struct cay_listening *listening)
{
    listening->is_cancelled = true;
}
