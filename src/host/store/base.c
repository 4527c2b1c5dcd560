/* SPDX-License-Identifier: Apache-2.0 */
#include "host/store/base.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/store/store_ops.h"

bool cay_base_complete(int root_fd, struct cay_error *err)
{
    static const struct {
        const char *path;
        mode_t mode;
        uid_t owner;
    } dirs[] = {
        {"dev", 0755, 0},          {"proc", 0555, 0},         {"sys", 0555, 0}, {"run", 0755, 0},
        {"tmp", 01777, 0},         {"root", 0700, 0},         {"etc", 0755, 0}, {"home", 0755, 0},
        {"home/user", 0755, 1000}, {"workspace", 0755, 1000},
    };
    for (size_t i = 0; i < CAY_COUNT(dirs); i++) {
        if (mkdirat(root_fd, dirs[i].path, 0700) < 0) {
            if (errno == EEXIST || errno == ELOOP || errno == ENOTDIR || errno == ENOENT)
                continue; /* the base has its own idea, a link perhaps */
            return cay_store_fail(err, -errno, "make /%s", dirs[i].path);
        }
        if (fchownat(root_fd, dirs[i].path, dirs[i].owner, dirs[i].owner, AT_SYMLINK_NOFOLLOW) <
                0 ||
            fchmodat(root_fd, dirs[i].path, dirs[i].mode, 0) < 0)
            return cay_store_fail(err, -errno, "make /%s", dirs[i].path);
    }
    return true;
}

static struct cay_copy_request copy_request(const struct cay_base_options *options)
{
    static const struct cay_base_options defaults;
    if (!options)
        options = &defaults;
    return (struct cay_copy_request){
        .rule = CAY_COPY_IMPORT,
        .entries_max = options->entries_max ? options->entries_max : CAY_BASE_ENTRIES_MAX,
        .bytes_max = options->bytes_max ? options->bytes_max : CAY_BASE_BYTES_MAX,
        .progress = options->progress,
        .progress_ctx = options->progress_ctx,
        .previous_fd = -1,
    };
}

static bool name_is_free(struct cay_store *store, const char *name, struct cay_error *err)
{
    char found[CAY_STORE_NAME_SIZE];
    struct cay_error ignored;
    if (!cay_store_base_name_valid(name) || !cay_store_base_resolve(store, name, found, &ignored))
        return true; /* a bad name is told of by commit */
    return cay_fail(err, CAY_R_BASE_EXISTS, "a base '%s' exists", name);
}

/* Commits what was filled, or takes it away. */
static bool finish(struct cay_store *store, struct cay_store_base_draft *draft, const char *name,
                   bool ok, struct cay_error *err)
{
    if (ok && cay_base_complete(draft->root_fd, err))
        return cay_store_base_commit(store, draft, name, err);
    cay_store_base_abort(store, draft);
    return false;
}

bool cay_base_import_dir(struct cay_store *store, const char *name, int dir_fd,
                         const struct cay_base_options *options, struct cay_copy_stats *out_stats,
                         struct cay_error *err)
{
    struct cay_store_base_draft draft;
    if (!name_is_free(store, name, err) || !cay_store_base_begin(store, &draft, err))
        return false;
    struct cay_copy_request request = copy_request(options);
    request.from_fd = dir_fd;
    request.to_fd = draft.root_fd;
    bool ok = cay_copy_tree(&request, out_stats, err);
    if (!finish(store, &draft, name, ok, err))
        return cay_wrap(err, "import '%.64s'", name);
    return true;
}

bool cay_base_import_tar(struct cay_store *store, const char *name, int fd,
                         const struct cay_base_options *options, struct cay_copy_stats *out_stats,
                         struct cay_error *err)
{
    struct cay_store_base_draft draft;
    if (!name_is_free(store, name, err) || !cay_store_base_begin(store, &draft, err))
        return false;
    struct cay_copy_request limits = copy_request(options);
    struct cay_base_options bounded = {
        .entries_max = limits.entries_max,
        .bytes_max = limits.bytes_max,
        .progress = limits.progress,
        .progress_ctx = limits.progress_ctx,
    };
    bool ok = cay_base_unpack(fd, draft.root_fd, &bounded, out_stats, err);
    if (!finish(store, &draft, name, ok, err))
        return cay_wrap(err, "import '%.64s'", name);
    return true;
}
