/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "api/limits.h"
#include "api/noun.h"
#include "host/event/journal.h"
#include "host/owner/account.h"
#include "host/service/verbs.h"
#include "host/session/access.h"
#include "host/session/endless.h"
#include "host/session/host.h"
#include "host/session/session.h"

/* WatchEvents: a reader of the journal. It is sent as much as it takes; what falls out of the
 * journal meanwhile is a gap, and it is told how large. */

enum { SILENCE_MS = 30'000 };

struct watch {
    struct cay_journal_reader reader;
    struct cay_call *call;
    struct cay_host *host;
    struct cay_account *account; /* in which it is counted */
    struct cay_timer silence;
    struct cay_journal_place place;
    bool is_lost; /* there is a gap before it that is not told yet */
    uint64_t missed;
    bool is_full; /* wait for room */
    bool is_begun;
    bool is_busy; /* sending */
    bool is_over; /* the caller has gone */
};

static void end_watch(struct watch *self)
{
    struct cay_call *call = self->call;
    struct cay_error err = {};
    bool is_over = self->is_over;
    cay_journal_unfollow(&self->reader);
    self->account->event_watch_count--;
    cay_timer_close(&self->silence);
    free(self);
    cay_fail(&err, CAY_R_CANCELED, NULL);
    if (is_over)
        cay_call_fail(call, &err);
    else
        cay_call_done(call, NULL);
}

static bool has_label(const struct cay_session *session, struct cay_pb_pair wanted)
{
    struct cay_pb_pairs labels = session->spec->labels;
    for (size_t i = 0; i < labels.count; i++) {
        if (cay_str_equal(labels.items[i].key, wanted.key) &&
            cay_str_equal(labels.items[i].value, wanted.value))
            return true;
    }
    return false;
}

static bool is_listed(struct cay_pb_strs names, struct cay_str name)
{
    for (size_t i = 0; i < names.count; i++) {
        if (cay_str_equal(names.items[i], name))
            return true;
    }
    return names.count == 0;
}

static bool has_type(struct cay_pb_strs types, struct cay_str type)
{
    for (size_t i = 0; i < types.count; i++) {
        struct cay_str wanted = types.items[i];
        if (type.len >= wanted.len && memcmp(type.ptr, wanted.ptr, wanted.len) == 0 &&
            (type.len == wanted.len || type.ptr[wanted.len] == '.'))
            return true;
    }
    return types.count == 0;
}

static bool fits(const struct watch *self, const struct cay_v1_event *event)
{
    const struct cay_v1_watch_events_request *request = self->call->request;
    const struct cay_caller *caller = &self->call->caller;
    if (!cay_may_know_owned(caller, event->owner))
        return false;
    bool is_kind = request->kinds.count == 0;
    for (size_t i = 0; i < request->kinds.count; i++)
        is_kind = is_kind || request->kinds.items[i] == event->kind;
    if (!is_kind || !has_type(request->types, event->type) ||
        !is_listed(request->session_ids, event->session_id) ||
        (request->since && event->time &&
         cay_noun_time_ns(event->time) < cay_noun_time_ns(request->since)))
        return false;
    if (!request->labels.count)
        return true;
    /* Of a session that is gone nobody knows the labels any more. */
    const struct cay_session *session = cay_map_get(&self->host->sessions.by_id, event->session_id);
    for (size_t i = 0; session && i < request->labels.count; i++) {
        if (!has_label(session, request->labels.items[i]))
            return false;
    }
    return session != NULL;
}

static void send(struct watch *self, struct cay_v1_watch_events_response *response)
{
    char cursor[CAY_CURSOR_BYTES];
    cay_journal_cursor(self->host->journal, self->place.next - 1, cursor);
    response->cursor = cay_str(cursor);
    self->is_full = !cay_call_send(self->call, response);
    cay_timer_start(&self->silence, SILENCE_MS, SILENCE_MS);
}

static void send_heartbeat(struct watch *self)
{
    struct cay_v1_heartbeat heartbeat = {};
    struct cay_v1_watch_events_response response = {
        .which_frame = CAY_V1_WATCH_EVENTS_RESPONSE_FRAME_HEARTBEAT, .frame.heartbeat = &heartbeat};
    send(self, &response);
}

static void send_gap(struct watch *self)
{
    struct cay_v1_event_gap gap = {.missed = (int64_t)self->missed};
    struct cay_v1_watch_events_response response = {
        .which_frame = CAY_V1_WATCH_EVENTS_RESPONSE_FRAME_GAP, .frame.gap = &gap};
    self->is_lost = false;
    self->missed = 0;
    send(self, &response);
}

static void send_event(struct watch *self)
{
    struct cay_journal *journal = self->host->journal;
    const struct cay_shelf_event *kept = cay_journal_from(journal, self->place.next);
    if (!kept) { /* the rest is lost */
        self->place.next = cay_journal_next(journal);
        return;
    }
    cay_journal_place_pass(&self->place, kept);
    if (self->place.owner.ptr && !cay_str_equal(self->place.owner, cay_shelf_owner(kept)))
        return;
    struct cay_str bytes = {kept->bytes, kept->len};
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, 1 << 20);
    struct cay_v1_event event = {};
    bool is_good = cay_pb_decode(&cay_v1_event_desc, bytes, &arena, &event) == 0;
    if (!is_good || !fits(self, &event))
        return;
    struct cay_v1_watch_events_response response = {
        .which_frame = CAY_V1_WATCH_EVENTS_RESPONSE_FRAME_EVENT, .frame.event = &event};
    send(self, &response);
}

/* What the reader takes now. The caller may go away inside a send: the watch ends at the end. */
static void pump(struct watch *self)
{
    const struct cay_v1_watch_events_request *request = self->call->request;
    struct cay_journal *journal = self->host->journal;
    if (self->is_busy)
        return;
    self->is_busy = true;
    uint64_t missed = 0;
    if (cay_journal_place_lost(journal, &self->place, &missed)) {
        self->missed += missed;
        self->is_lost = true;
    }
    if (!self->is_begun)
        send_heartbeat(self);
    self->is_begun = true;
    while (!self->is_full && !self->is_over &&
           (self->is_lost || self->place.next < cay_journal_next(journal))) {
        if (self->is_lost)
            send_gap(self);
        else
            send_event(self);
    }
    self->is_busy = false;
    bool is_all = !self->is_full && self->place.next == cay_journal_next(journal);
    if (self->is_over || (request->no_follow && is_all))
        end_watch(self);
}

static void on_news(struct cay_journal_reader *reader)
{
    pump(CAY_CONTAINER_OF(reader, struct watch, reader));
}

static void on_silence(struct cay_timer *timer)
{
    struct watch *self = CAY_CONTAINER_OF(timer, struct watch, silence);
    if (self->is_full)
        return;
    self->is_begun = false; /* another heartbeat */
    pump(self);
}

static void on_room(struct cay_call *call)
{
    struct watch *self = call->state;
    self->is_full = false;
    pump(self);
}

static void on_cancel(struct cay_call *call)
{
    struct watch *self = call->state;
    self->is_over = true;
    if (!self->is_busy)
        end_watch(self);
}

static bool start_at(struct watch *self, const struct cay_v1_watch_events_request *request,
                     struct cay_error *err)
{
    struct cay_journal *journal = self->host->journal;
    for (size_t i = 0; i < request->kinds.count; i++) {
        if (!request->kinds.items[i])
            return cay_fail(err, CAY_R_INVALID_ARGUMENT, "one of the kinds is unspecified");
    }
    if (request->session_ids.count > CAY_LIMIT_PAGE_SIZE ||
        request->types.count > CAY_LIMIT_PAGE_SIZE)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "session_ids, types: %d at most",
                        CAY_LIMIT_PAGE_SIZE);
    const struct cay_caller *caller = &self->call->caller;
    if (caller->role != CAY_ROLE_ADMIN)
        self->place.owner = cay_str(caller->owner);
    cay_journal_place_at_end(journal, &self->place);
    if (!request->cursor.len && !request->since && !request->no_follow)
        return true;
    self->place.seen[0].is_known = self->place.seen[1].is_known = false;
    self->place.next = cay_journal_first(journal);
    if (!request->cursor.len)
        return true;
    self->place.lost = 0;
    return cay_journal_parse(journal, request->cursor, &self->place.next, &self->is_lost) ||
           cay_fail(err, CAY_R_INVALID_ARGUMENT,
                    "cursor: this stream gave no such cursor; begin again without one");
}

/* Every event is looked at for each of them. */
static bool enter_account(struct watch *self, struct cay_error *err)
{
    const struct cay_caller *caller = &self->call->caller;
    self->account = cay_account_of(self->host, caller->owner);
    if (caller->role != CAY_ROLE_ADMIN &&
        self->account->event_watch_count >= CAY_LIMIT_EVENT_STREAMS)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                        "owner '%.64s' has %d streams of events, as many as one may have; end "
                        "some, or let one stream serve several readers",
                        caller->owner, CAY_LIMIT_EVENT_STREAMS);
    self->account->event_watch_count++;
    return true;
}

/* Looks are tools that only read. */
static bool wants_tools(const struct cay_v1_watch_events_request *request)
{
    for (size_t i = 0; i < request->kinds.count; i++) {
        if (request->kinds.items[i] == CAY_V1_EVENT_KIND_TOOL)
            return true;
    }
    return request->kinds.count == 0;
}

void cay_host_watch_events(struct cay_service *service, struct cay_call *call)
{
    const struct cay_v1_watch_events_request *request = call->request;
    struct watch *self = cay_new(struct watch);
    struct cay_error err = {};
    self->call = call;
    self->host = cay_host_of(service);
    self->reader.news = on_news;
    self->reader.skips_looks = !wants_tools(call->request);
    if (!start_at(self, call->request, &err) || !enter_account(self, &err)) {
        free(self);
        cay_call_fail(call, &err);
        return;
    }
    call->state = self;
    call->on_room = on_room;
    call->on_cancel = on_cancel;
    cay_timer_open(&self->silence, self->host->loop, on_silence);
    cay_journal_follow(self->host->journal, &self->reader);
    if (!request->no_follow)
        cay_host_endless(self->host, call);
    pump(self);
}
