/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "api/limits.h"
#include "api/noun.h"
#include "base/stop.h"
#include "host/base/base_record.h"
#include "host/live/live.h"
#include "host/live/network.h"
#include "host/live/usage.h"
#include "host/live/usage_history.h"
#include "host/live/verbs.h"
#include "host/owner/account.h"
#include "host/owner/space.h"
#include "host/session/access.h"
#include "host/session/host.h"
#include "sys/self.h"

/*
 * What sessions use. A worker measures copies of what the loop thread knows; sandboxes may go
 * meanwhile, so their groups are read by the loop thread, which is a few small files each.
 */

struct measured {
    char session_id[CAY_ID_SIZE];
    struct cay_session_trees trees;
    struct cay_v1_session_usage usage;
};

struct usage_job {
    struct cay_job job;
    struct cay_call *call;
    struct cay_host *host;
    struct cay_store *store; /* the host's when it began */
    struct measured *all;
    size_t count;
    size_t first; /* of the page */
    size_t page_size;
    struct cay_v1_usage_sample_array samples; /* in the call's arena */
    bool is_one;
};

void cay_usage_read(const struct cay_session *session, struct cay_v1_session_usage *usage,
                    struct cay_arena *arena)
{
    struct cay_sandbox *sandbox = session->sandbox;
    struct cay_sandbox_stats stats = {};
    usage->tool_calls = session->tool_calls;
    if (!sandbox)
        return;
    cay_sandbox_stats(sandbox, &stats);
    const struct cay_usage_point *last = cay_usage_history_last(session->usage);
    usage->cpus = last ? last->cpus : 0;
    usage->memory_bytes = (int64_t)stats.usage.memory_bytes;
    usage->memory_peak_bytes = (int64_t)stats.usage.memory_peak_bytes;
    usage->memory_cache_bytes = (int64_t)stats.usage.memory_cache_bytes;
    usage->oom_kills = (int64_t)stats.oom_kills;
    usage->pids = (int64_t)stats.usage.pids;
    if (cay_network_is_open(session->spec)) {
        struct cay_gateway_traffic traffic =
            cay_gateway_traffic(&session->host->gateway, session->uid_slot);
        usage->net_rx_bytes = (int64_t)traffic.received_bytes;
        usage->net_tx_bytes = (int64_t)traffic.sent_bytes;
    }
    usage->cpu_time = cay_noun_duration(arena, (int64_t)stats.usage.cpu_usec * 1000);
}

void cay_session_trees_copy(const struct cay_session *session, struct cay_session_trees *out)
{
    *out = (struct cay_session_trees){
        .snapshots = cay_realloc_array(NULL, cay_session_snapshot_count(session) + 1,
                                       sizeof(*out->snapshots)),
    };
    memcpy(out->store_id, session->store_id, sizeof(out->store_id));
    cay_list_for_each (struct cay_snapshot, snapshot, &session->snapshots, in_session)
        memcpy(out->snapshots[out->snapshot_count++], snapshot->store_id, CAY_STORE_ID_SIZE);
}

void cay_session_trees_finish(struct cay_session_trees *trees)
{
    free(trees->snapshots);
    *trees = (struct cay_session_trees){};
}

bool cay_session_trees_measure(struct cay_store *store, const struct cay_session_trees *trees,
                               struct cay_store_usage *out_usage, struct cay_error *err)
{
    return cay_store_usage_whole(store, trees->store_id,
                                 (const char(*)[CAY_STORE_ID_SIZE])trees->snapshots,
                                 trees->snapshot_count, out_usage, err);
}

void cay_usage_measure(struct cay_store *store, const struct cay_session_trees *trees,
                       struct cay_v1_session_usage *out_usage)
{
    struct cay_store_usage usage;
    struct cay_error ignored = {};
    if (!cay_session_trees_measure(store, trees, &usage, &ignored))
        return;
    out_usage->disk_bytes = (int64_t)(usage.own_bytes + usage.history_bytes);
    out_usage->snapshot_bytes = (int64_t)usage.history_bytes;
    out_usage->inodes = (int64_t)(usage.entries + usage.history_entries);
}

static void usage_work(struct cay_job *job)
{
    struct usage_job *self = CAY_CONTAINER_OF(job, struct usage_job, job);
    (void)cay_stop_watch(&self->call->is_cancelled);
    for (size_t i = 0; i < self->count && !cay_stop_asked(); i++)
        cay_usage_measure(self->store, &self->all[i].trees, &self->all[i].usage);
    (void)cay_stop_watch(NULL);
}

static void finish(struct usage_job *self)
{
    for (size_t i = 0; i < self->count; i++)
        cay_session_trees_finish(&self->all[i].trees);
    free(self->all);
    free(self);
}

static int larger_first(const void *left, const void *right)
{
    const struct measured *a = left;
    const struct measured *b = right;
    if (a->usage.disk_bytes != b->usage.disk_bytes)
        return a->usage.disk_bytes > b->usage.disk_bytes ? -1 : 1;
    return strcmp(a->session_id, b->session_id);
}

static struct cay_v1_host_usage *host_usage(const struct usage_job *self)
{
    struct cay_host *host = self->host;
    struct cay_v1_host_usage *usage = cay_arena_new(&self->call->arena, struct cay_v1_host_usage);
    struct sysinfo info = {};
    if (!usage)
        return NULL;
    usage->sessions = (int64_t)cay_map_count(&host->sessions.by_id);
    cay_list_for_each (struct cay_session, session, &host->sessions.list, in_table) {
        usage->active_sessions += session->state == CAY_SESSION_ACTIVE;
        usage->live_sandboxes += session->sandbox != NULL;
        usage->tools_in_flight += session->tools_in_flight;
        usage->processes += cay_processes_alive(&session->processes);
    }
    usage->base_bytes = cay_bases_bytes(host);
    for (size_t i = 0; i < self->count; i++) {
        usage->sandbox_memory_bytes += self->all[i].usage.memory_bytes;
        usage->session_bytes += self->all[i].usage.disk_bytes;
    }
    (void)sysinfo(&info);
    usage->daemon_memory_bytes = (int64_t)cay_self_resident_bytes();
    usage->pool_size_bytes = (int64_t)host->space->seen.now.size_bytes;
    usage->pool_used_bytes = (int64_t)host->space->seen.now.used_bytes;
    usage->cpu_count = (int32_t)sysconf(_SC_NPROCESSORS_ONLN);
    usage->memory_total_bytes = (int64_t)info.totalram * (int64_t)info.mem_unit;
    return usage;
}

static void usage_done(struct cay_job *job)
{
    struct usage_job *self = CAY_CONTAINER_OF(job, struct usage_job, job);
    struct cay_arena *arena = &self->call->arena;
    qsort(self->all, self->count, sizeof(*self->all), larger_first);
    size_t first = CAY_MIN(self->first, self->count);
    size_t count = CAY_MIN(self->count - first, self->page_size);
    struct cay_v1_get_usage_response response = {
        .sessions.items = cay_arena_array(arena, count, sizeof(*response.sessions.items)),
        .samples = self->samples,
        .host =
            !self->is_one && self->call->caller.role == CAY_ROLE_ADMIN ? host_usage(self) : NULL,
    };
    struct google_protobuf_timestamp *now = cay_noun_time(arena, cay_clock_wall_ns());
    for (size_t i = 0; response.sessions.items && i < count; i++) {
        const struct measured *one = &self->all[first + i];
        struct cay_v1_session_usage *usage = cay_arena_new(arena, struct cay_v1_session_usage);
        if (!usage)
            break;
        *usage = one->usage;
        usage->measured_at = now;
        response.sessions.items[response.sessions.count++] = (struct cay_v1_session_usage_entry){
            .session_id = cay_arena_str(arena, cay_str(one->session_id)), .usage = usage};
    }
    const char *token =
        first + count < self->count ? cay_arena_printf(arena, "%zu", first + count) : NULL;
    if (token)
        response.next_page_token = cay_str(token);
    cay_call_done_kept(self->call, &response);
    finish(self);
}

static void add(struct usage_job *self, const struct cay_session *session)
{
    struct measured *one = &self->all[self->count++];
    *one = (struct measured){};
    memcpy(one->session_id, session->id, sizeof(one->session_id));
    cay_session_trees_copy(session, &one->trees);
    cay_usage_read(session, &one->usage, &self->call->arena);
}

static bool collect(struct usage_job *self, const struct cay_v1_get_usage_request *request,
                    struct cay_error *err)
{
    struct cay_call *call = self->call;
    struct cay_session *session = NULL;
    uint64_t first = 0;
    self->all =
        cay_realloc_array(NULL, cay_map_count(&self->host->sessions.by_id) + 1, sizeof(*self->all));
    self->page_size = request->page_size ? (size_t)request->page_size : CAY_LIMIT_PAGE_SIZE_DEFAULT;
    if (request->page_size < 0 || request->page_size > CAY_LIMIT_PAGE_SIZE)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "page_size must be 1 to %d",
                        CAY_LIMIT_PAGE_SIZE);
    if (request->page_token.len && cay_str_to_u64(request->page_token, UINT32_MAX, &first) < 0)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "the page_token is not one of this list's");
    if (request->start_time && !request->session_id.len)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "start_time needs a session_id");
    self->first = first;
    self->is_one = request->session_id.len > 0;
    if (!self->is_one && call->caller.session_id[0])
        return cay_fail(err, CAY_R_PERMISSION_DENIED,
                        "a token can only ask for its own session; name it in session_id");
    if (self->is_one) {
        if (!cay_session_check(self->host, call, request->session_id, CAY_VERB_LOOK, &session, err))
            return false;
        add(self, session);
        if (request->start_time)
            cay_usage_history_samples(session->usage, cay_noun_time_ns(request->start_time),
                                      request->end_time ? cay_noun_time_ns(request->end_time)
                                                        : INT64_MAX,
                                      &call->arena, &self->samples);
        return true;
    }
    cay_list_for_each (struct cay_session, each, &self->host->sessions.list, in_table) {
        if (!each->is_gone && cay_may_know_session(&call->caller, cay_str(each->id), each->owner))
            add(self, each);
    }
    return true;
}

void cay_host_get_usage(struct cay_service *service, struct cay_call *call)
{
    struct usage_job *self = cay_new(struct usage_job);
    struct cay_error err = {};
    self->call = call;
    self->host = cay_host_of(service);
    self->store = self->host->store;
    self->job.work = usage_work;
    self->job.done = usage_done;
    self->job.lane = &cay_account_of(self->host, self->call->caller.owner)->search;
    if (collect(self, call->request, &err)) {
        cay_loop_submit(self->host->loop, &self->job);
        return;
    }
    finish(self);
    cay_call_fail(call, &err);
}
