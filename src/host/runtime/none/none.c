/* SPDX-License-Identifier: Apache-2.0 */
/* No isolation at all: commands are processes of the daemon's user on the host, for development.
 * The same init starts them, so everything else behaves as in a real sandbox. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "host/runtime/resident.h"

static bool open_runtime(const struct cay_runtime_config *config, struct cay_runtime **out_runtime,
                         struct cay_error *err)
{
    struct cay_resident_runtime *runtime = NULL;
    if (!cay_resident_open(&cay_runtime_none, config, &runtime, err))
        return false;
    runtime->base.caps = CAY_RUNTIME_PERSISTS | CAY_RUNTIME_RUNS_PROGRAMS;
    if (runtime->has_cgroups)
        runtime->base.caps |= CAY_RUNTIME_LIMITS | CAY_RUNTIME_FREEZES;
    *out_runtime = &runtime->base;
    return true;
}

/* Working directories of commands are looked up below the session's tree; nothing else is. */
static bool start(struct cay_runtime *base, const struct cay_sandbox_spec *spec,
                  struct cay_sandbox **out_sandbox, struct cay_error *err)
{
    struct cay_resident_runtime *runtime =
        CAY_CONTAINER_OF(base, struct cay_resident_runtime, base);
    struct cay_launch launch = {.netns_fd = -1, .start = {.mode = CAY_FRAME_MODE_PLAIN}};
    cay_autoclose int opened =
        spec->root_path ? open(spec->root_path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    if (spec->root_path && opened < 0)
        return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, -errno, "open '%s'", spec->root_path);
    int root = spec->root_fd >= 0 ? spec->root_fd : opened;
    if (root >= 0) {
        launch.start.fds = CAY_FRAME_FD_ROOT;
        launch.fds[0] = root;
        launch.fd_count = 1;
    }
    return cay_resident_start(runtime, spec, &launch, out_sandbox, err);
}

const struct cay_runtime_ops cay_runtime_none = {
    .name = "none",
    .warning = "the runtime 'none' isolates nothing: every command can do to this machine whatever "
               "the daemon's user can",
    .open = open_runtime,
    .close = cay_resident_close,
    .start = start,
    .adopt = cay_resident_adopt,
    .remove = cay_resident_remove,
    .describe = cay_resident_describe,
    .pidfd = cay_resident_pidfd,
    .freeze = cay_resident_freeze,
    .thaw = cay_resident_thaw,
    .set_limits = cay_resident_set_limits,
    .stats = cay_resident_stats,
    .kill = cay_resident_kill,
    .destroy = cay_resident_destroy,
    .leave = cay_resident_leave,
    .connect = cay_resident_connect,
    .open_slot = cay_resident_open_slot,
    .open_room = cay_resident_open_room,
};
