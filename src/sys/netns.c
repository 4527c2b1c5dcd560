/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/netns.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>

#include "base/base.h"
#include "sys/loopback.h"

int cay_netns_open(void)
{
    static const char path[] = "/proc/thread-self/ns/net";
    cay_autoclose int home = open(path, O_RDONLY | O_CLOEXEC);
    if (home < 0)
        return -errno;
    if (unshare(CLONE_NEWNET) < 0)
        return -errno;
    int result = cay_loopback_up();
    if (result == 0) {
        result = open(path, O_RDONLY | O_CLOEXEC);
        result = result < 0 ? -errno : result;
    }
    if (setns(home, CLONE_NEWNET) < 0)
        abort(); /* a thread that stays here would do the daemon's work without a network */
    return result;
}

int cay_netns_visit(int netns_fd, int (*visit)(void *context), void *context)
{
    cay_autoclose int home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    if (home < 0)
        return -errno;
    if (setns(netns_fd, CLONE_NEWNET) < 0)
        return -errno;
    int result = visit(context);
    if (setns(home, CLONE_NEWNET) < 0)
        abort(); /* the thread's next work would be done in a sandbox's network */
    return result;
}
