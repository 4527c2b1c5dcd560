/* SPDX-License-Identifier: Apache-2.0 */

/* What the base "host" takes of a disk. */

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/store/base.h"
#include "host/store/dir_list.h"
#include "host/store/store_ops.h"

/* How the host's files come into the store. */
enum share {
    SHARE_LINKS,
    SHARE_CLONES, /* large ones; small ones are copied */
    SHARE_NOTHING,
};

/* By trying it with the first program that there is. */
static enum share find_share(int host_fd, int root_fd)
{
    static const char probe[] = ".probe";
    cay_autoclose int bin_fd =
        openat(host_fd, "usr/bin", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    cay_auto(cay_dir_list_finish) struct cay_dir_list names = {};
    if (bin_fd < 0 || cay_dir_list_read(&names, bin_fd) < 0)
        return SHARE_NOTHING;
    for (size_t i = 0; i < names.count; i++) {
        const char *name = cay_dir_list_name(&names, i);
        struct stat st;
        if (fstatat(bin_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode) ||
            st.st_size == 0)
            continue;
        if (linkat(bin_fd, name, root_fd, probe, 0) == 0) {
            (void)unlinkat(root_fd, probe, 0);
            return SHARE_LINKS;
        }
        cay_autoclose int fd = openat(bin_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        return fd >= 0 && cay_copy_clones(fd, root_fd) ? SHARE_CLONES : SHARE_NOTHING;
    }
    return SHARE_NOTHING;
}

/* What it takes to bring them in without links. */
static bool measure(int host_fd, enum share share, struct cay_copy_stats *out_stats,
                    struct cay_error *err)
{
    *out_stats = (struct cay_copy_stats){};
    if (share == SHARE_LINKS)
        return true;
    static const char *const names[] = {"usr", CAY_BASE_HOST_TOP};
    for (size_t i = 0; i < CAY_COUNT(names); i++) {
        const char *name = names[i];
        cay_autoclose int from =
            openat(host_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (from < 0)
            continue; /* a link into /usr, or nothing */
        const struct cay_copy_request request = {.rule = CAY_COPY_LINK, .from_fd = from};
        int rc = cay_copy_measure(&request, share == SHARE_CLONES, out_stats);
        if (rc == -ECANCELED)
            return cay_fail(err, CAY_R_CANCELED, NULL);
        if (rc < 0)
            return cay_store_fail(err, rc, "measure /%s of the host", name);
    }
    return true;
}

bool cay_base_host_cost_in(int host_fd, int root_fd, struct cay_copy_stats *out_stats,
                           struct cay_error *err)
{
    return measure(host_fd, find_share(host_fd, root_fd), out_stats, err);
}

bool cay_base_host_cost(struct cay_store *store, const char *root, struct cay_copy_stats *out_stats,
                        struct cay_error *err)
{
    enum share share = SHARE_NOTHING;
    cay_autoclose int host_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (host_fd < 0)
        return cay_store_fail(err, -errno, "open '%s'", root);
    if (store) {
        struct cay_store_base_draft draft;
        if (!cay_store_base_begin(store, &draft, err))
            return false;
        share = find_share(host_fd, draft.root_fd);
        cay_store_base_abort(store, &draft);
    }
    return measure(host_fd, share, out_stats, err);
}
