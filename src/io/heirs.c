/* SPDX-License-Identifier: Apache-2.0 */
#include "io/heirs.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"

enum {
    FIRST_FD = 3, /* sd_listen_fds(3) */
    NAMES_BYTES_MAX = 96 * 1024,
};

/* Of a socket; MANAGED is whatever a service manager calls it. */
enum kind { MANAGED = 1, LISTENER, PORT, CONNECTION };

static const char *const names[] = {
    [MANAGED] = "cay-managed",
    [LISTENER] = CAY_HEIR_LISTENER,
    [PORT] = CAY_HEIR_PORT,
    [CONNECTION] = CAY_HEIR_CONNECTION,
};

struct cay_heirs {
    struct {
        int fd; /* -1: taken */
        enum kind kind;
    } items[CAY_HEIRS_MAX];
    size_t count;
    bool collects;
};

static enum kind kind_of(struct cay_str name)
{
    for (enum kind kind = LISTENER; kind <= CONNECTION; kind++) {
        if (cay_str_is(name, names[kind]))
            return kind;
    }
    return MANAGED;
}

static size_t count_from_environment(void)
{
    uint64_t pid = 0;
    uint64_t count = 0;
    const char *pid_text = getenv("LISTEN_PID");
    const char *count_text = getenv("LISTEN_FDS");
    if (!pid_text || !count_text || cay_str_to_u64(cay_str(pid_text), INT32_MAX, &pid) < 0 ||
        pid != (uint64_t)getpid() || cay_str_to_u64(cay_str(count_text), CAY_HEIRS_MAX, &count) < 0)
        return 0;
    return (size_t)count;
}

struct cay_heirs *cay_heirs_receive(void)
{
    struct cay_heirs *heirs = cay_new(struct cay_heirs);
    const char *rest = getenv("LISTEN_FDNAMES");
    heirs->count = count_from_environment();
    for (size_t i = 0; i < heirs->count; i++) {
        int fd = FIRST_FD + (int)i;
        size_t len = rest ? strcspn(rest, ":") : 0;
        heirs->items[i].kind = kind_of((struct cay_str){rest, len});
        heirs->items[i].fd = fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 ? -1 : fd;
        if (heirs->items[i].fd >= 0)
            (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
        rest = rest && rest[len] ? rest + len + 1 : NULL;
    }
    (void)unsetenv("LISTEN_PID");
    (void)unsetenv("LISTEN_FDS");
    (void)unsetenv("LISTEN_FDNAMES");
    return heirs;
}

void cay_heirs_close_rest(struct cay_heirs *heirs)
{
    for (size_t i = 0; i < heirs->count; i++) {
        if (heirs->items[i].fd >= 0)
            close(cay_take_fd(heirs->items[i].fd));
    }
    heirs->count = 0;
}

void cay_heirs_destroy(struct cay_heirs *heirs)
{
    if (!heirs)
        return;
    cay_heirs_close_rest(heirs);
    free(heirs);
}

static bool is_same_address(const struct sockaddr *wanted, const struct sockaddr *bound,
                            bool may_be_any_port)
{
    if (wanted->sa_family != bound->sa_family)
        return false;
    if (wanted->sa_family == AF_UNIX)
        return strcmp(((const struct sockaddr_un *)(const void *)wanted)->sun_path,
                      ((const struct sockaddr_un *)(const void *)bound)->sun_path) == 0;
    if (wanted->sa_family == AF_INET) {
        const struct sockaddr_in *one = (const void *)wanted;
        const struct sockaddr_in *two = (const void *)bound;
        return one->sin_addr.s_addr == two->sin_addr.s_addr &&
               (one->sin_port == two->sin_port || (!one->sin_port && may_be_any_port));
    }
    const struct sockaddr_in6 *one = (const void *)wanted;
    const struct sockaddr_in6 *two = (const void *)bound;
    return memcmp(&one->sin6_addr, &two->sin6_addr, sizeof(one->sin6_addr)) == 0 &&
           (one->sin6_port == two->sin6_port || (!one->sin6_port && may_be_any_port));
}

static bool listens(int fd)
{
    int is_listening = 0;
    socklen_t len = sizeof(is_listening);
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &len) == 0 && is_listening;
}

int cay_heirs_take(struct cay_heirs *heirs, const struct sockaddr *address, bool *out_is_managed)
{
    for (size_t i = 0; heirs && i < heirs->count; i++) {
        int fd = heirs->items[i].fd;
        enum kind kind = heirs->items[i].kind;
        /* One byte more than the longest path: it ends with NUL. */
        struct sockaddr_storage bound = {};
        socklen_t len = sizeof(bound) - 1;
        if (fd < 0 || kind == CONNECTION || getsockname(fd, (struct sockaddr *)&bound, &len) < 0 ||
            !is_same_address(address, (struct sockaddr *)&bound, kind == LISTENER) || !listens(fd))
            continue;
        *out_is_managed = kind == MANAGED;
        return cay_take_fd(heirs->items[i].fd);
    }
    return -1;
}

static int take_kind(struct cay_heirs *heirs, enum kind kind)
{
    for (size_t i = 0; i < heirs->count; i++) {
        if (heirs->items[i].fd >= 0 && heirs->items[i].kind == kind)
            return cay_take_fd(heirs->items[i].fd);
    }
    return -1;
}

int cay_heirs_take_managed(struct cay_heirs *heirs)
{
    int fd;
    while ((fd = take_kind(heirs, MANAGED)) >= 0 && !listens(fd))
        close(fd);
    return fd;
}

int cay_heirs_take_connection(struct cay_heirs *heirs)
{
    return take_kind(heirs, CONNECTION);
}

void cay_heirs_collect(struct cay_heirs *heirs, bool collects)
{
    heirs->collects = collects;
}

bool cay_heirs_collects(const struct cay_heirs *heirs)
{
    return heirs && heirs->collects;
}

bool cay_heirs_give(struct cay_heirs *heirs, int fd, const char *name)
{
    assert(fd >= 0);
    if (heirs->count == CAY_HEIRS_MAX)
        return false;
    heirs->items[heirs->count].fd = fd;
    heirs->items[heirs->count].kind = name ? kind_of(cay_str(name)) : MANAGED;
    heirs->count++;
    return true;
}

int cay_heirs_pass(struct cay_heirs *heirs)
{
    int above = FIRST_FD + (int)heirs->count;
    char number[16];
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, NAMES_BYTES_MAX);
    /* First out of the way of each other, then to their places. */
    for (size_t i = 0; i < heirs->count; i++) {
        int fd = fcntl(heirs->items[i].fd, F_DUPFD_CLOEXEC, above);
        if (fd < 0)
            return -errno;
        heirs->items[i].fd = fd;
        cay_buf_printf(&text, "%s%s", i ? ":" : "", names[heirs->items[i].kind]);
    }
    for (size_t i = 0; i < heirs->count; i++) {
        if (dup2(heirs->items[i].fd, FIRST_FD + (int)i) < 0)
            return -errno;
    }
    if (!heirs->count)
        return 0;
    snprintf(number, sizeof(number), "%d", (int)getpid());
    if (text.failed || setenv("LISTEN_PID", number, 1) < 0)
        return -E2BIG;
    snprintf(number, sizeof(number), "%zu", heirs->count);
    cay_buf_append(&text, "", 1);
    return setenv("LISTEN_FDS", number, 1) < 0 || setenv("LISTEN_FDNAMES", text.data, 1) < 0
               ? -ENOMEM
               : 0;
}
