/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/fuzz.h"

#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "host/store/archive_in.h"
#include "host/store/unpack.h"
#include "sys/remove.h"

enum {
    ENTRIES_MAX = 64,
    BYTES_MAX = 256 * 1024,
    XATTRS_BYTES_MAX = 64 * 1024,
    IS_MENDED = 0x80,
};

/* As those who take archives have it: a base, a layer of an image, an exported session, an upload.
 */
static const struct {
    bool is_layer;
    bool is_plain;
    bool replaces;
    bool is_guest;
} takers[] = {
    {},
    {.is_layer = true, .replaces = true},
    {.is_plain = true, .replaces = true},
    {.is_plain = true, .is_guest = true},
};

/* A directory with the tree and, beside it, what no archive may touch. The tree has links to it. */
static char world[PATH_MAX];
static int world_fd = -1;
static struct stat canary;

static void leave(void)
{
    (void)cay_remove_tree(AT_FDCWD, world, NULL);
}

static void enter(void)
{
    snprintf(world, sizeof(world), "%s/cay-fuzz-unpack-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    FUZZ_CHECK(mkdtemp(world) && atexit(leave) == 0);
    world_fd = open(world, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    FUZZ_CHECK(world_fd >= 0 && mkdirat(world_fd, "outside", 0755) == 0);
    cay_autoclose int fd = openat(world_fd, "outside/canary", O_CREAT | O_WRONLY | O_CLOEXEC, 0640);
    FUZZ_CHECK(fd >= 0 && write(fd, "sings", 5) == 5 && fstat(fd, &canary) == 0);
}

static int make_tree(void)
{
    FUZZ_CHECK(mkdirat(world_fd, "tree", 0755) == 0);
    int root_fd = openat(world_fd, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    FUZZ_CHECK(root_fd >= 0 && mkdirat(root_fd, "d", 0755) == 0);
    FUZZ_CHECK(symlinkat("../outside", root_fd, "out") == 0 &&
               symlinkat("../../outside", root_fd, "d/out") == 0 &&
               symlinkat("../outside/canary", root_fd, "canary") == 0 &&
               symlinkat("d", root_fd, "in") == 0);
    cay_autoclose int fd = openat(root_fd, "f", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    FUZZ_CHECK(fd >= 0 && write(fd, "x", 1) == 1);
    return root_fd;
}

/* Nothing that changes in a header passes its checksum, unless that is made to fit. */
static void mend(uint8_t *data, size_t size)
{
    enum { BLOCK = 512, SUM_AT = 148, SUM_BYTES = 8, SIZE_AT = 124, SIZE_BYTES = 12 };
    for (size_t at = 0; at + BLOCK <= size;) {
        uint8_t *block = data + at;
        char digits[SIZE_BYTES + 1] = {};
        unsigned sum = 0;
        memcpy(digits, block + SIZE_AT, SIZE_BYTES);
        memset(block + SUM_AT, ' ', SUM_BYTES);
        for (size_t i = 0; i < BLOCK; i++)
            sum += block[i];
        if (sum > SUM_BYTES * ' ')
            snprintf((char *)block + SUM_AT, SUM_BYTES, "%06o", sum);
        else
            memset(block + SUM_AT, 0, SUM_BYTES); /* the end */
        uint64_t content = strtoull(digits, NULL, 8);
        at += BLOCK + (size_t)CAY_MIN(content, (uint64_t)size) / BLOCK * BLOCK +
              (content % BLOCK ? BLOCK : 0);
    }
}

static int check_entry(const char *, const struct stat *st, int, struct FTW *)
{
    FUZZ_CHECK(!S_ISCHR(st->st_mode) && !S_ISBLK(st->st_mode));
    FUZZ_CHECK(st->st_ino != canary.st_ino || st->st_dev != canary.st_dev);
    return 0;
}

static void check_world(bool is_guest)
{
    struct stat st;
    char text[8] = {};
    FUZZ_CHECK(fstatat(world_fd, "outside/canary", &st, AT_SYMLINK_NOFOLLOW) == 0);
    FUZZ_CHECK(st.st_ino == canary.st_ino && st.st_mode == canary.st_mode && st.st_nlink == 1 &&
               st.st_size == canary.st_size && st.st_uid == canary.st_uid &&
               st.st_gid == canary.st_gid && st.st_mtim.tv_sec == canary.st_mtim.tv_sec &&
               st.st_ctim.tv_nsec == canary.st_ctim.tv_nsec);
    cay_autoclose int fd = openat(world_fd, "outside/canary", O_RDONLY | O_CLOEXEC);
    FUZZ_CHECK(fd >= 0 && read(fd, text, sizeof(text)) == 5 && memcmp(text, "sings", 5) == 0);
    FUZZ_CHECK(fstatat(world_fd, "outside", &st, 0) == 0 && st.st_nlink == 2);
    FUZZ_CHECK(unlinkat(world_fd, "outside", AT_REMOVEDIR) < 0); /* it has the canary still */
    char path[PATH_MAX + 8];
    snprintf(path, sizeof(path), "%s/tree", world);
    FUZZ_CHECK(nftw(path, check_entry, 16, FTW_PHYS) == 0);
    if (is_guest)
        FUZZ_CHECK(fstatat(world_fd, "tree", &st, 0) == 0 && (st.st_mode & 07777) == 0755);
}

/* As host/store/image.c does with what layers take away. */
static bool take_away(struct cay_unpack *unpack, char *path, struct cay_error *err)
{
    char *slash = strrchr(path, '/');
    char *name = slash ? slash + 1 : path;
    const size_t mark = strlen(".wh.");
    if (strcmp(name, ".wh..wh..opq") == 0) {
        *(slash ? slash : path) = '\0';
        return cay_unpack_clear(unpack, path, err);
    }
    memmove(name, name + mark, strlen(name + mark) + 1);
    if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return false;
    return cay_unpack_remove(unpack, path, err);
}

static bool is_mark(const char *path)
{
    const char *slash = strrchr(path, '/');
    return strncmp(slash ? slash + 1 : path, ".wh.", 4) == 0;
}

static bool unpack_all(struct cay_unpack *unpack, bool is_layer, int fd, struct cay_error *err)
{
    cay_auto(cay_archive_in_finish) struct cay_archive_in in = {};
    char sha256[CAY_SHA256_HEX_SIZE];
    if (!cay_archive_in_open(&in, fd, true, err))
        return false;
    for (;;) {
        struct archive_entry *entry = NULL;
        char path[PATH_MAX];
        if (!cay_archive_in_next(&in, &entry, err))
            return false;
        if (!entry)
            return cay_archive_in_drain(&in, sha256, err);
        const char *raw = cay_archive_path(entry);
        if (!raw || !*raw || !cay_archive_clean(raw, path))
            return false;
        FUZZ_CHECK(*path != '/' && !strstr(path, "//"));
        bool is_good = is_layer && is_mark(path) ? take_away(unpack, path, err)
                                                 : cay_unpack_entry(unpack, &in, entry, path, err);
        if (!is_good)
            return false;
    }
}

static bool take(void *ctx, uint64_t bytes, uint64_t)
{
    uint64_t *taken = ctx;
    *taken += bytes;
    return *taken <= BYTES_MAX + XATTRS_BYTES_MAX;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    if (world_fd < 0)
        enter();
    size_t taker = data[0] % CAY_COUNT(takers);
    cay_autofree uint8_t *archive = malloc(size);
    FUZZ_CHECK(archive);
    memcpy(archive, data + 1, size - 1);
    if (data[0] & IS_MENDED)
        mend(archive, size - 1);
    cay_autoclose int fd = memfd_create("archive", MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0 && write(fd, archive, size - 1) == (ssize_t)(size - 1) &&
               lseek(fd, 0, SEEK_SET) == 0);
    cay_autoclose int root_fd = make_tree();
    uint64_t taken = 0;
    struct cay_error err = {};
    struct cay_unpack unpack = {
        .root_fd = root_fd,
        .is_plain = takers[taker].is_plain,
        .replaces = takers[taker].replaces,
        .is_guest = takers[taker].is_guest,
        .entries_max = ENTRIES_MAX,
        .bytes_max = BYTES_MAX,
        .take = take,
        .take_ctx = &taken,
    };
    if (unpack_all(&unpack, takers[taker].is_layer, fd, &err))
        cay_unpack_times(&unpack);
    cay_unpack_finish(&unpack);
    FUZZ_CHECK(unpack.stats.entries <= ENTRIES_MAX + 1 && unpack.stats.bytes <= BYTES_MAX);
    check_world(takers[taker].is_guest);
    FUZZ_CHECK(cay_remove_tree(world_fd, "tree", NULL) == 0);
    return 0;
}
