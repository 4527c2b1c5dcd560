/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/tree/info.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/utf8.h"
#include "sys/pin.h"
#include "tool/tree/write.h"

enum {
    METADATA_BYTES_MAX = 64 * 1024,
    METADATA_ENTRIES_MAX = 256,
};

void cay_info_init(struct cay_info *info, const struct cay_tool_tree *tree, struct cay_arena *arena)
{
    *info = (struct cay_info){.tree = tree, .arena = arena};
    cay_owners_init(&info->owners, tree, arena);
}

enum cay_v1_file_type cay_info_type(uint32_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFREG: return CAY_V1_FILE_TYPE_FILE;
    case S_IFDIR: return CAY_V1_FILE_TYPE_DIRECTORY;
    case S_IFLNK: return CAY_V1_FILE_TYPE_SYMLINK;
    case S_IFIFO: return CAY_V1_FILE_TYPE_FIFO;
    case S_IFSOCK: return CAY_V1_FILE_TYPE_SOCKET;
    case S_IFCHR: return CAY_V1_FILE_TYPE_CHAR_DEVICE;
    case S_IFBLK: return CAY_V1_FILE_TYPE_BLOCK_DEVICE;
    default: return CAY_V1_FILE_TYPE_UNSPECIFIED;
    }
}

static struct google_protobuf_timestamp *timestamp(struct cay_arena *arena, struct timespec time)
{
    struct google_protobuf_timestamp *made = cay_arena_new(arena, struct google_protobuf_timestamp);
    if (made)
        *made = (struct google_protobuf_timestamp){.seconds = time.tv_sec,
                                                   .nanos = (int32_t)time.tv_nsec};
    return made;
}

static int fill(struct cay_info *info, const struct stat *st, struct cay_str path,
                struct cay_v1_file_info *out)
{
    while (path.len > 1 && path.ptr[path.len - 1] == '/')
        path.len--;
    struct cay_str name = cay_path_name(path);
    *out = (struct cay_v1_file_info){
        .path = cay_path_text(info->arena, path),
        .name = cay_path_text(info->arena, name),
        .type = cay_info_type(st->st_mode),
        .size = st->st_size,
        .mode = st->st_mode & 07777,
        .uid = cay_tree_id(info->tree, st->st_uid),
        .gid = cay_tree_id(info->tree, st->st_gid),
        .modified_at = timestamp(info->arena, st->st_mtim),
        .changed_at = timestamp(info->arena, st->st_ctim),
        .link_count = (uint32_t)CAY_MIN(st->st_nlink, (nlink_t)UINT32_MAX),
        .inode = st->st_ino,
    };
    out->owner = cay_owners_user(&info->owners, out->uid);
    out->group = cay_owners_group(&info->owners, out->gid);
    bool full = !out->path.ptr || !out->name.ptr || !out->modified_at || !out->changed_at ||
                !out->owner.ptr || !out->group.ptr;
    return full ? -ENOMEM : 0;
}

/* What the kernel says an open descriptor's path is. */
static int path_of_fd(int fd, struct cay_path *out_path)
{
    ssize_t len = cay_pin_path(fd, out_path->bytes, sizeof(out_path->bytes));
    if (len < 0 || (size_t)len >= sizeof(out_path->bytes))
        return len < 0 ? (int)len : -ENAMETOOLONG;
    out_path->bytes[len] = '\0';
    out_path->len = (size_t)len;
    return 0;
}

/* The path inside the session of something opened inside it; empty when there is none. */
static struct cay_str path_inside(struct cay_info *info, int fd)
{
    if (!info->root_known) {
        if (path_of_fd(info->tree->root_fd, &info->root) < 0)
            return (struct cay_str){};
        if (info->root.len == 1)
            info->root.len = 0;
        info->root_known = true;
    }
    struct cay_path path;
    if (path_of_fd(fd, &path) < 0 || path.len < info->root.len ||
        memcmp(path.bytes, info->root.bytes, info->root.len) != 0)
        return (struct cay_str){};
    struct cay_str inside = {path.bytes + info->root.len, path.len - info->root.len};
    if (!inside.len)
        inside = CAY_STR("/");
    return inside.ptr[0] == '/' ? cay_path_text(info->arena, inside) : (struct cay_str){};
}

static int fill_link(struct cay_info *info, int dir_fd, const char *name, struct cay_str path,
                     struct cay_v1_file_info *out)
{
    char target[CAY_PATH_BYTES_MAX];
    ssize_t len = readlinkat(dir_fd, name, target, sizeof(target));
    if (len < 0)
        return -errno;
    out->symlink_target = cay_path_text(info->arena, (struct cay_str){target, (size_t)len});
    if (!out->symlink_target.ptr)
        return -ENOMEM;
    struct cay_path whole;
    if (path.len >= sizeof(whole.bytes))
        return 0;
    memcpy(whole.bytes, path.ptr, path.len);
    whole.bytes[path.len] = '\0';
    cay_autoclose int fd = cay_tree_open(info->tree, whole.bytes, O_PATH);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return 0;
    out->resolved_path = path_inside(info, fd);
    if (!out->resolved_path.len)
        return 0;
    out->target_type = cay_info_type(st.st_mode);
    out->target_mode = st.st_mode & 07777;
    return 0;
}

static int add_metadata(struct cay_info *info, int fd, const char *name,
                        struct cay_v1_file_info *out)
{
    char value[CAY_PATH_BYTES_MAX];
    ssize_t len = cay_pin_get_xattr(fd, name, value, sizeof(value));
    struct cay_str text = {value, len > 0 ? (size_t)len : 0};
    struct cay_str key = cay_str(name + CAY_METADATA_PREFIX_BYTES);
    /* Programs in the sandbox can write these too: what is not text is not metadata. */
    if (len < 0 || !cay_utf8_valid(text) || !cay_utf8_valid(key))
        return 0;
    char *key_copy = cay_arena_copy(info->arena, key);
    char *value_copy = cay_arena_copy(info->arena, text);
    if (!key_copy || !value_copy)
        return -ENOMEM;
    out->metadata.items[out->metadata.count++] =
        (struct cay_pb_pair){.key = {key_copy, key.len}, .value = {value_copy, text.len}};
    return 0;
}

static int fill_metadata(struct cay_info *info, int fd, struct cay_v1_file_info *out)
{
    char names[METADATA_BYTES_MAX];
    ssize_t len = cay_pin_list_xattrs(fd, names, sizeof(names));
    if (len <= 0)
        return 0;
    for (const char *name = names; name < names + len; name += strlen(name) + 1) {
        if (!cay_is_metadata(name))
            continue;
        if (!out->metadata.items) {
            out->metadata.items =
                cay_arena_array(info->arena, METADATA_ENTRIES_MAX, sizeof(out->metadata.items[0]));
            if (!out->metadata.items)
                return -ENOMEM;
        }
        if (out->metadata.count == METADATA_ENTRIES_MAX)
            break;
        int added = add_metadata(info, fd, name, out);
        if (added < 0)
            return added;
    }
    return 0;
}

/* What is gone, or something else by now, has none. */
static int fill_metadata_at(struct cay_info *info, int dir_fd, const char *name,
                            struct cay_v1_file_info *out)
{
    if (!*name)
        return fill_metadata(info, dir_fd, out);
    cay_autoclose int fd = cay_pin_open(dir_fd, name);
    return fd < 0 ? 0 : fill_metadata(info, fd, out);
}

int cay_info_at(struct cay_info *info, int dir_fd, const char *name, struct cay_str path,
                struct cay_v1_file_info *out_info)
{
    struct stat st;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) < 0)
        return -errno;
    int filled = fill(info, &st, path, out_info);
    if (filled == 0 && S_ISLNK(st.st_mode))
        filled = fill_link(info, dir_fd, name, path, out_info);
    if (filled == 0 && info->wants_metadata && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
        filled = fill_metadata_at(info, dir_fd, name, out_info);
    return filled == -EINVAL ? -EAGAIN : filled;
}

int cay_info_stat(struct cay_info *info, int fd, const struct stat *st, struct cay_str path,
                  struct cay_v1_file_info *out_info)
{
    int filled = fill(info, st, path, out_info);
    if (filled < 0 || (!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode)))
        return filled;
    return fill_metadata(info, fd, out_info);
}

int cay_info_fd(struct cay_info *info, int fd, struct cay_str path,
                struct cay_v1_file_info *out_info)
{
    struct stat st;
    return fstat(fd, &st) < 0 ? -errno : cay_info_stat(info, fd, &st, path, out_info);
}
