/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/tree/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>

#include "tool/tree/info.h"
#include "tool/tree/walk.h"

struct listing {
    struct cay_info info;
    struct cay_walk walk;
    struct cay_path start; /* absolute, without a slash at its end */
    struct cay_path after; /* position where the last page ended, from the start; empty: none */
    struct cay_v1_list_dir_response *out;
    size_t page_size;
};

/* The order of the walk: part by part, by name. Negative when a comes before b. */
static int compare_paths(struct cay_str a, struct cay_str b)
{
    struct cay_str part_a;
    struct cay_str part_b;
    for (;;) {
        bool more_a = cay_str_split(&a, '/', &part_a);
        bool more_b = cay_str_split(&b, '/', &part_b);
        if (!more_a || !more_b)
            return (int)more_a - (int)more_b;
        int order = memcmp(part_a.ptr, part_b.ptr, CAY_MIN(part_a.len, part_b.len));
        if (order == 0)
            order = part_a.len < part_b.len ? -1 : part_a.len > part_b.len;
        if (order != 0)
            return order;
    }
}

static bool is_above(struct cay_str dir, struct cay_str path)
{
    return path.len > dir.len && path.ptr[dir.len] == '/' &&
           memcmp(path.ptr, dir.ptr, dir.len) == 0;
}

/* True for what an earlier page had; does not go into directories that are done. */
static bool had_before(struct listing *list, const struct cay_walk_entry *entry)
{
    struct cay_str after = {list->after.bytes, list->after.len};
    if (!after.len || compare_paths(entry->path, after) > 0)
        return false;
    if (entry->type == DT_DIR && !cay_str_equal(entry->path, after) &&
        !is_above(entry->path, after))
        cay_walk_skip(&list->walk);
    return true;
}

/* 1: listed, 0: it is gone or its path would be too long, or -errno. */
static int list_entry(struct listing *list, const struct cay_walk_entry *entry)
{
    struct cay_path path = {.len = list->start.len};
    if (path.len + 1 + entry->path.len >= sizeof(path.bytes))
        return 0;
    memcpy(path.bytes, list->start.bytes, path.len);
    path.bytes[path.len++] = '/';
    memcpy(path.bytes + path.len, entry->path.ptr, entry->path.len + 1);
    path.len += entry->path.len;
    int dir_fd = cay_walk_dir_fd(&list->walk);
    if (dir_fd < 0)
        return 0;
    struct cay_v1_file_info *info = &list->out->entries.items[list->out->entries.count];
    int filled = cay_info_at(&list->info, dir_fd, entry->name.ptr,
                             (struct cay_str){path.bytes, path.len}, info);
    if (filled == -ENOMEM)
        return filled;
    if (filled < 0)
        return 0;
    list->out->entries.count++;
    return 1;
}

static int list_page(struct listing *list, struct cay_arena *arena)
{
    struct cay_path last = {};
    for (struct cay_walk_entry entry; cay_walk_next(&list->walk, &entry);) {
        if (had_before(list, &entry))
            continue;
        if (list->out->entries.count == list->page_size) {
            list->out->next_page_token =
                cay_path_text(arena, (struct cay_str){last.bytes, last.len});
            return list->out->next_page_token.ptr ? 0 : -ENOMEM;
        }
        int listed = list_entry(list, &entry);
        if (listed < 0)
            return listed;
        if (listed > 0) {
            memcpy(last.bytes, entry.path.ptr, entry.path.len + 1);
            last.len = entry.path.len;
        }
    }
    return list->walk.failed ? -ENOMEM : 0;
}

static bool check(const struct cay_v1_list_dir_request *request, struct cay_error *err)
{
    if (request->depth > CAY_FILES_DEPTH_MAX)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "depth is at most %d", CAY_FILES_DEPTH_MAX);
    if (request->page_size < 0 || request->page_size > CAY_FILES_PAGE_MAX)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "page_size is between 1 and %d",
                        CAY_FILES_PAGE_MAX);
    return true;
}

bool cay_files_list(const struct cay_tool_tree *tree, const struct cay_v1_list_dir_request *request,
                    struct cay_arena *arena, struct cay_v1_list_dir_response *out_response,
                    struct cay_error *err)
{
    cay_auto(cay_tree_leave) struct cay_tree_visit visit = {};
    struct listing list = {.out = out_response};
    if (!check(request, err) || !cay_tree_enter(tree, &visit, err) ||
        !cay_path_resolve(tree, request->path, &list.start, err) ||
        !cay_path_decode(request->page_token, &list.after, err))
        return false;
    struct cay_str shown = {list.start.bytes, list.start.len};
    cay_autoclose int fd = cay_tree_open(tree, list.start.bytes, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return cay_tree_fail(err, fd, shown);
    while (list.start.len > 0 && list.start.bytes[list.start.len - 1] == '/')
        list.start.bytes[--list.start.len] = '\0';
    list.page_size = request->page_size ? (size_t)request->page_size : CAY_FILES_PAGE_DEFAULT;
    *out_response = (struct cay_v1_list_dir_response){
        .entries.items = cay_arena_array(arena, list.page_size, sizeof(struct cay_v1_file_info))};
    int listed = -ENOMEM;
    if (out_response->entries.items) {
        struct cay_walk_options options = {
            .depth_max = CAY_MAX(request->depth, 1u), .hidden = true, .by_name = true};
        cay_info_init(&list.info, tree, arena);
        list.info.wants_metadata = request->include_metadata;
        cay_walk_init(&list.walk, fd, &options);
        listed = list_page(&list, arena);
        out_response->unreadable = list.walk.unreadable + list.walk.left_out;
        cay_walk_finish(&list.walk);
    }
    return listed == 0 || cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                                   "the page is larger than this host allows; ask for fewer "
                                   "entries");
}
