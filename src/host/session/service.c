/* SPDX-License-Identifier: Apache-2.0 */
#include "host/session/service.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/cay_v1.h"
#include "host/session/host.h"

enum { FLUSH_KEYS_MS = 60 * 1000 };

static bool authenticate(struct cay_service *service, struct cay_str secret,
                         struct cay_caller *out_caller, struct cay_error *err)
{
    return cay_keys_authenticate(&cay_host_of(service)->keys, secret, out_caller, err);
}

static void metrics(struct cay_service *service, struct cay_buf *out)
{
    struct cay_host *host = cay_host_of(service);
    cay_buf_printf(out,
                   "# HELP cay_keys API keys on record, revoked ones included.\n"
                   "# TYPE cay_keys gauge\n"
                   "cay_keys %zu\n"
                   "# HELP cay_uptime_seconds Time since the daemon started.\n"
                   "# TYPE cay_uptime_seconds counter\n"
                   "cay_uptime_seconds %.3f\n",
                   cay_map_count(&host->keys.by_id),
                   (double)(cay_clock_ns() - host->started_ns) / CAY_NS_PER_SEC);
}

static cay_verb *const verbs[CAY_V1_METHOD_COUNT] = {
    [CAY_V1_SANDBOX_SERVICE_HEALTH_CHECK] = cay_host_health_check,
    [CAY_V1_SANDBOX_SERVICE_GET_CAPABILITIES] = cay_host_get_capabilities,
    [CAY_V1_KEY_SERVICE_CREATE_KEY] = cay_host_create_key,
    [CAY_V1_KEY_SERVICE_LIST_KEYS] = cay_host_list_keys,
    [CAY_V1_KEY_SERVICE_REVOKE_KEY] = cay_host_revoke_key,
};

static const struct cay_service_ops ops = {
    .name = "host",
    .methods = cay_v1_methods,
    .method_count = CAY_V1_METHOD_COUNT,
    .verbs = verbs,
    .authenticate = authenticate,
    .metrics = metrics,
};

static void on_flush_keys(struct cay_timer *timer)
{
    cay_host_flush_keys(CAY_CONTAINER_OF(timer, struct cay_host, flush_keys), false);
}

/* The directory holds secrets' digests and, later, setuid files of sandboxes: nobody else may look
 * in. */
static bool open_data_dir(struct cay_host *host, const char *path, struct cay_error *err)
{
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return cay_fail_errno(err, CAY_R_INVALID_ARGUMENT, -errno, "make data directory '%s'",
                              path);
    cay_autoclose int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat info;
    if (dir_fd < 0 || fstat(dir_fd, &info) < 0)
        return cay_fail_errno(err, CAY_R_INVALID_ARGUMENT, -errno, "open data directory '%s'",
                              path);
    if (info.st_mode & 077)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "data directory '%s' is open to others; run: chmod 700 '%s'", path, path);
    host->lock_fd = openat(dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (host->lock_fd < 0)
        return cay_fail_errno(err, CAY_R_INVALID_ARGUMENT, -errno, "lock '%s'", path);
    if (flock(host->lock_fd, LOCK_EX | LOCK_NB) < 0)
        return cay_fail(err, CAY_R_ALREADY_EXISTS,
                        "another daemon uses '%s'; give this one its own --data directory", path);
    return true;
}

static bool open_host(struct cay_host *host, const char *data_dir, struct cay_error *err)
{
    if (!open_data_dir(host, data_dir, err))
        return false;
    cay_autofree char *path = cay_asprintf("%s/cay.db", data_dir);
    if (!cay_db_open(path, &host->db, err) || !cay_keys_init(&host->keys, host->db, err))
        return false;
    cay_timer_open(&host->flush_keys, host->loop, on_flush_keys);
    cay_timer_start(&host->flush_keys, FLUSH_KEYS_MS, FLUSH_KEYS_MS);
    return true;
}

bool cay_host_create(struct cay_loop *loop, const struct cay_host_options *options,
                     struct cay_host **out_host, struct cay_error *err)
{
    struct cay_host *host = cay_new(struct cay_host);
    host->service.ops = &ops;
    host->loop = loop;
    host->lock_fd = -1;
    host->started_ns = cay_clock_ns();
    if (!open_host(host, options->data_dir, err)) {
        cay_host_destroy(host);
        return false;
    }
    *out_host = host;
    return true;
}

void cay_host_destroy(struct cay_host *host)
{
    if (!host)
        return;
    if (host->flush_keys.handle)
        cay_host_flush_keys(host, true);
    cay_timer_close(&host->flush_keys);
    cay_keys_finish(&host->keys);
    cay_db_close(host->db);
    if (host->lock_fd >= 0)
        close(host->lock_fd);
    free(host);
}

struct cay_service *cay_host_service(struct cay_host *host)
{
    return &host->service;
}

struct google_protobuf_timestamp *cay_host_timestamp(struct cay_call *call, int64_t wall_ns)
{
    struct google_protobuf_timestamp *stamp =
        wall_ns ? cay_arena_new(&call->arena, struct google_protobuf_timestamp) : NULL;
    if (stamp)
        *stamp = (struct google_protobuf_timestamp){
            .seconds = wall_ns / CAY_NS_PER_SEC,
            .nanos = (int32_t)(wall_ns % CAY_NS_PER_SEC),
        };
    return stamp;
}
