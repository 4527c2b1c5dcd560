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
    BUSY_MS_MAX = 10'000, /* a dataset is busy for a moment after its last user is gone */
    BUSY_NS = 20'000'000,
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
    bool is_readonly = sealed && !zfs_of(trees)->is_fuse;
    const struct zfs_args take = {{"zfs", "snapshot", snapshot}};
    const struct zfs_args clone = {{"zfs", "clone", "-o", names.mountpoint, "-o",
                                    is_readonly ? "readonly=on" : "readonly=off", snapshot,
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
    if (zfs_of(trees)->is_fuse)
        return true;
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

struct search {
    const char *dataset;
    char prefix[ZFS_NAME_SIZE + 1];
    bool is_there;
    char dependent[ZFS_NAME_SIZE]; /* one that was cloned from it, or "" */
};

static bool search_for(void *ctx, const char *name, const char *origin)
{
    struct search *search = ctx;
    if (!strcmp(name, search->dataset))
        search->is_there = true;
    else if (!strncmp(origin, search->prefix, strlen(search->prefix)))
        snprintf(search->dependent, sizeof(search->dependent), "%s", name);
    return !search->is_there || !search->dependent[0];
}

/* Takes it away, as far as it goes: one that others were cloned from first hands its snapshots over
 * to one of them. */
static bool remove_dataset(struct cay_trees *trees, const char *dataset, bool *out_gone,
                           struct cay_error *err)
{
    struct search search = {.dataset = dataset};
    snprintf(search.prefix, sizeof(search.prefix), "%s@", dataset);
    if (!each_dataset(trees, "name,origin", search_for, &search, err))
        return false;
    *out_gone = !search.is_there;
    if (*out_gone)
        return true;
    if (search.dependent[0])
        return zfs_call(&(struct zfs_args){{"zfs", "promote", search.dependent}}, NULL, err);
    (void)zfs_call(&(struct zfs_args){{"zfs", "unmount", dataset}}, NULL, err);
    *out_gone = zfs_call(&(struct zfs_args){{"zfs", "destroy", "-r", dataset}}, NULL, err);
    return *out_gone;
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

/* One that somebody holds after all (-EBUSY) is tried again with the next collection. */
int zfs_remove(struct cay_trees *trees, const char *id, uint64_t *)
{
    char dataset[ZFS_NAME_SIZE];
    struct cay_error ignored;
    const struct timespec nap = {.tv_nsec = BUSY_NS};
    int64_t until_ms = now_ms() + BUSY_MS_MAX;
    name_dataset(trees, id, dataset);
    for (bool is_gone = false; !is_gone;) {
        if (remove_dataset(trees, dataset, &is_gone, &ignored))
            continue;
        if (now_ms() > until_ms)
            return -EBUSY;
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

/* What is seen in the dataset is limited, not what it keeps alive: one with a limit on that could
 * not take over the snapshots of a dataset that goes. */
bool zfs_limit(struct cay_trees *trees, const char *id, const char *base, uint64_t bytes_max,
               struct cay_error *err)
{
    char dataset[ZFS_NAME_SIZE];
    char below[ZFS_NAME_SIZE];
    char quota[48] = "refquota=none";
    uint64_t base_bytes = 0;
    name_dataset(trees, id, dataset);
    name_dataset(trees, base, below);
    if (bytes_max) {
        if (!read_number("referenced", below, &base_bytes, err))
            return false;
        snprintf(quota, sizeof(quota), "refquota=%" PRIu64, base_bytes + bytes_max);
    }
    return zfs_call(&(struct zfs_args){{"zfs", "set", quota, dataset}}, NULL, err);
}

/* What the dataset would free, or what it shows more than its base: a clone of a clone shares what
 * its origin wrote, and yet it is not the base's. */
bool zfs_measure(struct cay_trees *trees, const char *id, const char *base,
                 struct cay_store_usage *out_usage, struct cay_error *err)
{
    char dataset[ZFS_NAME_SIZE];
    char below[ZFS_NAME_SIZE];
    uint64_t seen = 0;
    uint64_t seen_below = 0;
    name_dataset(trees, id, dataset);
    name_dataset(trees, base, below);
    if (!read_number("usedbydataset", dataset, &out_usage->own_bytes, err) ||
        !read_number("usedbysnapshots", dataset, &out_usage->history_bytes, err) ||
        !read_number("referenced", dataset, &seen, err) ||
        !read_number("referenced", below, &seen_below, err))
        return false;
    if (seen > seen_below)
        out_usage->own_bytes = CAY_MAX(out_usage->own_bytes, seen - seen_below);
    return true;
}

/* Every dataset is a file system of its own, and zfs-fuse has no syncfs at all. But what is said to
 * the pool is answered when it is on the disk, and everything before it. */
bool zfs_sync(struct cay_trees *trees, struct cay_error *err)
{
    char property[48];
    char id[CAY_STORE_ID_SIZE];
    cay_store_new_id(id);
    snprintf(property, sizeof(property), "cay:synced=%s", id);
    return zfs_call(&(struct zfs_args){{"zfs", "set", property, zfs_of(trees)->root}}, NULL, err);
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
