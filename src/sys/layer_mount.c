/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/layer_mount.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/buf.h"
#include "sys/fsid.h"

/* redirect_dir: renamed directories stay renames. index off: copies of an upper stay right.
 * volatile: the last unmount does not sync the whole file system of a neighbour's dirty pages. */
static const struct {
    const char *key;
    const char *value; /* NULL for a flag */
} options[] = {
    {"redirect_dir", "on"}, {"index", "off"},      {"metacopy", "off"},
    {"xino", "off"},        {"nfs_export", "off"}, {"volatile", NULL},
};

/* The last option is about writing only. */
static size_t option_count(const struct cay_layer_stack *stack)
{
    return CAY_COUNT(options) - (stack->upper ? 0 : 1);
}

enum { OPTIONS_BYTES_MAX = 4096 }; /* what mount(2) passes on: one page */

/* One clone of the directory of layers carries the id map for all of them. */
static int clone_layers(const struct cay_layer_stack *stack)
{
    cay_autoclose int clone_fd =
        open_tree(stack->layers_fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
    if (clone_fd < 0)
        return -errno;
    if (stack->userns_fd >= 0) {
        struct mount_attr attr = {
            .attr_set = MOUNT_ATTR_IDMAP,
            .userns_fd = (uint64_t)stack->userns_fd,
        };
        if (mount_setattr(clone_fd, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
            return -errno;
    }
    return cay_take_fd(clone_fd);
}

static int set_layer(int fs_fd, const char *key, int clone_fd, const char *path)
{
    cay_autoclose int fd = openat(clone_fd, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    return fsconfig(fs_fd, FSCONFIG_SET_FD, key, NULL, fd) < 0 ? -errno : 0;
}

static int configure(int fs_fd, int clone_fd, const struct cay_layer_stack *stack)
{
    for (size_t i = 0; i < option_count(stack); i++) {
        unsigned int command = options[i].value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG;
        if (fsconfig(fs_fd, command, options[i].key, options[i].value, 0) < 0)
            return -errno;
    }
    int rc = 0;
    for (size_t i = 0; !rc && i < stack->lower_count; i++)
        rc = set_layer(fs_fd, "lowerdir+", clone_fd, stack->lower[i]);
    if (!rc && stack->upper)
        rc = set_layer(fs_fd, "upperdir", clone_fd, stack->upper);
    if (!rc && stack->upper)
        rc = set_layer(fs_fd, "workdir", clone_fd, stack->work);
    return rc;
}

static int mount_by_fd(const struct cay_layer_stack *stack)
{
    cay_autoclose int clone_fd = clone_layers(stack);
    if (clone_fd < 0)
        return clone_fd;
    cay_autoclose int fs_fd = fsopen("overlay", FSOPEN_CLOEXEC);
    if (fs_fd < 0)
        return -errno;
    int rc = configure(fs_fd, clone_fd, stack);
    if (rc < 0)
        return rc;
    /* A mounter whose file-system uid has no mapping gets a read-only overlay. */
    struct cay_fsid fsid;
    rc = cay_fsid_enter(&fsid, stack->root_uid);
    if (!rc && fsconfig(fs_fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        rc = -errno;
    cay_fsid_leave(&fsid);
    if (rc < 0)
        return rc;
    int fd = fsmount(fs_fd, FSMOUNT_CLOEXEC, MOUNT_ATTR_NODEV);
    return fd < 0 ? -errno : fd;
}

struct path_mount {
    const struct cay_layer_stack *stack;
    const char *data;
    int clone_fd;
    int result; /* the descriptor or -errno */
};

/* Runs in a mount namespace of its own, where nothing is seen outside: the clone is attached over
 * the layers directory and becomes the working directory (layer paths stay short, the kernel takes
 * one page of options: copy_mount_options() in fs/namespace.c), the overlay is attached over the
 * directory above and cloned away. */
static int mount_in_private_namespace(const struct path_mount *job)
{
    if (unshare(CLONE_FS) < 0 || fchdir(job->stack->layers_fd) < 0 || unshare(CLONE_NEWNS) < 0)
        return -errno;
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return -errno;
    if (move_mount(job->clone_fd, "", AT_FDCWD, ".", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    if (fchdir(job->clone_fd) < 0)
        return -errno;
    struct cay_fsid fsid;
    int rc = cay_fsid_enter(&fsid, job->stack->root_uid);
    if (!rc && mount("overlay", "..", "overlay", MS_NODEV, job->data) < 0)
        rc = -errno;
    cay_fsid_leave(&fsid);
    if (rc < 0)
        return rc;
    int fd = open_tree(AT_FDCWD, "..", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static void *run_path_mount(void *arg)
{
    struct path_mount *job = arg;
    job->result = mount_in_private_namespace(job);
    return NULL;
}

static void append_options(struct cay_buf *data, const struct cay_layer_stack *stack)
{
    for (size_t i = 0; i < option_count(stack); i++) {
        cay_buf_append_text(data, options[i].key);
        if (options[i].value)
            cay_buf_printf(data, "=%s", options[i].value);
        cay_buf_append_byte(data, ',');
    }
    if (stack->upper)
        cay_buf_printf(data, "upperdir=%s,workdir=%s,", stack->upper, stack->work);
    cay_buf_append_text(data, "lowerdir=");
    for (size_t i = 0; i < stack->lower_count; i++)
        cay_buf_printf(data, "%s%s", i ? ":" : "", stack->lower[i]);
    cay_buf_append_byte(data, '\0');
}

static int mount_by_path(const struct cay_layer_stack *stack)
{
    cay_auto(cay_buf_finish) struct cay_buf data;
    cay_buf_init(&data, OPTIONS_BYTES_MAX);
    append_options(&data, stack);
    if (data.failed)
        return -E2BIG;
    cay_autoclose int clone_fd = clone_layers(stack);
    if (clone_fd < 0)
        return clone_fd;
    struct path_mount job = {.stack = stack, .data = data.data, .clone_fd = clone_fd};
    pthread_t thread;
    int rc = pthread_create(&thread, NULL, run_path_mount, &job);
    if (rc)
        return -rc;
    pthread_join(thread, NULL);
    return job.result;
}

int cay_layer_mount(const struct cay_layer_stack *stack, enum cay_layer_way way)
{
    /* Kernels differ, not calls: once descriptors were refused they stay refused. */
    static atomic_bool descriptors_refused;

    assert(stack->upper ? stack->lower_count > 0 && stack->work : stack->lower_count > 1);
    if (way == CAY_LAYER_BY_PATH || (way == CAY_LAYER_AUTO && atomic_load(&descriptors_refused)))
        return mount_by_path(stack);
    int fd = mount_by_fd(stack);
    /* Before 6.5 overlayfs knows no descriptors at all, and the kernel says so in its place. */
    if (way == CAY_LAYER_BY_FD || (fd != -EINVAL && fd != -EOPNOTSUPP))
        return fd;
    fd = mount_by_path(stack);
    if (fd >= 0)
        atomic_store(&descriptors_refused, true);
    return fd;
}
