/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "host/live/live.h"
#include "host/live/live_internal.h"
#include "host/live/watchdog.h"
#include "host/process/events.h"
#include "host/session/session.h"

void cay_live_forget_other(struct cay_live *live, uint64_t call)
{
    cay_list_for_each (struct cay_live_other, other, &live->others, in_live) {
        if (other->call == call) {
            cay_list_remove(&other->in_live);
            free(other);
        }
    }
}

void cay_live_note_other(struct cay_live *live, uint64_t call)
{
    cay_live_forget_other(live, call);
    struct cay_live_other *other = cay_new(struct cay_live_other);
    other->call = call;
    cay_list_push_back(&live->others, &other->in_live);
}

static void on_output(void *owner, uint64_t call, const struct cay_frame_output *output)
{
    struct cay_live *live = owner;
    cay_processes_output(&live->session->processes, call, output);
}

static void on_exited(void *owner, uint64_t call, const struct cay_frame_exit *exit)
{
    struct cay_live *live = owner;
    struct cay_error err = {};
    if (exit->leftovers)
        cay_live_note_other(live, call);
    else
        cay_live_forget_other(live, call);
    bool is_known = cay_processes_exited(&live->session->processes, call, exit);
    if (!is_known && exit->leftovers)
        (void)cay_link_who(live->link, call, &err);
    else if (!is_known) /* of an earlier daemon's caller */
        (void)cay_link_release(live->link, call, &err);
}

static void on_who(void *owner, uint64_t call, const struct cay_frame_who *who)
{
    struct cay_live *live = owner;
    (void)cay_processes_who(&live->session->processes, call, who);
}

static void on_gone(void *owner, uint64_t call)
{
    struct cay_live *live = owner;
    cay_live_forget_other(live, call);
    (void)cay_processes_gone(&live->session->processes, call);
}

static void on_started(void *owner, uint64_t call, uint32_t pid)
{
    struct cay_live *live = owner;
    (void)cay_processes_started(&live->session->processes, call, pid);
}

static void on_piece(void *owner, uint64_t call, const struct cay_frame_piece *piece)
{
    struct cay_live *live = owner;
    cay_processes_piece(&live->session->processes, call, piece);
}

static void on_stdin_room(void *owner, uint64_t call, uint64_t taken_bytes)
{
    struct cay_live *live = owner;
    (void)cay_processes_stdin_room(&live->session->processes, call, taken_bytes);
}

static void on_refused(void *owner, uint64_t call, enum cay_frame_type request, int error)
{
    struct cay_live *live = owner;
    if (request == CAY_FRAME_EXEC || request == CAY_FRAME_SPAWN)
        cay_live_forget_other(live, call);
    (void)cay_processes_refused(&live->session->processes, call, request, error);
}

static void on_listed(void *owner, uint64_t call, const struct cay_frame_call *entry,
                      const struct cay_frame_detail *detail)
{
    struct cay_live *live = owner;
    if (live->is_listing && (entry->state == CAY_CALL_RUNNING || entry->leftovers))
        cay_live_note_other(live, call);
    cay_processes_listed(&live->session->processes, call, entry, detail);
}

static void on_list_ended(void *owner, uint32_t)
{
    struct cay_live *live = owner;
    live->is_listing = false;
    cay_processes_list_ended(&live->session->processes);
}

static void on_pong(void *owner, uint64_t number)
{
    struct cay_live *live = owner;
    cay_watchdog_answered(&live->watchdog, number);
}

const struct cay_link_handlers cay_live_handlers = {
    .pong = on_pong,
    .listed = on_listed,
    .list_ended = on_list_ended,
    .started = on_started,
    .output = on_output,
    .piece = on_piece,
    .stdin_room = on_stdin_room,
    .exited = on_exited,
    .gone = on_gone,
    .who = on_who,
    .refused = on_refused,
};
