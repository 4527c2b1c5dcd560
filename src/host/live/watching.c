/* SPDX-License-Identifier: Apache-2.0 */
#include "host/live/watching.h"

#include <stdlib.h>

#include "host/owner/account.h"
#include "host/session/host.h"

struct cay_watching {
    struct cay_session *session; /* NULL: gone, and we go with the last job */
    struct cay_watches *set;
    struct cay_loop *loop;
    struct cay_watch poll;
    struct cay_job job; /* reads */
    bool is_reading;
    bool is_again; /* to be read once more */
    unsigned jobs; /* under way, reading included */
    struct cay_list members;
    size_t member_count;
};

/* Takes a watcher back on a worker. */
struct leaving {
    struct cay_job job;
    struct cay_watching *watching;
    struct cay_watcher *watcher;
};

static void release(struct cay_watching *watching)
{
    if (watching->session || watching->jobs)
        return;
    cay_watches_destroy(watching->set);
    free(watching);
}

static void read_work(struct cay_job *job)
{
    cay_watches_read(CAY_CONTAINER_OF(job, struct cay_watching, job)->set);
}

static void listen_again(struct cay_watching *watching)
{
    bool wants = !cay_list_empty(&watching->members) && !watching->is_reading;
    if (watching->poll.handle)
        cay_watch_set(&watching->poll, wants ? CAY_READY_READ : 0);
}

static void submit_read(struct cay_watching *watching)
{
    watching->is_reading = true;
    watching->is_again = false;
    watching->jobs++;
    listen_again(watching);
    cay_loop_submit(watching->loop, &watching->job);
}

static void take(struct cay_watch_member *member)
{
    struct cay_watcher *watcher = member->watcher;
    struct cay_list_node *node;
    bool is_full = member->ready_count + watcher->handed_count > CAY_WATCH_QUEUE_MAX;
    if (is_full || watcher->is_overflowed) {
        cay_watch_items_free(&member->ready);
        member->ready_count = 0;
        member->is_overflowed = true;
    }
    if (is_full)
        cay_watch_items_free(&watcher->handed);
    else
        member->ready_count += watcher->handed_count;
    while ((node = cay_list_pop_front(&watcher->handed)))
        cay_list_push_back(&member->ready, node);
    member->is_gone = member->is_gone || watcher->is_gone;
    watcher->handed_count = 0;
    watcher->is_overflowed = false;
}

static void read_done(struct cay_job *job)
{
    struct cay_watching *watching = CAY_CONTAINER_OF(job, struct cay_watching, job);
    watching->jobs--;
    watching->is_reading = false;
    cay_list_for_each (struct cay_watch_member, member, &watching->members, in_watching)
        take(member);
    cay_list_for_each (struct cay_watch_member, member, &watching->members, in_watching) {
        if (member->ready_count || member->is_overflowed || member->is_gone)
            member->changed(member);
    }
    if (watching->session && watching->is_again && !watching->is_reading)
        submit_read(watching);
    listen_again(watching);
    release(watching);
}

static void on_ready(struct cay_watch *poll, unsigned)
{
    struct cay_watching *watching = CAY_CONTAINER_OF(poll, struct cay_watching, poll);
    if (!watching->is_reading)
        submit_read(watching);
}

struct cay_watches *cay_watching_set(struct cay_session *session)
{
    struct cay_watching *watching = session->watching;
    uint32_t base = cay_session_uid_base(session);
    if (watching)
        return watching->set;
    watching = session->watching = cay_new(struct cay_watching);
    watching->session = session;
    watching->loop = session->host->loop;
    watching->job =
        (struct cay_job){.work = read_work, .done = read_done, .lane = &session->account->lane};
    cay_list_init(&watching->members);
    /* An id of the session's range that nobody in its sandbox has. */
    watching->set = cay_watches_create(base, base + CAY_UID_SLOT_SIZE - 1);
    return watching->set;
}

size_t cay_watching_count(const struct cay_session *session)
{
    return session->watching ? session->watching->member_count : 0;
}

void cay_watching_join(struct cay_session *session, struct cay_watch_member *member)
{
    struct cay_watching *watching = session->watching;
    cay_list_init(&member->ready);
    cay_list_push_back(&watching->members, &member->in_watching);
    watching->member_count++;
    if (!watching->poll.handle && cay_watch_open(&watching->poll, watching->loop,
                                                 cay_watches_fd(watching->set), on_ready) < 0)
        member->is_overflowed = true;
    /* What happened since it was added. */
    cay_watching_poke(session);
}

static void leave_work(struct cay_job *job)
{
    struct leaving *leaving = CAY_CONTAINER_OF(job, struct leaving, job);
    cay_watches_remove(leaving->watching->set, leaving->watcher);
}

static void leave_done(struct cay_job *job)
{
    struct leaving *leaving = CAY_CONTAINER_OF(job, struct leaving, job);
    struct cay_watching *watching = leaving->watching;
    watching->jobs--;
    free(leaving->watcher);
    free(leaving);
    release(watching);
}

static void leave(struct cay_watching *watching, struct cay_watch_member *member)
{
    struct leaving *leaving = cay_new(struct leaving);
    cay_list_remove(&member->in_watching);
    watching->member_count--;
    cay_watch_items_free(&member->ready);
    *leaving = (struct leaving){.watching = watching, .watcher = member->watcher};
    leaving->job.work = leave_work;
    leaving->job.done = leave_done;
    leaving->job.lane = watching->job.lane;
    member->watcher = NULL;
    watching->jobs++;
    /* With the last one the worker closes what is polled. */
    if (cay_list_empty(&watching->members))
        cay_watch_close(&watching->poll);
    if (cay_loop_try_submit(watching->loop, &leaving->job))
        return;
    leave_work(&leaving->job); /* the daemon ends */
    leave_done(&leaving->job);
}

void cay_watching_leave(struct cay_session *session, struct cay_watch_member *member)
{
    leave(session->watching, member);
}

struct cay_watches *cay_watching_borrow(const struct cay_session *session)
{
    return session->watching ? session->watching->set : NULL;
}

void cay_watching_poke(struct cay_session *session)
{
    struct cay_watching *watching = session->watching;
    if (!watching || cay_list_empty(&watching->members))
        return;
    if (watching->is_reading)
        watching->is_again = true;
    else
        submit_read(watching);
}

void cay_watching_end(struct cay_session *session, const struct cay_error *err)
{
    struct cay_watching *watching = session->watching;
    struct cay_list_node *node;
    while (watching && (node = cay_list_first(&watching->members))) {
        struct cay_watch_member *member =
            CAY_CONTAINER_OF(node, struct cay_watch_member, in_watching);
        leave(watching, member);
        member->ended(member, err);
    }
}

static void free_watching(struct cay_session *session)
{
    struct cay_watching *watching = session->watching;
    struct cay_error err = {};
    if (!watching)
        return;
    cay_fail(&err, CAY_R_SESSION_DESTROYING, NULL);
    cay_watching_end(session, &err);
    session->watching = NULL;
    watching->session = NULL;
    cay_watch_close(&watching->poll);
    release(watching);
}

const struct cay_session_part cay_watching_part = {.free = free_watching};
