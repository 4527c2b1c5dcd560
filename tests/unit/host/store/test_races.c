/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Trees are written to while somebody exchanges their names with links to a file and a directory
 * outside, as fast as it goes. Whatever becomes of the trees, nothing happens to the two.
 */

#include "tests/unit/test.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/store/copy.h"
#include "host/store/restore.h"
#include "host/store/unpack.h"
#include "sys/remove.h"

enum { RACE_MS = 2500, ID_BASE = 70000, ARCHIVE_BYTES = 64 * 1024 };

#define RESTORE_ID "0123456789abcdef"

static char folder[64];
static int folder_fd = -1;
static int tree_fd = -1; /* raced */
static atomic_bool is_over;
static atomic_ulong exchanges;
static pthread_t racer;

struct prize {
    struct stat file;
    struct stat dir;
};

static struct prize before;

static struct prize look(void)
{
    struct prize prize;
    assert_int_equal(fstatat(folder_fd, "prize-file", &prize.file, AT_SYMLINK_NOFOLLOW), 0);
    assert_int_equal(fstatat(folder_fd, "prize-dir", &prize.dir, AT_SYMLINK_NOFOLLOW), 0);
    return prize;
}

static void same(const struct stat *a, const struct stat *b)
{
    assert_int_equal(a->st_mode, b->st_mode);
    assert_int_equal(a->st_uid, b->st_uid);
    /* Everything that can be done to them changes this. */
    assert_int_equal(a->st_ctim.tv_sec, b->st_ctim.tv_sec);
    assert_int_equal(a->st_ctim.tv_nsec, b->st_ctim.tv_nsec);
}

static long exchange(const char *a, const char *b)
{
    return syscall(SYS_renameat2, tree_fd, a, tree_fd, b, RENAME_EXCHANGE);
}

static void put_link(const char *name)
{
    char target[128];
    bool is_dir = name[0] == 'd';
    snprintf(target, sizeof(target), "%s/prize-%s", folder, is_dir ? "dir" : "file");
    (void)cay_remove_tree(tree_fd, "tmp", NULL);
    if (symlinkat(target, tree_fd, "tmp") < 0)
        return;
}

/* There and back; away with it; in its place. */
static void *race(void *)
{
    static const char *const names[] = {"fifo", "file", "dir", "deep", ".cay-restore-" RESTORE_ID};
    for (unsigned round = 0; !atomic_load(&is_over); round++) {
        const char *name = names[round % CAY_COUNT(names)];
        put_link(name);
        for (int tries = 0; tries < 50; tries++) {
            if (exchange("tmp", name) < 0)
                continue;
            atomic_fetch_add(&exchanges, 1);
            if (round % 3 == 0)
                (void)exchange("tmp", name);
            else
                break;
        }
        if (round % 3 == 1)
            (void)unlinkat(tree_fd, name, 0);
        if (round % 3 == 2) {
            put_link(name);
            (void)renameat(tree_fd, "tmp", tree_fd, name);
        }
    }
    return NULL;
}

static int begin(void **)
{
    snprintf(folder, sizeof(folder), "/tmp/cay-races-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cay_autoclose int fd = openat(folder_fd, "prize-file", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (mkdirat(folder_fd, "prize-dir", 0700) < 0 || mkdirat(folder_fd, "tree", 0755) < 0 || fd < 0)
        return -1;
    tree_fd = openat(folder_fd, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    before = look();
    atomic_store(&is_over, false);
    atomic_store(&exchanges, 0);
    return pthread_create(&racer, NULL, race, NULL);
}

static int end(void **)
{
    cay_autoclose int above = openat(folder_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    close(tree_fd);
    close(folder_fd);
    return cay_remove_tree(above, strrchr(folder, '/') + 1, NULL);
}

static void settle(unsigned long done)
{
    atomic_store(&is_over, true);
    pthread_join(racer, NULL);
    struct prize after = look();
    same(&before.file, &after.file);
    same(&before.dir, &after.dir);
    print_message("%lu times, %lu exchanges\n", done, atomic_load(&exchanges));
    assert_true(done > 10 && atomic_load(&exchanges) > 10);
}

static void add(struct archive *archive, const char *path, mode_t type)
{
    struct archive_entry *entry = archive_entry_new();
    archive_entry_set_pathname(entry, path);
    archive_entry_set_filetype(entry, type);
    archive_entry_set_perm(entry, 0777);
    archive_entry_set_size(entry, 0);
    archive_entry_set_mtime(entry, 1000, 0);
    assert_int_equal(archive_write_header(archive, entry), ARCHIVE_OK);
    archive_entry_free(entry);
}

static int make_archive(void)
{
    static char bytes[ARCHIVE_BYTES];
    size_t used = 0;
    struct archive *archive = archive_write_new();
    archive_write_set_format_pax(archive);
    archive_write_open_memory(archive, bytes, sizeof(bytes), &used);
    add(archive, "fifo", AE_IFIFO);
    add(archive, "file", AE_IFREG);
    add(archive, "dir", AE_IFDIR);
    add(archive, "dir/file", AE_IFREG);
    add(archive, "deep/fifo", AE_IFIFO);
    assert_int_equal(archive_write_close(archive), ARCHIVE_OK);
    archive_write_free(archive);
    int fd = memfd_create("archive", MFD_CLOEXEC);
    assert_int_equal(write(fd, bytes, used), used);
    return fd;
}

/* Each entry for itself: one that failed keeps no other from being tried. */
static void unpack_once(int fd)
{
    struct cay_error err = {};
    struct cay_unpack unpack = {
        .root_fd = tree_fd, .id_base = geteuid() == 0 ? ID_BASE : 0, .replaces = true};
    cay_auto(cay_archive_in_finish) struct cay_archive_in in = {};
    struct archive_entry *entry = NULL;
    lseek(fd, 0, SEEK_SET);
    assert_true(cay_archive_in_open(&in, fd, false, &err));
    while (cay_archive_in_next(&in, &entry, &err) && entry)
        (void)cay_unpack_entry(&unpack, &in, entry, cay_archive_path(entry), &err);
    (void)cay_unpack_link(&unpack, "linked", "file", &err);
    cay_unpack_times(&unpack);
    (void)cay_unpack_remove(&unpack, "deep", &err);
    cay_unpack_finish(&unpack);
}

static void unpacking(void **)
{
    cay_autoclose int fd = make_archive();
    unsigned long done = 0;
    for (int64_t until = cay_clock_ns() + RACE_MS * CAY_NS_PER_MS; cay_clock_ns() < until; done++)
        unpack_once(fd);
    settle(done);
}

static int make_view(void)
{
    assert_int_equal(mkdirat(folder_fd, "view", 0755), 0);
    int fd = openat(folder_fd, "view", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mknodat(fd, "fifo", S_IFIFO | 0777, 0), 0);
    assert_int_equal(mkdirat(fd, "dir", 0777), 0);
    assert_int_equal(mkdirat(fd, "deep", 0777), 0);
    assert_int_equal(mknodat(fd, "deep/fifo", S_IFIFO | 0777, 0), 0);
    cay_autoclose int file = openat(fd, "file", O_CREAT | O_WRONLY | O_CLOEXEC, 0777);
    assert_int_equal(fchmod(file, 0777), 0);
    assert_int_equal(linkat(fd, "file", fd, "linked", 0), 0);
    return fd;
}

static void restoring(void **)
{
    static const char *const paths[] = {"fifo", "file", "linked", "dir", "deep/fifo", "new"};
    cay_autoclose int view_fd = make_view();
    unsigned long done = 0;
    for (int64_t until = cay_clock_ns() + RACE_MS * CAY_NS_PER_MS; cay_clock_ns() < until; done++) {
        struct cay_error err = {};
        struct cay_restore restore;
        cay_restore_init(&restore, view_fd, tree_fd, RESTORE_ID);
        for (size_t i = 0; i < CAY_COUNT(paths); i++)
            (void)cay_restore_path(&restore, paths[i], &err);
        (void)cay_restore_settle(&restore, &err);
        cay_restore_finish(&restore);
    }
    settle(done);
}

/* Nobody gets at a tree that is copied to; it is as good all the same. */
static void copying(void **)
{
    cay_autoclose int view_fd = make_view();
    unsigned long done = 0;
    for (int64_t until = cay_clock_ns() + RACE_MS * CAY_NS_PER_MS; cay_clock_ns() < until; done++) {
        struct cay_error err = {};
        struct cay_copy_stats stats;
        const struct cay_copy_request request = {
            .rule = CAY_COPY_IMPORT, .from_fd = view_fd, .to_fd = tree_fd, .previous_fd = -1};
        (void)cay_copy_tree(&request, &stats, &err);
        static const char *const names[] = {"fifo", "file", "linked", "dir", "deep"};
        for (size_t i = 0; i < CAY_COUNT(names); i++)
            (void)cay_remove_tree(tree_fd, names[i], NULL);
    }
    settle(done);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(unpacking, begin, end),
        cmocka_unit_test_setup_teardown(restoring, begin, end),
        cmocka_unit_test_setup_teardown(copying, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
