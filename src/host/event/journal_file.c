/* SPDX-License-Identifier: Apache-2.0 */
#include "host/event/journal_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/cay_v1.h"
#include "base/log.h"
#include "host/event/shelf.h"

enum {
    WAITING_BYTES_MAX = 1 << 20,
    FILE_BYTES_MAX = 4 << 20, /* then it becomes the old one, and the old one goes */
    LENGTH_BYTES = 4,
    EVENT_BYTES_MAX = 64 * 1024,
    MARK_DIGITS = 16,
};

static const char name[] = "events";
static const char old_name[] = "events.1";
static const char new_name[] = "events.new";

typedef void visit_fn(void *context, const struct cay_journal_old *old);

struct cay_journal_file {
    struct cay_loop *loop;
    struct cay_job job;
    int dir_fd;
    struct cay_buf waiting;
    struct cay_buf writing; /* the worker's */
    int result;             /* of the last write; -errno */
    bool is_writing;
    bool is_failing; /* told already */
};

bool cay_journal_cursor_read(struct cay_str cursor, uint64_t *out_mark, uint64_t *out_number)
{
    char digits[MARK_DIGITS + 1] = "";
    char *end = NULL;
    if (cursor.len <= MARK_DIGITS + 1 || cursor.ptr[MARK_DIGITS] != '-')
        return false;
    memcpy(digits, cursor.ptr, MARK_DIGITS);
    *out_mark = strtoull(digits, &end, 16);
    return *end == '\0' && cay_str_to_u64((struct cay_str){cursor.ptr + MARK_DIGITS + 1,
                                                           cursor.len - MARK_DIGITS - 1},
                                          INT64_MAX, out_number) == 0;
}

/* What is no event is passed over. */
static void visit_one(struct cay_str bytes, visit_fn *visit, void *context)
{
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, 1 << 20);
    struct cay_v1_event event = {};
    struct cay_journal_old old = {.bytes = bytes};
    if (bytes.len > EVENT_BYTES_MAX ||
        cay_pb_decode(&cay_v1_event_desc, bytes, &arena, &event) < 0 ||
        !cay_journal_cursor_read(event.cursor, &old.mark, &old.number) || !old.number)
        return;
    old.owner = event.owner;
    old.is_receipt = event.network != NULL;
    visit(context, &old);
}

/* Returns how much of it are whole events: the last one may have been cut off by the end of a
 * daemon. */
static size_t visit_all(struct cay_str bytes, visit_fn *visit, void *context)
{
    size_t at = 0;
    while (bytes.len - at > LENGTH_BYTES) {
        const uint8_t *head = (const uint8_t *)bytes.ptr + at;
        size_t len =
            (size_t)head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16 | (size_t)head[3] << 24;
        if (len > bytes.len - at - LENGTH_BYTES)
            break;
        visit_one((struct cay_str){bytes.ptr + at + LENGTH_BYTES, len}, visit, context);
        at += LENGTH_BYTES + len;
    }
    return at;
}

static void load(int dir_fd, const char *path, visit_fn *visit, void *context)
{
    enum { PIECE_BYTES = 65536 };
    cay_autoclose int fd = openat(dir_fd, path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    cay_autofree char *piece = cay_alloc(PIECE_BYTES);
    cay_auto(cay_buf_finish) struct cay_buf bytes;
    cay_buf_init(&bytes, FILE_BYTES_MAX + 2 * WAITING_BYTES_MAX);
    ssize_t len;
    while (fd >= 0 && (len = read(fd, piece, PIECE_BYTES)) > 0 && !bytes.failed)
        cay_buf_append(&bytes, piece, (size_t)len);
    size_t whole = visit_all(cay_buf_str(&bytes), visit, context);
    if (fd >= 0 && (whole < bytes.len || bytes.failed) && ftruncate(fd, (off_t)whole) < 0)
        cay_log(CAY_WARN, "journal.cannot_mend", CAY_I("errno", errno));
}

struct cay_journal_file *cay_journal_file_open(struct cay_loop *loop, int dir_fd, visit_fn *visit,
                                               void *context)
{
    struct cay_journal_file *file = cay_new(struct cay_journal_file);
    file->loop = loop;
    file->dir_fd = dir_fd;
    cay_buf_init(&file->waiting, WAITING_BYTES_MAX);
    cay_buf_init(&file->writing, WAITING_BYTES_MAX);
    load(dir_fd, old_name, visit, context);
    load(dir_fd, name, visit, context);
    return file;
}

static void append(struct cay_buf *out, struct cay_str event)
{
    for (int i = 0; i < LENGTH_BYTES; i++)
        cay_buf_append_byte(out, (char)(event.len >> 8 * i & 0xFF));
    cay_buf_append_str(out, event);
}

static void put_on_shelf(void *context, const struct cay_journal_old *old)
{
    struct cay_shelf *shelf = context;
    if (!shelf->count || shelf->events[shelf->count - 1]->number < old->number)
        cay_shelf_add(shelf, old->number, old->owner, old->is_receipt, old->bytes);
}

static int write_to(int dir_fd, const char *path, int flags, const struct cay_buf *events)
{
    cay_autoclose int fd =
        openat(dir_fd, path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | flags, 0600);
    if (fd < 0)
        return -errno;
    for (size_t done = 0; done < events->len;) {
        ssize_t count = write(fd, events->data + done, events->len - done);
        if (count < 0)
            return -errno;
        done += (size_t)count;
    }
    return 0;
}

/* The two files become the old one. Where there is no room for that, the old one goes. */
static void rotate(int dir_fd)
{
    struct cay_shelf *shelf = cay_new(struct cay_shelf);
    cay_auto(cay_buf_finish) struct cay_buf kept;
    cay_buf_init(&kept, (size_t)2 * FILE_BYTES_MAX);
    cay_shelf_init(shelf, FILE_BYTES_MAX);
    load(dir_fd, old_name, put_on_shelf, shelf);
    load(dir_fd, name, put_on_shelf, shelf);
    for (size_t i = 0; i < shelf->count; i++)
        append(&kept, (struct cay_str){shelf->events[i]->bytes, shelf->events[i]->len});
    cay_shelf_finish(shelf);
    free(shelf);
    if (!kept.failed && write_to(dir_fd, new_name, O_TRUNC, &kept) == 0 &&
        renameat(dir_fd, new_name, dir_fd, old_name) == 0) {
        (void)unlinkat(dir_fd, name, 0);
        return;
    }
    (void)unlinkat(dir_fd, new_name, 0);
    (void)renameat(dir_fd, name, dir_fd, old_name);
}

static int write_out(int dir_fd, const struct cay_buf *events)
{
    struct stat st;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size > FILE_BYTES_MAX)
        rotate(dir_fd);
    return write_to(dir_fd, name, O_APPEND, events);
}

static void work(struct cay_job *job)
{
    struct cay_journal_file *file = CAY_CONTAINER_OF(job, struct cay_journal_file, job);
    file->result = write_out(file->dir_fd, &file->writing);
}

static void submit(struct cay_journal_file *file);

static void done(struct cay_job *job)
{
    struct cay_journal_file *file = CAY_CONTAINER_OF(job, struct cay_journal_file, job);
    file->is_writing = false;
    if (file->result < 0 && !file->is_failing)
        cay_log(CAY_ERROR, "journal.cannot_write", CAY_I("errno", -file->result));
    file->is_failing = file->result < 0;
    cay_buf_clear(&file->writing, WAITING_BYTES_MAX);
    if (file->waiting.len)
        submit(file);
}

static void submit(struct cay_journal_file *file)
{
    struct cay_buf events = file->writing;
    file->writing = file->waiting;
    file->waiting = events;
    file->job.work = work;
    file->job.done = done;
    file->is_writing = cay_loop_try_submit(file->loop, &file->job);
    if (!file->is_writing) { /* the loop ends: close writes */
        file->waiting = file->writing;
        file->writing = events;
    }
}

void cay_journal_file_add(struct cay_journal_file *file, struct cay_str event)
{
    if (file->waiting.len + LENGTH_BYTES + event.len > WAITING_BYTES_MAX)
        return;
    append(&file->waiting, event);
    if (!file->is_writing)
        submit(file);
}

void cay_journal_file_close(struct cay_journal_file *file)
{
    if (!file)
        return;
    if (file->waiting.len)
        (void)write_out(file->dir_fd, &file->waiting);
    cay_buf_finish(&file->waiting);
    cay_buf_finish(&file->writing);
    free(file);
}
