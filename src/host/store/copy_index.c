/* SPDX-License-Identifier: Apache-2.0 */
#include "host/store/copy_index.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/stop.h"
#include "host/store/dir_list.h"

enum {
    CLOCK_GRAIN_NS = 20'000'000, /* two ticks of the slowest clock in use (100 Hz) */
    SCAN_DEPTH_MAX = 200,        /* one descriptor each; a deeper tree is copied unseen */
};

static const char magic[8] = "cayidx1";

struct file_header {
    char magic[8];
    uint64_t fingerprint[2];
    uint64_t entries;
    int64_t taken_ns;
    uint64_t count;
    uint64_t paths_len;
    uint64_t racy;
};

static int64_t ns_of(struct timespec ts)
{
    return (int64_t)ts.tv_sec * 1'000'000'000 + ts.tv_nsec;
}

void cay_copy_index_init(struct cay_copy_index *index)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    *index = (struct cay_copy_index){.taken_ns = ns_of(now)};
}

void cay_copy_index_finish(struct cay_copy_index *index)
{
    free(index->records);
    free(index->paths);
    *index = (struct cay_copy_index){};
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash ^= value;
    hash *= 0x9FB21C651E98DF25u;
    hash ^= hash >> 32;
    hash *= 0xD6E8FEB86659FD93u;
    return hash ^ (hash >> 29);
}

static bool too_young(const struct cay_copy_index *index, const struct stat *st)
{
    return ns_of(st->st_ctim) >= index->taken_ns - CLOCK_GRAIN_NS;
}

void cay_copy_index_see(struct cay_copy_index *index, uint64_t parent_ino, const char *name,
                        const struct stat *st)
{
    for (size_t lane = 0; lane < 2; lane++) {
        uint64_t hash = mix(lane + 1, parent_ino);
        for (const char *c = name; *c; c++)
            hash = mix(hash, (unsigned char)*c);
        hash = mix(hash, st->st_ino);
        hash = mix(hash, ((uint64_t)st->st_mode << 32) ^ st->st_uid ^ ((uint64_t)st->st_gid << 16));
        hash = mix(hash, (uint64_t)st->st_size);
        hash = mix(hash, (uint64_t)ns_of(st->st_mtim));
        /* Whiteouts share an inode with others, whose coming and going changes its time. */
        if (!S_ISCHR(st->st_mode))
            hash = mix(hash, (uint64_t)ns_of(st->st_ctim));
        /* A sum does not depend on the order of the walk. */
        index->fingerprint[lane] += hash;
    }
    index->entries++;
    if (!S_ISCHR(st->st_mode) && too_young(index, st))
        index->racy = true;
}

void cay_copy_index_add(struct cay_copy_index *index, const struct stat *st, const char *path)
{
    size_t len = strlen(path) + 1;
    if (index->paths_len + len > UINT32_MAX)
        return;
    if (index->paths_len + len > index->paths_cap) {
        index->paths_cap = CAY_MAX(index->paths_cap * 2, index->paths_len + len + 4096);
        index->paths = cay_realloc_array(index->paths, index->paths_cap, 1);
    }
    if (index->count == index->cap) {
        index->cap = CAY_MAX(index->cap * 2, (size_t)64);
        index->records = cay_realloc_array(index->records, index->cap, sizeof(*index->records));
    }
    memcpy(index->paths + index->paths_len, path, len);
    index->records[index->count++] = (struct cay_copy_record){
        .ino = st->st_ino,
        .ctime_ns = too_young(index, st) ? 0 : ns_of(st->st_ctim),
        .size = (uint64_t)st->st_size,
        .path_at = (uint32_t)index->paths_len,
        .mode = st->st_mode,
    };
    index->paths_len += len;
}

static int by_ino(const void *a, const void *b)
{
    uint64_t left = ((const struct cay_copy_record *)a)->ino;
    uint64_t right = ((const struct cay_copy_record *)b)->ino;
    return left < right ? -1 : left > right;
}

void cay_copy_index_seal(struct cay_copy_index *index)
{
    if (index->count)
        qsort(index->records, index->count, sizeof(*index->records), by_ino);
}

const char *cay_copy_index_find(const struct cay_copy_index *index, const struct stat *st)
{
    if (!index || !index->count)
        return NULL;
    struct cay_copy_record key = {.ino = st->st_ino};
    const struct cay_copy_record *found =
        bsearch(&key, index->records, index->count, sizeof(key), by_ino);
    if (!found || found->path_at >= index->paths_len || found->ctime_ns == 0 ||
        found->ctime_ns != ns_of(st->st_ctim) || found->size != (uint64_t)st->st_size ||
        found->mode != st->st_mode)
        return NULL;
    return index->paths + found->path_at;
}

bool cay_copy_index_same(const struct cay_copy_index *a, const struct cay_copy_index *b)
{
    return !a->racy && a->entries == b->entries && a->fingerprint[0] == b->fingerprint[0] &&
           a->fingerprint[1] == b->fingerprint[1];
}

static int scan_dir(struct cay_copy_index *index, int dir_fd, uint64_t ino, int depth)
{
    if (depth > SCAN_DEPTH_MAX)
        return -ENAMETOOLONG;
    cay_auto(cay_dir_list_finish) struct cay_dir_list names = {};
    int rc = cay_dir_list_read(&names, dir_fd);
    for (size_t i = 0; !rc && i < names.count; i++) {
        const char *name = cay_dir_list_name(&names, i);
        struct stat st;
        if (cay_stop_asked())
            return -ECANCELED;
        if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            return -errno;
        cay_copy_index_see(index, ino, name, &st);
        if (!S_ISDIR(st.st_mode))
            continue;
        cay_autoclose int fd = openat(dir_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
            return -errno;
        rc = scan_dir(index, fd, st.st_ino, depth + 1);
    }
    return rc;
}

int cay_copy_index_scan(struct cay_copy_index *index, int root_fd)
{
    struct stat st;
    if (fstat(root_fd, &st) < 0)
        return -errno;
    cay_copy_index_see(index, 0, "", &st);
    return scan_dir(index, root_fd, st.st_ino, 0);
}

static int write_all(int fd, const void *data, size_t len)
{
    for (size_t done = 0; done < len;) {
        ssize_t count = write(fd, (const char *)data + done, len - done);
        if (count < 0 && errno != EINTR)
            return -errno;
        done += count > 0 ? (size_t)count : 0;
    }
    return 0;
}

int cay_copy_index_save(const struct cay_copy_index *index, int dir_fd, const char *name)
{
    struct file_header header = {
        .fingerprint = {index->fingerprint[0], index->fingerprint[1]},
        .entries = index->entries,
        .taken_ns = index->taken_ns,
        .count = index->count,
        .paths_len = index->paths_len,
        .racy = index->racy,
    };
    memcpy(header.magic, magic, sizeof(magic));
    cay_autoclose int fd =
        openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    int rc = write_all(fd, &header, sizeof(header));
    if (!rc)
        rc = write_all(fd, index->records, index->count * sizeof(*index->records));
    if (!rc)
        rc = write_all(fd, index->paths, index->paths_len);
    return rc;
}

static int read_all(int fd, void *data, size_t len)
{
    for (size_t done = 0; done < len;) {
        ssize_t count = read(fd, (char *)data + done, len - done);
        if (count < 0 && errno != EINTR)
            return -errno;
        if (count == 0)
            return -EBADMSG;
        done += count > 0 ? (size_t)count : 0;
    }
    return 0;
}

int cay_copy_index_load(struct cay_copy_index *index, int dir_fd, const char *name)
{
    struct file_header header;
    cay_autoclose int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    struct stat st;
    if (fstat(fd, &st) < 0)
        return -errno;
    int rc = read_all(fd, &header, sizeof(header));
    if (rc < 0)
        return rc;
    uint64_t want = sizeof(header) + header.paths_len;
    uint64_t records_len = 0;
    if (memcmp(header.magic, magic, sizeof(magic)) || header.paths_len > UINT32_MAX ||
        __builtin_mul_overflow(header.count, sizeof(*index->records), &records_len) ||
        want + records_len != (uint64_t)st.st_size)
        return -EBADMSG;
    *index = (struct cay_copy_index){
        .count = header.count,
        .paths_len = header.paths_len,
        .entries = header.entries,
        .taken_ns = header.taken_ns,
        .fingerprint = {header.fingerprint[0], header.fingerprint[1]},
        .racy = header.racy != 0,
        .records = cay_alloc(records_len + 1),
        .paths = cay_alloc(header.paths_len + 1),
    };
    rc = read_all(fd, index->records, records_len);
    if (!rc)
        rc = read_all(fd, index->paths, header.paths_len);
    if (rc < 0)
        cay_copy_index_finish(index);
    return rc;
}
