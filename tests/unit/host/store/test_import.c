/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/conform/store_tree.h"
#include "tests/unit/test.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/store/base.h"
#include "host/store/dir_list.h"
#include "sys/remove.h"
#include "sys/sha256.h"

struct world {
    struct cay_store *store;
    char directory[64]; /* "s" is the store, "outside" must stay as it is */
    int fd;
    struct cay_error err;
};

static int setup(void **state)
{
    struct world *world = cay_new(struct world);
    snprintf(world->directory, sizeof(world->directory), "/tmp/cay-import-XXXXXX");
    if (!mkdtemp(world->directory))
        return -1;
    world->fd = open(world->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char store_path[80];
    snprintf(store_path, sizeof(store_path), "%s/s", world->directory);
    struct cay_store_config config = {"overlay", store_path};
    assert_true(cay_store_open(&config, &world->store, &world->err));
    tree_write(world->fd, "outside", "untouched");
    *state = world;
    return 0;
}

/* Whatever was tried: nothing outside changed, and what is not a base is gone. */
static int teardown(void **state)
{
    struct world *world = *state;
    char *text = tree_read(world->fd, "outside");
    assert_string_equal(text, "untouched");
    free(text);
    cay_store_close(world->store);
    close(world->fd);
    int tmp_fd = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_return_code(cay_remove_tree(tmp_fd, world->directory + strlen("/tmp/"), NULL), 0);
    close(tmp_fd);
    free(world);
    return 0;
}

static void nothing_is_left(struct world *world)
{
    bool more = true;
    while (more)
        assert_true(cay_store_collect(world->store, 10000, &more, &world->err));
    static const char *const dirs[] = {"s/l", "s/b", "s/t"};
    for (size_t i = 0; i < CAY_COUNT(dirs); i++) {
        int fd = openat(world->fd, dirs[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct cay_dir_list names = {};
        assert_return_code(cay_dir_list_read(&names, fd), 0);
        assert_int_equal(names.count, 0);
        cay_dir_list_finish(&names);
        close(fd);
    }
}

static bool import_fd(struct cay_store *store, const char *name, int fd,
                      const struct cay_base_options *options, struct cay_copy_stats *stats,
                      struct cay_error *err)
{
    struct cay_base_info info;
    bool ok = cay_base_import(store, name, fd, options, &info, err);
    *stats = info.stats;
    cay_arena_finish(&info.arena);
    return ok;
}

struct member {
    const char *path;
    unsigned type; /* AE_IF...; 0: a hard link to `text` */
    const char *text;
    int64_t uid;
    unsigned mode;
};

static int pack(const struct member *members, size_t count, int filter)
{
    int fd = memfd_create("tar", MFD_CLOEXEC);
    struct archive *archive = archive_write_new();
    archive_write_set_format_pax(archive);
    archive_write_add_filter(archive, filter);
    assert_int_equal(archive_write_open_fd(archive, fd), ARCHIVE_OK);
    for (size_t i = 0; i < count; i++) {
        const struct member *member = &members[i];
        struct archive_entry *entry = archive_entry_new();
        archive_entry_set_pathname(entry, member->path);
        archive_entry_set_perm(entry, (mode_t)(member->mode ? member->mode : 0644));
        archive_entry_set_uid(entry, member->uid);
        archive_entry_set_gid(entry, member->uid);
        archive_entry_set_mtime(entry, 1000, 0);
        archive_entry_set_filetype(entry, member->type ? member->type : AE_IFREG);
        if (!member->type)
            archive_entry_set_hardlink(entry, member->text);
        if (member->type == AE_IFLNK)
            archive_entry_set_symlink(entry, member->text);
        if (member->type == AE_IFCHR)
            archive_entry_set_rdev(entry, 0x0103);
        bool file = member->type == AE_IFREG;
        archive_entry_set_size(entry, file ? (la_int64_t)strlen(member->text) : 0);
        if (file)
            archive_entry_xattr_add_entry(entry, "user.kept", "yes", 3);
        archive_entry_xattr_add_entry(entry, "trusted.overlay.opaque", "y", 1);
        assert_true(archive_write_header(archive, entry) >= ARCHIVE_WARN);
        if (file)
            archive_write_data(archive, member->text, strlen(member->text));
        archive_entry_free(entry);
    }
    assert_int_equal(archive_write_close(archive), ARCHIVE_OK);
    archive_write_free(archive);
    lseek(fd, 0, SEEK_SET);
    return fd;
}

static int open_base(struct world *world, const char *name)
{
    char id[CAY_STORE_ID_SIZE];
    int fd = -1;
    struct cay_store_source source = {.base = name};
    cay_store_new_id(id);
    assert_true(cay_store_create(world->store, id, &source, &world->err));
    assert_true(cay_store_mount(world->store, id, &tree_owner, &fd, &world->err));
    return fd;
}

static bool import(struct world *world, const struct member *members, size_t count,
                   const struct cay_base_options *options)
{
    struct cay_copy_stats stats;
    int fd = pack(members, count, ARCHIVE_FILTER_NONE);
    bool ok = import_fd(world->store, "it", fd, options, &stats, &world->err);
    close(fd);
    return ok;
}

static void archives_of_every_compression_become_bases(void **state)
{
    struct world *world = *state;
    static const struct member members[] = {
        {"./", AE_IFDIR, NULL, 0, 0755},
        {"./bin", AE_IFDIR, NULL, 0, 0755},
        {"./bin/tool", AE_IFREG, "tool", 0, 04755},
        {"./bin/same", 0, "./bin/tool", 0, 0},
        {"./home/me/file", AE_IFREG, "mine", 1000, 0600},
        {"./home/me/n\xc3\xa4me", AE_IFREG, "utf-8", 1000, 0644},
        {"./far", AE_IFREG, "far", 5000000, 0644},
        {"./link", AE_IFLNK, "/etc/passwd", 0, 0777},
        {"./pipe", AE_IFIFO, NULL, 0, 0600},
        {"./disk", AE_IFCHR, NULL, 0, 0666},
    };
    static const int filters[] = {ARCHIVE_FILTER_NONE, ARCHIVE_FILTER_GZIP, ARCHIVE_FILTER_ZSTD,
                                  ARCHIVE_FILTER_XZ};
    for (size_t i = 0; i < CAY_COUNT(filters); i++) {
        char name[16];
        snprintf(name, sizeof(name), "base-%zu", i);
        int fd = pack(members, CAY_COUNT(members), filters[i]);
        struct cay_copy_stats stats;
        assert_true(import_fd(world->store, name, fd, NULL, &stats, &world->err));
        close(fd);
        assert_int_equal(stats.entries, CAY_COUNT(members));
        assert_int_equal(stats.skipped, 1);
        int root = open_base(world, name);
        struct stat st;
        assert_return_code(fstatat(root, "bin/tool", &st, 0), errno);
        assert_int_equal(st.st_mode, S_IFREG | 04755);
        assert_int_equal(st.st_uid, TREE_ID_BASE);
        assert_int_equal(st.st_nlink, 2);
        assert_int_equal(st.st_mtim.tv_sec, 1000);
        assert_return_code(fstatat(root, "bin", &st, 0), errno);
        assert_int_equal(st.st_mtim.tv_sec, 1000);
        assert_return_code(fstatat(root, "home/me/file", &st, 0), errno);
        assert_int_equal(st.st_uid, TREE_ID_BASE + 1000);
        assert_return_code(fstatat(root, "home/me/n\xc3\xa4me", &st, 0), errno);
        assert_return_code(fstatat(root, "far", &st, 0), errno);
        assert_int_equal(st.st_uid, TREE_ID_BASE + CAY_BASE_NOBODY);
        assert_return_code(fstatat(root, "pipe", &st, 0), errno);
        assert_int_equal(fstatat(root, "disk", &st, 0), -1);
        assert_return_code(fstatat(root, "workspace", &st, 0), errno);
        assert_int_equal(st.st_uid, TREE_ID_BASE + 1000);
        char *dump = tree_dump(root, TREE_ID_BASE);
        assert_non_null(strstr(dump, "user.kept=yes"));
        assert_non_null(strstr(dump, "/link 120777 0:0 1000.000000000 -> /etc/passwd"));
        free(dump);
        close(root);
    }
}

static void names_that_leave_the_archive_are_refused(void **state)
{
    struct world *world = *state;
    static const char *const paths[] = {"../outside", "a/../../outside", "..", "a/.."};
    for (size_t i = 0; i < CAY_COUNT(paths); i++) {
        struct member member = {paths[i], AE_IFREG, "evil", 0, 0644};
        assert_false(import(world, &member, 1, NULL));
        assert_int_equal(world->err.reason, CAY_R_INVALID_ARGUMENT);
    }
    nothing_is_left(world);
}

static void absolute_names_stay_inside(void **state)
{
    struct world *world = *state;
    char path[96];
    snprintf(path, sizeof(path), "%s/outside", world->directory);
    struct member member = {path, AE_IFREG, "evil", 0, 0644};
    assert_true(import(world, &member, 1, NULL));
    int root = open_base(world, "it");
    char *text = tree_read(root, path + 1);
    assert_string_equal(text, "evil");
    free(text);
    close(root);
}

static void writing_through_a_link_stays_inside(void **state)
{
    struct world *world = *state;
    char target[96];
    snprintf(target, sizeof(target), "%s", world->directory);
    const struct member members[] = {
        {"up", AE_IFLNK, "../../../../../../../..", 0, 0777},
        {"abs", AE_IFLNK, target, 0, 0777},
        {"file", AE_IFLNK, "/etc/shadow", 0, 0777},
        {"up/tmp-of-archive", AE_IFREG, "evil", 0, 0644},
        {"file", AE_IFREG, "replaces the link", 0, 0644},
    };
    assert_true(import(world, members, CAY_COUNT(members), NULL));
    int root = open_base(world, "it");
    char *text = tree_read(root, "tmp-of-archive");
    assert_string_equal(text, "evil");
    free(text);
    text = tree_read(root, "file");
    assert_string_equal(text, "replaces the link");
    free(text);
    close(root);
    const struct member dangling[] = {{"abs", AE_IFLNK, target, 0, 0777},
                                      {"abs/outside", AE_IFREG, "evil", 0, 0644}};
    struct cay_copy_stats stats;
    int fd = pack(dangling, CAY_COUNT(dangling), ARCHIVE_FILTER_NONE);
    assert_false(import_fd(world->store, "other", fd, NULL, &stats, &world->err));
    close(fd);
}

static void hard_links_that_point_outside_are_refused(void **state)
{
    struct world *world = *state;
    static const char *const targets[] = {"../../../outside", "/etc/passwd", "missing", "dir", ""};
    for (size_t i = 0; i < CAY_COUNT(targets); i++) {
        const struct member members[] = {{"dir", AE_IFDIR, NULL, 0, 0755},
                                         {"etc-link", AE_IFLNK, "/etc", 0, 0777},
                                         {"stolen", 0, targets[i], 0, 0644}};
        if (!*targets[i])
            continue;
        assert_false(import(world, members, CAY_COUNT(members), NULL));
        assert_int_equal(world->err.reason, CAY_R_INVALID_ARGUMENT);
    }
    nothing_is_left(world);
}

static void amounts_are_bounded(void **state)
{
    struct world *world = *state;
    const struct member members[] = {{"a", AE_IFREG, "0123456789", 0, 0644},
                                     {"b", AE_IFREG, "0123456789", 0, 0644},
                                     {"c", AE_IFREG, "0123456789", 0, 0644}};
    struct cay_base_options few = {.entries_max = 2};
    assert_false(import(world, members, CAY_COUNT(members), &few));
    assert_int_equal(world->err.reason, CAY_R_RESOURCE_EXHAUSTED);
    struct cay_base_options small = {.bytes_max = 25};
    assert_false(import(world, members, CAY_COUNT(members), &small));
    assert_int_equal(world->err.reason, CAY_R_RESOURCE_EXHAUSTED);
    nothing_is_left(world);
}

static void what_is_no_archive_is_refused(void **state)
{
    struct world *world = *state;
    static const char *const texts[] = {"", "this is no tar at all, but a text", "PK\3\4"};
    for (size_t i = 0; i < CAY_COUNT(texts); i++) {
        int fd = memfd_create("text", MFD_CLOEXEC);
        assert_int_equal(write(fd, texts[i], strlen(texts[i])), strlen(texts[i]));
        lseek(fd, 0, SEEK_SET);
        struct cay_copy_stats stats;
        assert_false(import_fd(world->store, "it", fd, NULL, &stats, &world->err));
        assert_int_equal(world->err.reason, CAY_R_INVALID_ARGUMENT);
        close(fd);
    }
    /* Cut short in the midst of a file. */
    char *large = cay_alloc(100'001);
    memset(large, 'x', 100'000);
    struct member member = {"large", AE_IFREG, large, 0, 0644};
    int fd = pack(&member, 1, ARCHIVE_FILTER_NONE);
    assert_return_code(ftruncate(fd, 50'000), errno);
    struct cay_copy_stats stats;
    assert_false(import_fd(world->store, "it", fd, NULL, &stats, &world->err));
    assert_int_equal(world->err.reason, CAY_R_INVALID_ARGUMENT);
    close(fd);
    free(large);
    nothing_is_left(world);
}

static bool cancel(void *ctx, uint64_t entries, uint64_t)
{
    *(uint64_t *)ctx = entries;
    return false;
}

static void directories_become_bases_without_their_devices(void **state)
{
    struct world *world = *state;
    tree_mkdir(world->fd, "root", 0755);
    int from = openat(world->fd, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    tree_fill_base(from);
    assert_return_code(mknodat(from, "device", S_IFCHR | 0666, 0x0103), errno);
    assert_return_code(mknodat(from, "whiteout", S_IFCHR | 0666, 0), errno);
    assert_return_code(fchownat(from, "etc/hosts", 70000, 70000, 0), errno);
    struct cay_copy_stats stats;
    assert_true(import_fd(world->store, "dir", from, NULL, &stats, &world->err));
    assert_int_equal(stats.skipped, 2);
    assert_false(import_fd(world->store, "dir", from, NULL, &stats, &world->err));
    assert_int_equal(world->err.reason, CAY_R_BASE_EXISTS);
    int root = open_base(world, "dir");
    struct stat st;
    assert_return_code(fstatat(root, "etc/hosts", &st, 0), errno);
    assert_int_equal(st.st_uid, TREE_ID_BASE + CAY_BASE_NOBODY);
    close(root);
    for (int i = 0; i < 600; i++) {
        char path[32];
        snprintf(path, sizeof(path), "usr/lib/more-%d", i);
        tree_write(from, path, "x");
    }
    uint64_t seen = 0;
    struct cay_base_options options = {.progress = cancel, .progress_ctx = &seen};
    assert_false(import_fd(world->store, "two", from, &options, &stats, &world->err));
    assert_int_equal(world->err.reason, CAY_R_CANCELED);
    assert_true(seen > 0);
    close(from);
}

static void deep_trees_are_taken_without_running_out(void **state)
{
    struct world *world = *state;
    tree_mkdir(world->fd, "deep", 0755);
    int from = openat(world->fd, "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int at = fcntl(from, F_DUPFD_CLOEXEC, 0);
    for (int i = 0; i < 3000; i++) {
        tree_mkdir(at, "d", 0755);
        int next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(at);
        at = next;
    }
    tree_write(at, "bottom", "here");
    close(at);
    struct cay_copy_stats stats;
    if (!import_fd(world->store, "deep", from, NULL, &stats, &world->err))
        fail_msg("%s", world->err.text);
    assert_int_equal(stats.entries, 3001);
    close(from);
    assert_true(cay_store_base_remove(world->store, "deep", &world->err));
    nothing_is_left(world);
}

static void the_host_base_is_made_of_what_everybody_may_read(void **state)
{
    struct world *world = *state;
    tree_mkdir(world->fd, "host", 0755);
    int host = openat(world->fd, "host", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    tree_mkdir(host, "usr", 0755);
    tree_mkdir(host, "usr/bin", 0755);
    tree_write(host, "usr/bin/open", "open");
    tree_write(host, "usr/bin/closed", "closed");
    assert_return_code(fchmodat(host, "usr/bin/closed", 0711, 0), errno);
    tree_mkdir(host, "usr/private", 0700);
    tree_write(host, "usr/private/key", "key");
    assert_return_code(symlinkat("usr/bin", host, "bin"), errno);
    tree_mkdir(host, "etc", 0755);
    tree_write(host, "etc/nsswitch.conf", "passwd: files\n");
    tree_write(host, "etc/secret.conf", "secret");
    tree_mkdir(host, "etc/ssl", 0755);
    tree_write(host, "etc/ssl/key", "key");
    assert_return_code(fchmodat(host, "etc/ssl/key", 0600, 0), errno);
    tree_mkdir(host, "var", 0755);
    tree_mkdir(host, "var/lib", 0755);
    tree_mkdir(host, "var/lib/dpkg", 0755);
    tree_write(host, "var/lib/dpkg/status", "one");
    char path[96];
    snprintf(path, sizeof(path), "%s/host", world->directory);
    char first[CAY_STORE_NAME_SIZE];
    char second[CAY_STORE_NAME_SIZE];
    if (!cay_base_host(world->store, path, NULL, first, &world->err))
        fail_msg("%s", world->err.text);
    int root = open_base(world, "host");
    char *text = tree_read(root, "usr/bin/open");
    assert_string_equal(text, "open");
    free(text);
    assert_null(tree_read(root, "usr/bin/closed"));
    assert_null(tree_read(root, "usr/private/key"));
    assert_null(tree_read(root, "etc/secret.conf"));
    assert_null(tree_read(root, "etc/ssl/key"));
    text = tree_read(root, "etc/passwd");
    assert_non_null(strstr(text, "user:x:1000:1000:"));
    free(text);
    struct stat st;
    assert_return_code(fstatat(root, "tmp", &st, 0), errno);
    assert_int_equal(st.st_mode, S_IFDIR | 01777);
    assert_return_code(fstatat(root, "workspace", &st, 0), errno);
    assert_int_equal(st.st_uid, TREE_ID_BASE + 1000);
    /* The farm is a farm. */
    struct stat host_st;
    assert_return_code(fstatat(host, "usr/bin/open", &host_st, 0), errno);
    assert_int_equal(host_st.st_nlink, 2);
    /* The same packages are the same base; other ones are another, and the old one stays. */
    assert_true(cay_base_host(world->store, path, NULL, second, &world->err));
    assert_string_equal(first, second);
    tree_write(host, "var/lib/dpkg/status", "two");
    tree_write(host, "usr/bin/new", "new");
    assert_true(cay_base_host(world->store, path, NULL, second, &world->err));
    assert_string_not_equal(first, second);
    int fresh = open_base(world, "host");
    text = tree_read(fresh, "usr/bin/new");
    assert_string_equal(text, "new");
    free(text);
    assert_null(tree_read(root, "usr/bin/new"));
    close(fresh);
    close(root);
    close(host);
}

/* An archive around what another made: packed again, or a file in it. */
static int pack_again(int fd, int filter)
{
    int out = memfd_create("again", MFD_CLOEXEC);
    struct archive *archive = archive_write_new();
    archive_write_set_format_raw(archive);
    archive_write_add_filter(archive, filter);
    assert_int_equal(archive_write_open_fd(archive, out), ARCHIVE_OK);
    struct archive_entry *entry = archive_entry_new();
    archive_entry_set_pathname(entry, "data");
    archive_entry_set_filetype(entry, AE_IFREG);
    assert_int_equal(archive_write_header(archive, entry), ARCHIVE_OK);
    char buf[4096];
    for (ssize_t len = 0; (len = read(fd, buf, sizeof(buf))) > 0;)
        assert_int_equal(archive_write_data(archive, buf, (size_t)len), len);
    archive_entry_free(entry);
    assert_int_equal(archive_write_close(archive), ARCHIVE_OK);
    archive_write_free(archive);
    lseek(out, 0, SEEK_SET);
    return out;
}

static void what_is_packed_twice_is_refused(void **state)
{
    struct world *world = *state;
    const struct member member = {"a", AE_IFREG, "0123456789", 0, 0644};
    int fd = pack(&member, 1, ARCHIVE_FILTER_GZIP);
    int twice = pack_again(fd, ARCHIVE_FILTER_ZSTD);
    int thrice = pack_again(twice, ARCHIVE_FILTER_GZIP);
    lseek(twice, 0, SEEK_SET);
    struct cay_copy_stats stats;
    assert_false(import_fd(world->store, "it", twice, NULL, &stats, &world->err));
    assert_int_equal(world->err.reason, CAY_R_INVALID_ARGUMENT);
    assert_false(import_fd(world->store, "it", thrice, NULL, &stats, &world->err));
    assert_int_equal(world->err.reason, CAY_R_INVALID_ARGUMENT);
    nothing_is_left(world);
    close(fd);
    close(twice);
    close(thrice);
}

/* A file of which the archive says that it is large, and which holds next to nothing. */
static int pack_sparse(int64_t size)
{
    int fd = memfd_create("tar", MFD_CLOEXEC);
    struct archive *archive = archive_write_new();
    archive_write_set_format_pax(archive);
    assert_int_equal(archive_write_open_fd(archive, fd), ARCHIVE_OK);
    struct archive_entry *entry = archive_entry_new();
    archive_entry_set_pathname(entry, "sparse");
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_size(entry, size);
    archive_entry_sparse_add_entry(entry, 1 << 20, 4096);
    assert_int_equal(archive_write_header(archive, entry), ARCHIVE_OK);
    char *page = cay_alloc(1 << 20);
    memset(page, 'd', 1 << 20);
    for (int64_t at = 0; at < size; at += 1 << 20)
        archive_write_data(archive, page, (size_t)CAY_MIN(size - at, (int64_t)1 << 20));
    free(page);
    archive_entry_free(entry);
    assert_int_equal(archive_write_close(archive), ARCHIVE_OK);
    archive_write_free(archive);
    lseek(fd, 0, SEEK_SET);
    return fd;
}

static int pack_zeros(size_t size)
{
    int fd = memfd_create("tar", MFD_CLOEXEC);
    struct archive *archive = archive_write_new();
    archive_write_set_format_ustar(archive);
    assert_int_equal(archive_write_open_fd(archive, fd), ARCHIVE_OK);
    struct archive_entry *entry = archive_entry_new();
    archive_entry_set_pathname(entry, "zeros");
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_size(entry, (la_int64_t)size);
    assert_int_equal(archive_write_header(archive, entry), ARCHIVE_OK);
    cay_autofree char *zeros = calloc(1, size);
    assert_int_equal(archive_write_data(archive, zeros, size), size);
    archive_entry_free(entry);
    assert_int_equal(archive_write_close(archive), ARCHIVE_OK);
    archive_write_free(archive);
    lseek(fd, 0, SEEK_SET);
    return fd;
}

/* They are not written, and packed well: there may be many of them. */
static void zeros_can_be_cancelled(void **state)
{
    struct world *world = *state;
    uint64_t seen = 0;
    const struct cay_base_options options = {.progress = cancel, .progress_ctx = &seen};
    struct cay_copy_stats stats;
    cay_autoclose int fd = pack_zeros(4 << 20);
    assert_false(import_fd(world->store, "it", fd, &options, &stats, &world->err));
    assert_int_equal(world->err.reason, CAY_R_CANCELED);
    nothing_is_left(world);
}

static void holes_stay_holes_and_count(void **state)
{
    struct world *world = *state;
    int fd = pack_sparse(64 << 20);
    struct cay_copy_stats stats;
    assert_true(import_fd(world->store, "it", fd, NULL, &stats, &world->err));
    int root = open_base(world, "it");
    struct stat st;
    assert_return_code(fstatat(root, "sparse", &st, 0), errno);
    assert_int_equal(st.st_size, 64 << 20);
    assert_true(st.st_blocks * 512 <= 1 << 20);
    close(root);
    lseek(fd, 0, SEEK_SET);
    struct cay_base_options small = {.bytes_max = 32 << 20};
    assert_false(import_fd(world->store, "two", fd, &small, &stats, &world->err));
    assert_int_equal(world->err.reason, CAY_R_RESOURCE_EXHAUSTED);
    close(fd);
    /* Zeros that are written out, too. */
    char *zeros = cay_alloc(4 << 20);
    fd = memfd_create("zeros", MFD_CLOEXEC);
    assert_int_equal(write(fd, zeros, 4 << 20), 4 << 20);
    lseek(fd, 0, SEEK_SET);
    assert_false(import_fd(world->store, "two", fd, NULL, &stats, &world->err));
    close(fd);
    free(zeros);
}

static void data_must_have_the_digest_that_was_said(void **state)
{
    struct world *world = *state;
    const struct member member = {"a", AE_IFREG, "0123456789", 0, 0644};
    struct cay_copy_stats stats;
    struct cay_sha256 sha;
    char hex[CAY_SHA256_HEX_SIZE];
    char buf[65536];
    int fd = pack(&member, 1, ARCHIVE_FILTER_GZIP);
    cay_sha256_init(&sha);
    for (ssize_t len = 0; (len = read(fd, buf, sizeof(buf))) > 0;)
        cay_sha256_add(&sha, buf, (size_t)len);
    cay_sha256_end(&sha, hex);
    struct cay_base_options options = {.sha256 = hex};
    lseek(fd, 0, SEEK_SET);
    assert_true(import_fd(world->store, "it", fd, &options, &stats, &world->err));
    assert_true(cay_store_base_remove(world->store, "it", &world->err));
    hex[5] = hex[5] == '0' ? '1' : '0';
    lseek(fd, 0, SEEK_SET);
    assert_false(import_fd(world->store, "it", fd, &options, &stats, &world->err));
    assert_int_equal(world->err.reason, CAY_R_INVALID_ARGUMENT);
    close(fd);
    nothing_is_left(world);
}

static void a_base_can_take_the_place_of_another(void **state)
{
    struct world *world = *state;
    const struct member old = {"file", AE_IFREG, "old", 0, 0644};
    const struct member new = {"file", AE_IFREG, "new", 0, 0644};
    struct cay_base_options replace = {.replaces = true};
    assert_true(import(world, &old, 1, NULL));
    int before = open_base(world, "it");
    assert_false(import(world, &new, 1, NULL));
    assert_int_equal(world->err.reason, CAY_R_BASE_EXISTS);
    assert_true(import(world, &new, 1, &replace));
    int after = open_base(world, "it");
    char *text = tree_read(before, "file");
    assert_string_equal(text, "old"); /* who stands on the old one keeps it */
    free(text);
    text = tree_read(after, "file");
    assert_string_equal(text, "new");
    free(text);
    close(before);
    close(after);
}

static void digests_tell_trees_apart(void **state)
{
    struct world *world = *state;
    const struct member trees[][2] = {
        {{"a", AE_IFREG, "x", 0, 0644}, {"b", AE_IFREG, "y", 0, 0644}},
        {{"b", AE_IFREG, "y", 0, 0644}, {"a", AE_IFREG, "x", 0, 0644}}, /* the same */
        {{"a", AE_IFREG, "x", 0, 0644}, {"b", AE_IFREG, "z", 0, 0644}},
        {{"a", AE_IFREG, "x", 0, 0755}, {"b", AE_IFREG, "y", 0, 0644}},
        {{"a", AE_IFREG, "x", 7, 0644}, {"b", AE_IFREG, "y", 0, 0644}},
        {{"a", AE_IFREG, "x", 0, 0644}, {"c", AE_IFREG, "y", 0, 0644}},
    };
    char digests[CAY_COUNT(trees)][CAY_BASE_DIGEST_SIZE];
    for (size_t i = 0; i < CAY_COUNT(trees); i++) {
        struct cay_base_options replace = {.replaces = true};
        struct cay_base_info info;
        int fd = pack(trees[i], 2, ARCHIVE_FILTER_NONE);
        assert_true(cay_base_import(world->store, "it", fd, &replace, &info, &world->err));
        memcpy(digests[i], info.digest, sizeof(info.digest));
        cay_arena_finish(&info.arena);
        close(fd);
    }
    assert_string_equal(digests[0], digests[1]);
    for (size_t i = 2; i < CAY_COUNT(trees); i++)
        assert_string_not_equal(digests[0], digests[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(archives_of_every_compression_become_bases, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(names_that_leave_the_archive_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(absolute_names_stay_inside, setup, teardown),
        cmocka_unit_test_setup_teardown(writing_through_a_link_stays_inside, setup, teardown),
        cmocka_unit_test_setup_teardown(hard_links_that_point_outside_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(amounts_are_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_no_archive_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_packed_twice_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(zeros_can_be_cancelled, setup, teardown),
        cmocka_unit_test_setup_teardown(holes_stay_holes_and_count, setup, teardown),
        cmocka_unit_test_setup_teardown(data_must_have_the_digest_that_was_said, setup, teardown),
        cmocka_unit_test_setup_teardown(a_base_can_take_the_place_of_another, setup, teardown),
        cmocka_unit_test_setup_teardown(digests_tell_trees_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(directories_become_bases_without_their_devices, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(deep_trees_are_taken_without_running_out, setup, teardown),
        cmocka_unit_test_setup_teardown(the_host_base_is_made_of_what_everybody_may_read, setup,
                                        teardown),
    };
    if (geteuid() != 0) {
        print_message("skipped: the overlay store needs root\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
