/* SPDX-License-Identifier: Apache-2.0 */
/* No isolation at all: commands are processes of the daemon's user on the host, for development.
 * The same init starts them, so everything else behaves as in a real sandbox. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/runtime/resident.h"
#include "sys/mount.h"

static bool open_runtime(const struct cay_runtime_config *config, struct cay_runtime **out_runtime,
                         struct cay_error *err)
{
    struct cay_resident_runtime *runtime = NULL;
    if (!cay_resident_open(&cay_runtime_none, config, &runtime, err))
        return false;
    runtime->base.caps |= CAY_RUNTIME_ADOPTS | CAY_RUNTIME_RUNS_PROGRAMS;
    *out_runtime = &runtime->base;
    return true;
}

static void name_place(const struct cay_resident_runtime *runtime, const char *id,
                       char out_path[static PATH_MAX])
{
    snprintf(out_path, PATH_MAX, "%s/%s.tree", runtime->run_dir, id);
}

static void leave_place(const struct cay_resident_runtime *runtime, const char *id)
{
    char path[PATH_MAX];
    name_place(runtime, id, path);
    (void)umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW);
    (void)rmdir(path);
}

/* The tree gets a place among the host's files: in a mount that has none, commands could not tell
 * their working directory. A failure costs just that. */
static void take_place(const struct cay_resident_runtime *runtime, const char *id, int root_fd)
{
    char path[PATH_MAX];
    name_place(runtime, id, path);
    leave_place(runtime, id); /* of one that died half way */
    cay_autoclose int place = mkdir(path, 0700) == 0 ? open(path, O_PATH | O_CLOEXEC) : -1;
    if (place >= 0 && cay_mount_attach(root_fd, place) < 0)
        leave_place(runtime, id);
}

static int open_root(const struct cay_sandbox *sandbox)
{
    char path[PATH_MAX];
    name_place(CAY_CONTAINER_OF(sandbox->runtime, struct cay_resident_runtime, base), sandbox->id,
               path);
    cay_autoclose int fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct statx info;
    bool is_mounted = fd >= 0 && statx(fd, "", AT_EMPTY_PATH, 0, &info) == 0 &&
                      info.stx_attributes & STATX_ATTR_MOUNT_ROOT;
    return is_mounted ? cay_take_fd(fd) : -1;
}

/* Working directories of commands are looked up below the session's tree; nothing else is. */
static bool start(struct cay_runtime *base, const struct cay_sandbox_spec *spec,
                  struct cay_sandbox **out_sandbox, struct cay_error *err)
{
    struct cay_resident_runtime *runtime =
        CAY_CONTAINER_OF(base, struct cay_resident_runtime, base);
    struct cay_init_launch launch = {.netns_fd = -1, .start = {.mode = CAY_FRAME_MODE_PLAIN}};
    cay_autoclose int opened =
        spec->root_path ? open(spec->root_path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    if (spec->root_path && opened < 0)
        return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, -errno, "open '%s'", spec->root_path);
    cay_autoclose int copy = spec->root_fd >= 0 ? cay_resident_copy_root(spec->root_fd) : -1;
    int root = spec->root_fd >= 0 ? spec->root_fd : opened;
    if (copy >= 0) {
        take_place(runtime, spec->id, copy);
        root = copy;
    }
    if (root >= 0) {
        launch.start.fds = CAY_FRAME_FD_ROOT;
        launch.fds[0] = root;
        launch.fd_count = 1;
    }
    if (cay_resident_start(runtime, spec, &launch, out_sandbox, err))
        return true;
    leave_place(runtime, spec->id);
    return false;
}

static bool remove_left(struct cay_runtime *base, const char *id, struct cay_error *err)
{
    if (!cay_resident_remove(base, id, err))
        return false;
    leave_place(CAY_CONTAINER_OF(base, struct cay_resident_runtime, base), id);
    return true;
}

static bool destroy(struct cay_sandbox *sandbox, struct cay_error *err)
{
    struct cay_resident_runtime *runtime =
        CAY_CONTAINER_OF(sandbox->runtime, struct cay_resident_runtime, base);
    cay_autofree char *id = cay_strdup(sandbox->id);
    bool is_done = cay_resident_destroy(sandbox, err);
    leave_place(runtime, id);
    return is_done;
}

const struct cay_runtime_ops cay_runtime_none = {
    .name = "none",
    .warning = "the runtime 'none' isolates nothing: every command can do to this machine whatever "
               "the daemon's user can",
    .open = open_runtime,
    .close = cay_resident_close,
    .start = start,
    .adopt = cay_resident_adopt,
    .remove = remove_left,
    .describe = cay_resident_describe,
    .pidfd = cay_resident_pidfd,
    .group = cay_resident_group,
    .open_root = open_root,
    .freeze = cay_resident_freeze,
    .thaw = cay_resident_thaw,
    .set_limits = cay_resident_set_limits,
    .set_part = cay_resident_set_part,
    .stats = cay_resident_stats,
    .end_start = cay_resident_end_start,
    .kill = cay_resident_kill,
    .destroy = destroy,
    .leave = cay_resident_leave,
    .connect = cay_resident_connect,
    .open_slot = cay_resident_open_slot,
    .open_room = cay_resident_open_room,
};
