/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/crash.h"
#include "base/quantity.h"
#include "host/pool/pool_internal.h"
#include "sys/loop_device.h"
#include "sys/run.h"

#define FILE_BYTES_MAX ((uint64_t)1 << 60)

enum { MKFS_TIMEOUT_MS = 600'000, MKFS_OUTPUT_BYTES = 4096 };

/* How to make and to grow the file systems that a loop pool can have. */
struct maker {
    const char *name;
    const char *argv[8]; /* the file is appended */
    int (*grow)(int root_fd, uint64_t bytes);
};

/* As in the kernel; linux/btrfs.h uses names that are banned here, and ext4.h is not installed. */
struct btrfs_volume {
    int64_t fd;
    char name[4088];
};
#define BTRFS_RESIZE   _IOW(0x94, 3, struct btrfs_volume)
#define EXT4_RESIZE_FS _IOW('f', 16, uint64_t)

static int grow_btrfs(int root_fd, uint64_t)
{
    struct btrfs_volume volume = {.name = "max"};
    return ioctl(root_fd, BTRFS_RESIZE, &volume) < 0 ? -errno : 0;
}

static int grow_ext4(int root_fd, uint64_t bytes)
{
    struct statfs fs;
    if (fstatfs(root_fd, &fs) < 0)
        return -errno;
    uint64_t blocks = bytes / (uint64_t)fs.f_bsize;
    return ioctl(root_fd, EXT4_RESIZE_FS, &blocks) < 0 ? -errno : 0;
}

static const struct maker makers[] = {
    {"btrfs", {"mkfs.btrfs", "-q", "-f"}, grow_btrfs},
    {"ext4", {"mkfs.ext4", "-q", "-F", "-m", "0", "-E", "nodiscard"}, grow_ext4},
};

static const struct maker *find_maker(const char *name)
{
    for (size_t i = 0; i < CAY_COUNT(makers); i++) {
        if (strcmp(makers[i].name, name) == 0)
            return &makers[i];
    }
    return NULL;
}

static bool kernel_has(const char *filesystem)
{
    char line[64];
    bool found = false;
    FILE *file = fopen("/proc/filesystems", "re");
    while (file && !found && fgets(line, sizeof(line), file)) {
        const char *tab = strrchr(line, '\t');
        size_t len = strlen(filesystem);
        found = tab && strncmp(tab + 1, filesystem, len) == 0 && tab[1 + len] == '\n';
    }
    if (file)
        (void)fclose(file);
    return found;
}

static bool can_make(const struct maker *maker)
{
    char path[64];
    snprintf(path, sizeof(path), "/usr/sbin/%s", maker->argv[0]);
    bool is_there = access(path, X_OK) == 0;
    snprintf(path, sizeof(path), "/sbin/%s", maker->argv[0]);
    return kernel_has(maker->name) && (is_there || access(path, X_OK) == 0);
}

static const struct maker *choose_maker(const char *wanted, struct cay_error *err)
{
    const struct maker *maker = wanted ? find_maker(wanted) : NULL;
    if (wanted && !maker) {
        cay_fail(err, CAY_R_INVALID_ARGUMENT, "filesystem: 'btrfs' or 'ext4', not '%.20s'", wanted);
        return NULL;
    }
    for (size_t i = 0; !wanted && !maker && i < CAY_COUNT(makers); i++) {
        if (can_make(&makers[i]))
            maker = &makers[i];
    }
    if (maker && can_make(maker))
        return maker;
    cay_fail(err, CAY_R_NOT_SUPPORTED,
             "this host cannot make %s; install btrfs-progs or e2fsprogs, or load the module",
             wanted ? wanted : "a file system");
    return NULL;
}

static bool tell(const struct cay_pool_plan *plan, const char *step, double share,
                 struct cay_error *err)
{
    return !plan->progress || plan->progress(plan->ctx, step, share) ||
           cay_fail(err, CAY_R_CANCELED, NULL);
}

static enum cay_reason reason_of_size(int error)
{
    if (error == EFBIG || error == EINVAL)
        return CAY_R_INVALID_ARGUMENT; /* more than the file system below has in one file */
    return error == ENOSPC ? CAY_R_NO_SPACE : CAY_R_STORE_FAILED;
}

/* Gives the file a size that nobody else can take any more, or as much as there is, as a hole. */
static bool set_size(int fd, const char *path, uint64_t bytes, bool is_sparse,
                     struct cay_error *err)
{
    struct statfs fs;
    struct stat st;
    if (fstatfs(fd, &fs) < 0 || fstat(fd, &st) < 0)
        return cay_fail_errno(err, CAY_R_STORE_FAILED, -errno, "look at '%s'", path);
    uint64_t left = fs.f_bavail * (uint64_t)fs.f_frsize;
    uint64_t taken = (uint64_t)st.st_blocks * 512;
    /* Of what does not fit the kernel would take all there is, before it says so. What no file
     * system has in one file is for the kernel to say. */
    if (!is_sparse && bytes < FILE_BYTES_MAX && bytes > taken && bytes - taken > left) {
        char wanted[CAY_SIZE_BYTES];
        char free_text[CAY_SIZE_BYTES];
        cay_size_format(bytes - taken, wanted);
        cay_size_format(left, free_text);
        return cay_fail(err, CAY_R_NO_SPACE,
                        "the pool would take %s, and its disk has %s left; make it smaller, or let "
                        "it grow as it is filled (--sparse)",
                        wanted, free_text);
    }
    int rc = is_sparse ? ftruncate(fd, (off_t)bytes) : fallocate(fd, 0, 0, (off_t)bytes);
    if (rc < 0 && errno == EOPNOTSUPP)
        return cay_fail(err, CAY_R_NOT_SUPPORTED,
                        "the file system of '%.100s' cannot reserve space; let the pool grow as it "
                        "is filled (--sparse)",
                        path);
    return rc == 0 ||
           cay_fail_errno(err, reason_of_size(errno), -errno, "give '%s' its size", path);
}

static bool make_file(const char *path, const struct cay_pool_plan *plan, struct cay_error *err)
{
    cay_autoclose int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return cay_fail_errno(err, errno == EEXIST ? CAY_R_ALREADY_EXISTS : CAY_R_STORE_FAILED,
                              -errno, "make '%s'", path);
    return set_size(fd, path, plan->bytes, plan->is_sparse, err);
}

static bool make_filesystem(const struct maker *maker, const char *path, struct cay_error *err)
{
    const char *argv[CAY_COUNT(maker->argv) + 2] = {};
    size_t count = 0;
    while (count < CAY_COUNT(maker->argv) && maker->argv[count]) {
        argv[count] = maker->argv[count];
        count++;
    }
    argv[count] = path;
    cay_auto(cay_buf_finish) struct cay_buf said;
    cay_buf_init(&said, MKFS_OUTPUT_BYTES);
    const struct cay_program run = {.argv = argv, .timeout_ms = MKFS_TIMEOUT_MS, .out = &said};
    int status = cay_run(&run);
    if (status == 0)
        return true;
    if (status < 0)
        return cay_fail_errno(err, CAY_R_STORE_FAILED, status, "run %s", argv[0]);
    return cay_fail(err, CAY_R_STORE_FAILED, "%s failed: %.*s", argv[0],
                    (int)CAY_MIN(said.len, (size_t)200), said.len ? said.data : "");
}

/* Whole or not at all, and safe from a loss of power. */
static bool write_record(const char *data_dir, const struct cay_pool *pool, struct cay_error *err)
{
    cay_autofree char *path = cay_asprintf("%s/" CAY_POOL_RECORD, data_dir);
    cay_autofree char *temp = cay_asprintf("%s/" CAY_POOL_RECORD ".new", data_dir);
    cay_autofree char *text =
        cay_asprintf("%s %s %s\n", pool->kind == CAY_POOL_LOOP ? "loop" : "directory",
                     pool->filesystem[0] ? pool->filesystem : "-", pool->path);
    cay_autoclose int dir_fd = open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cay_autoclose int fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    size_t len = strlen(text);
    if (dir_fd < 0 || fd < 0 || write(fd, text, len) != (ssize_t)len || fsync(fd) < 0 ||
        rename(temp, path) < 0 || fsync(dir_fd) < 0)
        return cay_fail_errno(err, CAY_R_STORE_FAILED, -errno, "write '%s'", path);
    return true;
}

static bool create_loop(const char *data_dir, const struct cay_pool_plan *plan,
                        struct cay_pool *out_pool, struct cay_error *err)
{
    const struct maker *maker = choose_maker(plan->filesystem, err);
    if (!maker)
        return false;
    if (plan->bytes < CAY_POOL_BYTES_MIN)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "size: a pool has 256 MiB at least");
    cay_autofree char *own = cay_asprintf("%s/" CAY_POOL_FILE, data_dir);
    const char *path = plan->path ? plan->path : own;
    /* One that is not in the data directory has its final name at once: nobody would find it. */
    cay_autofree char *temp =
        plan->path ? cay_strdup(path) : cay_asprintf("%s/" CAY_POOL_FILE_NEW, data_dir);
    if (access(path, F_OK) == 0)
        return cay_fail(err, CAY_R_ALREADY_EXISTS, "'%s' is there already; choose another path",
                        path);
    bool is_made = tell(plan, "making the file", 0, err) && make_file(temp, plan, err);
    bool is_ours = is_made || err->reason != CAY_R_ALREADY_EXISTS;
    CAY_CRASH_POINT("pool.file");
    is_made = is_made && tell(plan, "making the file system", 0.3, err) &&
              make_filesystem(maker, temp, err);
    CAY_CRASH_POINT("pool.filesystem");
    is_made = is_made && tell(plan, "mounting it", 0.9, err) &&
              cay_pool_open_at(data_dir, CAY_POOL_LOOP, maker->name, temp, out_pool, err);
    if (!is_made && is_ours)
        (void)unlink(temp);
    return is_made;
}

bool cay_pool_create(const char *data_dir, const struct cay_pool_plan *plan,
                     struct cay_pool *out_pool, struct cay_error *err)
{
    struct stat st;
    if (plan->path && plan->path[0] != '/')
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "path: it must be absolute");
    if (plan->kind == CAY_POOL_LOOP)
        return create_loop(data_dir, plan, out_pool, err);
    if (!plan->path || stat(plan->path, &st) < 0 || !S_ISDIR(st.st_mode))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "path: there is no directory '%.200s'",
                        plan->path ? plan->path : "");
    if (st.st_uid != geteuid() || (st.st_mode & 022))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "'%.200s' can be written by others; run: chmod 700 '%.200s'", plan->path,
                        plan->path);
    return cay_pool_open_at(data_dir, CAY_POOL_DIRECTORY, "", plan->path, out_pool, err);
}

/* The record comes first: a file of the final name that no record tells of is somebody's data. */
bool cay_pool_keep(struct cay_pool *pool, struct cay_error *err)
{
    cay_autofree char *own = cay_asprintf("%s/" CAY_POOL_FILE, pool->data_dir);
    cay_autofree char *temp = cay_asprintf("%s/" CAY_POOL_FILE_NEW, pool->data_dir);
    bool is_own = pool->kind == CAY_POOL_LOOP && strcmp(pool->path, temp) == 0;
    if (is_own) {
        free(pool->path);
        pool->path = cay_take_ptr(own);
    }
    if (!write_record(pool->data_dir, pool, err))
        return false;
    CAY_CRASH_POINT("pool.recorded");
    if (is_own && rename(temp, pool->path) < 0)
        return cay_fail_errno(err, CAY_R_STORE_FAILED, -errno, "name '%s'", pool->path);
    CAY_CRASH_POINT("pool.named");
    return true;
}

void cay_pool_discard(struct cay_pool *pool)
{
    cay_autofree char *record = cay_asprintf("%s/" CAY_POOL_RECORD, pool->data_dir);
    cay_autofree char *temp = cay_asprintf("%s/" CAY_POOL_FILE_NEW, pool->data_dir);
    (void)unlink(record);
    if (pool->kind == CAY_POOL_LOOP) {
        (void)unlink(pool->path);
        (void)unlink(temp);
    }
    cay_pool_close(pool);
}

bool cay_pool_grow(const struct cay_pool *pool, uint64_t bytes, struct cay_error *err)
{
    struct stat st;
    const struct maker *maker = pool->kind == CAY_POOL_LOOP ? find_maker(pool->filesystem) : NULL;
    if (!maker)
        return cay_fail(
            err, CAY_R_NOT_SUPPORTED,
            "only a pool that is a file can be grown; this one is a directory of the host");
    cay_autoclose int fd = open(pool->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &st) < 0)
        return cay_fail_errno(err, CAY_R_STORE_FAILED, -errno, "open '%s'", pool->path);
    /* The same size again finishes what a crash left undone. */
    if (bytes < (uint64_t)st.st_size)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "size: the pool has %lld bytes and does not shrink", (long long)st.st_size);
    bool is_sparse = (uint64_t)st.st_blocks * 512 < (uint64_t)st.st_size;
    if (!set_size(fd, pool->path, bytes, is_sparse, err))
        return false;
    CAY_CRASH_POINT("grow.file");
    int rc = cay_loop_device_grow(pool->device_fd);
    CAY_CRASH_POINT("grow.device");
    cay_autoclose int root_fd = openat(pool->mount_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (rc == 0)
        rc = root_fd < 0 ? -errno : maker->grow(root_fd, bytes);
    CAY_CRASH_POINT("grow.filesystem");
    if (rc == -EPERM)
        return cay_fail(
            err, CAY_R_NOT_SUPPORTED,
            "the kernel does not let the daemon enlarge %s; the daemon needs CAP_SYS_RESOURCE",
            maker->name);
    return rc == 0 || cay_fail_errno(err, CAY_R_STORE_FAILED, rc, "enlarge the file system");
}
