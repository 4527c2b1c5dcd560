/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/store/overlay/overlay_internal.h"
#include "sys/layer_mount.h"
#include "sys/remove.h"
#include "sys/userns.h"

enum { TRY_UID = 0x40000000 }; /* a range that nobody has: nothing is written with it */

/* Mounts an overlay of id-mapped layers in an empty directory. 0 or -errno. */
static int try_mount(int dir_fd)
{
    static const char *const parts[] = {"lower", "upper", "work"};
    for (size_t i = 0; i < CAY_COUNT(parts); i++) {
        if (mkdirat(dir_fd, parts[i], 0755) < 0)
            return -errno;
    }
    cay_autoclose int userns_fd = cay_userns_open(TRY_UID, CAY_USERNS_COUNT);
    if (userns_fd < 0)
        return userns_fd;
    const struct cay_layer_stack stack = {
        .layers_fd = dir_fd,
        .lower = &parts[0],
        .lower_count = 1,
        .upper = parts[1],
        .work = parts[2],
        .userns_fd = userns_fd,
        .root_uid = TRY_UID,
    };
    cay_autoclose int mount_fd = cay_layer_mount(&stack, CAY_LAYER_AUTO);
    return mount_fd < 0 ? mount_fd : 0;
}

bool ov_check(const char *directory, struct cay_error *err)
{
    if (geteuid() != 0)
        return cay_fail(err, CAY_R_NOT_SUPPORTED, "the overlay store needs root");
    cay_autofree char *path = cay_asprintf("%s/.cay-check-XXXXXX", directory);
    cay_autoclose int parent_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = parent_fd < 0 || !mkdtemp(path) ? -errno : 0;
    if (!rc) {
        cay_autoclose int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        rc = dir_fd < 0 ? -errno : try_mount(dir_fd);
        int removed = cay_remove_tree(parent_fd, strrchr(path, '/') + 1, NULL);
        rc = rc ? rc : removed;
    }
    return rc == 0 || cay_fail_errno(err, CAY_R_NOT_SUPPORTED, rc,
                                     "id-mapped layers cannot be mounted in '%.80s'", directory);
}
