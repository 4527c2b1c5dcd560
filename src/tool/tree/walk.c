/* SPDX-License-Identifier: Apache-2.0 */
#include "tool/tree/walk.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/sort.h"
#include "base/stop.h"
#include "tool/tree/tree.h"

enum { DENTS_BYTES = 32 * 1024, FIRST_ITEMS = 64 };

/* The name stands in the frame's names, with a slash behind it where that decides the order. */
struct item {
    uint32_t at;
    uint16_t len;
    unsigned char type;
};

struct cay_walk_frame {
    char *names;
    size_t names_len, names_cap;
    struct item *items;
    size_t count, cap, next;
    size_t path_len; /* of the directory, in walk->path */
    int fd;          /* -1 until somebody asks for it */
};

struct linux_dirent {
    uint64_t d_ino;
    int64_t d_off;
    unsigned short d_reclen;
    unsigned char d_type;
    char d_name[];
};

static unsigned char type_of(int fd, const char *name, unsigned char type)
{
    struct stat st;
    if (type != DT_UNKNOWN)
        return type;
    return fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? DT_UNKNOWN : IFTODT(st.st_mode);
}

static void *grow(struct cay_walk *walk, void *items, size_t cap, size_t size)
{
    void *grown = reallocarray(items, cap, size);
    walk->failed = walk->failed || !grown;
    return grown;
}

/* False when the names held are too many, or there is no memory for them. */
static bool add(struct cay_walk *walk, struct cay_walk_frame *frame, const char *name, size_t len,
                unsigned char type)
{
    size_t need = len + 2 + sizeof(struct item);
    if (walk->held_bytes + need > CAY_WALK_BYTES_MAX)
        return false;
    if (frame->names_len + len + 2 > frame->names_cap) {
        size_t cap = CAY_MAX(frame->names_cap * 2, (size_t)1024);
        char *names = grow(walk, frame->names, cap, 1);
        if (!names)
            return false;
        frame->names = names;
        frame->names_cap = cap;
    }
    if (frame->count == frame->cap) {
        size_t cap = CAY_MAX(frame->cap * 2, (size_t)FIRST_ITEMS);
        struct item *items = grow(walk, frame->items, cap, sizeof(struct item));
        if (!items)
            return false;
        frame->items = items;
        frame->cap = cap;
    }
    walk->held_bytes += need;
    frame->items[frame->count++] =
        (struct item){.at = (uint32_t)frame->names_len, .len = (uint16_t)len, .type = type};
    memcpy(frame->names + frame->names_len, name, len);
    frame->names_len += len;
    if (type == DT_DIR && !walk->options.by_name)
        frame->names[frame->names_len++] = '/';
    frame->names[frame->names_len++] = '\0';
    return true;
}

static int compare(const void *a, const void *b, void *names)
{
    const struct item *x = a;
    const struct item *y = b;
    return strcmp((const char *)names + x->at, (const char *)names + y->at);
}

static void frame_release(struct cay_walk *walk, struct cay_walk_frame *frame)
{
    for (size_t i = 0; i < frame->count; i++)
        walk->held_bytes -= frame->items[i].len + 2u + sizeof(struct item);
    free(frame->names);
    free(frame->items);
    if (frame->fd >= 0)
        close(frame->fd);
}

/* Reads the whole directory; false when it was too large, with what fitted. */
static bool read_all(struct cay_walk *walk, int fd, struct cay_walk_frame *frame)
{
    _Alignas(uint64_t) char block[DENTS_BYTES];
    long len = 0;
    while (!cay_stop_asked() && (len = syscall(SYS_getdents64, fd, block, sizeof(block))) > 0) {
        for (long at = 0; at < len;) {
            const struct linux_dirent *dent = (const void *)(block + at);
            at += dent->d_reclen;
            size_t name_len = strlen(dent->d_name);
            if (name_len <= 2 && memcmp(dent->d_name, "..", name_len) == 0)
                continue;
            unsigned char type = type_of(fd, dent->d_name, dent->d_type);
            if (type != DT_UNKNOWN && !add(walk, frame, dent->d_name, name_len, type))
                return false;
        }
    }
    return true;
}

/* Reads the directory whose path stands in walk->path. */
static void enter(struct cay_walk *walk)
{
    const char *path = walk->path.len ? walk->path.bytes : ".";
    cay_autoclose int fd = cay_tree_below(walk->start_fd, path, O_RDONLY | O_DIRECTORY);
    if (fd < 0) {
        if (fd != -EXDEV)
            walk->unreadable++;
        return;
    }
    struct cay_walk_frame frame = {.path_len = walk->path.len, .fd = -1};
    if (!read_all(walk, fd, &frame))
        walk->left_out++;
    if (frame.count > 1)
        cay_sort(frame.items, frame.count, sizeof(struct item), compare, frame.names);
    if (walk->frame_count == walk->frame_cap) {
        size_t cap = CAY_MAX(walk->frame_cap * 2, (size_t)16);
        struct cay_walk_frame *frames =
            grow(walk, walk->frames, cap, sizeof(struct cay_walk_frame));
        if (!frames) {
            frame_release(walk, &frame);
            return;
        }
        walk->frames = frames;
        walk->frame_cap = cap;
    }
    walk->frames[walk->frame_count++] = frame;
}

void cay_walk_init(struct cay_walk *walk, int start_fd, const struct cay_walk_options *options)
{
    *walk = (struct cay_walk){.start_fd = start_fd, .options = *options};
    if (!walk->options.depth_max)
        walk->options.depth_max = CAY_WALK_DEPTH_MAX;
    enter(walk);
}

void cay_walk_finish(struct cay_walk *walk)
{
    while (walk->frame_count > 0)
        frame_release(walk, &walk->frames[--walk->frame_count]);
    free(walk->frames);
    walk->frames = NULL;
}

void cay_walk_skip(struct cay_walk *walk)
{
    walk->descend = false;
}

static void descend(struct cay_walk *walk)
{
    walk->descend = false;
    if (walk->frame_count < walk->options.depth_max)
        enter(walk);
}

bool cay_walk_next(struct cay_walk *walk, struct cay_walk_entry *out_entry)
{
    if (walk->descend)
        descend(walk);
    while (walk->frame_count > 0 && !walk->failed && !cay_stop_asked()) {
        struct cay_walk_frame *frame = &walk->frames[walk->frame_count - 1];
        if (frame->next == frame->count) {
            frame_release(walk, frame);
            walk->frame_count--;
            continue;
        }
        const struct item *item = &frame->items[frame->next++];
        size_t name_at = frame->path_len + (frame->path_len > 0);
        if (name_at + item->len >= sizeof(walk->path.bytes)) {
            walk->left_out++;
            continue;
        }
        if (name_at > 0)
            walk->path.bytes[name_at - 1] = '/';
        memcpy(walk->path.bytes + name_at, frame->names + item->at, item->len);
        walk->path.len = name_at + item->len;
        walk->path.bytes[walk->path.len] = '\0';
        *out_entry = (struct cay_walk_entry){
            .path = {walk->path.bytes, walk->path.len},
            .name = {walk->path.bytes + name_at, item->len},
            .type = item->type,
            .depth = (unsigned)walk->frame_count,
        };
        walk->descend =
            item->type == DT_DIR && (walk->options.hidden || out_entry->name.ptr[0] != '.');
        return true;
    }
    return false;
}

int cay_walk_dir_fd(struct cay_walk *walk)
{
    assert(walk->frame_count > 0);
    struct cay_walk_frame *frame = &walk->frames[walk->frame_count - 1];
    if (frame->fd < 0) {
        char *end = &walk->path.bytes[frame->path_len];
        char cut = *end;
        *end = '\0';
        frame->fd = cay_tree_below(walk->start_fd, frame->path_len ? walk->path.bytes : ".",
                                   O_PATH | O_DIRECTORY);
        *end = cut;
    }
    return frame->fd;
}
