/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "host/store/zfs/zfs_internal.h"

enum {
    LIST_BYTES_MAX = 4 << 20,
    BUSY_TRIES = 40, /* a dataset is busy for a moment after its last user is gone */
    BUSY_NS = 50'000'000,
    PROMOTIONS_MAX = 1000,
};

struct names {
    char dataset[ZFS_NAME_SIZE];
    char mountpoint[PATH_MAX + 32]; /* as an option */
};

static const struct zfs *zfs_of(const struct cay_trees *trees)
{
    return trees->own;
}

static void name_dataset(const struct cay_trees *trees, const char *id,
                         char out[static ZFS_NAME_SIZE])
{
    snprintf(out, ZFS_NAME_SIZE, "%s/%s", zfs_of(trees)->root, id);
}

static void name_tree(const struct cay_trees *trees, const char *id, struct names *out)
{
    name_dataset(trees, id, out->dataset);
    snprintf(out->mountpoint, sizeof(out->mountpoint), "mountpoint=%s/t/%s",
             zfs_of(trees)->directory, id);
}

bool zfs_make(struct cay_trees *trees, const char *id, struct cay_error *err)
{
    struct names names;
    name_tree(trees, id, &names);
    const struct zfs_args args = {{"zfs", "create", "-o", names.mountpoint, names.dataset}};
    if (!zfs_call(&args, NULL, err))
        return false;
    return fchmodat(trees->trees_fd, id, 0755, 0) == 0 ||
           cay_store_fail(err, -errno, "open dataset to all");
}

/* The snapshot between the two is there as long as the clone needs it. */
bool zfs_clone(struct cay_trees *trees, const char *from, const char *id, bool sealed,
               struct cay_error *err)
{
    struct names names;
    char dataset[ZFS_NAME_SIZE];
    char snapshot[ZFS_NAME_SIZE + CAY_STORE_ID_SIZE];
    name_tree(trees, id, &names);
    name_dataset(trees, from, dataset);
    snprintf(snapshot, sizeof(snapshot), "%s@%s", dataset, id);
    /* Pages that are dirty in a mapping are known to the kernel alone. */
    cay_autoclose int fd = cay_trees_open_tree(trees, from);
    if (fd < 0 || syncfs(fd) < 0)
        return cay_store_fail(err, fd < 0 ? fd : -errno, "sync tree");
    const struct zfs_args take = {{"zfs", "snapshot", snapshot}};
    const struct zfs_args clone = {{"zfs", "clone", "-o", names.mountpoint, "-o",
                                    sealed ? "readonly=on" : "readonly=off", snapshot,
                                    names.dataset}};
    const struct zfs_args forget = {{"zfs", "destroy", "-d", snapshot}};
    if (!zfs_call(&take, NULL, err))
        return false;
    bool ok = zfs_call(&clone, NULL, err);
    struct cay_error ignored;
    (void)zfs_call(&forget, NULL, &ignored);
    return ok;
}

bool zfs_seal(struct cay_trees *trees, const char *id, struct cay_error *err)
{
    char dataset[ZFS_NAME_SIZE];
    name_dataset(trees, id, dataset);
    return zfs_call(&(struct zfs_args){{"zfs", "set", "readonly=on", dataset}}, NULL, err);
}

/* Calls `visit` with the fields of every line; both are cut out of the text. */
static bool each_dataset(const struct cay_trees *trees, const char *fields,
                         bool (*visit)(void *ctx, const char *name, const char *value), void *ctx,
                         struct cay_error *err)
{
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, LIST_BYTES_MAX);
    const struct zfs_args list = {
        {"zfs", "list", "-H", "-r", "-t", "filesystem", "-o", fields, zfs_of(trees)->root}};
    if (!zfs_call(&list, &text, err))
        return false;
    cay_buf_append_byte(&text, '\0');
    char *line = text.failed ? NULL : text.data;
    while (line && *line) {
        char *end = strchrnul(line, '\n');
        bool is_last = *end == '\0';
        *end = '\0';
        char *tab = strchr(line, '\t');
        if (tab) {
            *tab = '\0';
            if (!visit(ctx, line, tab + 1))
                break;
        }
        line = is_last ? NULL : end + 1;
    }
    return true;
}

struct dependent {
    char prefix[ZFS_NAME_SIZE + 1];
    char found[ZFS_NAME_SIZE];
};

static bool find_dependent(void *ctx, const char *name, const char *origin)
{
    struct dependent *dependent = ctx;
    if (strncmp(origin, dependent->prefix, strlen(dependent->prefix)))
        return true;
    snprintf(dependent->found, sizeof(dependent->found), "%s", name);
    return false;
}

/* A dataset that others were cloned from hands its snapshots over to one of them first. */
static bool promote_dependents(struct cay_trees *trees, const char *dataset, struct cay_error *err)
{
    for (int i = 0; i < PROMOTIONS_MAX; i++) {
        struct dependent dependent = {};
        snprintf(dependent.prefix, sizeof(dependent.prefix), "%s@", dataset);
        if (!each_dataset(trees, "name,origin", find_dependent, &dependent, err))
            return false;
        if (!dependent.found[0])
            return true;
        if (!zfs_call(&(struct zfs_args){{"zfs", "promote", dependent.found}}, NULL, err))
            return false;
    }
    return true;
}

int zfs_remove(struct cay_trees *trees, const char *id, uint64_t *)
{
    char dataset[ZFS_NAME_SIZE];
    struct cay_error err = {};
    const struct timespec nap = {.tv_nsec = BUSY_NS};
    name_dataset(trees, id, dataset);
    const struct zfs_args look = {{"zfs", "list", "-H", "-o", "name", dataset}};
    const struct zfs_args unmount = {{"zfs", "unmount", dataset}};
    const struct zfs_args destroy = {{"zfs", "destroy", "-r", dataset}};
    for (int i = 0; zfs_call(&look, NULL, &err); i++) {
        if (i == BUSY_TRIES)
            return -EAGAIN;
        /* Some are busy for a moment after they were unmounted. */
        if (zfs_call(&unmount, NULL, &err))
            nanosleep(&nap, NULL);
        if (promote_dependents(trees, dataset, &err) && zfs_call(&destroy, NULL, &err))
            break;
        nanosleep(&nap, NULL);
    }
    return unlinkat(trees->trees_fd, id, AT_REMOVEDIR) == 0 || errno == ENOENT ? 0 : -errno;
}

static bool read_property(const char *property, const char *dataset, struct cay_buf *out,
                          struct cay_error *err)
{
    const struct zfs_args get = {{"zfs", "get", "-H", "-p", "-o", "value", property, dataset}};
    if (!zfs_call(&get, out, err))
        return false;
    cay_buf_append_byte(out, '\0');
    if (out->failed)
        return cay_fail(err, CAY_R_STORE_FAILED, "zfs says too much of '%s'", property);
    out->data[strcspn(out->data, "\n")] = '\0';
    return true;
}

static bool read_number(const char *property, const char *dataset, uint64_t *out_number,
                        struct cay_error *err)
{
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, 4096);
    char *end = NULL;
    if (!read_property(property, dataset, &text, err))
        return false;
    *out_number = strtoull(text.data, &end, 10);
    return end != text.data ||
           cay_fail(err, CAY_R_STORE_FAILED, "zfs does not tell '%s'", property);
}

/* Whether the tree was cloned from `last` and has no snapshot of its own yet. */
static bool is_clone_of(struct cay_trees *trees, const char *id, const char *last)
{
    char dataset[ZFS_NAME_SIZE];
    char wanted[ZFS_NAME_SIZE + CAY_STORE_ID_SIZE];
    struct cay_error ignored;
    uint64_t in_snapshots = 1;
    cay_auto(cay_buf_finish) struct cay_buf origin;
    cay_buf_init(&origin, 4096);
    name_dataset(trees, last, dataset);
    snprintf(wanted, sizeof(wanted), "%s@%s", dataset, id);
    name_dataset(trees, id, dataset);
    return read_property("origin", dataset, &origin, &ignored) && !strcmp(origin.data, wanted) &&
           read_number("usedbysnapshots", dataset, &in_snapshots, &ignored) && in_snapshots == 0;
}

/* Nothing was written since the snapshot between the two was taken, whichever was cloned from the
 * other. What is not on the disk yet is not counted: it is brought there. */
bool zfs_is_same(struct cay_trees *trees, const char *id, const char *last)
{
    char dataset[ZFS_NAME_SIZE];
    char property[64];
    uint64_t written = 1;
    struct cay_error ignored;
    if (!zfs_of(trees)->tells_written)
        return false;
    cay_autoclose int fd = cay_trees_open_tree(trees, id);
    if (fd < 0 || syncfs(fd) < 0)
        return false;
    name_dataset(trees, id, dataset);
    snprintf(property, sizeof(property), "written@%s", last);
    if (read_number(property, dataset, &written, &ignored))
        return written == 0;
    return is_clone_of(trees, id, last) && read_number("written", dataset, &written, &ignored) &&
           written == 0;
}

bool zfs_limit(struct cay_trees *trees, const char *id, uint64_t bytes_max, struct cay_error *err)
{
    char dataset[ZFS_NAME_SIZE];
    char quota[48] = "quota=none";
    name_dataset(trees, id, dataset);
    if (bytes_max)
        snprintf(quota, sizeof(quota), "quota=%" PRIu64, bytes_max);
    return zfs_call(&(struct zfs_args){{"zfs", "set", quota, dataset}}, NULL, err);
}

/* What the dataset would free: a clone's base is not part of it, its own snapshots are. */
bool zfs_measure(struct cay_trees *trees, const char *id, const char *,
                 struct cay_store_usage *out_usage, struct cay_error *err)
{
    char dataset[ZFS_NAME_SIZE];
    name_dataset(trees, id, dataset);
    return read_number("usedbydataset", dataset, &out_usage->own_bytes, err) &&
           read_number("usedbysnapshots", dataset, &out_usage->history_bytes, err);
}

static bool mount_one(void *ctx, const char *name, const char *mounted)
{
    const struct cay_trees *trees = ctx;
    struct cay_error ignored;
    /* One that cannot be mounted is missed by its record, or by nobody. */
    if (strcmp(name, zfs_of(trees)->root) && !strcmp(mounted, "no"))
        (void)zfs_call(&(struct zfs_args){{"zfs", "mount", name}}, NULL, &ignored);
    return true;
}

bool zfs_mount_all(struct cay_trees *trees, struct cay_error *err)
{
    return each_dataset(trees, "name,mounted", mount_one, trees, err);
}
