/* SPDX-License-Identifier: Apache-2.0 */
#include "host/store/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/crash.h"
#include "base/stop.h"
#include "host/store/base.h"
#include "host/store/copy_index.h"
#include "host/store/dir_list.h"
#include "host/store/store.h"
#include "host/store/store_ops.h"
#include "sys/pin.h"

enum {
    KEEP_OPEN_DEPTH = 32, /* directories held open on the way down; deeper ones by ".." */
    PROGRESS_EVERY = 64,
};

/* A file with several names in the tree: the first copy, for the others to be linked to. */
struct first_name {
    uint64_t ino;
    char *path;
};

struct copy {
    const struct cay_copy_request *request;
    struct cay_copy_stats *stats;
    struct cay_error *err;
    int from_fd; /* the directory the walk is in */
    int to_fd;
    uint64_t from_ino;
    dev_t dev;     /* of the tree; other mounts in it are left out */
    bool is_apart; /* on another file system: nothing can be linked */
    struct cay_buf path;
    struct first_name *firsts; /* open addressing, a power of two */
    size_t firsts_count;
    size_t firsts_cap;
};

static bool fail(struct copy *copy, int neg_errno, const char *what, const char *name)
{
    return cay_store_fail(copy->err, neg_errno, "%s '%.*s%.64s'", what,
                          (int)CAY_MIN(copy->path.len, (size_t)96), copy->path.data, name);
}

static bool is_public_only(const struct copy *copy)
{
    return copy->request->public_only || copy->request->rule == CAY_COPY_LINK;
}

/* An imported owner a sandbox cannot have becomes nobody. */
static uint32_t known_id(const struct copy *copy, uint32_t id)
{
    bool foreign = copy->request->rule != CAY_COPY_LAYER && id >= CAY_BASE_IDS;
    copy->stats->foreign += foreign;
    return foreign ? (uint32_t)CAY_BASE_NOBODY : id;
}

static struct first_name *first_slot(struct first_name *slots, size_t cap, uint64_t ino)
{
    size_t at = (ino * 0x9E3779B97F4A7C15u) & (cap - 1);
    while (slots[at].path && slots[at].ino != ino)
        at = (at + 1) & (cap - 1);
    return &slots[at];
}

static const char *find_first(struct copy *copy, uint64_t ino)
{
    return copy->firsts_cap ? first_slot(copy->firsts, copy->firsts_cap, ino)->path : NULL;
}

static void remember_first(struct copy *copy, uint64_t ino, const char *path)
{
    if (copy->firsts_count * 2 >= copy->firsts_cap) {
        size_t cap = CAY_MAX(copy->firsts_cap * 2, (size_t)64);
        struct first_name *slots = cay_alloc(cap * sizeof(*slots));
        for (size_t i = 0; i < copy->firsts_cap; i++) {
            if (copy->firsts[i].path)
                *first_slot(slots, cap, copy->firsts[i].ino) = copy->firsts[i];
        }
        free(copy->firsts);
        copy->firsts = slots;
        copy->firsts_cap = cap;
    }
    *first_slot(copy->firsts, copy->firsts_cap, ino) = (struct first_name){ino, cay_strdup(path)};
    copy->firsts_count++;
}

/* The path of `name` from the root, or NULL when it is too long to be used in one call. */
static const char *path_of(struct copy *copy, const char *name)
{
    size_t len = copy->path.len;
    cay_buf_append_text(&copy->path, name);
    cay_buf_append_byte(&copy->path, '\0');
    if (copy->path.failed)
        return NULL;
    copy->path.len = len;
    return len + strlen(name) < PATH_MAX ? copy->path.data : NULL;
}

/* Everything of an entry but its content; both descriptors may be pins. */
static int set_metadata(const struct copy *copy, int from_fd, int to_fd, const struct stat *st)
{
    const struct timespec times[2] = {st->st_atim, st->st_mtim};
    int rc = cay_pin_chown(to_fd, known_id(copy, st->st_uid), known_id(copy, st->st_gid));
    if (!rc && !S_ISLNK(st->st_mode))
        rc = cay_pin_chmod(to_fd, st->st_mode & 07777);
    if (!rc)
        rc = cay_copy_xattrs(copy->request->rule, from_fd, to_fd);
    return rc ? rc : cay_pin_set_times(to_fd, times);
}

/* Tries the names under which the content may already be in the new tree or beside it. */
static bool link_instead(struct copy *copy, const char *name, const struct stat *st)
{
    const struct cay_copy_request *request = copy->request;
    const char *first = st->st_nlink > 1 ? find_first(copy, st->st_ino) : NULL;
    if (first)
        return linkat(request->to_fd, first, copy->to_fd, name, 0) == 0;
    if (request->rule == CAY_COPY_LINK && !copy->is_apart) {
        bool is_linked = linkat(copy->from_fd, name, copy->to_fd, name, 0) == 0;
        copy->is_apart = !is_linked && errno == EXDEV;
        return is_linked;
    }
    const char *previous = cay_copy_index_find(request->previous, st);
    return previous && linkat(request->previous_fd, previous, copy->to_fd, name, 0) == 0;
}

static int copy_content(struct copy *copy, const char *name, const struct stat *st)
{
    cay_autoclose int from =
        openat(copy->from_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOATIME);
    if (from < 0)
        return -errno;
    cay_autoclose int to =
        openat(copy->to_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (to < 0)
        return -errno;
    /* Clean pages make the next store through a mapping take the change time: see copy_index.h. */
    if (copy->request->index && st->st_size > 0 &&
        sync_file_range(from, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE) < 0)
        return -errno;
    int rc = cay_copy_data(from, to, st);
    return rc ? rc : set_metadata(copy, from, to, st);
}

static bool copy_file(struct copy *copy, const char *name, const struct stat *st)
{
    if (is_public_only(copy) && !(st->st_mode & S_IROTH)) {
        copy->stats->skipped++;
        return true;
    }
    copy->stats->bytes += (uint64_t)st->st_size;
    if (copy->request->bytes_max && copy->stats->bytes > copy->request->bytes_max)
        return cay_fail(copy->err, CAY_R_RESOURCE_EXHAUSTED, "the tree has more than %llu bytes",
                        (unsigned long long)copy->request->bytes_max);
    const char *path = path_of(copy, name);
    bool known = path && st->st_nlink > 1 && find_first(copy, st->st_ino);
    if (link_instead(copy, name, st)) {
        copy->stats->linked++;
    } else {
        int rc = copy_content(copy, name, st);
        if (rc < 0)
            return fail(copy, rc, "copy", name);
    }
    if (!path || known)
        return true;
    if (st->st_nlink > 1 && (copy->request->rule != CAY_COPY_LINK || copy->is_apart))
        remember_first(copy, st->st_ino, path);
    if (copy->request->index)
        cay_copy_index_add(copy->request->index, st, path);
    return true;
}

/* What cannot be opened. It is no name that is looked up again: the source may be anybody's tree.
 */
static int finish_special(struct copy *copy, const char *name, const struct stat *st)
{
    cay_autoclose int from = cay_pin_open_type(copy->from_fd, name, st->st_mode & S_IFMT);
    if (from < 0)
        return from;
    cay_autoclose int to = cay_pin_open_type(copy->to_fd, name, st->st_mode & S_IFMT);
    return to < 0 ? to : set_metadata(copy, from, to, st);
}

static int copy_symlink(struct copy *copy, const char *name, const struct stat *st)
{
    if (copy->request->rule == CAY_COPY_LINK &&
        linkat(copy->from_fd, name, copy->to_fd, name, 0) == 0)
        return 0;
    char target[PATH_MAX];
    ssize_t len = readlinkat(copy->from_fd, name, target, sizeof(target) - 1);
    if (len < 0)
        return -errno;
    target[len] = '\0';
    if (symlinkat(target, copy->to_fd, name) < 0)
        return -errno;
    return finish_special(copy, name, st);
}

/* Fifos, sockets and whiteouts. Other devices are never brought in: a sandbox cannot make them. */
static int copy_special(struct copy *copy, const char *name, const struct stat *st)
{
    bool whiteout = copy->request->rule == CAY_COPY_LAYER && cay_copy_is_whiteout(st);
    if (!S_ISFIFO(st->st_mode) && !S_ISSOCK(st->st_mode) && !whiteout) {
        copy->stats->skipped++;
        return 0;
    }
    if (mknodat(copy->to_fd, name, st->st_mode, 0) < 0)
        return -errno;
    return finish_special(copy, name, st);
}

static bool copy_children(struct copy *copy, int depth);

static int finish_dir(struct copy *copy, const struct stat *st)
{
    return set_metadata(copy, copy->from_fd, copy->to_fd, st);
}

/* Back to the directory above. Deep down its descriptors were given up: ".." must be what it was,
 * else somebody moves directories under us. */
static int ascend(struct copy *copy, int from_fd, int to_fd, uint64_t from_ino)
{
    if (from_fd < 0) {
        struct stat st;
        from_fd = openat(copy->from_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        to_fd = openat(copy->to_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (from_fd < 0 || to_fd < 0 || fstat(from_fd, &st) < 0 || st.st_ino != from_ino) {
            cay_cleanup_close(&from_fd);
            cay_cleanup_close(&to_fd);
            return -ESTALE;
        }
    }
    close(copy->from_fd);
    close(copy->to_fd);
    copy->from_fd = from_fd;
    copy->to_fd = to_fd;
    copy->from_ino = from_ino;
    return 0;
}

static int descend(struct copy *copy, const char *name, bool keep, int *out_from, int *out_to)
{
    cay_autoclose int from =
        openat(copy->from_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NOATIME);
    if (from < 0)
        return -errno;
    cay_autoclose int to =
        openat(copy->to_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (to < 0)
        return -errno;
    *out_from = keep ? copy->from_fd : -1;
    *out_to = keep ? copy->to_fd : -1;
    if (!keep) {
        close(copy->from_fd);
        close(copy->to_fd);
    }
    copy->from_fd = cay_take_fd(from);
    copy->to_fd = cay_take_fd(to);
    return 0;
}

static bool copy_dir(struct copy *copy, const char *name, const struct stat *st, int depth)
{
    bool open_to_all = (st->st_mode & (S_IROTH | S_IXOTH)) == (S_IROTH | S_IXOTH);
    if (st->st_dev != copy->dev || (is_public_only(copy) && !open_to_all)) {
        copy->stats->skipped++;
        return true;
    }
    if (depth >= CAY_STORE_DEPTH_MAX)
        return cay_fail(copy->err, CAY_R_RESOURCE_EXHAUSTED,
                        "directories are nested more than %d deep", CAY_STORE_DEPTH_MAX);
    if (mkdirat(copy->to_fd, name, 0700) < 0)
        return fail(copy, -errno, "make directory", name);
    int from_fd = -1;
    int to_fd = -1;
    uint64_t from_ino = copy->from_ino;
    int rc = descend(copy, name, depth < KEEP_OPEN_DEPTH, &from_fd, &to_fd);
    if (rc < 0)
        return fail(copy, rc, "open", name);
    size_t path_len = copy->path.len;
    cay_buf_append_text(&copy->path, name);
    cay_buf_append_byte(&copy->path, '/');
    copy->from_ino = st->st_ino;
    bool ok = copy_children(copy, depth + 1);
    if (ok) {
        rc = finish_dir(copy, st);
        ok = rc == 0 || fail(copy, rc, "finish", "");
    }
    copy->path.len = path_len;
    rc = ascend(copy, from_fd, to_fd, from_ino);
    if (!ok)
        return false;
    return rc == 0 || fail(copy, rc, "return from", name);
}

static bool copy_entry(struct copy *copy, const char *name, int depth)
{
    struct stat st;
    if (fstatat(copy->from_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        if (errno == ENOENT && copy->request->rule != CAY_COPY_LAYER)
            return true; /* gone since the directory was read: it is not our tree */
        return fail(copy, -errno, "look at", name);
    }
    const struct cay_copy_request *request = copy->request;
    copy->stats->entries++;
    if (request->entries_max && copy->stats->entries > request->entries_max)
        return cay_fail(copy->err, CAY_R_RESOURCE_EXHAUSTED, "the tree has more than %llu entries",
                        (unsigned long long)request->entries_max);
    bool goes_on = !cay_stop_asked();
    if (goes_on && request->progress && copy->stats->entries % PROGRESS_EVERY == 0)
        goes_on =
            request->progress(request->progress_ctx, copy->stats->entries, copy->stats->bytes);
    if (!goes_on)
        return cay_fail(copy->err, CAY_R_CANCELED, NULL);
    if (request->index)
        cay_copy_index_see(request->index, copy->from_ino, name, &st);
    if (S_ISREG(st.st_mode))
        return copy_file(copy, name, &st);
    if (S_ISDIR(st.st_mode))
        return copy_dir(copy, name, &st, depth);
    int rc = S_ISLNK(st.st_mode) ? copy_symlink(copy, name, &st) : copy_special(copy, name, &st);
    return rc == 0 || fail(copy, rc, "copy", name);
}

static bool copy_children(struct copy *copy, int depth)
{
    cay_auto(cay_dir_list_finish) struct cay_dir_list names = {};
    int rc = cay_dir_list_read(&names, copy->from_fd);
    if (rc < 0)
        return fail(copy, rc, "read directory", "");
    for (size_t i = 0; i < names.count; i++) {
        if (!copy_entry(copy, cay_dir_list_name(&names, i), depth))
            return false;
    }
    if (copy->request->rule == CAY_COPY_LAYER)
        CAY_CRASH_POINT("store.copy_half");
    return true;
}

static void finish(struct copy *copy)
{
    for (size_t i = 0; i < copy->firsts_cap; i++)
        free(copy->firsts[i].path);
    free(copy->firsts);
    cay_buf_finish(&copy->path);
    cay_cleanup_close(&copy->from_fd);
    cay_cleanup_close(&copy->to_fd);
}

bool cay_copy_tree(const struct cay_copy_request *request, struct cay_copy_stats *out_stats,
                   struct cay_error *err)
{
    cay_auto(finish) struct copy copy = {
        .request = request, .stats = out_stats, .err = err, .to_fd = -1};
    *out_stats = (struct cay_copy_stats){};
    cay_buf_init(&copy.path, (size_t)CAY_STORE_DEPTH_MAX * 256 + PATH_MAX);
    copy.from_fd = openat(request->from_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    copy.to_fd = openat(request->to_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat st;
    if (copy.from_fd < 0 || copy.to_fd < 0 || fstat(copy.from_fd, &st) < 0)
        return cay_store_fail(err, -errno, "open the tree to copy");
    copy.dev = st.st_dev;
    copy.from_ino = st.st_ino;
    if (request->index)
        cay_copy_index_see(request->index, 0, "", &st);
    if (!copy_children(&copy, 0))
        return false;
    int rc = finish_dir(&copy, &st);
    if (rc < 0)
        return cay_store_fail(err, rc, "finish the copied tree");
    if (request->index)
        cay_copy_index_seal(request->index);
    return true;
}
