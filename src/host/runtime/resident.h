/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What runtimes with a resident cay-init share: its process, socket, control groups and everything
 * that is done to them. A runtime fills in how init is launched.
 */

#include "host/runtime/description.h"
#include "host/runtime/launch.h"
#include "host/runtime/runtime_ops.h"
#include "host/runtime/spares.h"

struct cay_resident_runtime {
    struct cay_runtime base;
    char *run_dir;
    char *cgroup_parent;
    int run_fd;
    int image_fd;
    struct cay_low_fds low_fds; /* for the start of an init */
    bool has_cgroups;
    struct cay_cgroup_host cgroup_host;
    struct cay_spares spares; /* of a runtime that makes namespaces */
    char *runsc;              /* of gvisor: the program; NULL otherwise */
    char *platform;           /* of gvisor: how it runs commands; empty: as runsc likes */
};

struct cay_resident {
    struct cay_sandbox base;
    struct cay_resident_runtime *runtime;
    struct cay_description description;
    int pidfd;
    int channel_fd;   /* the connection init was started with, until somebody takes it; or -1 */
    uint32_t version; /* of the init behind it */
    bool has_cgroup;
    struct cay_cgroup cgroup;
};

/* How a runtime's init is launched: namespaces, mode, root and user namespace are set by the
 * caller, the rest by cay_resident_start. */
[[nodiscard]] bool cay_resident_start(struct cay_resident_runtime *runtime,
                                      const struct cay_sandbox_spec *spec,
                                      struct cay_init_launch *launch,
                                      struct cay_sandbox **out_sandbox, struct cay_error *err);

/* For a runtime that starts init in its own way, and whose sandboxes begin with a resident: its
 * control groups; the description of one that lives. */
[[nodiscard]] bool cay_resident_make_groups(struct cay_resident *resident,
                                            const struct cay_sandbox_spec *spec,
                                            struct cay_error *err);
[[nodiscard]] bool cay_resident_adopt_into(struct cay_resident *resident, struct cay_runtime *base,
                                           struct cay_str description, struct cay_error *err);

/* A copy of a detached mount, so that the caller can attach its own another time. Kernels
 * before 6.15 copy no detached mounts: there the mount itself goes into the sandbox, and the
 * caller's descriptor still names it. */
[[nodiscard]] int cay_resident_copy_root(int root_fd);
/* The tree of a sandbox that is to start, as a mount that is ours to attach; -EINVAL when it is to
 * have none. */
[[nodiscard]] int cay_resident_open_root(const struct cay_sandbox_spec *spec, int userns_fd);

/* The slots of the ops table. */
[[nodiscard]] bool cay_resident_open(const struct cay_runtime_ops *ops,
                                     const struct cay_runtime_config *config,
                                     struct cay_resident_runtime **out_runtime,
                                     struct cay_error *err);
void cay_resident_close(struct cay_runtime *runtime);
bool cay_resident_adopt(struct cay_runtime *runtime, struct cay_str description,
                        struct cay_sandbox **out_sandbox, struct cay_error *err);
bool cay_resident_remove(struct cay_runtime *runtime, const char *id, struct cay_error *err);
void cay_resident_describe(const struct cay_sandbox *sandbox, struct cay_buf *out_text);
int cay_resident_pidfd(const struct cay_sandbox *sandbox);
int cay_resident_netns(const struct cay_sandbox *sandbox);
bool cay_resident_end_start(struct cay_sandbox *sandbox, int64_t waited_ms);
int cay_resident_group(const struct cay_sandbox *sandbox);
bool cay_resident_freeze(struct cay_sandbox *sandbox, int timeout_ms, struct cay_error *err);
bool cay_resident_thaw(struct cay_sandbox *sandbox, struct cay_error *err);
bool cay_resident_set_limits(struct cay_sandbox *sandbox, const struct cay_cgroup_limits *limits,
                             struct cay_error *err);
void cay_resident_set_part(struct cay_sandbox *sandbox, unsigned parts);
void cay_resident_stats(struct cay_sandbox *sandbox, struct cay_sandbox_stats *out_stats);
bool cay_resident_kill(struct cay_sandbox *sandbox, struct cay_error *err);
bool cay_resident_destroy(struct cay_sandbox *sandbox, struct cay_error *err);
void cay_resident_leave(struct cay_sandbox *sandbox);
bool cay_resident_connect(struct cay_sandbox *sandbox, struct cay_connection *out_connection,
                          struct cay_error *err);
int cay_resident_open_slot(struct cay_sandbox *sandbox, uint32_t index,
                           struct cay_cgroup_slot *out_slot);
int cay_resident_open_room(struct cay_sandbox *sandbox, uint32_t index,
                           const struct cay_cgroup_limits *limits,
                           struct cay_cgroup_slot *out_slot);
