/* SPDX-License-Identifier: Apache-2.0 */
#include "host/runtime/runtime.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/runtime/registry.h"
#include "host/runtime/runtime_ops.h"
#include "sys/pidfd.h"
#include "sys/userns.h"

static bool not_supported(const struct cay_runtime *runtime, const char *verb,
                          struct cay_error *err)
{
    return cay_fail(err, CAY_R_NOT_SUPPORTED, "the runtime '%s' cannot %s", runtime->ops->name,
                    verb);
}

bool cay_runtime_open(const char *name, const struct cay_runtime_config *config,
                      struct cay_runtime **out_runtime, struct cay_error *err)
{
    const struct cay_runtime_ops *ops = cay_runtime_find(name);
    if (!ops)
        return cay_fail(err, CAY_R_NOT_FOUND, "there is no runtime '%s'", name);
    if (!ops->open(config, out_runtime, err))
        return cay_wrap(err, "open runtime '%s'", name);
    assert((*out_runtime)->ops == ops);
    return true;
}

void cay_runtime_close(struct cay_runtime *runtime)
{
    if (runtime)
        runtime->ops->close(runtime);
}

const char *cay_runtime_name(const struct cay_runtime *runtime)
{
    return runtime->ops->name;
}

bool cay_runtime_can(const struct cay_runtime *runtime, unsigned caps)
{
    return (runtime->caps & caps) == caps;
}

unsigned cay_runtime_limits(const struct cay_runtime *runtime, const char **out_limits_by)
{
    *out_limits_by = runtime->limits_by ? runtime->limits_by : "";
    return runtime->limits;
}

const char *cay_runtime_warning(const struct cay_runtime *runtime)
{
    return runtime->ops->warning;
}

/* The id becomes a file name and a group's name. */
static bool check_id(const char *id, struct cay_error *err)
{
    size_t len = strlen(id);
    bool valid = len > 0 && len <= CAY_SANDBOX_ID_BYTES_MAX && id[0] != '.' && id[0] != '-' &&
                 id[0] != '_' && !strstr(id, "..");
    for (size_t i = 0; i < len && valid; i++) {
        char c = id[i];
        valid = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                c == '.' || c == '_' || c == '-';
    }
    return valid || cay_fail(err, CAY_R_INVALID_ARGUMENT, "'%.40s' is not a valid id", id);
}

static bool check_spec(const struct cay_runtime *runtime, const struct cay_sandbox_spec *spec,
                       struct cay_error *err)
{
    bool has_range = spec->uid_base >= CAY_USERNS_RANGE_ALIGN &&
                     spec->uid_base % CAY_USERNS_RANGE_ALIGN == 0 &&
                     spec->uid_base <= UINT32_MAX - 2 * CAY_USERNS_RANGE_ALIGN;
    if (!check_id(spec->id, err))
        return false;
    if (!has_range && cay_runtime_can(runtime, CAY_RUNTIME_OWN_IDS))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "the uid base %u is not a multiple of %d",
                        spec->uid_base, CAY_USERNS_RANGE_ALIGN);
    if (!spec->hostname || strlen(spec->hostname) > CAY_FRAME_HOSTNAME_BYTES_MAX)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "the host name is missing or too long");
    return true;
}

static pid_t pid_of(int pidfd)
{
    char path[64];
    char line[256];
    long pid = -1;
    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
    FILE *info = pidfd < 0 ? NULL : fopen(path, "re");
    while (info && pid < 0 && fgets(line, sizeof(line), info)) {
        if (strncmp(line, "Pid:", 4) == 0)
            pid = strtol(line + 4, NULL, 10);
    }
    if (info)
        fclose(info);
    return (pid_t)pid;
}

/* The root as its init has it. What was opened is init's if init is alive afterwards. */
static int open_root(const struct cay_sandbox *sandbox)
{
    char path[64];
    if (sandbox->runtime->ops->open_root)
        return sandbox->runtime->ops->open_root(sandbox);
    int pidfd = cay_sandbox_pidfd(sandbox);
    pid_t pid = pid_of(pidfd);
    if (pid <= 0)
        return -1;
    snprintf(path, sizeof(path), "/proc/%d/root", pid);
    cay_autoclose int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 || cay_pidfd_wait(pidfd, 0) == 0 ? -1 : cay_take_fd(fd);
}

static void close_root(struct cay_sandbox *sandbox)
{
    if (sandbox->root_fd >= 0)
        close(sandbox->root_fd);
    sandbox->root_fd = -1;
}

int cay_sandbox_root(const struct cay_sandbox *sandbox)
{
    return sandbox->root_fd;
}

void cay_runtime_prepare(struct cay_runtime *runtime)
{
    if (runtime->ops->prepare)
        runtime->ops->prepare(runtime);
}

bool cay_runtime_start(struct cay_runtime *runtime, const struct cay_sandbox_spec *spec,
                       struct cay_sandbox **out_sandbox, struct cay_error *err)
{
    assert(!spec->waits);
    if (!check_spec(runtime, spec, err) || !runtime->ops->start(runtime, spec, out_sandbox, err))
        return cay_wrap(err, "start sandbox '%.40s'", spec->id);
    (*out_sandbox)->runtime = runtime;
    memcpy((*out_sandbox)->id, spec->id, strlen(spec->id) + 1);
    (*out_sandbox)->root_fd = open_root(*out_sandbox);
    return true;
}

bool cay_runtime_start_waiting(struct cay_runtime *runtime, const struct cay_sandbox_spec *spec,
                               struct cay_sandbox **out_sandbox, struct cay_error *err)
{
    struct cay_sandbox_spec waiting = *spec;
    waiting.root_fd = -1;
    waiting.root_path = NULL;
    waiting.waits = true;
    if (!runtime->ops->start_waiting)
        return not_supported(runtime, "let sandboxes wait", err);
    if (!check_spec(runtime, &waiting, err) ||
        !runtime->ops->start_waiting(runtime, &waiting, out_sandbox, err))
        return cay_wrap(err, "start waiting sandbox '%.40s'", spec->id);
    (*out_sandbox)->runtime = runtime;
    memcpy((*out_sandbox)->id, spec->id, strlen(spec->id) + 1);
    (*out_sandbox)->root_fd = -1;
    return true;
}

bool cay_sandbox_hand_out(struct cay_sandbox *sandbox, const struct cay_sandbox_spec *spec,
                          int *out_old_fd, struct cay_error *err)
{
    struct cay_runtime *runtime = sandbox->runtime;
    assert(runtime->ops->hand_out && strcmp(spec->id, sandbox->id) == 0);
    *out_old_fd = -1;
    if (!check_spec(runtime, spec, err) || !runtime->ops->hand_out(sandbox, spec, out_old_fd, err))
        return cay_wrap(err, "hand out sandbox '%.40s'", spec->id);
    sandbox->root_fd = open_root(sandbox);
    return true;
}

bool cay_runtime_adopt(struct cay_runtime *runtime, struct cay_str description,
                       struct cay_sandbox **out_sandbox, struct cay_error *err)
{
    if (!runtime->ops->adopt)
        return not_supported(runtime, "adopt sandboxes", err);
    if (!runtime->ops->adopt(runtime, description, out_sandbox, err))
        return cay_wrap(err, "adopt sandbox");
    (*out_sandbox)->runtime = runtime;
    (*out_sandbox)->root_fd = open_root(*out_sandbox);
    return true;
}

bool cay_runtime_remove(struct cay_runtime *runtime, const char *id, struct cay_error *err)
{
    if (!check_id(id, err) || !runtime->ops->remove(runtime, id, err))
        return cay_wrap(err, "remove sandbox '%.40s'", id);
    return true;
}

void cay_sandbox_describe(const struct cay_sandbox *sandbox, struct cay_buf *out_text)
{
    sandbox->runtime->ops->describe(sandbox, out_text);
}

const char *cay_sandbox_id(const struct cay_sandbox *sandbox)
{
    return sandbox->id;
}

int cay_sandbox_pidfd(const struct cay_sandbox *sandbox)
{
    return sandbox->runtime->ops->pidfd ? sandbox->runtime->ops->pidfd(sandbox) : -1;
}

bool cay_sandbox_netns(const struct cay_sandbox *sandbox, int *out_fd, struct cay_error *err)
{
    if (!sandbox->runtime->ops->netns)
        return not_supported(sandbox->runtime, "give a session a network of its own", err);
    int fd = sandbox->runtime->ops->netns(sandbox);
    if (fd < 0)
        return cay_fail_errno(err, CAY_R_UNAVAILABLE, fd, "the network of sandbox '%s'",
                              sandbox->id);
    *out_fd = fd;
    return true;
}

int cay_sandbox_group(const struct cay_sandbox *sandbox)
{
    return sandbox->runtime->ops->group ? sandbox->runtime->ops->group(sandbox) : -1;
}

bool cay_sandbox_freeze(struct cay_sandbox *sandbox, int timeout_ms, struct cay_error *err)
{
    if (!sandbox->runtime->ops->freeze)
        return not_supported(sandbox->runtime, "freeze", err);
    return sandbox->runtime->ops->freeze(sandbox, timeout_ms, err) ||
           cay_wrap(err, "freeze sandbox '%s'", sandbox->id);
}

bool cay_sandbox_thaw(struct cay_sandbox *sandbox, struct cay_error *err)
{
    if (!sandbox->runtime->ops->thaw)
        return not_supported(sandbox->runtime, "thaw", err);
    return sandbox->runtime->ops->thaw(sandbox, err) ||
           cay_wrap(err, "thaw sandbox '%s'", sandbox->id);
}

bool cay_sandbox_wait_idle(const struct cay_sandbox *sandbox, int timeout_ms)
{
    const struct timespec step = {.tv_nsec = CAY_NS_PER_MS};
    int64_t until_ns = cay_clock_ns() + (int64_t)timeout_ms * CAY_NS_PER_MS;
    if (!sandbox->runtime->ops->is_idle)
        return true;
    while (!sandbox->runtime->ops->is_idle(sandbox)) {
        if (cay_clock_ns() >= until_ns)
            return false;
        (void)nanosleep(&step, NULL);
    }
    return true;
}

bool cay_sandbox_switch_root(struct cay_sandbox *sandbox, int root_fd, int *out_old_fd,
                             struct cay_error *err)
{
    if (!sandbox->runtime->ops->switch_root)
        return not_supported(sandbox->runtime, "switch the root", err);
    bool is_done = sandbox->runtime->ops->switch_root(sandbox, root_fd, out_old_fd, err);
    close_root(sandbox);
    sandbox->root_fd = open_root(sandbox);
    return is_done || cay_wrap(err, "switch the root of sandbox '%s'", sandbox->id);
}

bool cay_sandbox_set_limits(struct cay_sandbox *sandbox, const struct cay_cgroup_limits *limits,
                            struct cay_error *err)
{
    if (!sandbox->runtime->ops->set_limits)
        return not_supported(sandbox->runtime, "limit", err);
    return sandbox->runtime->ops->set_limits(sandbox, limits, err);
}

void cay_sandbox_set_part(struct cay_sandbox *sandbox, unsigned parts)
{
    if (sandbox->runtime->ops->set_part)
        sandbox->runtime->ops->set_part(sandbox, parts);
}

void cay_sandbox_stats(struct cay_sandbox *sandbox, struct cay_sandbox_stats *out_stats)
{
    *out_stats = (struct cay_sandbox_stats){};
    if (sandbox->runtime->ops->stats)
        sandbox->runtime->ops->stats(sandbox, out_stats);
}

bool cay_sandbox_end_start(struct cay_sandbox *sandbox, int64_t waited_ms)
{
    return sandbox->runtime->ops->end_start && sandbox->runtime->ops->end_start(sandbox, waited_ms);
}

bool cay_sandbox_kill(struct cay_sandbox *sandbox, struct cay_error *err)
{
    return sandbox->runtime->ops->kill(sandbox, err) ||
           cay_wrap(err, "kill sandbox '%s'", sandbox->id);
}

bool cay_sandbox_destroy(struct cay_sandbox *sandbox, struct cay_error *err)
{
    char id[sizeof(sandbox->id)];
    memcpy(id, sandbox->id, sizeof(id));
    close_root(sandbox);
    return sandbox->runtime->ops->destroy(sandbox, err) ||
           cay_wrap(err, "destroy sandbox '%.40s'", id);
}

void cay_sandbox_leave(struct cay_sandbox *sandbox)
{
    if (!sandbox)
        return;
    close_root(sandbox);
    sandbox->runtime->ops->leave(sandbox);
}
