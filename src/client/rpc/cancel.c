/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "client/rpc/client_internal.h"

bool cay_cancel_create(struct cay_cancel **out_cancel, struct cay_error *err)
{
    struct cay_error ignored;
    err = err ? err : &ignored;
    if (!out_cancel)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "there is no place for the cancellation");
    struct cay_cancel *cancel = calloc(1, sizeof(*cancel));
    if (!cancel)
        return cay_fail(err, CAY_R_OUT_OF_MEMORY, NULL);
    cancel->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (cancel->fd < 0) {
        int number = errno;
        free(cancel);
        return cay_fail_errno(err, CAY_R_RESOURCE_EXHAUSTED, -number,
                              "a cancellation needs a file");
    }
    *out_cancel = cancel;
    return true;
}

void cay_cancel_destroy(struct cay_cancel *cancel)
{
    if (!cancel)
        return;
    close(cancel->fd);
    free(cancel);
}

void cay_cancel_fire(struct cay_cancel *cancel)
{
    int before = errno; /* of whom a signal interrupts */
    uint64_t one = 1;
    if (!cancel)
        return;
    ssize_t written = write(cancel->fd, &one, sizeof(one));
    (void)written;
    errno = before;
}

void cay_cancel_reset(struct cay_cancel *cancel)
{
    uint64_t count = 0;
    if (!cancel)
        return;
    ssize_t got = read(cancel->fd, &count, sizeof(count));
    (void)got;
}

int cay_cancel_fd(const struct cay_cancel *cancel)
{
    return cancel ? cancel->fd : -1;
}

bool cay_cancel_is_fired(const struct cay_cancel *cancel)
{
    struct pollfd entry = {.fd = cay_cancel_fd(cancel), .events = POLLIN};
    return cancel && poll(&entry, 1, 0) > 0;
}
