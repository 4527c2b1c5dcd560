/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/local/pipe.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

/* A signal that a write of ours raises is sent to this thread, where it waits behind the mask and
 * is taken away again. One that was there before stays. */
ssize_t cay_pipe_write(int fd, const void *data, size_t len)
{
    sigset_t pipe_signal;
    sigset_t before;
    sigset_t pending;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    sigpending(&pending);
    bool was_pending = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
    ssize_t put = write(fd, data, len);
    ssize_t result = put < 0 ? -errno : put;
    const struct timespec at_once = {};
    if (result == -EPIPE && !was_pending) {
        while (sigtimedwait(&pipe_signal, NULL, &at_once) < 0 && errno == EINTR)
            ;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return result;
}
