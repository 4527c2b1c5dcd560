/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "api/limits.h"
#include "api/noun.h"
#include "base/id.h"
#include "host/base/base_record.h"
#include "host/life/deadline.h"
#include "host/live/network.h"
#include "host/past/history.h"
#include "host/past/snapshot.h"
#include "host/session/access.h"
#include "host/session/host.h"
#include "host/session/request.h"
#include "host/transfer/import.h"

/* A base whose content is that of the exported session's. The host's own have no digest: their name
 * tells which packages they are made of. */
static bool find_same_base(const struct cay_host *host, const struct cay_call *call,
                           const struct cay_manifest *manifest,
                           char out_base[static CAY_STORE_NAME_SIZE])
{
    struct cay_error ignored = {};
    size_t cursor = 0;
    struct cay_base_found found;
    for (const struct cay_base_entry *entry; (entry = cay_map_next(&host->bases, &cursor));) {
        if (manifest->base_digest.len &&
            cay_str_equal(entry->spec->digest, manifest->base_digest) &&
            cay_may_know_base(&call->caller, entry->name, entry->spec)) {
            memcpy(out_base, entry->name, sizeof(entry->name));
            return true;
        }
    }
    if (manifest->base_digest.len || !cay_str_starts(manifest->base_name, "host-") ||
        !cay_bases_look_up(host, &call->caller, manifest->base_name, &found, &ignored))
        return false;
    memcpy(out_base, found.name, sizeof(found.name));
    return true;
}

static bool plan_new_base(struct cay_import *self, const struct cay_call *call,
                          struct cay_error *err)
{
    const struct cay_manifest *manifest = &self->manifest;
    char found[CAY_STORE_NAME_SIZE];
    char id[CAY_STORE_ID_SIZE];
    struct cay_error ignored = {};
    if (!manifest->has_base)
        return cay_fail(err, CAY_R_BASE_NOT_FOUND,
                        "no base here has the content of '%.*s'; name one to put it on, or export "
                        "with the base included",
                        (int)CAY_MIN(manifest->base_name.len, (size_t)128),
                        manifest->base_name.len ? manifest->base_name.ptr : "");
    if (call->caller.role != CAY_ROLE_ADMIN)
        return cay_fail(err, CAY_R_PERMISSION_DENIED,
                        "the base is not here, and only an admin key may bring one");
    bool is_free = cay_base_key(manifest->base_name, self->base) &&
                   strncmp(self->base, "host", 4) != 0 &&
                   cay_str_is(manifest->base_name, self->base) &&
                   !cay_store_base_resolve(self->host->store, self->base, found, &ignored);
    if (!is_free) {
        cay_store_new_id(id);
        snprintf(self->base, sizeof(self->base), "imported-%s", id);
    }
    const struct cay_v1_base_settings *settings = manifest->base_settings;
    self->makes_base = true;
    self->base_spec = (struct cay_v1_base){
        .name = cay_str(self->base),
        .origin = CAY_V1_BASE_ORIGIN_IMPORTED,
        .source = cay_arena_str(&self->arena, manifest->session->id),
        .created_at = cay_noun_time(&self->arena, cay_clock_wall_ns()),
        .settings = manifest->base_settings,
    };
    /* Hostile as all the rest: what does not pass is left out. */
    if (settings &&
        (settings->start_command.count || settings->ready_command.count ||
         !cay_check_env(settings->env, &ignored) || !cay_check_cwd(settings->cwd, &ignored) ||
         settings->user.len > CAY_LIMIT_ID_BYTES || settings->runtime.len))
        self->base_spec.settings = NULL;
    return true;
}

static bool plan_base(struct cay_import *self, const struct cay_call *call, struct cay_str wanted,
                      struct cay_error *err)
{
    struct cay_base_found found;
    if (wanted.len) {
        if (!cay_bases_look_up(self->host, &call->caller, wanted, &found, err))
            return false;
        memcpy(self->base, found.name, sizeof(self->base));
        return true;
    }
    return find_same_base(self->host, call, &self->manifest, self->base) ||
           plan_new_base(self, call, err);
}

bool cay_import_plan_spec(struct cay_import *self, struct cay_call *call,
                          const struct cay_v1_import_options *options,
                          struct cay_v1_session *out_spec, struct cay_error *err)
{
    struct cay_host *host = self->host;
    const struct cay_v1_session *from = self->manifest.session;
    struct cay_v1_resource_limits *limits =
        cay_arena_new(&self->arena, struct cay_v1_resource_limits);
    struct cay_v1_network_policy *network = NULL;
    struct cay_runtime *runtime = NULL;
    struct cay_v1_resource_limits exported;
    struct cay_str wanted = options->runtime.len ? options->runtime : from->runtime;
    bool is_admin = call->caller.role == CAY_ROLE_ADMIN;
    if (!limits)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    if (self->manifest.since.len)
        return cay_fail(err, CAY_R_FAILED_PRECONDITION,
                        "the stream continues a session that has snapshot '%.*s'; import it into "
                        "that one",
                        (int)self->manifest.since.len, self->manifest.since.ptr);
    if (!plan_base(self, call, options->base, err) ||
        !cay_runtimes_choose(&host->runtimes, wanted, is_admin, &runtime, err) ||
        !cay_network_choose(host, runtime, NULL, NULL, &self->arena, &network, err))
        return false;
    *out_spec = (struct cay_v1_session){
        .base = cay_base_shown(self->base, &self->arena),
        .limits = limits,
        .network = network,
        .runtime = cay_str(cay_runtime_name(runtime)),
        .store = cay_str(cay_store_kind(host->store)),
        .env = from->env,
        .max_snapshots = CAY_MAX(from->max_snapshots, 0),
        .max_concurrent_tools = CAY_MAX(from->max_concurrent_tools, 0),
        .lifecycle = options->lifecycle,
        .deadline = cay_deadline_of(options->lifecycle, &self->arena),
        .default_user = from->default_user.len ? from->default_user : CAY_STR("user"),
        .default_cwd = from->default_cwd.len ? from->default_cwd : CAY_STR("/workspace"),
    };
    if (!cay_noun_merge(&self->arena, from->labels, options->labels, &out_spec->labels))
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    return cay_check_labels(out_spec->labels, err) && cay_check_env(out_spec->env, err) &&
           cay_check_user(out_spec->default_user, err) &&
           cay_check_cwd(out_spec->default_cwd, err) &&
           cay_check_limits(from->limits, &host->default_limits, &exported, err) &&
           cay_check_limits(options->limits, &exported, limits, err) &&
           cay_check_lifecycle(options->lifecycle, err);
}

static int64_t time_of(const struct google_protobuf_timestamp *stamp)
{
    int64_t ns = 0;
    bool is_odd = !stamp || stamp->seconds < 0 ||
                  __builtin_mul_overflow(stamp->seconds, CAY_NS_PER_SEC, &ns) ||
                  __builtin_add_overflow(ns, stamp->nanos, &ns);
    return is_odd ? 0 : ns;
}

/* branch-0007 */
static int64_t branch_number(struct cay_str name)
{
    static const char prefix[] = "branch-";
    uint64_t number = 0;
    if (!cay_str_starts(name, prefix))
        return 0;
    struct cay_str digits = {name.ptr + strlen(prefix), name.len - strlen(prefix)};
    return cay_str_to_u64(digits, INT32_MAX, &number) == 0 ? (int64_t)number : 0;
}

static bool plan_snapshot(struct cay_import *self, const struct cay_export_point *point,
                          int64_t after_ns, const struct cay_call *call, struct cay_error *err)
{
    struct cay_snapshot_record *record = &self->snapshots[self->snapshot_count++];
    struct cay_v1_snapshot *spec = point->snapshot;
    *record = (struct cay_snapshot_record){.is_pending = true};
    memcpy(record->session_id, self->session.id, sizeof(record->session_id));
    snprintf(record->name, sizeof(record->name), "%.*s", (int)spec->name.len, spec->name.ptr);
    cay_store_new_id(record->store_id);
    /* The order of a session's past is that of its times. */
    int64_t now_ns = cay_clock_wall_ns();
    int64_t told_ns = time_of(spec->created_at);
    record->created_ns = CAY_MIN(told_ns, now_ns);
    record->created_ns = CAY_MAX(record->created_ns, after_ns + 1);
    *spec = (struct cay_v1_snapshot){
        .name = spec->name,
        .kind = spec->kind,
        .turn_number = spec->turn_number,
        .parent = spec->parent,
        .branch = spec->branch,
        .message = spec->message,
        .metadata = spec->metadata,
        /* As it was told, whatever the clock here says: a later stream knows the snapshot by it. */
        .created_at =
            told_ns > 0 ? spec->created_at : cay_noun_time(&self->arena, record->created_ns),
        .tool_call_id = spec->tool_call_id,
        .held = spec->held,
        .unchanged = spec->unchanged, /* looked at when its files are there */
        .actor = cay_str(call->caller.key_id[0] ? call->caller.key_id : call->caller.owner),
    };
    self->session.turn_count = CAY_MAX(self->session.turn_count, spec->turn_number);
    self->session.branch_count = CAY_MAX(self->session.branch_count, branch_number(spec->name));
    return cay_snapshot_record_set_spec(record, spec, err);
}

bool cay_import_plan_records(struct cay_import *self, struct cay_session *session,
                             const struct cay_call *call, struct cay_error *err)
{
    const struct cay_manifest *manifest = &self->manifest;
    int64_t last_ns = 0;
    cay_session_record_take(&self->session, session);
    cay_quota_taker_init(&self->taker, session);
    self->disk_bytes = session->spec->limits->disk_bytes;
    int64_t turns = manifest->session->turn_count;
    if (turns > 0 && turns <= INT32_MAX)
        self->session.turn_count = CAY_MAX(self->session.turn_count, turns);
    cay_list_for_each (struct cay_snapshot, snapshot, &session->snapshots, in_session)
        last_ns = CAY_MAX(last_ns, snapshot->created_ns);
    self->snapshots = cay_realloc_array(NULL, manifest->point_count + 1, sizeof(*self->snapshots));
    for (size_t i = 0; i < manifest->point_count; i++) {
        struct cay_str name = manifest->points[i].snapshot->name;
        if (cay_session_snapshot(session, name))
            return cay_fail(err, CAY_R_SNAPSHOT_EXISTS,
                            "session '%s' has a snapshot '%.*s' already", session->id,
                            (int)name.len, name.ptr);
        if (!plan_snapshot(self, &manifest->points[i], last_ns, call, err))
            return false;
        last_ns = self->snapshots[i].created_ns;
    }
    snprintf(self->session.head, sizeof(self->session.head), "%.*s", (int)manifest->head.len,
             manifest->head.len ? manifest->head.ptr : "");
    return true;
}

void cay_import_install(struct cay_import *self, struct cay_session *session)
{
    for (size_t i = 0; i < self->snapshot_count; i++) {
        const struct cay_snapshot_record *record = &self->snapshots[i];
        struct cay_snapshot *snapshot = cay_snapshot_new(session, record->name, record->store_id,
                                                         self->manifest.points[i].snapshot);
        snapshot->created_ns = record->created_ns;
    }
    cay_history_set_head(session, self->session.head);
    session->turn_count = self->session.turn_count;
    session->branch_count = self->session.branch_count;
    session->generation = self->session.generation;
    if (self->makes_base)
        cay_bases_put(self->host, &self->base_spec);
}
