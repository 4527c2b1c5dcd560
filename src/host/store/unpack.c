/* SPDX-License-Identifier: Apache-2.0 */
#include "host/store/unpack.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/stop.h"
#include "host/store/base.h"
#include "host/store/dir_list.h"
#include "host/store/store_ops.h"
#include "sys/pin.h"
#include "sys/remove.h"
#include "sys/resolve.h"

enum { PROGRESS_EVERY = 64, XATTR_LIST_BYTES_MAX = 64 * 1024, BLOCK_BYTES = 4096 };

static const uint64_t below_only =
    RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;

struct cay_unpack_dir {
    char *path;
    struct timespec mtime;
};

static bool refuse(struct cay_unpack *unpack, const char *path, const char *why)
{
    return cay_fail(unpack->err, CAY_R_INVALID_ARGUMENT, "'%.80s' in the archive %s", path, why);
}

static int open_inside(const struct cay_unpack *unpack, const char *path)
{
    int flags = O_RDONLY | O_DIRECTORY;
    if (unpack->is_guest)
        return cay_resolve(unpack->root_fd, path, flags, 0, below_only);
    return unpack->is_plain ? cay_resolve_open_plain(unpack->root_fd, path, flags, 0)
                            : cay_resolve_open(unpack->root_fd, path, flags, 0);
}

/* Opens a directory of the tree, making what is missing. */
static int open_dir(struct cay_unpack *unpack, const char *path, bool makes)
{
    if (!*path)
        return fcntl(unpack->root_fd, F_DUPFD_CLOEXEC, 0);
    int fd = open_inside(unpack, path);
    if (fd != -ENOENT || !makes)
        return fd;
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');
    snprintf(parent, sizeof(parent), "%.*s", slash ? (int)(slash - path) : 0, path);
    cay_autoclose int parent_fd = open_dir(unpack, parent, true);
    if (parent_fd < 0)
        return parent_fd;
    const char *name = slash ? slash + 1 : path;
    int rc = unpack->is_guest
                 ? (mkdirat(parent_fd, name, 0755) < 0 ? -errno : 0)
                 : cay_pin_make_dir(parent_fd, name, 0755, unpack->id_base, unpack->id_base);
    return rc < 0 ? rc : open_inside(unpack, path); /* EEXIST: a link to nowhere stands there */
}

/* Opens the directory an entry is in and leaves its own name in unpack->name. */
static int open_parent(struct cay_unpack *unpack, const char *path, bool makes)
{
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');
    snprintf(parent, sizeof(parent), "%.*s", slash ? (int)(slash - path) : 0, path);
    snprintf(unpack->name, sizeof(unpack->name), "%s", slash ? slash + 1 : path);
    return open_dir(unpack, parent, makes);
}

static uint32_t known_id(struct cay_unpack *unpack, int64_t id)
{
    bool is_known = id >= 0 && id < CAY_BASE_IDS;
    unpack->stats.foreign += !is_known;
    return unpack->id_base + (is_known ? (uint32_t)id : CAY_BASE_NOBODY);
}

static bool over_limit(struct cay_unpack *unpack, uint64_t more_bytes)
{
    if (unpack->entries_max && unpack->stats.entries > unpack->entries_max)
        cay_fail(unpack->err, CAY_R_RESOURCE_EXHAUSTED, "the archive has more than %llu entries",
                 (unsigned long long)unpack->entries_max);
    else if (unpack->bytes_max && (more_bytes > unpack->bytes_max ||
                                   unpack->stats.bytes > unpack->bytes_max - more_bytes))
        cay_fail(unpack->err, CAY_R_RESOURCE_EXHAUSTED, "the archive holds more than %llu bytes",
                 (unsigned long long)unpack->bytes_max);
    else
        return false;
    return true;
}

static bool goes_on(struct cay_unpack *unpack)
{
    bool is_wanted = !cay_stop_asked();
    if (is_wanted && unpack->progress)
        is_wanted =
            unpack->progress(unpack->progress_ctx, unpack->stats.entries, unpack->stats.bytes);
    return is_wanted || cay_fail(unpack->err, CAY_R_CANCELED, NULL);
}

static bool take_room(struct cay_unpack *unpack, uint64_t bytes, uint64_t entries, const char *path)
{
    return !unpack->take || unpack->take(unpack->take_ctx, bytes, entries) ||
           cay_fail(unpack->err, CAY_R_QUOTA_EXCEEDED,
                    "the session's disk limit leaves no room for '%.80s' of the archive", path);
}

/* The entry itself and what it carries besides content. */
static bool take_entry(struct cay_unpack *unpack, struct archive_entry *entry, const char *path)
{
    const char *key = NULL;
    const void *value = NULL;
    size_t size = 0;
    uint64_t bytes = archive_entry_filetype(entry) == AE_IFDIR ? BLOCK_BYTES : 0;
    archive_entry_xattr_reset(entry);
    while (archive_entry_xattr_next(entry, &key, &value, &size) == ARCHIVE_OK)
        bytes += strlen(key) + size;
    return take_room(unpack, bytes, 1, path);
}

static bool is_zero(const char *data, size_t len)
{
    return len == 0 || (data[0] == 0 && memcmp(data, data + 1, len - 1) == 0);
}

static int write_block(int fd, const char *data, size_t len, off_t at)
{
    for (size_t done = 0; done < len;) {
        ssize_t count = pwrite(fd, data + done, len - done, at + (off_t)done);
        if (count < 0)
            return -errno;
        done += (size_t)count;
    }
    return 0;
}

static bool write_content(struct cay_unpack *unpack, struct archive *archive, int fd,
                          la_int64_t size, const char *path)
{
    for (uint64_t written = 0;;) {
        const void *block = NULL;
        size_t len = 0;
        la_int64_t offset = 0;
        int rc = archive_read_data_block(archive, &block, &len, &offset);
        if (rc == ARCHIVE_EOF)
            return true;
        if (!goes_on(unpack))
            return false;
        if (rc < ARCHIVE_WARN || offset < 0 || offset > size || len > (uint64_t)(size - offset))
            return refuse(unpack, path, "is damaged");
        if (len == 0 || is_zero(block, len))
            continue; /* a hole */
        uint64_t blocks = (written + len + BLOCK_BYTES - 1) / BLOCK_BYTES -
                          (written + BLOCK_BYTES - 1) / BLOCK_BYTES;
        if (!take_room(unpack, blocks * BLOCK_BYTES, 0, path))
            return false;
        written += len;
        rc = write_block(fd, block, len, offset);
        if (rc < 0)
            return cay_store_fail(unpack->err, rc, "write '%.80s'", path);
    }
}

static bool has_xattr(struct archive_entry *entry, const char *wanted)
{
    const char *key = NULL;
    const void *value = NULL;
    size_t size = 0;
    archive_entry_xattr_reset(entry);
    while (archive_entry_xattr_next(entry, &key, &value, &size) == ARCHIVE_OK) {
        if (!strcmp(key, wanted))
            return true;
    }
    return false;
}

/* Attributes of what was there before, which the entry does not have. */
static int drop_xattrs(struct archive_entry *entry, int fd)
{
    cay_autofree char *list = cay_alloc(XATTR_LIST_BYTES_MAX);
    ssize_t len = flistxattr(fd, list, XATTR_LIST_BYTES_MAX);
    if (len < 0)
        return errno == EOPNOTSUPP ? 0 : -errno;
    for (const char *key = list; key < list + len; key += strlen(key) + 1) {
        if (cay_copy_keeps_xattr(CAY_COPY_IMPORT, key) && !has_xattr(entry, key) &&
            fremovexattr(fd, key) < 0)
            return -errno;
    }
    return 0;
}

static bool takes_xattr(const struct cay_unpack *unpack, const char *key)
{
    return unpack->is_guest ? !strncmp(key, "user.", 5)
                            : cay_copy_keeps_xattr(CAY_COPY_IMPORT, key);
}

static void put_xattrs(const struct cay_unpack *unpack, struct archive_entry *entry, int fd)
{
    const char *key = NULL;
    const void *value = NULL;
    size_t size = 0;
    archive_entry_xattr_reset(entry);
    while (archive_entry_xattr_next(entry, &key, &value, &size) == ARCHIVE_OK) {
        /* What the file system does not take is left out: an import is not a backup. */
        if (takes_xattr(unpack, key))
            (void)fsetxattr(fd, key, value, size, 0);
    }
}

/* In the order in which one does not undo the other. `fd` is the entry itself, never its name: who
 * can write to the tree may have put a link there meanwhile. Links and fifos are pinned only, and
 * have no attributes. */
static int set_metadata(struct cay_unpack *unpack, struct archive_entry *entry, int fd)
{
    mode_t type = archive_entry_filetype(entry);
    int rc = 0;
    if (!unpack->is_guest) {
        uint32_t uid = known_id(unpack, archive_entry_uid(entry));
        uint32_t gid = known_id(unpack, archive_entry_gid(entry));
        rc = cay_pin_chown(fd, uid, gid);
    }
    if (!rc && type != AE_IFLNK)
        rc = cay_pin_chmod(fd, archive_entry_perm(entry) & (unpack->is_guest ? 0777 : 07777));
    if (type == AE_IFREG || type == AE_IFDIR) {
        if (!rc && unpack->replaces)
            rc = drop_xattrs(entry, fd);
        if (!rc)
            put_xattrs(unpack, entry, fd);
    }
    if (rc < 0 || !archive_entry_mtime_is_set(entry))
        return rc;
    struct timespec mtime = {archive_entry_mtime(entry), archive_entry_mtime_nsec(entry)};
    return cay_pin_set_times(fd, (struct timespec[2]){mtime, mtime});
}

static bool unpack_file(struct cay_unpack *unpack, struct archive *archive,
                        struct archive_entry *entry, int parent_fd, const char *path)
{
    la_int64_t size = archive_entry_size_is_set(entry) ? archive_entry_size(entry) : 0;
    cay_autoclose int fd =
        openat(parent_fd, unpack->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return cay_store_fail(unpack->err, -errno, "make '%.80s'", path);
    if (!write_content(unpack, archive, fd, size, path))
        return false;
    int rc = ftruncate(fd, size) < 0 ? -errno : set_metadata(unpack, entry, fd);
    return rc == 0 || cay_store_fail(unpack->err, rc, "finish '%.80s'", path);
}

/* The directory that is to be at unpack->name, or -1 for what is refused. */
static int make_dir(struct cay_unpack *unpack, int parent_fd, bool *out_is_new)
{
    for (bool is_second = false;; is_second = true) {
        *out_is_new = mkdirat(parent_fd, unpack->name, 0755) == 0;
        if (!*out_is_new && (is_second || errno != EEXIST))
            return -errno;
        int fd = openat(parent_fd, unpack->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 || is_second || !unpack->replaces)
            return fd < 0 ? -ENOTDIR : fd;
        if (unlinkat(parent_fd, unpack->name, 0) < 0)
            return -errno;
    }
}

static bool unpack_dir(struct cay_unpack *unpack, struct archive_entry *entry, int parent_fd,
                       const char *path)
{
    bool is_new = false;
    cay_autoclose int fd = make_dir(unpack, parent_fd, &is_new);
    if (fd == -ENOTDIR)
        return refuse(unpack, path, "is a directory where something else is");
    if (fd >= 0 && unpack->is_guest && !is_new)
        return true;
    int rc = fd < 0 ? fd : set_metadata(unpack, entry, fd);
    if (rc < 0)
        return cay_store_fail(unpack->err, rc, "make '%.80s'", path);
    if (unpack->dirs_count == unpack->dirs_cap) {
        unpack->dirs_cap = CAY_MAX(unpack->dirs_cap * 2, (size_t)64);
        unpack->dirs = cay_realloc_array(unpack->dirs, unpack->dirs_cap, sizeof(*unpack->dirs));
    }
    unpack->dirs[unpack->dirs_count++] = (struct cay_unpack_dir){
        cay_strdup(path), {archive_entry_mtime(entry), archive_entry_mtime_nsec(entry)}};
    return true;
}

static bool is_socket(struct archive_entry *entry)
{
    return has_xattr(entry, CAY_UNPACK_SOCKET_MARK);
}

static bool unpack_special(struct cay_unpack *unpack, struct archive_entry *entry, int parent_fd,
                           const char *path)
{
    int rc = 0;
    mode_t type = S_IFLNK;
    if (archive_entry_filetype(entry) == AE_IFLNK) {
        const char *target = cay_archive_symlink(entry);
        if (!target || !*target)
            return refuse(unpack, path, "is a link without a target");
        rc = symlinkat(target, parent_fd, unpack->name) < 0 ? -errno : 0;
    } else if (archive_entry_filetype(entry) == AE_IFIFO) {
        type = is_socket(entry) ? S_IFSOCK : S_IFIFO;
        rc = mknodat(parent_fd, unpack->name, type | 0600, 0) < 0 ? -errno : 0;
    } else {
        unpack->stats.skipped++; /* a device, or something tar knows and we do not */
        return true;
    }
    cay_autoclose int fd = rc ? rc : cay_pin_open_type(parent_fd, unpack->name, type);
    rc = fd < 0 ? fd : set_metadata(unpack, entry, fd);
    return rc == 0 || cay_store_fail(unpack->err, rc, "make '%.80s'", path);
}

static bool unpack_root(struct cay_unpack *unpack, struct archive_entry *entry)
{
    if (archive_entry_filetype(entry) != AE_IFDIR)
        return refuse(unpack, "/", "is not a directory");
    if (unpack->is_guest)
        return true;
    int rc = set_metadata(unpack, entry, unpack->root_fd);
    return rc == 0 || cay_store_fail(unpack->err, rc, "finish the root");
}

/* Nothing may stand where an entry that is no directory comes to be. */
static bool make_room(struct cay_unpack *unpack, int parent_fd, const char *path)
{
    if (unpack->is_guest) { /* a mount would go with the name */
        cay_autoclose int fd =
            cay_resolve(parent_fd, unpack->name, O_PATH | O_NOFOLLOW, 0, below_only);
        if (fd == -EXDEV)
            return refuse(unpack, path, "takes the place of a mount");
    }
    if (unlinkat(parent_fd, unpack->name, 0) == 0 || errno == ENOENT)
        return true;
    if (errno != EISDIR)
        return cay_store_fail(unpack->err, -errno, "replace '%.80s'", path);
    if (unpack->replaces) {
        int rc = cay_remove_tree(parent_fd, unpack->name, NULL);
        return rc == 0 || cay_store_fail(unpack->err, rc, "replace '%.80s'", path);
    }
    return unlinkat(parent_fd, unpack->name, AT_REMOVEDIR) == 0 ||
           refuse(unpack, path, "takes the place of a directory");
}

bool cay_unpack_link(struct cay_unpack *unpack, const char *path, const char *target,
                     struct cay_error *err)
{
    unpack->err = err;
    if (!*target || !*path)
        return refuse(unpack, path, "is a hard link that points outside");
    if (!strcmp(path, target))
        return refuse(unpack, path, "is a hard link to itself");
    cay_autoclose int target_fd = open_parent(unpack, target, false);
    char target_name[NAME_MAX + 1];
    memcpy(target_name, unpack->name, sizeof(target_name));
    struct stat st;
    cay_autoclose int linked_fd = target_fd < 0 ? -1 : cay_pin_open(target_fd, target_name);
    if (linked_fd < 0 || fstat(linked_fd, &st) < 0 || S_ISDIR(st.st_mode))
        return refuse(unpack, path, "is a hard link to what is not there");
    cay_autoclose int parent_fd = open_parent(unpack, path, true);
    if (parent_fd < 0)
        return refuse(unpack, path, "is in what is not a directory");
    if (!make_room(unpack, parent_fd, path))
        return false;
    int rc = cay_pin_link(linked_fd, parent_fd, unpack->name);
    if (rc == -ENOENT) /* its own target, under another name of the directory */
        return refuse(unpack, path, "is a hard link to itself");
    return rc == 0 || cay_store_fail(unpack->err, rc, "link '%.80s'", path);
}

bool cay_unpack_entry(struct cay_unpack *unpack, struct cay_archive_in *in,
                      struct archive_entry *entry, const char *path, struct cay_error *err)
{
    unpack->err = err;
    unpack->stats.entries++;
    la_int64_t size = archive_entry_size_is_set(entry) ? archive_entry_size(entry) : 0;
    if (size < 0)
        return refuse(unpack, path, "has no size");
    /* Also of what is not written: to read over it takes its time. */
    if (over_limit(unpack, (uint64_t)size) ||
        (unpack->stats.entries % PROGRESS_EVERY == 0 && !goes_on(unpack)))
        return false;
    if (!*path)
        return unpack_root(unpack, entry);
    if (!take_entry(unpack, entry, path))
        return false;
    const char *link = cay_archive_hard_link(entry);
    if (link) {
        char target[PATH_MAX];
        if (!cay_archive_clean(link, target))
            return refuse(unpack, path, "is a hard link that points outside");
        return cay_unpack_link(unpack, path, target, err);
    }
    unpack->stats.bytes += (uint64_t)size;
    cay_autoclose int parent_fd = open_parent(unpack, path, true);
    if (parent_fd < 0)
        return refuse(unpack, path, "is in what is not a directory");
    if (archive_entry_filetype(entry) == AE_IFDIR)
        return unpack_dir(unpack, entry, parent_fd, path);
    if (!make_room(unpack, parent_fd, path))
        return false;
    if (archive_entry_filetype(entry) == AE_IFREG)
        return unpack_file(unpack, in->archive, entry, parent_fd, path);
    return unpack_special(unpack, entry, parent_fd, path);
}

bool cay_unpack_remove(struct cay_unpack *unpack, const char *path, struct cay_error *err)
{
    unpack->err = err;
    if (!*path)
        return refuse(unpack, "/", "takes away the root");
    cay_autoclose int parent_fd = open_parent(unpack, path, false);
    if (parent_fd < 0)
        return parent_fd == -ENOENT || parent_fd == -ENOTDIR ||
               refuse(unpack, path, "is in what is not a directory");
    int rc = cay_remove_tree(parent_fd, unpack->name, NULL);
    return rc == 0 || cay_store_fail(err, rc, "remove '%.80s'", path);
}

bool cay_unpack_clear(struct cay_unpack *unpack, const char *path, struct cay_error *err)
{
    unpack->err = err;
    cay_autoclose int dir_fd = open_dir(unpack, path, false);
    if (dir_fd < 0)
        return dir_fd == -ENOENT || dir_fd == -ENOTDIR ||
               refuse(unpack, path, "is not a directory");
    cay_auto(cay_dir_list_finish) struct cay_dir_list names = {};
    int rc = cay_dir_list_read(&names, dir_fd);
    for (size_t i = 0; !rc && i < names.count; i++)
        rc = cay_remove_tree(dir_fd, cay_dir_list_name(&names, i), NULL);
    return rc == 0 || cay_store_fail(err, rc, "empty '%.80s'", path);
}

void cay_unpack_times(struct cay_unpack *unpack)
{
    for (size_t i = unpack->dirs_count; i-- > 0;) {
        struct timespec times[2] = {unpack->dirs[i].mtime, unpack->dirs[i].mtime};
        cay_autoclose int fd = unpack->is_guest
                                   ? open_inside(unpack, unpack->dirs[i].path)
                                   : cay_resolve_open_plain(unpack->root_fd, unpack->dirs[i].path,
                                                            O_RDONLY | O_DIRECTORY, 0);
        if (fd >= 0)
            (void)futimens(fd, times);
    }
}

void cay_unpack_finish(struct cay_unpack *unpack)
{
    for (size_t i = 0; i < unpack->dirs_count; i++)
        free(unpack->dirs[i].path);
    free(unpack->dirs);
    unpack->dirs = NULL;
    unpack->dirs_count = unpack->dirs_cap = 0;
}
