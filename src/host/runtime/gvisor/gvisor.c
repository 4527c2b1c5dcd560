/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes with a kernel of their own: gVisor's runsc around the same resident init. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "host/runtime/gvisor/gvisor_internal.h"
#include "host/runtime/socket.h"
#include "sys/mount.h"
#include "sys/netns.h"
#include "sys/pidfd.h"
#include "sys/run.h"
#include "sys/userns.h"
#include "wire/frame/decode.h"
#include "wire/frame/encode.h"

enum {
    SHM_BYTES_DEFAULT = 64 << 20,
    OPEN_FILES = 1024, /* soft; what programs expect, and may raise */
    /* Threads of gVisor for itself and for each process of the sandbox. It keeps the number of
     * processes itself and dies when it gets no thread: the host's limit is for one that does not
     * keep it. */
    TASKS_OWN = 4096,
    TASKS_EACH = 64,
    TASKS_MAX = 16384,
};

static bool open_runtime(const struct cay_runtime_config *config, struct cay_runtime **out_runtime,
                         struct cay_error *err)
{
    const char *wanted = config->runsc && config->runsc[0] ? config->runsc : "runsc";
    char path[256];
    if (geteuid() != 0)
        return cay_fail(err, CAY_R_NOT_SUPPORTED, "the gvisor runtime needs root");
    if (cay_run_find(wanted, path, sizeof(path)) < 0 || access(path, X_OK) < 0)
        return cay_fail(err, CAY_R_NOT_SUPPORTED,
                        "there is no program '%.100s'; install gVisor (the package runsc of "
                        "Debian), or name it with 'runsc' in the configuration",
                        wanted);
    struct cay_resident_runtime *runtime = NULL;
    if (!cay_resident_open(&cay_runtime_gvisor, config, &runtime, err))
        return false;
    runtime->runsc = cay_strdup(path);
    runtime->platform = cay_strdup(config->platform ? config->platform : "");
    runtime->base.caps |= CAY_RUNTIME_ISOLATES | CAY_RUNTIME_OWN_IDS | CAY_RUNTIME_OWN_PIDS |
                          CAY_RUNTIME_OWN_NETWORK | CAY_RUNTIME_SWITCHES | CAY_RUNTIME_ADOPTS |
                          CAY_RUNTIME_RUNS_PROGRAMS | CAY_RUNTIME_OWN_KERNEL | CAY_RUNTIME_WAITS;
    *out_runtime = &runtime->base;
    return true;
}

static void prepare(struct cay_runtime *base)
{
    cay_spares_fill(&CAY_CONTAINER_OF(base, struct cay_resident_runtime, base)->spares);
}

static void close_own(struct gvisor *gvisor)
{
    if (gvisor->page)
        munmap(gvisor->page, sizeof(*gvisor->page));
    cay_cleanup_close(&gvisor->dir_fd);
    cay_cleanup_close(&gvisor->from_fd);
    cay_cleanup_close(&gvisor->to_fd);
    cay_cleanup_close(&gvisor->gofer_pidfd);
}

static struct gvisor *new_gvisor(void)
{
    struct gvisor *gvisor = cay_new(struct gvisor);
    gvisor->resident.pidfd = gvisor->resident.channel_fd = -1;
    gvisor->dir_fd = gvisor->from_fd = gvisor->to_fd = gvisor->gofer_pidfd = -1;
    return gvisor;
}

static bool destroy(struct cay_sandbox *sandbox, struct cay_error *err)
{
    struct cay_resident_runtime *runtime = gvisor_of(sandbox)->resident.runtime;
    cay_autofree char *id = cay_strdup(sandbox->id);
    close_own(gvisor_of(sandbox));
    bool is_done = cay_resident_destroy(sandbox, err);
    gvisor_place_remove(runtime, id);
    return is_done;
}

static void leave(struct cay_sandbox *sandbox)
{
    close_own(gvisor_of(sandbox));
    cay_resident_leave(sandbox);
}

static bool remove_left(struct cay_runtime *base, const char *id, struct cay_error *err)
{
    if (!cay_resident_remove(base, id, err))
        return false;
    gvisor_place_remove(CAY_CONTAINER_OF(base, struct cay_resident_runtime, base), id);
    return true;
}

/* Any port can be bound without a capability, and ping works. */
static int open_ports(void *)
{
    static const struct {
        const char *path;
        const char *value;
    } settings[] = {{"/proc/sys/net/ipv4/ip_unprivileged_port_start", "0"},
                    {"/proc/sys/net/ipv4/ping_group_range", "0 2147483647"}};
    for (size_t i = 0; i < CAY_COUNT(settings); i++) {
        cay_autoclose int fd = open(settings[i].path, O_WRONLY | O_CLOEXEC);
        if (fd < 0 || write(fd, settings[i].value, strlen(settings[i].value)) < 0)
            return -errno;
    }
    return 0;
}

static int send_start(const struct gvisor *gvisor, const struct cay_sandbox_spec *spec)
{
    struct cay_frame_start start = {
        .mode = CAY_FRAME_MODE_GVISOR,
        .no_new_privs = spec->no_new_privs,
        .uid_base = spec->uid_base,
        .shm_bytes = spec->shm_bytes ? spec->shm_bytes : SHM_BYTES_DEFAULT,
        .open_files = OPEN_FILES,
        .hostname = cay_str(spec->hostname),
    };
    memcpy(start.token, gvisor->resident.description.token, sizeof(start.token));
    uint8_t data[CAY_CHUNK_HEADER_BYTES + 512];
    struct cay_frame_writer writer = {.data = data + CAY_CHUNK_HEADER_BYTES,
                                      .cap = sizeof(data) - CAY_CHUNK_HEADER_BYTES};
    if (!cay_frame_put_start(&writer, &start))
        return -E2BIG;
    cay_chunk_put(data, writer.len, true);
    size_t len = CAY_CHUNK_HEADER_BYTES + writer.len;
    return write(gvisor->to_fd, data, len) == (ssize_t)len ? 0 : -EIO;
}

static int wait_ready(struct gvisor *gvisor, uint32_t *out_stage)
{
    uint8_t data[CAY_FRAME_HEADER_BYTES + 12];
    struct pollfd entries[] = {{.fd = gvisor->from_fd, .events = POLLIN},
                               {.fd = gvisor->resident.pidfd, .events = POLLIN}};
    int count = 0;
    do {
        count = poll(entries, CAY_COUNT(entries), GVISOR_TIMEOUT_MS);
    } while (count < 0 && errno == EINTR);
    if (count <= 0)
        return count < 0 ? -errno : -ETIMEDOUT;
    ssize_t len = read(gvisor->from_fd, data, sizeof(data));
    if (len <= 0)
        return -EPIPE;
    struct cay_frame frame;
    struct cay_frame_ready ready;
    if (cay_frame_next(data, (size_t)len, CAY_FRAME_FROM_INIT, &frame) != len ||
        frame.type != CAY_FRAME_READY || !cay_frame_get_ready(&frame, &ready))
        return -EPROTO;
    *out_stage = ready.stage;
    gvisor->resident.version = ready.version;
    return ready.stage ? -(int)ready.error : 0;
}

/* What names both processes for good. */
static int note_pids(struct gvisor *gvisor, pid_t pid, pid_t gofer)
{
    struct cay_description *description = &gvisor->resident.description;
    uint64_t gofer_ticks = 0;
    char text[64];
    gvisor->resident.pidfd = cay_pidfd_open(pid);
    gvisor->gofer_pidfd = cay_pidfd_open(gofer);
    gvisor->gofer = gofer;
    description->pid = pid;
    if (gvisor->resident.pidfd < 0 || gvisor->gofer_pidfd < 0)
        return -ESRCH;
    int result = cay_pidfd_start_ticks(pid, &description->start_ticks);
    if (result == 0)
        result = cay_pidfd_start_ticks(gofer, &gofer_ticks);
    if (result < 0)
        return result;
    int len = snprintf(text, sizeof(text), "%d %llu", (int)gofer, (unsigned long long)gofer_ticks);
    return gvisor_place_write(gvisor->dir_fd, "gofer", text, (size_t)len);
}

static bool bring_inside(struct gvisor *gvisor, const struct cay_sandbox_spec *spec, int root_fd,
                         struct cay_error *err)
{
    uint32_t stage = CAY_STAGE_ROOT;
    int result = gvisor_tree_attach(gvisor, root_fd);
    if (result == 0)
        result = send_start(gvisor, spec);
    if (result == 0)
        result = wait_ready(gvisor, &stage);
    return result == 0 || cay_fail_errno(err, CAY_R_RUNTIME_FAILED, result, "set up '%s'",
                                         cay_frame_stage_name(stage));
}

static struct cay_cgroup_limits outer_limits(const struct cay_cgroup_limits *limits)
{
    struct cay_cgroup_limits outer = *limits;
    if (limits->pids)
        outer.pids = CAY_MIN(CAY_MIN(limits->pids, (uint32_t)TASKS_MAX) * TASKS_EACH + TASKS_OWN,
                             (uint32_t)TASKS_MAX);
    return outer;
}

static bool set_limits(struct cay_sandbox *sandbox, const struct cay_cgroup_limits *limits,
                       struct cay_error *err)
{
    const struct cay_cgroup_limits outer = outer_limits(limits);
    __atomic_store_n(&gvisor_of(sandbox)->page->pids_max, limits->pids, __ATOMIC_SEQ_CST);
    return !gvisor_of(sandbox)->resident.has_cgroup ||
           cay_resident_set_limits(sandbox, &outer, err);
}

static bool bring_up(struct gvisor *gvisor, const struct cay_sandbox_spec *spec,
                     struct cay_error *err)
{
    struct cay_resident *resident = &gvisor->resident;
    struct cay_resident_runtime *runtime = resident->runtime;
    struct cay_description *description = &resident->description;
    if (spec->waits) {
        cay_autoclose int mark = cay_socket_listen(runtime->run_fd, spec->id, true);
        if (mark < 0)
            return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, mark, "say that it waits");
    }
    if (getrandom(description->token, sizeof(description->token), 0) !=
        (ssize_t)sizeof(description->token))
        return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, -errno, "make a token");
    cay_autoclose int made =
        spec->userns_fd < 0 ? cay_userns_open(spec->uid_base, CAY_USERNS_COUNT) : -1;
    int userns = spec->userns_fd >= 0 ? spec->userns_fd : made;
    if (userns < 0)
        return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, userns, "make the user namespace");
    cay_autoclose int root = -1;
    if (!gvisor_tree_prepare(spec, userns, &root, err))
        return false;
    /* What runsc itself needs while it starts counts against no limit. */
    struct cay_sandbox_spec unlimited = *spec;
    unlimited.limits = (struct cay_cgroup_limits){};
    if (!cay_resident_make_groups(resident, &unlimited, err))
        return false;
    cay_autoclose int spare = cay_spares_take(&runtime->spares);
    cay_autoclose int netns = spare >= 0 ? cay_take_fd(spare) : cay_netns_open();
    int result = netns < 0 ? netns : cay_netns_visit(netns, open_ports, NULL);
    if (result < 0)
        return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, result, "make the network");
    result = gvisor->dir_fd = gvisor_place_make(runtime, spec);
    if (result >= 0)
        result = gvisor_place_open_pipes(gvisor->dir_fd, &gvisor->from_fd, &gvisor->to_fd);
    gvisor->page = result < 0 ? NULL : gvisor_place_map(gvisor->dir_fd);
    if (!gvisor->page)
        return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, result < 0 ? result : -ENOMEM,
                              "make the sandbox's directory");
    pid_t pid = -1;
    pid_t gofer = -1;
    if (!gvisor_run(gvisor, netns, userns, &pid, &gofer, err))
        return false;
    result = note_pids(gvisor, pid, gofer);
    if (result < 0)
        return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, result, "look at the sandbox");
    return bring_inside(gvisor, spec, root, err) && set_limits(&resident->base, &spec->limits, err);
}

static bool start(struct cay_runtime *base, const struct cay_sandbox_spec *spec,
                  struct cay_sandbox **out_sandbox, struct cay_error *err)
{
    struct gvisor *gvisor = new_gvisor();
    struct cay_resident *resident = &gvisor->resident;
    resident->base.runtime = base;
    resident->runtime = CAY_CONTAINER_OF(base, struct cay_resident_runtime, base);
    resident->description.uid_base = spec->uid_base;
    snprintf(resident->base.id, sizeof(resident->base.id), "%s", spec->id);
    snprintf(resident->description.id, sizeof(resident->description.id), "%s", spec->id);
    if (!bring_up(gvisor, spec, err)) {
        struct cay_error ignored;
        (void)destroy(&resident->base, &ignored);
        return false;
    }
    *out_sandbox = &resident->base;
    return true;
}

/* On an empty tree, in which whoever it is may make what is mounted on. */
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

/* Init takes tree and name before the first command. */
static bool hand_out(struct cay_sandbox *sandbox, const struct cay_sandbox_spec *spec,
                     int *out_old_fd, struct cay_error *err)
{
    struct gvisor *gvisor = gvisor_of(sandbox);
    if (spec->root_fd < 0 || spec->no_new_privs || spec->shm_bytes || spec->nesting)
        return cay_fail(err, CAY_R_NOT_SUPPORTED, "it was not started for that");
    /* Its gofer may live a little longer. */
    if (cay_pidfd_wait(gvisor->resident.pidfd, 0) == 0)
        return cay_fail(err, CAY_R_RUNTIME_FAILED, "it is dead");
    snprintf(gvisor->page->hostname, sizeof(gvisor->page->hostname), "%s", spec->hostname);
    if (!set_limits(sandbox, &spec->limits, err) ||
        !gvisor_switch_root(sandbox, spec->root_fd, out_old_fd, err))
        return false;
    cay_socket_remove(gvisor->resident.runtime->run_fd, sandbox->id, true);
    return true;
}

/* The gofer of a sandbox that an earlier daemon started. */
static int find_gofer(struct gvisor *gvisor)
{
    char text[64];
    char *end = NULL;
    uint64_t ticks = 0;
    int result = gvisor_place_read(gvisor->dir_fd, "gofer", text, sizeof(text));
    if (result < 0)
        return result;
    gvisor->gofer = (pid_t)strtol(text, &end, 10);
    cay_autoclose int pidfd = cay_pidfd_open(gvisor->gofer);
    if (pidfd < 0 || cay_pidfd_start_ticks(gvisor->gofer, &ticks) < 0 ||
        ticks != strtoull(end, NULL, 10))
        return -ESRCH;
    gvisor->gofer_pidfd = cay_take_fd(pidfd);
    return 0;
}

static bool adopt(struct cay_runtime *base, struct cay_str description,
                  struct cay_sandbox **out_sandbox, struct cay_error *err)
{
    struct gvisor *gvisor = new_gvisor();
    if (!cay_resident_adopt_into(&gvisor->resident, base, description, err)) {
        free(gvisor);
        return false;
    }
    struct cay_sandbox *sandbox = &gvisor->resident.base;
    int result = gvisor->dir_fd = gvisor_place_open(gvisor->resident.runtime, sandbox->id);
    if (result >= 0)
        result = find_gofer(gvisor);
    gvisor->page = result < 0 ? NULL : gvisor_place_map(gvisor->dir_fd);
    if (gvisor->page) {
        *out_sandbox = sandbox;
        return true;
    }
    cay_fail_errno(err, CAY_R_NOT_FOUND, result < 0 ? result : -ENOMEM, "the files of '%.40s'",
                   sandbox->id);
    leave(sandbox);
    return false;
}

static int open_root(const struct cay_sandbox *sandbox)
{
    int fd = gvisor_tree_open((const struct gvisor *)(const void *)sandbox);
    return fd < 0 ? -1 : fd;
}

static bool connect_pipes(struct cay_sandbox *sandbox, struct cay_connection *out_connection,
                          struct cay_error *err)
{
    struct gvisor *gvisor = gvisor_of(sandbox);
    out_connection->is_first = gvisor->from_fd >= 0;
    out_connection->version = gvisor->resident.version;
    memcpy(out_connection->token, gvisor->resident.description.token, CAY_FRAME_TOKEN_BYTES);
    if (!out_connection->is_first) {
        int result = gvisor_place_open_pipes(gvisor->dir_fd, &gvisor->from_fd, &gvisor->to_fd);
        if (result < 0)
            return cay_fail_errno(err, CAY_R_UNAVAILABLE, result, "reach the sandbox");
    }
    out_connection->fd = cay_take_fd(gvisor->from_fd);
    out_connection->out_fd = cay_take_fd(gvisor->to_fd);
    return true;
}

const struct cay_runtime_ops cay_runtime_gvisor = {
    .name = "gvisor",
    .open = open_runtime,
    .close = cay_resident_close,
    .prepare = prepare,
    .start = start,
    .start_waiting = start_waiting,
    .hand_out = hand_out,
    .adopt = adopt,
    .remove = remove_left,
    .describe = cay_resident_describe,
    .pidfd = cay_resident_pidfd,
    .open_root = open_root,
    .group = cay_resident_group,
    .netns = cay_resident_netns,
    .freeze = cay_resident_freeze,
    .thaw = cay_resident_thaw,
    .is_idle = gvisor_is_idle,
    .switch_root = gvisor_switch_root,
    .set_limits = set_limits,
    .set_part = cay_resident_set_part,
    .stats = cay_resident_stats,
    .kill = cay_resident_kill,
    .destroy = destroy,
    .leave = leave,
    .connect = connect_pipes,
};
