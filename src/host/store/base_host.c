/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The base "host". Its /usr is a farm of hard links (or reflinks, or a copy on another file
 * system): no data is copied, and a package upgrade, which replaces files by rename, does not reach
 * it. Only a write in place on the host would; package managers do not do that.
 */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/store/base.h"
#include "host/store/store_ops.h"
#include "sys/remove.h"
#include "sys/resolve.h"

enum { SKELETON_VERSION = 1 }; /* counted up when the rest of the base changes */

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t len)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ bytes[i]) * 1099511628211u;
    return hash;
}

static bool hash_file(int host_fd, const char *path, uint64_t *hash)
{
    cay_autoclose int fd = cay_resolve_open(host_fd, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
    if (fd < 0)
        return false;
    char buf[32 * 1024];
    ssize_t len = 0;
    while ((len = read(fd, buf, sizeof(buf))) > 0)
        *hash = hash_bytes(*hash, buf, (size_t)len);
    return len == 0;
}

/* One farm is made at a time: who comes second finds it made. */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t hashing = PTHREAD_MUTEX_INITIALIZER;

static const char packages[] = "var/lib/dpkg/status";

/* The list of packages has some megabytes and is asked for again and again: it is read when the
 * file was written or replaced. Under the lock. */
static bool hash_packages(int host_fd, uint64_t *hash)
{
    static struct {
        dev_t dev;
        ino_t ino;
        off_t size;
        struct timespec changed;
        uint64_t hash;
    } last;
    struct stat st;
    bool is_there = fstatat(host_fd, packages, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (is_there && last.ino == st.st_ino && last.dev == st.st_dev && last.size == st.st_size &&
        last.changed.tv_sec == st.st_ctim.tv_sec && last.changed.tv_nsec == st.st_ctim.tv_nsec) {
        *hash = last.hash;
        return true;
    }
    if (!is_there || !hash_file(host_fd, packages, hash))
        return false;
    last = (typeof(last)){st.st_dev, st.st_ino, st.st_size, st.st_ctim, *hash};
    return true;
}

/* What the packages of the host are at present. Without dpkg, when its directories last changed. */
static uint64_t host_state(int host_fd)
{
    static const char *const dirs[] = {"usr", "usr/bin", "usr/lib", "usr/local/bin"};
    uint64_t hash = 1469598103934665603u + SKELETON_VERSION;
    if (hash_packages(host_fd, &hash))
        return hash;
    (void)hash_file(host_fd, "usr/lib/os-release", &hash);
    for (size_t i = 0; i < CAY_COUNT(dirs); i++) {
        struct stat st;
        if (fstatat(host_fd, dirs[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
            hash = hash_bytes(hash, &st.st_mtim, sizeof(st.st_mtim));
    }
    return hash;
}

static const char *const top_names[] = {CAY_BASE_HOST_TOP};

/* One directory of the host into the draft. */
static bool farm(int host_fd, int root_fd, const char *name, const struct cay_base_options *options,
                 struct cay_error *err)
{
    cay_autoclose int from = openat(host_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (from < 0)
        return cay_store_fail(err, -errno, "open /%s of the host", name);
    if (mkdirat(root_fd, name, 0755) < 0)
        return cay_store_fail(err, -errno, "make /%s", name);
    cay_autoclose int to = openat(root_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (to < 0)
        return cay_store_fail(err, -errno, "open /%s", name);
    struct cay_copy_request request = {
        .rule = CAY_COPY_LINK,
        .from_fd = from,
        .to_fd = to,
        .entries_max = CAY_BASE_ENTRIES_MAX,
        .progress = options ? options->progress : NULL,
        .progress_ctx = options ? options->progress_ctx : NULL,
        .previous_fd = -1,
    };
    struct cay_copy_stats stats;
    return cay_copy_tree(&request, &stats, err);
}

/* /bin and its like are links into /usr on a merged host; elsewhere they are directories. */
static bool farm_top(int host_fd, int root_fd, const struct cay_base_options *options,
                     struct cay_error *err)
{
    for (size_t i = 0; i < CAY_COUNT(top_names); i++) {
        struct stat st;
        char target[256];
        if (fstatat(host_fd, top_names[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (S_ISDIR(st.st_mode)) {
            if (!farm(host_fd, root_fd, top_names[i], options, err))
                return false;
            continue;
        }
        ssize_t len = readlinkat(host_fd, top_names[i], target, sizeof(target) - 1);
        if (len < 0)
            continue;
        target[len] = '\0';
        if (symlinkat(target, root_fd, top_names[i]) < 0)
            return cay_store_fail(err, -errno, "link /%s", top_names[i]);
    }
    return true;
}

static bool has_room(int host_fd, int root_fd, const struct cay_base_options *options,
                     struct cay_error *err)
{
    struct cay_copy_stats stats;
    return !options || !options->room ||
           (cay_base_host_cost_in(host_fd, root_fd, &stats, err) &&
            (!stats.entries || options->room(options->progress_ctx, &stats, err)));
}

static bool fill(struct cay_store *store, int host_fd, const char *name,
                 const struct cay_base_options *options, struct cay_error *err)
{
    struct cay_store_base_draft draft;
    if (!cay_store_base_begin(store, &draft, err))
        return false;
    if (has_room(host_fd, draft.root_fd, options, err) &&
        farm(host_fd, draft.root_fd, "usr", options, err) &&
        farm_top(host_fd, draft.root_fd, options, err) &&
        cay_base_skeleton(host_fd, draft.root_fd, err) && cay_base_complete(draft.root_fd, err))
        return cay_store_base_commit(store, &draft, name, err);
    cay_store_base_abort(store, &draft);
    return false;
}

static bool find_or_make(struct cay_store *store, int host_fd, const char *root,
                         const struct cay_base_options *options,
                         char out_name[static CAY_STORE_NAME_SIZE], struct cay_error *err)
{
    char found[CAY_STORE_NAME_SIZE];
    struct cay_error ignored;
    struct cay_base_host_state state;
    if (!cay_base_host_state(root, &state, err))
        return false;
    memcpy(out_name, state.name, sizeof(state.name));
    if (!cay_store_base_resolve(store, out_name, found, &ignored) &&
        !fill(store, host_fd, out_name, options, err) && err->reason != CAY_R_BASE_EXISTS)
        return cay_wrap(err, "make base 'host'");
    if (cay_store_base_resolve(store, "host", found, &ignored) && strcmp(found, out_name) == 0)
        return true;
    return cay_store_base_alias(store, "host", out_name, err);
}

bool cay_base_host(struct cay_store *store, const char *root,
                   const struct cay_base_options *options,
                   char out_name[static CAY_STORE_NAME_SIZE], struct cay_error *err)
{
    cay_autoclose int host_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (host_fd < 0)
        return cay_store_fail(err, -errno, "open '%s'", root);
    char name[CAY_STORE_NAME_SIZE];
    pthread_mutex_lock(&making);
    bool is_made = find_or_make(store, host_fd, root, options, name, err);
    pthread_mutex_unlock(&making);
    if (is_made)
        memcpy(out_name, name, sizeof(name));
    return is_made;
}

bool cay_base_host_state(const char *root, struct cay_base_host_state *out_state,
                         struct cay_error *err)
{
    struct stat st;
    cay_autoclose int host_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (host_fd < 0)
        return cay_store_fail(err, -errno, "open '%s'", root);
    pthread_mutex_lock(&hashing);
    uint64_t state = host_state(host_fd);
    pthread_mutex_unlock(&hashing);
    *out_state = (struct cay_base_host_state){};
    snprintf(out_state->name, sizeof(out_state->name), "host-%016" PRIx64, state);
    if (fstatat(host_fd, packages, &st, AT_SYMLINK_NOFOLLOW) == 0)
        out_state->changed_ns = (int64_t)st.st_ctim.tv_sec * 1'000'000'000 + st.st_ctim.tv_nsec;
    return true;
}
