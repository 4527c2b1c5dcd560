/* SPDX-License-Identifier: Apache-2.0 */
#include "host/runtime/resident.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/runtime/image.h"
#include "host/runtime/socket.h"
#include "sys/mount.h"
#include "sys/pidfd.h"
#include "sys/userns.h"
#include "wire/frame/decode.h"

enum {
    SETUP_TIMEOUT_MS = 20000,
    SHM_BYTES_DEFAULT = 64 << 20,
    OPEN_FILES = 1024, /* soft; what programs expect, and may raise */
};

static void note_groups(struct cay_resident_runtime *runtime)
{
    const struct cay_cgroup_host *host = &runtime->cgroup_host;
    bool is_v1 = false;
    for (int i = CAY_CGROUP_MEMORY; i <= CAY_CGROUP_CPU; i++) {
        is_v1 = is_v1 || host->v1[i][0];
        if (host->v1[i][0] || host->unified_has[i])
            runtime->base.limits |= 1u << i;
    }
    if (runtime->base.limits)
        runtime->base.caps |= CAY_RUNTIME_LIMITS;
    if (host->unified[0] || host->v1[CAY_CGROUP_FREEZER][0])
        runtime->base.caps |= CAY_RUNTIME_FREEZES;
    runtime->base.limits_by = is_v1 ? "control groups, version 1" : "control groups, version 2";
}

bool cay_resident_open(const struct cay_runtime_ops *ops, const struct cay_runtime_config *config,
                       struct cay_resident_runtime **out_runtime, struct cay_error *err)
{
    struct cay_resident_runtime *runtime = cay_new(struct cay_resident_runtime);
    *runtime = (struct cay_resident_runtime){
        .base = {.ops = ops},
        .run_dir = cay_strdup(config->run_dir),
        .cgroup_parent = cay_strdup(config->cgroup_parent),
        .run_fd = -1,
    };
    cay_spares_init(&runtime->spares);
    runtime->image_fd = cay_image_open(config->init_path);
    if (runtime->image_fd < 0) {
        cay_fail_errno(err, CAY_R_RUNTIME_FAILED, runtime->image_fd, "load '%s'",
                       config->init_path);
        goto fail;
    }
    int result = cay_low_fds_open(&runtime->low_fds, runtime->image_fd);
    if (result < 0) {
        cay_fail_errno(err, CAY_R_RUNTIME_FAILED, result, "keep low descriptors");
        goto fail;
    }
    if (mkdir(runtime->run_dir, 0700) < 0 && errno != EEXIST) {
        cay_fail_errno(err, CAY_R_RUNTIME_FAILED, -errno, "make '%s'", runtime->run_dir);
        goto fail;
    }
    runtime->run_fd = open(runtime->run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (runtime->run_fd < 0) {
        cay_fail_errno(err, CAY_R_RUNTIME_FAILED, -errno, "open '%s'", runtime->run_dir);
        goto fail;
    }
    runtime->has_cgroups = geteuid() == 0 && cay_cgroup_detect(&runtime->cgroup_host) == 0;
    if (runtime->has_cgroups)
        note_groups(runtime);
    *out_runtime = runtime;
    return true;
fail:
    cay_resident_close(&runtime->base);
    return false;
}

void cay_resident_close(struct cay_runtime *base)
{
    struct cay_resident_runtime *runtime =
        CAY_CONTAINER_OF(base, struct cay_resident_runtime, base);
    cay_cleanup_close(&runtime->run_fd);
    cay_low_fds_close(&runtime->low_fds);
    cay_cleanup_close(&runtime->image_fd);
    cay_spares_finish(&runtime->spares);
    free(runtime->run_dir);
    free(runtime->runsc);
    free(runtime->platform);
    free(runtime->cgroup_parent);
    free(runtime);
}

static void group_name(const struct cay_resident_runtime *runtime, const char *id, char *out_name,
                       size_t size)
{
    snprintf(out_name, size, "%s/%s", runtime->cgroup_parent, id);
}

/* A group of the same name belongs to nobody any more: the caller keeps ids apart. */
bool cay_resident_make_groups(struct cay_resident *resident, const struct cay_sandbox_spec *spec,
                              struct cay_error *err)
{
    struct cay_resident_runtime *runtime = resident->runtime;
    if (!runtime->has_cgroups)
        return true;
    char name[CAY_CGROUP_NAME_BYTES];
    group_name(runtime, spec->id, name, sizeof(name));
    uid_t init_uid = cay_runtime_can(&runtime->base, CAY_RUNTIME_OWN_IDS)
                         ? spec->uid_base + CAY_USERNS_COUNT - 1
                         : geteuid();
    int result =
        cay_cgroup_create(&runtime->cgroup_host, name, &spec->limits, init_uid, &resident->cgroup);
    if (result == -EEXIST) {
        if (!runtime->base.ops->remove(&runtime->base, spec->id, err))
            return false;
        result = cay_cgroup_create(&runtime->cgroup_host, name, &spec->limits, init_uid,
                                   &resident->cgroup);
    }
    if (result < 0)
        return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, result, "make the control groups");
    resident->has_cgroup = true;
    return true;
}

int cay_resident_copy_root(int root_fd)
{
    int fd = cay_mount_clone(root_fd, "", false);
    if (fd != -EINVAL)
        return fd;
    fd = fcntl(root_fd, F_DUPFD_CLOEXEC, 0);
    return fd < 0 ? -errno : fd;
}

int cay_resident_open_root(const struct cay_sandbox_spec *spec, int userns_fd)
{
    if (spec->root_fd >= 0)
        return cay_resident_copy_root(spec->root_fd);
    if (!spec->root_path)
        return -EINVAL;
    cay_autoclose int root = cay_mount_clone(AT_FDCWD, spec->root_path, false);
    if (root < 0)
        return root;
    int result = cay_mount_set_idmap(root, userns_fd);
    return result < 0 ? result : cay_take_fd(root);
}

static void add_fd(struct cay_init_launch *launch, uint32_t role, int fd)
{
    launch->start.fds |= role;
    launch->fds[launch->fd_count++] = fd;
}

/* What init reads limits and use from. */
static void add_groups(struct cay_init_launch *launch, const struct cay_cgroup *group,
                       int cgroups_fd)
{
    const struct cay_cgroup_host *host = group->host;
    int memory_fd = group->v1_fd[CAY_CGROUP_MEMORY];
    int cpu_fd = group->v1_fd[CAY_CGROUP_CPU];
    if (memory_fd < 0 && host->unified_has[CAY_CGROUP_MEMORY])
        memory_fd = group->unified_fd;
    if (cpu_fd < 0 && host->unified_has[CAY_CGROUP_CPU])
        cpu_fd = group->unified_fd;
    const int fds[] = {memory_fd, cpu_fd, group->unified_fd, cgroups_fd};
    for (size_t i = 0; i < CAY_COUNT(fds); i++) {
        if (fds[i] >= 0)
            add_fd(launch, (uint32_t)CAY_FRAME_FD_MEMORY << i, fds[i]);
    }
}

/* The session's group as a file system, where all its limits are in that one. */
static int mount_groups(const struct cay_cgroup *group)
{
    const struct cay_cgroup_host *host = group->host;
    return host->unified_has[CAY_CGROUP_MEMORY] && host->unified_has[CAY_CGROUP_CPU]
               ? cay_mount_clone(group->unified_fd, "", false)
               : -1;
}

/* Descriptors are sent in the order of their roles: listen comes first. */
static void order_fds(struct cay_init_launch *launch, int listen_fd, const int *tasks,
                      int task_count)
{
    struct cay_init_launch given = *launch;
    launch->start.fds = 0;
    launch->fd_count = 0;
    add_fd(launch, CAY_FRAME_FD_LISTEN, listen_fd);
    uint32_t used = 0;
    static const uint32_t roles[] = {CAY_FRAME_FD_ROOT, CAY_FRAME_FD_USERNS};
    for (size_t i = 0; i < CAY_COUNT(roles); i++) {
        if (given.start.fds & roles[i])
            add_fd(launch, roles[i], given.fds[used++]);
    }
    for (int i = 0; i < task_count; i++)
        add_fd(launch, (uint32_t)CAY_FRAME_FD_TASKS_0 << i, tasks[i]);
}

static int launch_init(struct cay_resident *resident, const struct cay_sandbox_spec *spec,
                       struct cay_init_launch *launch, int listen_fd,
                       struct cay_launched *out_launched)
{
    struct cay_resident_runtime *runtime = resident->runtime;
    int tasks[CAY_CGROUP_CONTROLLERS];
    int task_count = 0;
    if (resident->has_cgroup)
        task_count = cay_cgroup_open_tasks(&resident->cgroup, tasks);
    if (task_count < 0)
        return task_count;
    bool is_shown = resident->has_cgroup && launch->start.mode == CAY_FRAME_MODE_NAMESPACES;
    cay_autoclose int cgroups_fd = is_shown ? mount_groups(&resident->cgroup) : -1;
    order_fds(launch, listen_fd, tasks, task_count);
    if (is_shown)
        add_groups(launch, &resident->cgroup, cgroups_fd);
    launch->image_fd = runtime->image_fd;
    launch->low_fds = &runtime->low_fds;
    launch->cgroup_fd = resident->has_cgroup ? resident->cgroup.init_fd : -1;
    launch->start.uid_base = spec->uid_base;
    launch->start.no_new_privs = spec->no_new_privs;
    launch->start.nesting = spec->nesting;
    launch->start.shm_bytes = spec->shm_bytes ? spec->shm_bytes : SHM_BYTES_DEFAULT;
    launch->start.open_files = OPEN_FILES;
    launch->start.hostname = cay_str(spec->hostname);
    memcpy(launch->start.token, resident->description.token, sizeof(launch->start.token));
    int result = cay_launch_begin(launch, out_launched);
    while (task_count > 0)
        close(tasks[--task_count]);
    return result;
}

static bool bring_up(struct cay_resident *resident, const struct cay_sandbox_spec *spec,
                     struct cay_init_launch *launch, struct cay_error *err)
{
    struct cay_description *description = &resident->description;
    if (getrandom(description->token, sizeof(description->token), 0) !=
        (ssize_t)sizeof(description->token))
        return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, -errno, "make a token");
    cay_autoclose int listen_fd =
        cay_socket_listen(resident->runtime->run_fd, spec->id, spec->waits);
    if (listen_fd < 0)
        return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, listen_fd, "make the socket");
    if (!cay_resident_make_groups(resident, spec, err))
        return false;
    struct cay_launched launched;
    int result = launch_init(resident, spec, launch, listen_fd, &launched);
    if (result < 0)
        return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, result, "launch init");
    resident->pidfd = launched.pidfd;
    resident->channel_fd = launched.channel_fd;
    description->pid = launched.pid;
    result = cay_pidfd_start_ticks(launched.pid, &description->start_ticks);
    if (result < 0)
        return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, result, "look at init");
    uint32_t stage = 0;
    result = cay_launch_finish(&launched, SETUP_TIMEOUT_MS, &stage);
    if (result < 0)
        return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, result, "set up '%s'",
                              cay_frame_stage_name(stage));
    resident->version = launched.version;
    return true;
}

bool cay_resident_start(struct cay_resident_runtime *runtime, const struct cay_sandbox_spec *spec,
                        struct cay_init_launch *launch, struct cay_sandbox **out_sandbox,
                        struct cay_error *err)
{
    struct cay_resident *resident = cay_new(struct cay_resident);
    *resident = (struct cay_resident){
        .base = {.runtime = &runtime->base},
        .runtime = runtime,
        .description = {.uid_base = spec->uid_base},
        .pidfd = -1,
        .channel_fd = -1,
    };
    snprintf(resident->base.id, sizeof(resident->base.id), "%s", spec->id);
    snprintf(resident->description.id, sizeof(resident->description.id), "%s", spec->id);
    if (!bring_up(resident, spec, launch, err)) {
        struct cay_error ignored;
        (void)cay_resident_destroy(&resident->base, &ignored);
        return false;
    }
    *out_sandbox = &resident->base;
    return true;
}

/* The process that is described, or -ESRCH: a number alone may mean another one by now. */
static int open_described(const struct cay_description *description)
{
    uint64_t ticks = 0;
    cay_autoclose int pidfd = cay_pidfd_open(description->pid);
    if (pidfd < 0)
        return pidfd;
    int result = cay_pidfd_start_ticks(description->pid, &ticks);
    if (result < 0 || ticks != description->start_ticks || cay_pidfd_wait(pidfd, 0) == 0)
        return -ESRCH;
    return cay_take_fd(pidfd);
}

bool cay_resident_adopt_into(struct cay_resident *resident, struct cay_runtime *base,
                             struct cay_str text, struct cay_error *err)
{
    struct cay_resident_runtime *runtime =
        CAY_CONTAINER_OF(base, struct cay_resident_runtime, base);
    struct cay_description description;
    if (!cay_description_read(text, base->ops->name, &description))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "this is no description of a sandbox");
    int pidfd = open_described(&description);
    if (pidfd < 0)
        return cay_fail_errno(err, CAY_R_NOT_FOUND, pidfd, "the init of '%.40s'", description.id);
    *resident = (struct cay_resident){
        .base = {.runtime = base},
        .runtime = runtime,
        .description = description,
        .pidfd = pidfd,
        .channel_fd = -1,
    };
    memcpy(resident->base.id, description.id, sizeof(description.id));
    if (runtime->has_cgroups) {
        char name[CAY_CGROUP_NAME_BYTES];
        group_name(runtime, description.id, name, sizeof(name));
        uid_t init_uid = cay_runtime_can(base, CAY_RUNTIME_OWN_IDS)
                             ? description.uid_base + CAY_USERNS_COUNT - 1
                             : geteuid();
        resident->has_cgroup =
            cay_cgroup_open(&runtime->cgroup_host, name, init_uid, &resident->cgroup) == 0;
    }
    return true;
}

bool cay_resident_adopt(struct cay_runtime *base, struct cay_str text,
                        struct cay_sandbox **out_sandbox, struct cay_error *err)
{
    struct cay_resident *resident = cay_new(struct cay_resident);
    if (!cay_resident_adopt_into(resident, base, text, err)) {
        free(resident);
        return false;
    }
    *out_sandbox = &resident->base;
    return true;
}

void cay_resident_describe(const struct cay_sandbox *sandbox, struct cay_buf *out_text)
{
    const struct cay_resident *resident = (const struct cay_resident *)sandbox;
    cay_description_write(&resident->description, sandbox->runtime->ops->name, out_text);
}

int cay_resident_pidfd(const struct cay_sandbox *sandbox)
{
    return ((const struct cay_resident *)sandbox)->pidfd;
}

int cay_resident_netns(const struct cay_sandbox *sandbox)
{
    const struct cay_resident *resident = (const struct cay_resident *)sandbox;
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)resident->description.pid);
    cay_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    /* Still alive after the opening: then the number was its own all the time. */
    return cay_pidfd_wait(resident->pidfd, 0) == 0 ? -ESRCH : cay_take_fd(fd);
}

int cay_resident_group(const struct cay_sandbox *sandbox)
{
    const struct cay_resident *resident = (const struct cay_resident *)sandbox;
    const struct cay_cgroup *group = &resident->cgroup;
    if (!resident->has_cgroup)
        return -1;
    int fd = group->unified_fd;
    for (size_t i = 0; fd < 0 && i < CAY_CGROUP_CONTROLLERS; i++)
        fd = group->v1_fd[i];
    return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

bool cay_resident_connect(struct cay_sandbox *sandbox, struct cay_connection *out_connection,
                          struct cay_error *err)
{
    struct cay_resident *resident = CAY_CONTAINER_OF(sandbox, struct cay_resident, base);
    memcpy(out_connection->token, resident->description.token, CAY_FRAME_TOKEN_BYTES);
    out_connection->is_first = resident->channel_fd >= 0;
    out_connection->version = resident->version;
    int fd = resident->channel_fd >= 0 ? cay_take_fd(resident->channel_fd)
                                       : cay_socket_connect(resident->runtime->run_fd, sandbox->id);
    if (fd < 0)
        return cay_fail_errno(err, CAY_R_UNAVAILABLE, fd, "reach the sandbox");
    out_connection->fd = fd;
    out_connection->out_fd = -1;
    return true;
}

int cay_resident_open_slot(struct cay_sandbox *sandbox, uint32_t index,
                           struct cay_cgroup_slot *out_slot)
{
    struct cay_resident *resident = CAY_CONTAINER_OF(sandbox, struct cay_resident, base);
    if (!resident->has_cgroup)
        return -EOPNOTSUPP;
    return cay_cgroup_open_slot(&resident->cgroup, index, out_slot);
}

int cay_resident_open_room(struct cay_sandbox *sandbox, uint32_t index,
                           const struct cay_cgroup_limits *limits, struct cay_cgroup_slot *out_slot)
{
    struct cay_resident *resident = CAY_CONTAINER_OF(sandbox, struct cay_resident, base);
    if (!resident->has_cgroup)
        return -EOPNOTSUPP;
    return cay_cgroup_open_room(&resident->cgroup, index, limits, out_slot);
}
