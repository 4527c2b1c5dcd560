/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/runtime/resident.h"
#include "host/runtime/socket.h"
#include "sys/pidfd.h"
#include "wire/frame/encode.h"

enum { DEATH_TIMEOUT_MS = 10000, GROUP_TIMEOUT_MS = 2000, SHUTDOWN_TIMEOUT_MS = 2000 };

static struct cay_resident *resident_of(struct cay_sandbox *sandbox)
{
    return CAY_CONTAINER_OF(sandbox, struct cay_resident, base);
}

bool cay_resident_freeze(struct cay_sandbox *sandbox, int timeout_ms, struct cay_error *err)
{
    struct cay_resident *resident = resident_of(sandbox);
    int result =
        resident->has_cgroup ? cay_cgroup_freeze(&resident->cgroup, timeout_ms) : -EOPNOTSUPP;
    if (result == -EOPNOTSUPP)
        return cay_fail(err, CAY_R_NOT_SUPPORTED, "this host has no freezer");
    if (result == -ETIMEDOUT)
        return cay_fail(err, CAY_R_DEADLINE_EXCEEDED, "not every process stopped in %d ms",
                        timeout_ms);
    return result == 0 || cay_fail_errno(err, CAY_R_RUNTIME_FAILED, result, "freezer");
}

bool cay_resident_thaw(struct cay_sandbox *sandbox, struct cay_error *err)
{
    struct cay_resident *resident = resident_of(sandbox);
    int result = resident->has_cgroup ? cay_cgroup_thaw(&resident->cgroup) : -EOPNOTSUPP;
    if (result == -EOPNOTSUPP)
        return cay_fail(err, CAY_R_NOT_SUPPORTED, "this host has no freezer");
    return result == 0 || cay_fail_errno(err, CAY_R_RUNTIME_FAILED, result, "freezer");
}

bool cay_resident_set_limits(struct cay_sandbox *sandbox, const struct cay_cgroup_limits *limits,
                             struct cay_error *err)
{
    struct cay_resident *resident = resident_of(sandbox);
    if (!resident->has_cgroup)
        return cay_fail(err, CAY_R_NOT_SUPPORTED, "this host has no control groups");
    int result = cay_cgroup_set_limits(&resident->cgroup, limits);
    if (result == -EBUSY) {
        struct cay_cgroup_stats stats;
        cay_cgroup_read_stats(&resident->cgroup, &stats);
        return cay_fail(err, CAY_R_FAILED_PRECONDITION,
                        "its processes use %llu MiB of memory now and cannot be limited to %llu "
                        "MiB; end some of them, or allow more",
                        (unsigned long long)(stats.memory_bytes >> 20),
                        (unsigned long long)(limits->memory_bytes >> 20));
    }
    return result == 0 || cay_fail_errno(err, CAY_R_RUNTIME_FAILED, result, "limits");
}

void cay_resident_set_part(struct cay_sandbox *sandbox, unsigned parts)
{
    const struct cay_resident *resident = resident_of(sandbox);
    if (resident->has_cgroup)
        cay_cgroup_set_part(&resident->cgroup, parts);
}

void cay_resident_stats(struct cay_sandbox *sandbox, struct cay_sandbox_stats *out_stats)
{
    struct cay_resident *resident = resident_of(sandbox);
    if (!resident->has_cgroup)
        return;
    cay_cgroup_read_stats(&resident->cgroup, &out_stats->usage);
    out_stats->oom_kills = cay_cgroup_oom_kills(&resident->cgroup);
    out_stats->limits_applied = resident->cgroup.applied;
}

/* Without control groups only init knows all commands: it is asked to end them and itself. */
static void ask_to_leave(struct cay_resident *resident)
{
    uint8_t data[128];
    struct cay_frame_writer writer = {.data = data, .cap = sizeof(data)};
    struct cay_frame_hello hello = {.version = CAY_FRAME_VERSION_MIN};
    memcpy(hello.token, resident->description.token, sizeof(hello.token));
    cay_autoclose int fd = cay_socket_connect(resident->runtime->run_fd, resident->base.id);
    if (fd < 0 || !cay_frame_put_hello(&writer, &hello) ||
        !cay_frame_put_empty(&writer, CAY_FRAME_SHUTDOWN, 0))
        return;
    if (send(fd, data, writer.len, MSG_NOSIGNAL) == (ssize_t)writer.len)
        (void)cay_pidfd_wait(resident->pidfd, SHUTDOWN_TIMEOUT_MS);
}

bool cay_resident_kill(struct cay_sandbox *sandbox, struct cay_error *err)
{
    struct cay_resident *resident = resident_of(sandbox);
    int result = resident->has_cgroup ? cay_cgroup_kill(&resident->cgroup) : -EOPNOTSUPP;
    if (resident->pidfd < 0)
        return true;
    if (result < 0 && !cay_runtime_can(sandbox->runtime, CAY_RUNTIME_OWN_PIDS))
        ask_to_leave(resident);
    /* The end of the first process of a pid namespace is the end of all of them
     * (pid_namespaces(7)). */
    (void)cay_pidfd_signal(resident->pidfd, SIGKILL);
    if (result < 0 && resident->has_cgroup)
        (void)cay_cgroup_thaw(&resident->cgroup); /* version 1 kills nobody who is frozen */
    result = cay_pidfd_wait(resident->pidfd, DEATH_TIMEOUT_MS);
    if (result < 0)
        return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, result, "wait for the end of init");
    cay_pidfd_reap(resident->pidfd);
    return true;
}

void cay_resident_leave(struct cay_sandbox *sandbox)
{
    struct cay_resident *resident = resident_of(sandbox);
    if (resident->has_cgroup)
        cay_cgroup_close(&resident->cgroup);
    cay_cleanup_close(&resident->pidfd);
    cay_cleanup_close(&resident->channel_fd);
    free(resident);
}

static int remove_groups(const struct cay_resident_runtime *runtime, const char *id)
{
    char name[CAY_CGROUP_NAME_BYTES];
    snprintf(name, sizeof(name), "%s/%s", runtime->cgroup_parent, id);
    return runtime->has_cgroups ? cay_cgroup_remove(&runtime->cgroup_host, name, GROUP_TIMEOUT_MS)
                                : 0;
}

bool cay_resident_destroy(struct cay_sandbox *sandbox, struct cay_error *err)
{
    struct cay_resident *resident = resident_of(sandbox);
    struct cay_resident_runtime *runtime = resident->runtime;
    bool killed = cay_resident_kill(sandbox, err);
    int result = killed ? remove_groups(runtime, sandbox->id) : 0;
    cay_socket_remove(runtime->run_fd, sandbox->id, true);
    cay_resident_leave(sandbox);
    if (result < 0)
        return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, result, "remove the control groups");
    return killed;
}

bool cay_resident_remove(struct cay_runtime *base, const char *id, struct cay_error *err)
{
    struct cay_resident_runtime *runtime =
        CAY_CONTAINER_OF(base, struct cay_resident_runtime, base);
    char name[CAY_CGROUP_NAME_BYTES];
    snprintf(name, sizeof(name), "%s/%s", runtime->cgroup_parent, id);
    struct cay_cgroup group;
    int result = 0;
    if (runtime->has_cgroups && cay_cgroup_open(&runtime->cgroup_host, name, 0, &group) == 0) {
        result = cay_cgroup_kill_all(&group, GROUP_TIMEOUT_MS);
        cay_cgroup_close(&group);
        if (result == 0)
            result = remove_groups(runtime, id);
    }
    cay_socket_remove(runtime->run_fd, id, false);
    return result == 0 ||
           cay_fail_errno(err, CAY_R_RUNTIME_FAILED, result, "remove the control groups");
}
