/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "tool/tree/info.h"
#include "tool/tree/walk.h"
#include "tool/tree/watch_internal.h"

/* What the kernel says, as what watchers are told. */

enum {
    READ_BYTES = 64 * 1024,
    READS_MAX = 16, /* before others get their turn */
    ITEM_BYTES_MAX = 64 * 1024,
};

struct scanned {
    size_t len;
    char path[];
};

void cay_watch_forget_scanned(struct cay_watcher *watcher)
{
    size_t cursor = 0;
    for (struct scanned *item; (item = cay_map_next(&watcher->scanned, &cursor));)
        free(item);
    cay_map_finish(&watcher->scanned);
    cay_map_init(&watcher->scanned);
}

static void note_scanned(struct cay_watcher *watcher, struct cay_str path)
{
    if (cay_map_get(&watcher->scanned, path))
        return;
    struct scanned *item = cay_alloc(sizeof(*item) + path.len);
    item->len = path.len;
    memcpy(item->path, path.ptr, path.len);
    cay_map_put(&watcher->scanned, (struct cay_str){item->path, item->len}, item);
}

static bool take_scanned(struct cay_watcher *watcher, struct cay_str path)
{
    struct scanned *item = cay_map_remove(&watcher->scanned, path);
    free(item);
    return item != NULL;
}

/* Describes what is there now, as the user; NULL when it is gone. */
static struct cay_v1_file_info *describe(struct cay_watches *watches, struct cay_watcher *watcher,
                                         struct cay_str name, struct cay_arena *arena)
{
    const struct cay_tool_tree tree = cay_watch_tree(watches, watcher);
    struct cay_v1_file_info *info = cay_arena_new(arena, struct cay_v1_file_info);
    cay_auto(cay_tree_leave) struct cay_tree_visit visit = {};
    struct cay_error ignored = {};
    struct cay_path path = watcher->path;
    struct cay_path below;
    if (!info || path.len + 1 + name.len >= sizeof(path.bytes) ||
        !cay_tree_enter(&tree, &visit, &ignored))
        return NULL;
    memcpy(below.bytes, name.ptr, name.len);
    below.bytes[name.len] = '\0';
    cay_autoclose int root_fd = cay_tree_open(&tree, watcher->path.bytes, O_PATH | O_DIRECTORY);
    cay_autoclose int fd =
        root_fd < 0 ? root_fd : cay_tree_below(root_fd, below.bytes, O_PATH | O_NOFOLLOW);
    if (fd < 0)
        return NULL;
    while (path.len > 0 && path.bytes[path.len - 1] == '/')
        path.len--;
    path.bytes[path.len++] = '/';
    memcpy(path.bytes + path.len, name.ptr, name.len);
    path.len += name.len;
    struct cay_info describer;
    cay_info_init(&describer, &tree, arena);
    describer.wants_metadata = true;
    struct cay_str shown = {path.bytes, path.len};
    return cay_info_at(&describer, fd, "", shown, info) == 0 ? info : NULL;
}

void cay_watch_tell(struct cay_watches *watches, struct cay_watcher *watcher, struct cay_str name,
                    enum cay_v1_file_event_type type)
{
    if (watcher->fresh_overflow || watcher->fresh_count >= CAY_WATCH_QUEUE_MAX ||
        watcher->fresh_bytes >= CAY_WATCH_QUEUE_BYTES_MAX) {
        watcher->fresh_overflow = true;
        return;
    }
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_auto(cay_buf_finish) struct cay_buf buf;
    cay_arena_init(&arena, 1 << 20);
    cay_buf_init(&buf, ITEM_BYTES_MAX);
    bool is_there = type == CAY_V1_FILE_EVENT_TYPE_CREATE || type == CAY_V1_FILE_EVENT_TYPE_WRITE ||
                    type == CAY_V1_FILE_EVENT_TYPE_CHMOD;
    struct cay_v1_file_event event = {.name = cay_path_text(&arena, name), .type = type};
    if (watcher->wants_info && is_there)
        event.info = describe(watches, watcher, name, &arena);
    if (cay_pb_encode(&cay_v1_file_event_desc, &event, &buf) < 0)
        return;
    struct cay_watch_item *item = cay_alloc(sizeof(*item) + buf.len);
    *item = (struct cay_watch_item){.len = buf.len};
    memcpy(item->bytes, buf.data, buf.len);
    cay_list_push_back(&watcher->fresh, &item->in_queue);
    watcher->fresh_count++;
    watcher->fresh_bytes += buf.len;
}

/* `path` and what a walk found below it. */
static struct cay_str join(struct cay_str path, struct cay_str name, struct cay_path *out)
{
    size_t slash = path.len > 0;
    if (path.len + slash + name.len >= sizeof(out->bytes))
        return (struct cay_str){};
    if (path.len)
        memcpy(out->bytes, path.ptr, path.len);
    if (slash)
        out->bytes[path.len] = '/';
    memcpy(out->bytes + path.len + slash, name.ptr, name.len);
    out->len = path.len + slash + name.len;
    out->bytes[out->len] = '\0';
    return (struct cay_str){out->bytes, out->len};
}

/* Walks as whoever the thread is now. What is found is told afterwards: telling enters anew. */
int cay_watch_below(struct cay_watches *watches, struct cay_watcher *watcher, struct cay_str path,
                    bool tell)
{
    static const struct cay_walk_options options = {.hidden = true, .by_name = true};
    cay_autoclose int start_fd =
        cay_tree_below(watcher->root_fd, path.len ? path.ptr : ".", O_PATH | O_DIRECTORY);
    struct cay_walk walk;
    int marked = 0;
    if (start_fd < 0)
        return 0; /* it is gone already */
    cay_walk_init(&walk, start_fd, &options);
    for (struct cay_walk_entry entry; marked >= 0 && cay_walk_next(&walk, &entry);) {
        struct cay_path whole;
        struct cay_str name = join(path, entry.path, &whole);
        if (!name.len)
            continue;
        if (tell)
            note_scanned(watcher, name);
        cay_autoclose int fd = entry.type == DT_DIR ? cay_tree_below(watcher->root_fd, whole.bytes,
                                                                     O_PATH | O_DIRECTORY)
                                                    : -1;
        if (fd >= 0)
            marked = cay_watch_mark(watches, watcher, fd, name);
        if (marked < 0 && marked != -ENOSPC && marked != -ENOMEM)
            marked = 0; /* what the user may not read is not watched */
    }
    cay_walk_finish(&walk);
    return CAY_MIN(marked, 0);
}

static int compare_paths(const void *a, const void *b)
{
    const struct scanned *one = *(struct scanned *const *)a;
    const struct scanned *other = *(struct scanned *const *)b;
    int order = memcmp(one->path, other->path, CAY_MIN(one->len, other->len));
    return order ? order : (one->len > other->len) - (one->len < other->len);
}

/* What a new directory had in it when it was first looked at, above before below. */
static void tell_scanned(struct cay_watches *watches, struct cay_watcher *watcher,
                         const struct cay_map *before)
{
    size_t count = cay_map_count(&watcher->scanned);
    cay_autofree struct scanned **items = cay_alloc((count + 1) * sizeof(*items));
    size_t used = 0;
    size_t cursor = 0;
    for (struct scanned *item; (item = cay_map_next(&watcher->scanned, &cursor));) {
        if (!cay_map_get(before, (struct cay_str){item->path, item->len}))
            items[used++] = item;
    }
    qsort(items, used, sizeof(struct scanned *), compare_paths);
    for (size_t i = 0; i < used; i++)
        cay_watch_tell(watches, watcher, (struct cay_str){items[i]->path, items[i]->len},
                       CAY_V1_FILE_EVENT_TYPE_CREATE);
}

static void watch_new(struct cay_watches *watches, struct cay_watcher *watcher, struct cay_str name,
                      bool tell)
{
    const struct cay_tool_tree tree = cay_watch_tree(watches, watcher);
    struct cay_path path;
    struct cay_error ignored = {};
    int marked = 0;
    memcpy(path.bytes, name.ptr, name.len);
    path.bytes[name.len] = '\0';
    /* What was found before stays known, but is not told again. */
    struct cay_map before = watcher->scanned;
    cay_map_init(&watcher->scanned);
    {
        cay_auto(cay_tree_leave) struct cay_tree_visit visit = {};
        if (cay_tree_enter(&tree, &visit, &ignored)) {
            watcher->root_fd = cay_tree_open(&tree, watcher->path.bytes, O_PATH | O_DIRECTORY);
            cay_autoclose int fd =
                watcher->root_fd < 0
                    ? -ENOENT
                    : cay_tree_below(watcher->root_fd, path.bytes, O_PATH | O_DIRECTORY);
            if (fd >= 0)
                marked = cay_watch_mark(watches, watcher, fd, name);
            if (fd >= 0 && marked == 0)
                marked =
                    cay_watch_below(watches, watcher, (struct cay_str){path.bytes, name.len}, tell);
            if (watcher->root_fd >= 0)
                close(cay_take_fd(watcher->root_fd));
        }
    }
    tell_scanned(watches, watcher, &before);
    size_t cursor = 0;
    for (struct scanned *item; (item = cay_map_next(&before, &cursor));) {
        struct cay_str key = {item->path, item->len};
        if (cay_map_get(&watcher->scanned, key))
            free(item);
        else
            cay_map_put(&watcher->scanned, key, item);
    }
    cay_map_finish(&before);
    if (marked == -ENOSPC || marked == -ENOMEM)
        watcher->fresh_overflow = true;
}

static void tell_dir(struct cay_watches *watches, struct cay_watched_dir *dir, uint32_t mask,
                     struct cay_str leaf)
{
    static const struct {
        uint32_t mask;
        enum cay_v1_file_event_type type;
    } types[] = {
        {IN_CREATE | IN_MOVED_TO, CAY_V1_FILE_EVENT_TYPE_CREATE},
        {IN_MOVED_FROM, CAY_V1_FILE_EVENT_TYPE_RENAME},
        {IN_ATTRIB, CAY_V1_FILE_EVENT_TYPE_CHMOD},
        {IN_MODIFY, CAY_V1_FILE_EVENT_TYPE_WRITE},
        {IN_DELETE, CAY_V1_FILE_EVENT_TYPE_REMOVE},
    };
    struct cay_watcher *watcher = dir->watcher;
    struct cay_path path;
    struct cay_str name = join((struct cay_str){dir->path, dir->len}, leaf, &path);
    if (!name.len)
        return;
    bool was_told = mask & (IN_CREATE | IN_DELETE | IN_MOVED_FROM) && take_scanned(watcher, name);
    if (was_told && mask & IN_CREATE)
        return;
    for (size_t i = 0; i < CAY_COUNT(types); i++) {
        if (mask & types[i].mask)
            cay_watch_tell(watches, watcher, name, types[i].type);
    }
    if (!(mask & IN_ISDIR) || !watcher->is_recursive)
        return;
    if (mask & (IN_MOVED_FROM | IN_DELETE))
        cay_watch_unmark(watches, watcher, name);
    if (mask & (IN_CREATE | IN_MOVED_TO))
        watch_new(watches, watcher, name, mask & IN_CREATE);
}

static void overflow_all(struct cay_watches *watches)
{
    cay_list_for_each (struct cay_watcher, watcher, &watches->watchers, in_set)
        watcher->fresh_overflow = true;
}

static void handle(struct cay_watches *watches, const struct inotify_event *event)
{
    if (event->mask & IN_Q_OVERFLOW) {
        overflow_all(watches);
        return;
    }
    struct cay_watch_mark *mark = cay_watch_find_mark(watches, event->wd);
    if (!mark)
        return; /* of a watch that was taken back */
    if (!event->len) {
        cay_list_for_each (struct cay_watched_dir, dir, &mark->dirs, in_watch) {
            if (!dir->len && event->mask & (IN_DELETE_SELF | IN_UNMOUNT | IN_IGNORED))
                dir->watcher->fresh_gone = true;
        }
        if (event->mask & IN_IGNORED)
            cay_watch_forget_mark(watches, mark);
        return;
    }
    /* Telling one may take others of the list away: each is looked for anew. */
    cay_list_for_each (struct cay_watcher, watcher, &watches->watchers, in_set) {
        mark = cay_watch_find_mark(watches, event->wd);
        struct cay_watched_dir *found = NULL;
        if (!mark)
            return;
        cay_list_for_each (struct cay_watched_dir, dir, &mark->dirs, in_watch) {
            if (dir->watcher == watcher)
                found = dir;
        }
        if (found)
            tell_dir(watches, found, event->mask, cay_str(event->name));
    }
}

/* True when the kernel has no more. */
static bool read_some(struct cay_watches *watches, char *buffer)
{
    ssize_t len = read(watches->fd, buffer, READ_BYTES);
    for (ssize_t at = 0; at < len;) {
        const struct inotify_event *event = (const void *)(buffer + at);
        handle(watches, event);
        at += (ssize_t)(sizeof(*event) + event->len);
    }
    return len <= 0;
}

static void hand_over(struct cay_watcher *watcher)
{
    struct cay_list_node *node;
    while ((node = cay_list_pop_front(&watcher->fresh)))
        cay_list_push_back(&watcher->handed, node);
    watcher->handed_count += watcher->fresh_count;
    watcher->is_overflowed = watcher->is_overflowed || watcher->fresh_overflow;
    watcher->is_gone = watcher->is_gone || watcher->fresh_gone;
    watcher->fresh_count = watcher->fresh_bytes = 0;
    watcher->fresh_overflow = watcher->fresh_gone = false;
}

void cay_watches_read(struct cay_watches *watches)
{
    cay_autofree char *buffer = cay_alloc(READ_BYTES);
    pthread_mutex_lock(&watches->lock);
    bool is_empty = watches->fd < 0;
    for (int reads = 0; reads < READS_MAX && !is_empty; reads++)
        is_empty = read_some(watches, buffer);
    cay_list_for_each (struct cay_watcher, watcher, &watches->watchers, in_set) {
        if (is_empty)
            cay_watch_forget_scanned(watcher);
        hand_over(watcher);
    }
    pthread_mutex_unlock(&watches->lock);
}
