/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/descriptors.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

uint64_t cay_descriptors_connections(uint64_t limit)
{
    return CAY_MAX(limit / 4, UINT64_C(1));
}

/* For connections, and for what is open for a moment: of many, enough. */
static rlim_t kept_of(rlim_t limit)
{
    const rlim_t connections_max = 16384;
    const rlim_t moment_max = 1024;
    return CAY_MIN((rlim_t)cay_descriptors_connections(limit), connections_max) +
           CAY_MIN(limit / 8, moment_max);
}

uint64_t cay_descriptors_raise(void)
{
    struct rlimit limit = {};
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return 0;
    /* The soft limit is kept low for programs that use select(); we do not. */
    if (limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
        (void)getrlimit(RLIMIT_NOFILE, &limit);
    }
    return limit.rlim_cur;
}

int cay_descriptors_count(uint64_t *out_count)
{
    DIR *dir = opendir("/proc/self/fd");
    if (!dir)
        return -errno;
    *out_count = 0;
    while (readdir(dir))
        (*out_count)++;
    closedir(dir);
    *out_count -= CAY_MIN(*out_count, UINT64_C(3)); /* the dots, and the directory itself */
    return 0;
}

int cay_descriptors_check(void)
{
    struct rlimit limit = {};
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return -errno;
    int most = (int)CAY_MIN(limit.rlim_cur - kept_of(limit.rlim_cur), (rlim_t)INT_MAX);
    /* The kernel gives out the lowest number that is free (open(2)): where a high one is, few are
     * open, or were at once. To count them is more work. */
    cay_autoclose int probe_fd = eventfd(0, EFD_CLOEXEC);
    cay_autoclose int high_fd = probe_fd < 0 ? -1 : fcntl(probe_fd, F_DUPFD_CLOEXEC, most);
    if (high_fd == most)
        return 0;
    uint64_t count = 0;
    int status = high_fd < 0 ? -EMFILE : cay_descriptors_count(&count);
    if (status < 0)
        return status;
    return count >= (uint64_t)most ? -EMFILE : 0;
}
