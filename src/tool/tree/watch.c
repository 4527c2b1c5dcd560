/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/tree/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sys/pin.h"
#include "tool/tree/watch_internal.h"

struct cay_watches *cay_watches_create(uint32_t id_base, uint32_t owner)
{
    struct cay_watches *watches = cay_new(struct cay_watches);
    pthread_mutex_init(&watches->lock, NULL);
    watches->id_base = id_base;
    watches->owner = owner;
    watches->fd = watches->root_fd = -1;
    cay_map_init(&watches->marks);
    cay_list_init(&watches->watchers);
    return watches;
}

static void close_instance(struct cay_watches *watches)
{
    if (watches->fd >= 0)
        close(watches->fd);
    if (watches->root_fd >= 0)
        close(watches->root_fd);
    watches->fd = watches->root_fd = -1;
}

void cay_watches_destroy(struct cay_watches *watches)
{
    if (!watches)
        return;
    close_instance(watches);
    cay_map_finish(&watches->marks);
    pthread_mutex_destroy(&watches->lock);
    free(watches);
}

int cay_watches_fd(const struct cay_watches *watches)
{
    return watches->fd;
}

struct cay_tool_tree cay_watch_tree(const struct cay_watches *watches,
                                    const struct cay_watcher *watcher)
{
    return (struct cay_tool_tree){
        .root_fd = watches->root_fd,
        .has_mounts = watches->has_mounts,
        .id_base = watches->id_base,
        .uid = watcher->user.uid,
        .gid = watcher->user.gid,
        .groups = watcher->user.groups,
        .group_count = watcher->user.group_count,
        .cwd = CAY_STR("/"),
    };
}

/* The kernel counts instances by effective user, and has few for each. This thread is the session's
 * own for a moment, so that no session can use up those of the daemon. */
static int open_instance(uint32_t owner)
{
    bool is_other = geteuid() == 0 && syscall(SYS_setresuid, -1, owner, -1) == 0;
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    int failed = fd < 0 ? -errno : 0;
    if (is_other && syscall(SYS_setresuid, -1, 0, -1) < 0)
        abort();
    return failed < 0 ? failed : fd;
}

static struct cay_str key_of(const int *wd)
{
    return (struct cay_str){(const char *)wd, sizeof(*wd)};
}

struct cay_watch_mark *cay_watch_find_mark(const struct cay_watches *watches, int wd)
{
    return cay_map_get(&watches->marks, key_of(&wd));
}

int cay_watch_mark(struct cay_watches *watches, struct cay_watcher *watcher, int dir_fd,
                   struct cay_str path)
{
    if (watches->dir_count >= CAY_WATCH_DIRS_MAX)
        return -ENOSPC;
    int wd = cay_pin_watch(watches->fd, dir_fd,
                           IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_MODIFY |
                               IN_ATTRIB | IN_DELETE_SELF | IN_ONLYDIR);
    if (wd < 0)
        return wd;
    struct cay_watch_mark *mark = cay_watch_find_mark(watches, wd);
    if (!mark) {
        mark = cay_new(struct cay_watch_mark);
        mark->wd = wd;
        cay_list_init(&mark->dirs);
        cay_map_put(&watches->marks, key_of(&mark->wd), mark);
    }
    cay_list_for_each (struct cay_watched_dir, other, &mark->dirs, in_watch) {
        if (other->watcher == watcher)
            return 1;
    }
    struct cay_watched_dir *dir = cay_alloc(sizeof(*dir) + path.len + 1);
    *dir = (struct cay_watched_dir){.mark = mark, .watcher = watcher, .len = path.len};
    if (path.len)
        memcpy(dir->path, path.ptr, path.len);
    dir->path[path.len] = '\0';
    cay_list_push_back(&mark->dirs, &dir->in_watch);
    cay_list_push_back(&watcher->dirs, &dir->in_watcher);
    watches->dir_count++;
    return 0;
}

static void free_dir(struct cay_watches *watches, struct cay_watched_dir *dir)
{
    cay_list_remove(&dir->in_watch);
    cay_list_remove(&dir->in_watcher);
    watches->dir_count--;
    free(dir);
}

static void free_mark(struct cay_watches *watches, struct cay_watch_mark *mark)
{
    cay_map_remove(&watches->marks, key_of(&mark->wd));
    free(mark);
}

void cay_watch_forget_mark(struct cay_watches *watches, struct cay_watch_mark *mark)
{
    cay_list_for_each (struct cay_watched_dir, dir, &mark->dirs, in_watch)
        free_dir(watches, dir);
    free_mark(watches, mark);
}

void cay_watch_unmark(struct cay_watches *watches, struct cay_watcher *watcher, struct cay_str path)
{
    cay_list_for_each (struct cay_watched_dir, dir, &watcher->dirs, in_watcher) {
        bool is_below = dir->len >= path.len &&
                        memcmp(dir->path, path.ptr ? path.ptr : "", path.len) == 0 &&
                        (!path.len || dir->len == path.len || dir->path[path.len] == '/');
        if (!is_below)
            continue;
        struct cay_watch_mark *mark = dir->mark;
        free_dir(watches, dir);
        if (cay_list_empty(&mark->dirs)) {
            (void)inotify_rm_watch(watches->fd, mark->wd);
            free_mark(watches, mark);
        }
    }
}

/* The watcher's directory in the tree as it is, and what is below it. */
static bool enter_tree(struct cay_watches *watches, struct cay_watcher *watcher,
                       struct cay_error *err)
{
    const struct cay_tool_tree tree = cay_watch_tree(watches, watcher);
    struct cay_str shown = {watcher->path.bytes, watcher->path.len};
    cay_auto(cay_tree_leave) struct cay_tree_visit visit = {};
    if (!cay_tree_enter(&tree, &visit, err))
        return false;
    watcher->root_fd = cay_tree_open(&tree, watcher->path.bytes, O_PATH | O_DIRECTORY);
    if (watcher->root_fd < 0)
        return cay_tree_fail(err, watcher->root_fd, shown);
    int marked = cay_watch_mark(watches, watcher, watcher->root_fd, (struct cay_str){});
    if (marked >= 0 && watcher->is_recursive)
        marked = cay_watch_below(watches, watcher, (struct cay_str){}, false);
    /* A directory that somebody has open does not end when it is removed. */
    close(cay_take_fd(watcher->root_fd));
    if (marked == -ENOSPC)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                        "a session can have %d directories watched; watch fewer",
                        CAY_WATCH_DIRS_MAX);
    return marked >= 0 || cay_tree_fail(err, marked, shown);
}

static void leave_tree(struct cay_watches *watches, struct cay_watcher *watcher)
{
    cay_watch_unmark(watches, watcher, (struct cay_str){});
    if (watcher->root_fd >= 0)
        close(watcher->root_fd);
    watcher->root_fd = -1;
}

static bool add(struct cay_watches *watches, struct cay_watcher *watcher,
                const struct cay_tool_tree *tree, struct cay_str path, struct cay_error *err)
{
    struct cay_tool_tree as_user = *tree;
    cay_auto(cay_tree_leave) struct cay_tree_visit visit = {};
    /* ~ is read from the tree, as the user. */
    if (!cay_tree_enter(&as_user, &visit, err) ||
        !cay_path_resolve(&as_user, path, &watcher->path, err))
        return false;
    cay_tree_leave(&visit);
    if (watches->fd < 0) {
        watches->fd = open_instance(watches->owner);
        watches->root_fd = fcntl(tree->root_fd, F_DUPFD_CLOEXEC, 0);
        watches->has_mounts = tree->has_mounts;
    }
    if (watches->fd < 0 || watches->root_fd < 0)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                        "nothing more can be watched: the host has as many watches, or open files, "
                        "as it may have (fs.inotify.max_user_instances, LimitNOFILE)");
    return enter_tree(watches, watcher, err);
}

bool cay_watches_add(struct cay_watches *watches, struct cay_watcher *watcher,
                     const struct cay_tool_tree *tree, struct cay_str path,
                     int64_t *out_directories, struct cay_error *err)
{
    watcher->root_fd = -1;
    cay_list_init(&watcher->dirs);
    cay_list_init(&watcher->fresh);
    cay_list_init(&watcher->handed);
    cay_map_init(&watcher->scanned);
    pthread_mutex_lock(&watches->lock);
    bool is_added = add(watches, watcher, tree, path, err);
    if (is_added)
        cay_list_push_back(&watches->watchers, &watcher->in_set);
    else
        leave_tree(watches, watcher);
    *out_directories = 0;
    cay_list_for_each (struct cay_watched_dir, dir, &watcher->dirs, in_watcher)
        ++*out_directories;
    if (!is_added && cay_list_empty(&watches->watchers))
        close_instance(watches);
    pthread_mutex_unlock(&watches->lock);
    return is_added;
}

void cay_watch_items_free(struct cay_list *items)
{
    struct cay_list_node *node;
    while ((node = cay_list_pop_front(items)))
        free(CAY_CONTAINER_OF(node, struct cay_watch_item, in_queue));
}

void cay_watches_remove(struct cay_watches *watches, struct cay_watcher *watcher)
{
    pthread_mutex_lock(&watches->lock);
    leave_tree(watches, watcher);
    cay_list_remove(&watcher->in_set);
    cay_watch_forget_scanned(watcher);
    cay_watch_items_free(&watcher->fresh);
    cay_watch_items_free(&watcher->handed);
    if (cay_list_empty(&watches->watchers))
        close_instance(watches);
    pthread_mutex_unlock(&watches->lock);
}

void cay_watches_move(struct cay_watches *watches, int root_fd, bool has_mounts, bool is_changed)
{
    pthread_mutex_lock(&watches->lock);
    if (!cay_list_empty(&watches->watchers) && watches->root_fd >= 0) {
        close(watches->root_fd);
        watches->root_fd = fcntl(root_fd, F_DUPFD_CLOEXEC, 0);
        watches->has_mounts = has_mounts;
        cay_list_for_each (struct cay_watcher, watcher, &watches->watchers, in_set) {
            struct cay_error err = {};
            leave_tree(watches, watcher);
            bool is_there = enter_tree(watches, watcher, &err);
            watcher->fresh_overflow = watcher->fresh_overflow || is_changed;
            watcher->fresh_gone = watcher->fresh_gone || !is_there;
        }
    }
    pthread_mutex_unlock(&watches->lock);
}
