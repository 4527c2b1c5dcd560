/* SPDX-License-Identifier: Apache-2.0 */
/* The default runtime: our own namespaces around a resident init. What is inside is made by
 * src/init/setup.c; here is what must be done from outside. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <unistd.h>

#include "host/runtime/namespaces/switch.h"
#include "host/runtime/resident.h"
#include "sys/mount.h"
#include "sys/userns.h"

static bool open_runtime(const struct cay_runtime_config *config, struct cay_runtime **out_runtime,
                         struct cay_error *err)
{
    if (geteuid() != 0)
        return cay_fail(err, CAY_R_NOT_SUPPORTED, "the namespaces runtime needs root");
    struct cay_resident_runtime *runtime = NULL;
    if (!cay_resident_open(&cay_runtime_namespaces, config, &runtime, err))
        return false;
    runtime->base.caps |= CAY_RUNTIME_ISOLATES | CAY_RUNTIME_OWN_IDS | CAY_RUNTIME_OWN_PIDS |
                          CAY_RUNTIME_OWN_NETWORK | CAY_RUNTIME_SWITCHES | CAY_RUNTIME_ADOPTS |
                          CAY_RUNTIME_RUNS_PROGRAMS | CAY_RUNTIME_NESTS | CAY_RUNTIME_WAITS;
    *out_runtime = &runtime->base;
    return true;
}

static bool start(struct cay_runtime *base, const struct cay_sandbox_spec *spec,
                  struct cay_sandbox **out_sandbox, struct cay_error *err)
{
    struct cay_resident_runtime *runtime =
        CAY_CONTAINER_OF(base, struct cay_resident_runtime, base);
    cay_autoclose int made_userns =
        spec->userns_fd < 0 ? cay_userns_open(spec->uid_base, CAY_USERNS_COUNT) : -1;
    int userns = spec->userns_fd >= 0 ? spec->userns_fd : made_userns;
    if (userns < 0)
        return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, userns, "make the user namespace");
    cay_autoclose int root = cay_resident_open_root(spec, userns);
    if (root < 0)
        return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, root, "take the root");
    cay_autoclose int netns = cay_spares_take(&runtime->spares);
    struct cay_init_launch launch = {
        .namespaces = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS |
                      (netns < 0 ? CLONE_NEWNET : 0),
        .netns_fd = netns,
        .start = {.mode = CAY_FRAME_MODE_NAMESPACES,
                  .fds = CAY_FRAME_FD_ROOT | CAY_FRAME_FD_USERNS},
        .fds = {root, userns},
        .fd_count = 2,
    };
    return cay_resident_start(runtime, spec, &launch, out_sandbox, err);
}

/* On a tree of its own that is empty, until there is another. Whoever may make the directories that
 * are mounted on. */
static bool start_waiting(struct cay_runtime *base, const struct cay_sandbox_spec *spec,
                          struct cay_sandbox **out_sandbox, struct cay_error *err)
{
    static const struct cay_mount_option options[] = {{"mode", "777"}, {"size", "64k"}};
    cay_autoclose int root =
        cay_mount_new("tmpfs", options, CAY_COUNT(options), MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID);
    if (root < 0)
        return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, root, "make an empty root");
    struct cay_sandbox_spec waiting = *spec;
    waiting.root_fd = root;
    return start(base, &waiting, out_sandbox, err);
}

static void prepare(struct cay_runtime *base)
{
    cay_spares_fill(&CAY_CONTAINER_OF(base, struct cay_resident_runtime, base)->spares);
}

const struct cay_runtime_ops cay_runtime_namespaces = {
    .name = "namespaces",
    .open = open_runtime,
    .close = cay_resident_close,
    .prepare = prepare,
    .start = start,
    .start_waiting = start_waiting,
    .hand_out = cay_namespaces_hand_out,
    .adopt = cay_resident_adopt,
    .remove = cay_resident_remove,
    .describe = cay_resident_describe,
    .pidfd = cay_resident_pidfd,
    .group = cay_resident_group,
    .netns = cay_resident_netns,
    .freeze = cay_resident_freeze,
    .thaw = cay_resident_thaw,
    .is_idle = cay_namespaces_is_idle,
    .switch_root = cay_namespaces_switch_root,
    .set_limits = cay_resident_set_limits,
    .set_part = cay_resident_set_part,
    .stats = cay_resident_stats,
    .end_start = cay_resident_end_start,
    .kill = cay_resident_kill,
    .destroy = cay_resident_destroy,
    .leave = cay_resident_leave,
    .connect = cay_resident_connect,
    .open_slot = cay_resident_open_slot,
    .open_room = cay_resident_open_room,
};
