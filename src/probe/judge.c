/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "probe/probe.h"

/* Who is denied may get no answer at all, and waits in vain; the control gets one, if late. */
enum { SOCKET_TIMEOUT_MS = 400, CONTROL_TIMEOUT_MS = 5000, RESET_TIMEOUT_MS = 3000 };
static long socket_timeout_ms = SOCKET_TIMEOUT_MS;

void be_patient(void)
{
    socket_timeout_ms = CONTROL_TIMEOUT_MS;
}

static struct outcome outcome(enum verdict verdict, const char *fmt, va_list args)
{
    struct outcome made = {.verdict = verdict};
    vsnprintf(made.why, sizeof(made.why), fmt, args);
    return made;
}

#define OUTCOME(name, verdict)                                     \
    struct outcome name(const char *fmt, ...)                      \
    {                                                              \
        va_list args;                                              \
        va_start(args, fmt);                                       \
        struct outcome made = outcome(PROBE_##verdict, fmt, args); \
        va_end(args);                                              \
        return made;                                               \
    }
OUTCOME(denied, DENIED)
OUTCOME(reached, REACHED)
OUTCOME(absent, ABSENT)

/* What a kernel says that was built without it, or a machine that has no such device. */
static bool says_absent(int error)
{
    return error == ENOSYS || error == EAFNOSUPPORT || error == EPROTONOSUPPORT ||
           error == ESOCKTNOSUPPORT || error == ENODEV || error == ENOENT || error == ENXIO ||
           error == EOPNOTSUPP;
}

struct outcome judge(const struct world *world, long result, int passes_as)
{
    int error = errno;
    if (result >= 0)
        return reached("it works");
    if (passes_as && error == passes_as)
        return reached("the rights are there: %s", strerror(error));
    if (world->is_control && says_absent(error))
        return absent("this machine has none: %s", strerror(error));
    return denied("%s", strerror(error));
}

bool control_lacks(const struct world *world, int capability)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {};
    return world->is_control && syscall(SYS_capget, &header, data) == 0 &&
           !(data[capability / 32].effective & 1u << capability % 32);
}

bool holds_token(int fd, const char *token)
{
    char text[256];
    ssize_t len = read(fd, text, sizeof(text) - 1);
    if (len <= 0)
        return false;
    text[len] = '\0';
    return strstr(text, token) != NULL;
}

struct outcome judge_secret(const struct world *, const char *path, const char *token)
{
    cay_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return denied("%s", strerror(errno));
    return holds_token(fd, token) ? reached("read %.80s", path) : denied("a file of its own");
}

/* Filtered networks accept what they are to refuse, and reset it when they have decided. */
static bool was_reset(int fd)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    char byte;
    return socket_timeout_ms != CONTROL_TIMEOUT_MS && poll(&ready, 1, RESET_TIMEOUT_MS) == 1 &&
           recv(fd, &byte, 1, MSG_PEEK) < 0;
}

struct outcome judge_socket(int fd, const struct sockaddr *address, socklen_t len,
                            const char *token)
{
    const struct timeval patience = {.tv_sec = socket_timeout_ms / 1000,
                                     .tv_usec = socket_timeout_ms % 1000 * 1000};
    struct outcome made;
    if (fd < 0)
        return denied("no socket: %s", strerror(errno));
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (connect(fd, address, len) < 0)
        made = denied("%s", errno == EINPROGRESS ? "no answer" : strerror(errno));
    else if (!token)
        made = was_reset(fd) ? denied("reset") : reached("somebody listens");
    else
        made = holds_token(fd, token) ? reached("it answers") : denied("somebody else answers");
    close(fd);
    return made;
}

void scratch_path(const struct world *world, const char *name, char out[PROBE_PATH_BYTES])
{
    snprintf(out, PROBE_PATH_BYTES, "%s/%s", world->scratch, name);
}
