/* SPDX-License-Identifier: Apache-2.0 */
#include "host/event/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

enum {
    WAITING_BYTES_MAX = 4 << 20,
    FILE_BYTES_MAX = 16 << 20,
    OLD_FILES = 4,
};

struct cay_audit {
    struct cay_loop *loop;
    struct cay_job job;
    int dir_fd;
    struct cay_buf waiting; /* lines to come */
    struct cay_buf writing; /* the worker's */
    uint64_t dropped;
    int result; /* of the last write; -errno */
    bool is_writing;
    bool is_failing; /* told already */
};

struct cay_audit *cay_audit_create(struct cay_loop *loop, int dir_fd)
{
    struct cay_audit *audit = cay_new(struct cay_audit);
    audit->loop = loop;
    audit->dir_fd = dir_fd;
    cay_buf_init(&audit->waiting, WAITING_BYTES_MAX);
    cay_buf_init(&audit->writing, WAITING_BYTES_MAX);
    return audit;
}

static void rotate(int dir_fd)
{
    char from[32];
    char to[32];
    for (int i = OLD_FILES - 1; i >= 0; i--) {
        snprintf(to, sizeof(to), "audit.log.%d", i + 1);
        if (i)
            snprintf(from, sizeof(from), "audit.log.%d", i);
        else
            snprintf(from, sizeof(from), "audit.log");
        (void)renameat(dir_fd, from, dir_fd, to);
    }
}

static int write_out(int dir_fd, struct cay_buf *lines)
{
    struct stat st;
    if (fstatat(dir_fd, "audit.log", &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size > FILE_BYTES_MAX)
        rotate(dir_fd);
    cay_autoclose int fd =
        openat(dir_fd, "audit.log", O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    for (size_t done = 0; done < lines->len;) {
        ssize_t count = write(fd, lines->data + done, lines->len - done);
        if (count < 0)
            return -errno;
        done += (size_t)count;
    }
    return 0;
}

static void work(struct cay_job *job)
{
    struct cay_audit *audit = CAY_CONTAINER_OF(job, struct cay_audit, job);
    audit->result = write_out(audit->dir_fd, &audit->writing);
}

static void submit(struct cay_audit *audit);

static void done(struct cay_job *job)
{
    struct cay_audit *audit = CAY_CONTAINER_OF(job, struct cay_audit, job);
    audit->is_writing = false;
    if (audit->result < 0 && !audit->is_failing)
        cay_log(CAY_ERROR, "audit.cannot_write", CAY_I("errno", -audit->result),
                CAY_I("lost_bytes", (int64_t)audit->writing.len));
    if (audit->result == 0 && audit->is_failing)
        cay_log(CAY_INFO, "audit.writes_again", CAY_I("lost_lines", (int64_t)audit->dropped));
    audit->is_failing = audit->result < 0;
    cay_buf_clear(&audit->writing, WAITING_BYTES_MAX);
    if (audit->waiting.len)
        submit(audit);
}

static void submit(struct cay_audit *audit)
{
    struct cay_buf lines = audit->writing;
    audit->writing = audit->waiting;
    audit->waiting = lines;
    audit->job.work = work;
    audit->job.done = done;
    audit->is_writing = cay_loop_try_submit(audit->loop, &audit->job);
    if (!audit->is_writing) { /* the loop ends: destroy writes */
        audit->waiting = audit->writing;
        audit->writing = lines;
    }
}

void cay_audit_add(struct cay_audit *audit, struct cay_str line)
{
    if (audit->waiting.len + line.len + 1 > WAITING_BYTES_MAX) {
        audit->dropped++;
        return;
    }
    cay_buf_append_str(&audit->waiting, line);
    cay_buf_append_byte(&audit->waiting, '\n');
    if (!audit->is_writing)
        submit(audit);
}

void cay_audit_destroy(struct cay_audit *audit)
{
    if (!audit)
        return;
    if (audit->waiting.len)
        (void)write_out(audit->dir_fd, &audit->waiting);
    cay_buf_finish(&audit->waiting);
    cay_buf_finish(&audit->writing);
    free(audit);
}
