/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A digest of a tree: names, types, modes, owners, attributes that imports keep, content, targets.
 * Not times, and not which files share an inode: two unpackings of one thing are the same.
 */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/stop.h"
#include "host/store/base.h"
#include "host/store/dir_list.h"
#include "host/store/store_ops.h"
#include "sys/sha256.h"

enum {
    DEPTH_MAX = 400, /* a descriptor per level */
    READ_BYTES = 128 * 1024,
    ATTRIBUTES_BYTES_MAX = 64 * 1024,
    READS_PER_LOOK = 1024, /* whether to go on */
};

/* Of a tree that a sandbox has made: holes and hard links let a few blocks be read for days. It is
 * counted before anything is read, as reading just that much takes long enough. */
#define SURPLUS_BYTES_MAX (4ll << 30)

struct digest {
    struct cay_sha256 sha;
    char *buf;
    const struct cay_base_options *options;
    uint64_t entries;
    uint64_t reads;
    int64_t surplus_bytes; /* that files have beyond their share of what the disk holds */
    struct cay_error *err;
};

static void add_text(struct digest *digest, const char *text)
{
    cay_sha256_add(&digest->sha, text, strlen(text) + 1);
}

static bool goes_on(const struct digest *digest)
{
    const struct cay_base_options *options = digest->options;
    return !options || !options->progress ||
           options->progress(options->progress_ctx, digest->entries, 0);
}

static int add_content(struct digest *digest, int fd)
{
    for (;;) {
        if (cay_stop_asked() || (++digest->reads % READS_PER_LOOK == 0 && !goes_on(digest)))
            return -ECANCELED;
        ssize_t len = read(fd, digest->buf, READ_BYTES);
        if (len <= 0)
            return len < 0 ? -errno : 0;
        cay_sha256_add(&digest->sha, digest->buf, (size_t)len);
    }
}

static int count_surplus(struct digest *digest, int dir_fd, int depth)
{
    if (depth > DEPTH_MAX)
        return -ELOOP;
    cay_auto(cay_dir_list_finish) struct cay_dir_list names = {};
    int rc = cay_dir_list_read(&names, dir_fd);
    for (size_t i = 0; !rc && i < names.count; i++) {
        const char *name = cay_dir_list_name(&names, i);
        struct stat st;
        if (cay_stop_asked() || (++digest->reads % READS_PER_LOOK == 0 && !goes_on(digest)))
            return -ECANCELED;
        if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            return -errno;
        if (S_ISDIR(st.st_mode)) {
            cay_autoclose int fd =
                openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            rc = fd < 0 ? -errno : count_surplus(digest, fd, depth + 1);
        } else if (S_ISREG(st.st_mode)) {
            int64_t held_bytes = st.st_blocks * 512 / (int64_t)CAY_MAX(st.st_nlink, (nlink_t)1);
            digest->surplus_bytes += st.st_size - CAY_MIN((int64_t)st.st_size, held_bytes);
            rc = digest->surplus_bytes > SURPLUS_BYTES_MAX ? -EFBIG : 0;
        }
    }
    return rc;
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int add_attributes(struct digest *digest, int fd)
{
    enum { NAMES_MAX = 1024 };
    cay_autofree char *list = cay_alloc(ATTRIBUTES_BYTES_MAX);
    const char *names[NAMES_MAX];
    size_t count = 0;
    ssize_t len = flistxattr(fd, list, ATTRIBUTES_BYTES_MAX);
    if (len < 0)
        return errno == EOPNOTSUPP ? 0 : -errno;
    for (const char *name = list; name < list + len && count < NAMES_MAX;
         name += strlen(name) + 1) {
        if (cay_copy_keeps_xattr(CAY_COPY_IMPORT, name))
            names[count++] = name;
    }
    qsort(names, count, sizeof(*names), compare_texts);
    for (size_t i = 0; i < count; i++) {
        ssize_t size = fgetxattr(fd, names[i], digest->buf, READ_BYTES);
        if (size < 0)
            return -errno;
        char text[32];
        snprintf(text, sizeof(text), "%zd", size);
        add_text(digest, names[i]);
        add_text(digest, text);
        cay_sha256_add(&digest->sha, digest->buf, (size_t)size);
    }
    return 0;
}

static int add_dir(struct digest *digest, int dir_fd, int depth);

static int add_entry(struct digest *digest, int dir_fd, const char *name, int depth)
{
    struct stat st;
    char text[128];
    if (cay_stop_asked() || (++digest->entries % 512 == 0 && !goes_on(digest)))
        return -ECANCELED;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    snprintf(text, sizeof(text), "%o %u %u %lld", st.st_mode, st.st_uid, st.st_gid,
             S_ISREG(st.st_mode) ? (long long)st.st_size : 0LL);
    add_text(digest, name);
    add_text(digest, text);
    if (S_ISLNK(st.st_mode)) {
        char target[PATH_MAX];
        ssize_t len = readlinkat(dir_fd, name, target, sizeof(target) - 1);
        if (len < 0)
            return -errno;
        target[len] = '\0';
        add_text(digest, target);
        return 0;
    }
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return 0;
    cay_autoclose int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int rc = add_attributes(digest, fd);
    if (rc < 0)
        return rc;
    return S_ISDIR(st.st_mode) ? add_dir(digest, fd, depth + 1) : add_content(digest, fd);
}

static int add_dir(struct digest *digest, int dir_fd, int depth)
{
    if (depth > DEPTH_MAX)
        return -ELOOP;
    cay_auto(cay_dir_list_finish) struct cay_dir_list names = {};
    int rc = cay_dir_list_read(&names, dir_fd);
    if (rc < 0)
        return rc;
    cay_dir_list_sort(&names);
    for (size_t i = 0; !rc && i < names.count; i++)
        rc = add_entry(digest, dir_fd, cay_dir_list_name(&names, i), depth);
    add_text(digest, ""); /* no name: the end of a directory */
    return rc;
}

bool cay_base_digest(int root_fd, const struct cay_base_options *options,
                     char out_digest[static CAY_BASE_DIGEST_SIZE], struct cay_error *err)
{
    struct digest digest = {.options = options, .err = err};
    char hex[CAY_SHA256_HEX_SIZE];
    cay_sha256_init(&digest.sha);
    digest.buf = cay_alloc(READ_BYTES);
    add_text(&digest, "cay-tree-1");
    int rc = count_surplus(&digest, root_fd, 0);
    if (!rc)
        rc = add_entry(&digest, root_fd, ".", 0);
    cay_sha256_end(&digest.sha, hex);
    free(digest.buf);
    if (rc == -ELOOP || rc == -EFBIG) {
        /* Too deep or too large to be compared; a base without a digest is a base all the same. */
        out_digest[0] = '\0';
        return true;
    }
    if (rc < 0)
        return cay_store_fail(err, rc, "compute the digest of the base");
    snprintf(out_digest, CAY_BASE_DIGEST_SIZE, "sha256:%s", hex);
    return true;
}
