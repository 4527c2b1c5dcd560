/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/stop.h"
#include "host/store/copy.h"
#include "host/store/dir_list.h"

enum { DEPTH_MAX = 400 }; /* a descriptor per level; what lies deeper is not counted */

struct measure {
    const struct cay_copy_request *request;
    bool is_cloned;
    dev_t dev;
    struct cay_copy_stats *stats;
};

static int add_dir(struct measure *self, int dir_fd, int depth);

static int add_entry(struct measure *self, int dir_fd, const char *name, int depth)
{
    const struct cay_copy_request *request = self->request;
    bool public_only = request->public_only || request->rule == CAY_COPY_LINK;
    struct stat st;
    if (cay_stop_asked())
        return -ECANCELED;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    mode_t needed = S_ISDIR(st.st_mode) ? S_IROTH | S_IXOTH : S_IROTH;
    if (public_only && !S_ISLNK(st.st_mode) && (st.st_mode & needed) != needed)
        return 0;
    self->stats->entries++;
    bool is_shared = self->is_cloned && st.st_size > CAY_COPY_SMALL_BYTES;
    if (S_ISREG(st.st_mode) && !is_shared)
        self->stats->bytes += (uint64_t)st.st_blocks * 512 / st.st_nlink;
    if (!S_ISDIR(st.st_mode) || st.st_dev != self->dev || depth == DEPTH_MAX)
        return 0;
    self->stats->bytes += (uint64_t)st.st_blocks * 512;
    cay_autoclose int fd =
        openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NOATIME);
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    return add_dir(self, fd, depth + 1);
}

static int add_dir(struct measure *self, int dir_fd, int depth)
{
    cay_auto(cay_dir_list_finish) struct cay_dir_list names = {};
    int rc = cay_dir_list_read(&names, dir_fd);
    for (size_t i = 0; rc == 0 && i < names.count; i++)
        rc = add_entry(self, dir_fd, cay_dir_list_name(&names, i), depth);
    return rc;
}

int cay_copy_measure(const struct cay_copy_request *request, bool is_cloned,
                     struct cay_copy_stats *in_out_stats)
{
    struct stat st;
    if (fstat(request->from_fd, &st) < 0)
        return -errno;
    struct measure self = {request, is_cloned, st.st_dev, in_out_stats};
    return add_dir(&self, request->from_fd, 0);
}

bool cay_copy_clones(int from_fd, int dir_fd)
{
    cay_autoclose int to_fd = openat(dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    return to_fd >= 0 && ioctl(to_fd, FICLONE, from_fd) == 0;
}
