/* SPDX-License-Identifier: Apache-2.0 */
#include "host/runtime/runtimes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "host/runtime/socket.h"

static bool open_one(struct cay_runtimes *runtimes, const char *name, struct cay_error *err)
{
    if (runtimes->count == CAY_COUNT(runtimes->open))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "there are %zu runtimes at most",
                        CAY_COUNT(runtimes->open));
    const struct cay_runtime_config config = {.run_dir = runtimes->run_dir,
                                              .cgroup_parent = runtimes->cgroup_parent,
                                              .init_path = runtimes->init_path,
                                              .runsc = runtimes->runsc,
                                              .platform = runtimes->platform};
    struct cay_runtime *runtime = NULL;
    if (!cay_runtime_open(name, &config, &runtime, err))
        return false;
    runtimes->open[runtimes->count++] = runtime;
    return true;
}

bool cay_runtimes_open(struct cay_runtimes *runtimes, const char *first, const char *const *others,
                       size_t other_count, const struct cay_runtime_config *config,
                       struct cay_error *err)
{
    *runtimes =
        (struct cay_runtimes){.run_dir = cay_strdup(config->run_dir),
                              .cgroup_parent = cay_strdup(config->cgroup_parent),
                              .init_path = cay_strdup(config->init_path),
                              .runsc = cay_strdup(config->runsc ? config->runsc : ""),
                              .platform = cay_strdup(config->platform ? config->platform : "")};
    if (!open_one(runtimes, first, err))
        return false;
    for (size_t i = 0; i < other_count; i++) {
        if (!cay_runtimes_find(runtimes, cay_str(others[i])) && !open_one(runtimes, others[i], err))
            return false;
    }
    runtimes->offered_count = runtimes->count;
    for (size_t i = 0; i < runtimes->count; i++) {
        const struct cay_runtime *runtime = runtimes->open[i];
        if (cay_runtime_warning(runtime))
            cay_log(CAY_WARN, "runtime.warning", CAY_S("runtime", cay_runtime_name(runtime)),
                    CAY_S("advice", cay_runtime_warning(runtime)));
    }
    return true;
}

void cay_runtimes_close(struct cay_runtimes *runtimes)
{
    for (size_t i = 0; i < runtimes->count; i++)
        cay_runtime_close(runtimes->open[i]);
    free(runtimes->run_dir);
    free(runtimes->cgroup_parent);
    free(runtimes->init_path);
    free(runtimes->runsc);
    free(runtimes->platform);
    *runtimes = (struct cay_runtimes){};
}

struct cay_runtime *cay_runtimes_find(const struct cay_runtimes *runtimes, struct cay_str name)
{
    if (!name.len)
        return cay_runtimes_default(runtimes);
    for (size_t i = 0; i < runtimes->count; i++) {
        if (cay_str_is(name, cay_runtime_name(runtimes->open[i])))
            return runtimes->open[i];
    }
    return NULL;
}

static bool refuse(const struct cay_runtimes *runtimes, struct cay_str name, struct cay_error *err)
{
    char offered[128] = "";
    for (size_t i = 0, len = 0; i < runtimes->offered_count && len < sizeof(offered); i++)
        len += (size_t)snprintf(offered + len, sizeof(offered) - len, "%s%s", i ? ", " : "",
                                cay_runtime_name(runtimes->open[i]));
    /* The client's words come last: a text that is too long is cut there. */
    cay_fail(
        err, CAY_R_NOT_SUPPORTED,
        "runtime: this daemon offers %s and not '%.*s'; 'runtimes' in its configuration says so",
        offered, (int)name.len, name.ptr);
    return cay_error_fact(err, "runtimes", "%s", offered);
}

bool cay_runtimes_offer(const struct cay_runtimes *runtimes, const struct cay_runtime *runtime,
                        struct cay_error *err)
{
    for (size_t i = 0; i < runtimes->offered_count; i++) {
        if (runtimes->open[i] == runtime)
            return true;
    }
    return refuse(runtimes, cay_str(cay_runtime_name(runtime)), err);
}

bool cay_runtimes_choose(const struct cay_runtimes *runtimes, struct cay_str name, bool is_admin,
                         struct cay_runtime **out_runtime, struct cay_error *err)
{
    struct cay_runtime *usual = cay_runtimes_default(runtimes);
    struct cay_runtime *runtime = cay_runtimes_find(runtimes, name);
    if (!runtime)
        return refuse(runtimes, name, err);
    if (!cay_runtimes_offer(runtimes, runtime, err))
        return false;
    if (runtime != usual && !is_admin && !cay_runtime_can(runtime, CAY_RUNTIME_ISOLATES))
        return cay_fail(err, CAY_R_PERMISSION_DENIED,
                        "runtime: only an administrator may make sessions with '%s', which "
                        "isolates nothing; ask one, or choose '%s'",
                        cay_runtime_name(runtime), cay_runtime_name(usual));
    *out_runtime = runtime;
    return true;
}

bool cay_runtimes_need(struct cay_runtimes *runtimes, struct cay_str name, struct cay_error *err)
{
    if (cay_runtimes_find(runtimes, name))
        return true;
    cay_autofree char *wanted = cay_asprintf("%.*s", (int)name.len, name.ptr);
    return open_one(runtimes, wanted, err);
}

bool cay_runtimes_can(const struct cay_runtimes *runtimes, enum cay_runtime_caps cap)
{
    for (size_t i = 0; i < runtimes->offered_count; i++) {
        if (cay_runtime_can(runtimes->open[i], cap))
            return true;
    }
    return false;
}

bool cay_runtimes_remove(const struct cay_runtimes *runtimes, const char *id, struct cay_error *err)
{
    for (size_t i = 0; i < runtimes->count; i++) {
        if (!cay_runtime_remove(runtimes->open[i], id, err))
            return false;
    }
    return true;
}

struct removal {
    const struct cay_runtimes *runtimes;
    int dir_fd;
    struct cay_error *err;
    bool is_good;
};

/* Its socket goes last, as it was made first: it is the sign that there may be something. */
static bool remove_one(void *context, const char *id)
{
    struct removal *self = context;
    if (cay_runtimes_remove(self->runtimes, id, self->err))
        cay_socket_remove(self->dir_fd, id, true);
    else
        self->is_good = false;
    return true;
}

bool cay_runtimes_remove_waiting(const struct cay_runtimes *runtimes, struct cay_error *err)
{
    cay_autoclose int dir_fd = open(runtimes->run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0)
        return errno == ENOENT ||
               cay_fail_errno(err, CAY_R_RUNTIME_FAILED, -errno, "open '%s'", runtimes->run_dir);
    struct removal self = {.runtimes = runtimes, .dir_fd = dir_fd, .err = err, .is_good = true};
    int result = cay_socket_list_waiting(dir_fd, remove_one, &self);
    if (result < 0)
        return cay_fail_errno(err, CAY_R_RUNTIME_FAILED, result, "list '%s'", runtimes->run_dir);
    return self.is_good;
}
