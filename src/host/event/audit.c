/* SPDX-License-Identifier: Apache-2.0 */
#include "host/event/audit.h"

#include <stdlib.h>

#include "base/log.h"
#include "host/event/audit_ring.h"

enum { WAITING_BYTES_MAX = 4 << 20 };

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

static void work(struct cay_job *job)
{
    struct cay_audit *audit = CAY_CONTAINER_OF(job, struct cay_audit, job);
    audit->result = cay_audit_ring_write(audit->dir_fd, cay_buf_str(&audit->writing));
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
        (void)cay_audit_ring_write(audit->dir_fd, cay_buf_str(&audit->waiting));
    cay_buf_finish(&audit->waiting);
    cay_buf_finish(&audit->writing);
    free(audit);
}
