/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/conform/store_tree.h"

#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "host/store/dir_list.h"
#include "sys/remove.h"

static struct __user_cap_data_struct all_caps[2];

void tree_make_directory(char out[static TREE_DIRECTORY_SIZE])
{
    const char *tmp = getenv("TMPDIR");
    snprintf(out, TREE_DIRECTORY_SIZE, "%s/cay-store-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(out));
}

void tree_remove_directory(const char *directory)
{
    char parent[TREE_DIRECTORY_SIZE];
    const char *slash = strrchr(directory, '/');
    assert_non_null(slash);
    snprintf(parent, sizeof(parent), "%.*s", (int)(slash - directory), directory);
    int fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_return_code(fd, errno);
    int rc = cay_remove_tree(fd, slash + 1, NULL);
    assert_return_code(rc, -rc);
    close(fd);
}

struct items {
    enum cay_store_item_kind kinds[1000];
    char names[1000][CAY_STORE_NAME_SIZE];
    size_t count;
};

static bool note_item(void *ctx, const struct cay_store_item *item)
{
    struct items *items = ctx;
    assert_true(items->count < CAY_COUNT(items->kinds));
    items->kinds[items->count] = item->kind;
    snprintf(items->names[items->count++], CAY_STORE_NAME_SIZE, "%s", item->name);
    return true;
}

static void remove_items(struct cay_store *store, const struct items *items,
                         enum cay_store_item_kind kind)
{
    struct cay_error err = {};
    for (size_t i = 0; i < items->count; i++) {
        bool ok = true;
        if (items->kinds[i] == kind && kind == CAY_STORE_ITEM_SESSION)
            ok = cay_store_destroy(store, items->names[i], &err);
        else if (items->kinds[i] == kind && kind == CAY_STORE_ITEM_SNAPSHOT)
            ok = cay_store_delete_snapshot(store, items->names[i], &err);
        else if (items->kinds[i] == kind)
            ok = cay_store_base_remove(store, items->names[i], &err);
        if (!ok)
            fail_msg("remove %s: %s", items->names[i], err.text);
    }
}

void tree_empty_store(struct cay_store *store)
{
    struct items *items = cay_new(struct items);
    struct cay_error err = {};
    bool more = true;
    assert_true(cay_store_list(store, note_item, items, &err));
    remove_items(store, items, CAY_STORE_ITEM_SESSION);
    remove_items(store, items, CAY_STORE_ITEM_SNAPSHOT);
    remove_items(store, items, CAY_STORE_ITEM_ALIAS);
    remove_items(store, items, CAY_STORE_ITEM_BASE);
    free(items);
    while (more) {
        if (!cay_store_collect(store, 1000, &more, &err))
            fail_msg("collect: %s", err.text);
    }
}

static void expect_refusal(bool done, const struct cay_error *err)
{
    assert_false(done);
    assert_int_equal(err->reason, CAY_R_SNAPSHOTS_NOT_AVAILABLE);
    assert_non_null(strstr(err->text, "snapshots"));
}

bool tree_has_snapshots(struct cay_store *store)
{
    if (cay_store_caps(store) & CAY_STORE_SNAPSHOTS)
        return true;
    char ids[3][CAY_STORE_ID_SIZE];
    struct cay_error err = {};
    struct cay_store_point point;
    for (size_t i = 0; i < CAY_COUNT(ids); i++)
        cay_store_new_id(ids[i]);
    const struct cay_store_source base = {.base = "base"};
    const struct cay_store_source snapshot = {.snapshot = ids[1]};
    assert_true(cay_store_create(store, ids[0], &base, &err));
    const struct cay_store_snapshot_request take = {
        .session_id = ids[0], .snapshot_id = ids[1], .activity = CAY_STORE_QUIET};
    expect_refusal(cay_store_snapshot(store, &take, &point, &err), &err);
    expect_refusal(cay_store_rollback(store, ids[0], ids[1], &tree_owner, &point, &err), &err);
    const struct cay_store_fork_request fork = {ids[0], ids[2], CAY_STORE_QUIET, &tree_owner};
    expect_refusal(cay_store_fork(store, &fork, &point, &err), &err);
    expect_refusal(cay_store_create(store, ids[2], &snapshot, &err), &err);
    assert_true(cay_store_delete_snapshot(store, ids[1], &err)); /* absent is done */
    assert_true(cay_store_destroy(store, ids[0], &err));
    return false;
}

void tree_enter(uint32_t uid)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    assert_return_code(syscall(SYS_capget, &header, all_caps), errno);
    setfsgid(uid);
    setfsuid(uid);
    assert_return_code(syscall(SYS_capset, &header, all_caps), errno);
}

void tree_leave(void)
{
    setfsuid(0);
    setfsgid(0);
}

static void write_with(int root_fd, const char *path, const char *text, int flags)
{
    int fd = openat(root_fd, path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);
    assert_return_code(fd, errno);
    size_t len = strlen(text);
    assert_int_equal(write(fd, text, len), len);
    close(fd);
}

void tree_write(int root_fd, const char *path, const char *text)
{
    write_with(root_fd, path, text, O_TRUNC);
}

void tree_append(int root_fd, const char *path, const char *text)
{
    write_with(root_fd, path, text, O_APPEND);
}

char *tree_read(int root_fd, const char *path)
{
    int fd = openat(root_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return NULL;
    char *text = cay_alloc(64 * 1024);
    ssize_t len = read(fd, text, 64 * 1024 - 1);
    assert_true(len >= 0);
    close(fd);
    return text;
}

void tree_mkdir(int root_fd, const char *path, mode_t mode)
{
    assert_return_code(mkdirat(root_fd, path, mode), errno);
    assert_return_code(fchmodat(root_fd, path, mode, 0), errno);
}

static uint64_t hash_file(int dir_fd, const char *name, uint64_t *out_holes)
{
    uint64_t hash = 1469598103934665603u;
    int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    assert_return_code(fd, errno);
    struct stat st;
    assert_return_code(fstat(fd, &st), errno);
    /* Only data is read: a hole that was filled shows in the number of blocks instead. */
    for (off_t at = 0; at < st.st_size;) {
        off_t data = lseek(fd, at, SEEK_DATA);
        if (data < 0)
            break;
        static char buf[128 * 1024];
        ssize_t len = pread(fd, buf, sizeof(buf), data);
        assert_true(len > 0);
        for (ssize_t i = 0; i < len; i++) {
            if (buf[i])
                hash =
                    (hash ^ (unsigned char)buf[i] ^ ((uint64_t)(data + i) << 8)) * 1099511628211u;
        }
        at = data + len;
    }
    /* Of a small file the blocks may not be there yet: the disk gets it later. */
    *out_holes = st.st_size > 64 * 1024 && st.st_blocks * 512 < st.st_size / 2;
    close(fd);
    return hash;
}

static void dump_xattrs(struct cay_buf *out, int dir_fd, const char *name)
{
    char path[PATH_MAX];
    char list[4096];
    snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dir_fd, name);
    ssize_t len = llistxattr(path, list, sizeof(list));
    for (const char *key = list; len > 0 && key < list + len; key += strlen(key) + 1) {
        char value[256] = "";
        if (strncmp(key, "user.", 5) != 0)
            continue;
        ssize_t size = lgetxattr(path, key, value, sizeof(value) - 1);
        cay_buf_printf(out, " %s=%.*s", key, (int)CAY_MAX(size, 0), value);
    }
}

/* The first path of a file with several names stands for it: inode numbers are not kept. */
struct links {
    uint64_t ino[256];
    char *path[256];
    size_t count;
};

static const char *first_name(struct links *links, const struct stat *st, const char *path)
{
    for (size_t i = 0; i < links->count; i++) {
        if (links->ino[i] == st->st_ino)
            return links->path[i];
    }
    assert_true(links->count < CAY_COUNT(links->ino));
    links->ino[links->count] = st->st_ino;
    links->path[links->count++] = cay_strdup(path);
    return path;
}

static void dump_dir(struct cay_buf *out, struct links *links, int dir_fd, const char *prefix,
                     uint32_t id_base)
{
    cay_auto(cay_dir_list_finish) struct cay_dir_list names = {};
    assert_return_code(cay_dir_list_read(&names, dir_fd), 0);
    cay_dir_list_sort(&names);
    for (size_t i = 0; i < names.count; i++) {
        const char *name = cay_dir_list_name(&names, i);
        struct stat st;
        assert_return_code(fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW), errno);
        cay_autofree char *path = cay_asprintf("%s/%s", prefix, name);
        cay_buf_printf(out, "%s %o %u:%u %" PRId64 ".%09ld", path, st.st_mode, st.st_uid - id_base,
                       st.st_gid - id_base, (int64_t)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
        dump_xattrs(out, dir_fd, name);
        if (S_ISREG(st.st_mode)) {
            uint64_t holes = 0;
            uint64_t hash = hash_file(dir_fd, name, &holes);
            cay_buf_printf(out, " size %" PRId64 " hash %" PRIx64 " holes %" PRIu64 " is %s",
                           (int64_t)st.st_size, hash, holes, first_name(links, &st, path));
        } else if (S_ISLNK(st.st_mode)) {
            char target[PATH_MAX];
            ssize_t len = readlinkat(dir_fd, name, target, sizeof(target));
            cay_buf_printf(out, " -> %.*s", (int)len, target);
        }
        cay_buf_append_byte(out, '\n');
        if (S_ISDIR(st.st_mode)) {
            int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            assert_return_code(fd, errno);
            dump_dir(out, links, fd, path, id_base);
            close(fd);
        }
    }
}

char *tree_dump(int root_fd, uint32_t id_base)
{
    struct cay_buf out;
    struct links *links = cay_new(struct links);
    struct stat st;
    cay_buf_init(&out, 1 << 20);
    assert_return_code(fstat(root_fd, &st), errno);
    cay_buf_printf(&out, "/ %o %u:%u %" PRId64 ".%09ld", st.st_mode, st.st_uid - id_base,
                   st.st_gid - id_base, (int64_t)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
    dump_xattrs(&out, root_fd, ".");
    cay_buf_append_byte(&out, '\n');
    dump_dir(&out, links, root_fd, "", id_base);
    cay_buf_append_byte(&out, '\0');
    assert_false(out.failed);
    for (size_t i = 0; i < links->count; i++)
        free(links->path[i]);
    free(links);
    return out.data;
}

static void set_xattr(int root_fd, const char *path, const char *key, const char *value)
{
    char full[PATH_MAX];
    snprintf(full, sizeof(full), "/proc/self/fd/%d/%s", root_fd, path);
    assert_return_code(lsetxattr(full, key, value, strlen(value), 0), errno);
}

static void write_sparse(int root_fd, const char *path)
{
    int fd = openat(root_fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
    assert_return_code(fd, errno);
    assert_int_equal(pwrite(fd, "begin", 5, 0), 5);
    assert_int_equal(pwrite(fd, "middle", 6, 10 << 20), 6);
    assert_return_code(ftruncate(fd, 20 << 20), errno);
    close(fd);
}

void tree_fill_base(int root_fd)
{
    tree_mkdir(root_fd, "etc", 0755);
    tree_write(root_fd, "etc/passwd", "root:x:0:0::/root:/bin/sh\n");
    tree_write(root_fd, "etc/hosts", "127.0.0.1 localhost\n");
    tree_mkdir(root_fd, "usr", 0755);
    tree_mkdir(root_fd, "usr/bin", 0755);
    tree_write(root_fd, "usr/bin/tool", "#!/bin/sh\necho tool\n");
    assert_return_code(fchmodat(root_fd, "usr/bin/tool", 04755, 0), errno);
    assert_return_code(linkat(root_fd, "usr/bin/tool", root_fd, "usr/bin/tool2", 0), errno);
    tree_mkdir(root_fd, "usr/lib", 0755);
    for (int i = 0; i < 50; i++) {
        char path[64];
        snprintf(path, sizeof(path), "usr/lib/file-%02d", i);
        tree_write(root_fd, path, path);
    }
    tree_mkdir(root_fd, "workspace", 0755);
    assert_return_code(fchownat(root_fd, "workspace", 1000, 1000, 0), errno);
    tree_mkdir(root_fd, "workspace/src", 0755);
    tree_write(root_fd, "workspace/src/main.c", "int main(void) { return 0; }\n");
    tree_mkdir(root_fd, "workspace/src/deep", 0755);
    tree_write(root_fd, "workspace/src/deep/a", "a");
    tree_write(root_fd, "workspace/src/deep/b", "b");
    tree_mkdir(root_fd, "workspace/old", 0755);
    tree_write(root_fd, "workspace/old/x", "x");
    assert_return_code(symlinkat("src/main.c", root_fd, "workspace/link"), errno);
    tree_mkdir(root_fd, "tmp", 01777);
    tree_write(root_fd, "becomes-dir", "file");
    tree_mkdir(root_fd, "becomes-file", 0755);
    tree_write(root_fd, "becomes-file/inner", "inner");
    set_xattr(root_fd, "etc/hosts", "user.note", "base");
    write_sparse(root_fd, "workspace/sparse-base");
}

static void rename_in(int root_fd, const char *from, const char *to)
{
    assert_return_code(renameat(root_fd, from, root_fd, to), errno);
}

static void remove_in(int root_fd, const char *path, int flags)
{
    assert_return_code(unlinkat(root_fd, path, flags), errno);
}

static void step_write(int root_fd, uint32_t id_base)
{
    tree_write(root_fd, "workspace/new.txt", "new\n");
    tree_append(root_fd, "etc/hosts", "10.0.0.1 other\n");
    set_xattr(root_fd, "workspace/new.txt", "user.color", "blue");
    assert_return_code(fchownat(root_fd, "workspace/new.txt", id_base + 1000, id_base + 1000, 0),
                       errno);
    write_sparse(root_fd, "workspace/sparse");
    assert_return_code(mknodat(root_fd, "workspace/fifo", S_IFIFO | 0600, 0), errno);
    assert_return_code(mknodat(root_fd, "workspace/socket", S_IFSOCK | 0666, 0), errno);
    tree_write(root_fd, "workspace/bad\nname \x01\xff'\"", "bad");
    assert_return_code(linkat(root_fd, "workspace/new.txt", root_fd, "workspace/new-link", 0),
                       errno);
    tree_write(root_fd, "workspace/gone-soon", "1");
}

static void step_rename(int root_fd)
{
    rename_in(root_fd, "workspace/src", "workspace/source");
    tree_write(root_fd, "workspace/source/deep/c", "c");
    remove_in(root_fd, "workspace/source/deep/a", 0);
    remove_in(root_fd, "workspace/gone-soon", 0);
    assert_return_code(fchmodat(root_fd, "usr/bin/tool", 0700, 0), errno);
    /* Deleted and made anew: opaque. */
    remove_in(root_fd, "workspace/old/x", 0);
    remove_in(root_fd, "workspace/old", AT_REMOVEDIR);
    tree_mkdir(root_fd, "workspace/old", 0750);
    tree_write(root_fd, "workspace/old/y", "y");
}

static void step_types(int root_fd)
{
    remove_in(root_fd, "becomes-dir", 0);
    tree_mkdir(root_fd, "becomes-dir", 0711);
    tree_write(root_fd, "becomes-dir/inside", "inside");
    remove_in(root_fd, "becomes-file/inner", 0);
    remove_in(root_fd, "becomes-file", AT_REMOVEDIR);
    tree_write(root_fd, "becomes-file", "now a file");
    /* The second rename of the same directory, into another parent. */
    rename_in(root_fd, "workspace/source/deep", "tmp/deep-moved");
    rename_in(root_fd, "workspace/source", "workspace/sources");
    tree_append(root_fd, "workspace/sources/main.c", "/* more */\n");
}

static void step_more(int root_fd)
{
    rename_in(root_fd, "tmp/deep-moved", "workspace/deep-again");
    tree_append(root_fd, "workspace/deep-again/b", "bb");
    tree_mkdir(root_fd, "workspace/src", 0755); /* the name a renamed directory once had */
    tree_write(root_fd, "workspace/src/fresh", "fresh");
    remove_in(root_fd, "usr/bin/tool2", 0);
    remove_in(root_fd, "workspace/fifo", 0);
    remove_in(root_fd, "workspace/link", 0);
    assert_return_code(symlinkat("/etc/passwd", root_fd, "workspace/link"), errno);
    /* Swapped by rename over each other. */
    tree_write(root_fd, "workspace/replace", "replacement");
    rename_in(root_fd, "workspace/replace", "usr/lib/file-07");
}

static void step_root(int root_fd)
{
    assert_return_code(fchmodat(root_fd, ".", 0751, 0), errno);
    tree_write(root_fd, "top-level", "top");
    rename_in(root_fd, "usr/lib", "usr/libs");
    rename_in(root_fd, "usr", "user");
    rename_in(root_fd, "user/libs", "libs");
}

void tree_change(int root_fd, int step, uint32_t id_base)
{
    tree_enter(id_base);
    switch (step) {
    case 0: step_write(root_fd, id_base); break;
    case 1: step_rename(root_fd); break;
    case 2: step_types(root_fd); break;
    case 3: step_more(root_fd); break;
    case 4: step_root(root_fd); break;
    case 5:
        tree_write(root_fd, "libs/file-03", "rewritten");
        remove_in(root_fd, "libs/file-04", 0);
        rename_in(root_fd, "libs", "workspace/libs");
        break;
    default: abort();
    }
    tree_leave();
}
