/* SPDX-License-Identifier: Apache-2.0 */
#include "host/runtime/spares.h"

#include <unistd.h>

#include "sys/netns.h"

void cay_spares_init(struct cay_spares *spares)
{
    spares->count = 0;
    pthread_mutex_init(&spares->lock, NULL);
}

void cay_spares_finish(struct cay_spares *spares)
{
    while (spares->count > 0)
        close(spares->fds[--spares->count]);
    pthread_mutex_destroy(&spares->lock);
}

int cay_spares_take(struct cay_spares *spares)
{
    pthread_mutex_lock(&spares->lock);
    int fd = spares->count > 0 ? spares->fds[--spares->count] : -1;
    pthread_mutex_unlock(&spares->lock);
    return fd;
}

void cay_spares_fill(struct cay_spares *spares)
{
    pthread_mutex_lock(&spares->lock);
    bool goes_on = spares->count < CAY_SPARES_MAX;
    pthread_mutex_unlock(&spares->lock);
    while (goes_on) {
        int fd = cay_netns_open();
        if (fd < 0)
            return;
        pthread_mutex_lock(&spares->lock);
        if (spares->count < CAY_SPARES_MAX)
            spares->fds[spares->count++] = cay_take_fd(fd);
        goes_on = spares->count < CAY_SPARES_MAX;
        pthread_mutex_unlock(&spares->lock);
        if (fd >= 0)
            close(fd);
    }
}
