/* SPDX-License-Identifier: Apache-2.0 */
#include "host/past/change.h"

#include "tool/tree/path.h"

static enum cay_v1_diff_kind to_kind(enum cay_diff_kind kind)
{
    switch (kind) {
    case CAY_DIFF_ADDED: return CAY_V1_DIFF_KIND_ADDED;
    case CAY_DIFF_MODIFIED: return CAY_V1_DIFF_KIND_MODIFIED;
    case CAY_DIFF_DELETED: return CAY_V1_DIFF_KIND_DELETED;
    case CAY_DIFF_TYPE: return CAY_V1_DIFF_KIND_TYPE_CHANGED;
    case CAY_DIFF_META: return CAY_V1_DIFF_KIND_MODE_CHANGED;
    }
    return CAY_V1_DIFF_KIND_UNSPECIFIED;
}

/* As clients name it; ptr is NULL when the arena is full. */
static struct cay_str absolute(struct cay_arena *arena, const char *path)
{
    const char *text = cay_arena_printf(arena, "/%s", path);
    return text ? cay_path_text(arena, cay_str(text)) : (struct cay_str){};
}

bool cay_change_message(const struct cay_diff_entry *change, struct cay_arena *arena,
                        struct cay_v1_diff_entry *out_entry)
{
    struct cay_v1_diff_entry entry = {
        .kind = to_kind(change->kind),
        .too_deep = change->is_too_deep,
        .path = absolute(arena, change->path),
    };
    if (!entry.path.ptr)
        return false;
    if (change->renamed_from)
        entry.old_path = absolute(arena, change->renamed_from);
    const struct stat *before = change->before.dir_fd >= 0 ? &change->before.st : NULL;
    const struct stat *after = change->after.dir_fd >= 0 ? &change->after.st : NULL;
    if (before) {
        entry.old_mode = before->st_mode;
        entry.old_size = S_ISDIR(before->st_mode) ? 0 : before->st_size;
    }
    if (after) {
        entry.new_mode = after->st_mode;
        entry.new_size = S_ISDIR(after->st_mode) ? 0 : after->st_size;
    }
    entry.owner_changed =
        before && after && (before->st_uid != after->st_uid || before->st_gid != after->st_gid);
    entry.xattrs_changed = entry.kind == CAY_V1_DIFF_KIND_MODE_CHANGED && !entry.owner_changed &&
                           entry.old_mode == entry.new_mode;
    *out_entry = entry;
    return true;
}

bool cay_change_is_wanted(struct cay_pb_strs paths, struct cay_str path)
{
    bool fits = paths.count == 0;
    for (size_t i = 0; i < paths.count && !fits; i++) {
        struct cay_str wanted = paths.items[i];
        while (wanted.len && wanted.ptr[0] == '/')
            wanted = (struct cay_str){wanted.ptr + 1, wanted.len - 1};
        while (wanted.len && wanted.ptr[wanted.len - 1] == '/')
            wanted.len--;
        fits = wanted.len == 0 ||
               (path.len >= wanted.len && memcmp(path.ptr, wanted.ptr, wanted.len) == 0 &&
                (path.len == wanted.len || path.ptr[wanted.len] == '/'));
    }
    return fits;
}
