/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A client that is attached to a process by a stream, AttachProcess or Terminal: started for it or
 * found in the table, read, kept alive by heartbeats, and left. Embedded in the verb's own struct.
 * Room-private.
 */

#include "host/exec/launch.h"
#include "host/process/reader.h"
#include "host/session/session.h"

struct cay_attachment {
    struct cay_launch launch;
    struct cay_survey survey;
    struct cay_reader reader;
    struct cay_host *host;
    struct cay_call *call;
    struct cay_processes *table;
    bool is_owner; /* the process dies with this call, if it dies with any */
    bool is_gone;  /* the caller */
    bool is_sending;

    struct cay_timer timer; /* the rest is the attachment's own */
    bool (*beat)(struct cay_attachment *attachment);
    bool was_silent;
};

/* Everything but the call itself. */
void cay_attachment_close(struct cay_attachment *attachment);

/* The client is gone: so is the process, if it was to die with it; across a restart of the daemon
 * it is kept for it. Closes nothing but the reader. */
void cay_attachment_leave(struct cay_attachment *attachment);

/* Sends a message of the stream. False when the caller went away inside: who is at work goes on
 * with it. */
[[nodiscard]] bool cay_attachment_send(struct cay_attachment *attachment, const void *response);

/* Reads from the offset on until the limit, with the reader's output and ended set. After a silence
 * `beat` sends a sign of life, with cay_attachment_send; false: the attachment is gone. */
void cay_attachment_follow(struct cay_attachment *attachment, struct cay_process *process,
                           uint64_t offset, uint64_t limit,
                           bool (*beat)(struct cay_attachment *attachment));
