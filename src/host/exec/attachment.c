/* SPDX-License-Identifier: Apache-2.0 */
#include "host/exec/attachment.h"

#include <signal.h>

#include "host/process/orphan.h"
#include "host/session/endless.h"
#include "host/session/host.h"

enum { HEARTBEAT_MS = 30 * 1000 };

void cay_attachment_close(struct cay_attachment *attachment)
{
    cay_survey_cancel(&attachment->survey);
    cay_reader_close(&attachment->reader);
    cay_timer_close(&attachment->timer);
}

void cay_attachment_leave(struct cay_attachment *attachment)
{
    struct cay_error ignored = {};
    struct cay_process *process = attachment->reader.process;
    bool is_restarting = attachment->call->is_restarting;
    if (process && is_restarting)
        cay_process_orphan(process);
    /* First: a process that waits for its restart ends inside the signal, and its readers with it.
     */
    cay_reader_close(&attachment->reader);
    if (process && attachment->is_owner && process->kills_on_disconnect && !is_restarting &&
        !cay_process_is_over(process))
        (void)cay_process_signal(process, SIGKILL, true, -1, &ignored);
}

bool cay_attachment_send(struct cay_attachment *attachment, const void *response)
{
    attachment->was_silent = false;
    attachment->is_sending = true;
    attachment->reader.is_full = !cay_call_send(attachment->call, response);
    attachment->is_sending = false;
    return !attachment->is_gone;
}

static size_t unsent(struct cay_reader *reader)
{
    return cay_call_unsent(CAY_CONTAINER_OF(reader, struct cay_attachment, reader)->call);
}

static void on_timer(struct cay_timer *timer)
{
    struct cay_attachment *self = CAY_CONTAINER_OF(timer, struct cay_attachment, timer);
    bool was_silent = self->was_silent;
    self->was_silent = true;
    if (was_silent && !self->reader.is_full && self->beat(self))
        self->was_silent = true; /* a sign of life is no word */
}

void cay_attachment_follow(struct cay_attachment *attachment, struct cay_process *process,
                           uint64_t offset, uint64_t limit,
                           bool (*beat)(struct cay_attachment *attachment))
{
    attachment->beat = beat;
    attachment->was_silent = true;
    attachment->reader.unsent = unsent;
    cay_host_endless(attachment->host, attachment->call);
    cay_timer_open(&attachment->timer, attachment->host->loop, on_timer);
    cay_timer_start(&attachment->timer, HEARTBEAT_MS, HEARTBEAT_MS);
    cay_reader_open(&attachment->reader, process, offset, limit);
}
