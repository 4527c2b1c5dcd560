/* SPDX-License-Identifier: Apache-2.0 */
#include "bin/cayd_notify.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "base/base.h"

/* "/path", or "@name" for an abstract socket, whose name begins with NUL and ends with the length.
 */
static bool to_address(const char *name, struct sockaddr_un *out_address, socklen_t *out_len)
{
    size_t len = strlen(name);
    if ((name[0] != '/' && name[0] != '@') || len < 2 || len >= sizeof(out_address->sun_path))
        return false;
    *out_address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(out_address->sun_path, name, len);
    if (name[0] == '@')
        out_address->sun_path[0] = '\0';
    *out_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    return true;
}

void cayd_notify(const char *state)
{
    struct sockaddr_un address;
    socklen_t len = 0;
    const char *name = getenv("NOTIFY_SOCKET");
    if (!name || !to_address(name, &address, &len))
        return;
    cay_autoclose int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0)
        (void)sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address, len);
}

void cayd_notify_reloading(void)
{
    char state[64];
    struct timespec now = {};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(state, sizeof(state), "RELOADING=1\nMONOTONIC_USEC=%lld",
             (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
    cayd_notify(state);
}
