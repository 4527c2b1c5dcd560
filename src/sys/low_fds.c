/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/low_fds.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int cay_low_fds_open(struct cay_low_fds *low, int common_fd)
{
    *low = (struct cay_low_fds){.common_fd = common_fd, .end = common_fd + 1};
    pthread_mutex_init(&low->lock, NULL);
    pthread_cond_init(&low->given, NULL);
    int result = 0;
    for (int i = 0; i < CAY_LOW_FDS; i++) {
        /* Not 0 to 2, which children make something else of. */
        low->fds[i] = fcntl(common_fd, F_DUPFD_CLOEXEC, 3);
        if (low->fds[i] < 0 && result == 0)
            result = -errno;
        low->end = CAY_MAX(low->end, low->fds[i] + 1);
    }
    if (result < 0)
        cay_low_fds_close(low);
    return result;
}

void cay_low_fds_close(struct cay_low_fds *low)
{
    if (!low->end)
        return;
    for (int i = 0; i < CAY_LOW_FDS; i++)
        cay_cleanup_close(&low->fds[i]);
    pthread_cond_destroy(&low->given);
    pthread_mutex_destroy(&low->lock);
    low->end = 0;
}

static int find_free(const struct cay_low_fds *low)
{
    for (int i = 0; i < CAY_LOW_FDS; i++) {
        if (!low->taken[i])
            return i;
    }
    return -1;
}

int cay_low_fds_take(struct cay_low_fds *low, int fd)
{
    pthread_mutex_lock(&low->lock);
    int index;
    while ((index = find_free(low)) < 0)
        pthread_cond_wait(&low->given, &low->lock);
    low->taken[index] = true;
    pthread_mutex_unlock(&low->lock);
    int result = dup3(fd, low->fds[index], O_CLOEXEC);
    if (result >= 0)
        return result;
    result = -errno;
    cay_low_fds_give(low, low->fds[index]);
    return result;
}

/* Meanwhile the number stands for the common file: nobody else gets it. */
void cay_low_fds_give(struct cay_low_fds *low, int taken_fd)
{
    int index = 0;
    while (low->fds[index] != taken_fd)
        index++;
    (void)dup3(low->common_fd, taken_fd, O_CLOEXEC);
    pthread_mutex_lock(&low->lock);
    assert(low->taken[index]);
    low->taken[index] = false;
    pthread_cond_signal(&low->given);
    pthread_mutex_unlock(&low->lock);
}
