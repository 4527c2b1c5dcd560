/* SPDX-License-Identifier: Apache-2.0 */
#include "host/event/journal_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

enum {
    WAITING_BYTES_MAX = 1 << 20,
    FILE_BYTES_MAX = 4 << 20, /* then it becomes the old one, and the old one goes */
    LENGTH_BYTES = 4,
};

static const char name[] = "events";
static const char old_name[] = "events.1";

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

/* Returns how much of it are whole events: the last one may have been cut off by the end of a
 * daemon. */
static size_t visit_all(struct cay_str bytes, void (*visit)(void *context, struct cay_str event),
                        void *context)
{
    size_t at = 0;
    while (bytes.len - at > LENGTH_BYTES) {
        const uint8_t *head = (const uint8_t *)bytes.ptr + at;
        size_t len =
            (size_t)head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16 | (size_t)head[3] << 24;
        if (len > bytes.len - at - LENGTH_BYTES)
            break;
        visit(context, (struct cay_str){bytes.ptr + at + LENGTH_BYTES, len});
        at += LENGTH_BYTES + len;
    }
    return at;
}

static void load(int dir_fd, const char *path, void (*visit)(void *context, struct cay_str event),
                 void *context)
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

struct cay_journal_file *cay_journal_file_open(struct cay_loop *loop, int dir_fd,
                                               void (*visit)(void *context, struct cay_str event),
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

static int write_out(int dir_fd, const struct cay_buf *events)
{
    struct stat st;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size > FILE_BYTES_MAX)
        (void)renameat(dir_fd, name, dir_fd, old_name);
    cay_autoclose int fd =
        openat(dir_fd, name, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
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
    for (int i = 0; i < LENGTH_BYTES; i++)
        cay_buf_append_byte(&file->waiting, (char)(event.len >> 8 * i & 0xFF));
    cay_buf_append_str(&file->waiting, event);
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
