/* SPDX-License-Identifier: Apache-2.0 */
#include "host/service/service.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "api/cay_v1.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/stop.h"
#include "host/base/base_record.h"
#include "host/base/builds.h"
#include "host/base/host_base.h"
#include "host/base/verbs.h"
#include "host/build/build_files.h"
#include "host/build/interpreter.h"
#include "host/build/verbs.h"
#include "host/event/audit.h"
#include "host/event/journal.h"
#include "host/exec/launch.h"
#include "host/exec/tool_call.h"
#include "host/exec/verbs.h"
#include "host/file/users.h"
#include "host/file/verbs.h"
#include "host/life/expiry.h"
#include "host/life/pause.h"
#include "host/life/reserve.h"
#include "host/life/tokens.h"
#include "host/life/verbs.h"
#include "host/live/filtered.h"
#include "host/live/hearing.h"
#include "host/live/live.h"
#include "host/live/measure.h"
#include "host/live/network.h"
#include "host/live/network_rules.h"
#include "host/live/receipts.h"
#include "host/live/usage_history.h"
#include "host/live/verbs.h"
#include "host/live/watching.h"
#include "host/owner/account.h"
#include "host/owner/account_quota.h"
#include "host/owner/held.h"
#include "host/owner/verbs.h"
#include "host/past/aftermath.h"
#include "host/past/snapshot.h"
#include "host/past/verbs.h"
#include "host/service/lost.h"
#include "host/service/service_internal.h"
#include "host/service/verbs.h"
#include "host/session/endless.h"
#include "host/session/host.h"
#include "host/session/quota.h"
#include "host/session/record.h"
#include "host/session/tidy.h"
#include "host/transfer/verbs.h"

enum { FLUSH_KEYS_MS = 60 * 1000 };

static bool admit(struct cay_service *service, struct cay_call *call, struct cay_error *err)
{
    bool is_stream = call->method->client_streaming || call->method->server_streaming;
    return !is_stream || cay_quotas_claim_stream(cay_host_of(service), call, err);
}

static void metrics(struct cay_service *service, struct cay_buf *out)
{
    struct cay_host *host = cay_host_of(service);
    cay_buf_printf(out,
                   "# HELP cay_keys API keys on record, revoked ones included.\n"
                   "# TYPE cay_keys gauge\n"
                   "cay_keys %zu\n"
                   "# HELP cay_uptime_seconds Time since the daemon started.\n"
                   "# TYPE cay_uptime_seconds counter\n"
                   "cay_uptime_seconds %.3f\n",
                   cay_map_count(&host->keys.by_id),
                   (double)(cay_clock_ns() - host->started_ns) / CAY_NS_PER_SEC);
    size_t at_work = 0;
    size_t queued = 0;
    cay_loop_count_jobs(host->loop, &at_work, &queued);
    cay_buf_printf(out,
                   "# HELP cay_jobs_running Work on disks and processes that is being done now.\n"
                   "# TYPE cay_jobs_running gauge\n"
                   "cay_jobs_running %zu\n"
                   "# HELP cay_jobs_waiting Work that waits for a worker.\n"
                   "# TYPE cay_jobs_waiting gauge\n"
                   "cay_jobs_waiting %zu\n",
                   at_work, queued);
    const struct cay_reserve_figures reserve = cay_reserve_figures(host);
    cay_buf_printf(out,
                   "# HELP cay_reserve_sandboxes Sandboxes that wait for sessions to come.\n"
                   "# TYPE cay_reserve_sandboxes gauge\n"
                   "cay_reserve_sandboxes %zu\n"
                   "# HELP cay_reserve_memory_bytes Memory that those take.\n"
                   "# TYPE cay_reserve_memory_bytes gauge\n"
                   "cay_reserve_memory_bytes %llu\n"
                   "# HELP cay_sandbox_starts_total Sandboxes that sessions got, by where they "
                   "came from.\n"
                   "# TYPE cay_sandbox_starts_total counter\n"
                   "cay_sandbox_starts_total{from=\"reserve\"} %llu\n"
                   "cay_sandbox_starts_total{from=\"new\"} %llu\n",
                   reserve.waiting, (unsigned long long)reserve.memory_bytes,
                   (unsigned long long)reserve.handed_out, (unsigned long long)reserve.cold);
    static const char *const kinds[] = {NULL,   "session", "snapshot", "tool",   "process",
                                        "port", "policy",  "host",     "network"};
    cay_buf_append_text(out, "# HELP cay_events_total Events by what they are about.\n"
                             "# TYPE cay_events_total counter\n");
    for (size_t i = 1; i < CAY_COUNT(kinds); i++)
        cay_buf_printf(
            out, "cay_events_total{kind=\"%s\"} %llu\n", kinds[i],
            (unsigned long long)cay_journal_count(host->journal, (enum cay_v1_event_kind)i));
    cay_receipts_metrics(host, out);
}

static cay_verb *verbs[CAY_V1_METHOD_COUNT];
static bool pieces[CAY_V1_METHOD_COUNT];

cay_verb *const *cay_host_verbs(void)
{
    static const struct cay_verb_row *const tables[] = {
        cay_life_verbs,  cay_past_verbs, cay_file_verbs,  cay_exec_verbs,     cay_live_verbs,
        cay_owner_verbs, cay_base_verbs, cay_build_verbs, cay_transfer_verbs, cay_service_verbs,
    };
    static bool is_complete;
    for (size_t i = 0; !is_complete && i < CAY_COUNT(tables); i++) {
        for (const struct cay_verb_row *row = tables[i]; row->verb; row++) {
            assert(!verbs[row->method]); /* a verb is one row */
            verbs[row->method] = row->verb;
            pieces[row->method] = row->is_piece;
        }
    }
    is_complete = true;
    return verbs;
}

static const struct cay_service_ops ops = {
    .name = "host",
    .methods = cay_v1_methods,
    .method_count = CAY_V1_METHOD_COUNT,
    .verbs = verbs,
    .piece_methods = pieces,
    .admit = admit,
    .authenticate = cay_host_whois,
    .follow = cay_host_follow,
    .metrics = metrics,
};

/* Freed in this order. */
static const struct cay_session_part *const session_parts[] = {
    &cay_account_part, &cay_snapshots_part, &cay_tools_part,     &cay_users_part,
    &cay_ports_part,   &cay_hearing_part,   &cay_processes_part, &cay_watching_part,
    &cay_held_part,    &cay_live_part,      &cay_expiry_part,    &cay_reserve_part,
    &cay_usage_part,   &cay_tokens_part,    &cay_receipts_part,  NULL,
};

static void on_flush_keys(struct cay_timer *timer)
{
    struct cay_host *host = CAY_CONTAINER_OF(timer, struct cay_host, flush_keys);
    cay_host_flush_keys(host, false);
    cay_host_flush_secrets(host, false);
}

/* A daemon that was killed a moment ago may still be on its way out of the kernel. */
static bool take_lock(int fd)
{
    enum { ATTEMPTS = 100, PAUSE_US = 50 * 1000 };
    for (int i = 0; i < ATTEMPTS; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return true;
        usleep(PAUSE_US);
    }
    return false;
}

/* The directory holds secrets' digests and, later, setuid files of sandboxes: nobody else may look
 * in. */
static bool open_data_dir(struct cay_host *host, const char *path, struct cay_error *err)
{
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return cay_fail_errno(err, CAY_R_INVALID_ARGUMENT, -errno, "make data directory '%s'",
                              path);
    host->data_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int dir_fd = host->data_fd;
    struct stat info;
    if (dir_fd < 0 || fstat(dir_fd, &info) < 0)
        return cay_fail_errno(err, CAY_R_INVALID_ARGUMENT, -errno, "open data directory '%s'",
                              path);
    if (info.st_mode & 077)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "data directory '%s' is open to others; run: chmod 700 '%s'", path, path);
    host->lock_fd = openat(dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (host->lock_fd < 0)
        return cay_fail_errno(err, CAY_R_INVALID_ARGUMENT, -errno, "lock '%s'", path);
    if (!take_lock(host->lock_fd))
        return cay_fail(err, CAY_R_ALREADY_EXISTS,
                        "another daemon uses '%s'; give this one its own --data directory", path);
    return true;
}

/* Who asks for nothing is not refused on a small machine. */
static void set_limits(struct cay_host *host)
{
    const struct cay_host_settings *settings = host->settings;
    struct cay_v1_resource_limits *defaults = &host->default_limits;
    struct sysinfo machine = {};
    host->session_memory_bytes_max = (int64_t)settings->session_max_memory_bytes;
    if (!host->session_memory_bytes_max && sysinfo(&machine) == 0)
        host->session_memory_bytes_max = (int64_t)machine.totalram * (int64_t)machine.mem_unit;
    *defaults = (struct cay_v1_resource_limits){
        .has_cpus = settings->default_cpus > 0,
        .cpus = settings->default_cpus,
        .has_memory_bytes = settings->default_memory_bytes > 0,
        .memory_bytes = (int64_t)settings->default_memory_bytes,
        .has_pids = settings->default_pids > 0,
        .pids = settings->default_pids,
        .has_disk_bytes = settings->default_disk_bytes > 0,
        .disk_bytes = (int64_t)settings->default_disk_bytes,
        .has_inodes = settings->default_inodes > 0,
        .inodes = settings->default_inodes,
    };
    if (host->session_memory_bytes_max)
        defaults->memory_bytes = CAY_MIN(defaults->memory_bytes, host->session_memory_bytes_max);
    if (settings->session_max_pids)
        defaults->pids = CAY_MIN(defaults->pids, settings->session_max_pids);
}

static void look_at_stores(struct cay_host *host, const char *directory)
{
    for (const char *name;
         host->store_count < CAY_HOST_STORES_MAX && (name = cay_store_choice(host->store_count));) {
        struct cay_host_store *store = &host->stores[host->store_count++];
        struct cay_error err = {};
        store->name = name;
        store->is_available = cay_store_check(name, directory, &err);
        snprintf(store->reason, sizeof(store->reason), "%.159s", err.text);
        if (!store->is_available && !strcmp(name, cay_store_kind(host->store)))
            cay_log(CAY_WARN, "store.unfit", CAY_S("store", name), CAY_S("why", store->reason));
    }
    cay_log(CAY_INFO, "store.opened", CAY_S("store", cay_store_kind(host->store)));
    if (!(cay_store_caps(host->store) & CAY_STORE_SNAPSHOTS))
        cay_log(CAY_WARN, "store.no_snapshots", CAY_S("store", cay_store_kind(host->store)),
                CAY_S("advice", "turns, rollback and forks need a data directory where overlay, "
                                "btrfs or zfs works; 'cay doctor' says what is missing"));
}

/* Daemons are told apart by their data directories: no two share one. */
static bool open_gateway(struct cay_host *host, struct cay_error *err)
{
    static const uint64_t key[2] = {0x6361796e, 0x6574};
    struct stat info;
    if (fstat(host->data_fd, &info) < 0)
        return cay_fail_errno(err, CAY_R_INTERNAL, -errno, "look at the data directory");
    const uint64_t place[2] = {info.st_dev, info.st_ino};
    struct cay_gateway_options gateway = {
        .instance = (uint32_t)cay_hash(key, (struct cay_str){(const char *)place, sizeof(place)}),
        .pool = host->settings->network_pool,
        .allowed = (const char *const *)host->settings->network_allow.items,
        .allowed_count = host->settings->network_allow.count,
    };
    return cay_gateway_init(&host->gateway, &gateway, err) && cay_network_sets_check(host, err) &&
           cay_network_default_check(host, err);
}

static bool open_host(struct cay_host *host, const struct cay_host_options *options,
                      struct cay_error *err)
{
    const struct cay_host_settings *settings = host->settings;
    if (!open_data_dir(host, settings->data_dir, err))
        return false;
    cay_autofree char *db_path = cay_asprintf("%s/cay.db", settings->data_dir);
    cay_autofree char *sandbox_dir = cay_asprintf("%s/sandboxes", settings->run_dir);
    const struct cay_runtime_config runtime = {
        .run_dir = sandbox_dir,
        .cgroup_parent = settings->cgroup_parent,
        .init_path = options->init_path,
        .runsc = settings->runsc,
        .platform = settings->runsc_platform,
    };
    if (!cay_net_init(&host->net, host->loop, settings->port_bind, settings->port_advertise, err) ||
        !open_gateway(host, err) || !cay_pool_open(settings->data_dir, &host->pool, err))
        return false;
    host->filtering = cay_filtering_create(host, options->egress_path, settings->run_dir);
    cay_net_set_domain(&host->net, options->port_domain, options->is_port_domain_https);
    if (!cay_runtimes_open(&host->runtimes, settings->runtime,
                           (const char *const *)settings->runtimes.items, settings->runtimes.count,
                           &runtime, err))
        return false;
    const struct cay_store_config store = {.kind = settings->store,
                                           .directory = host->pool.store_dir,
                                           .needs_owner_map = cay_host_needs_owner_map(host)};
    if (!cay_store_open(&store, &host->store, err) ||
        !cay_lost_open_records(host->store, db_path, &host->db, err) ||
        !cay_keys_init(&host->keys, host->db, err) || !cay_quotas_load(host, err) ||
        !cay_tokens_init(&host->tokens, host->data_fd, err) ||
        !cay_vault_init(&host->vault, host->db, host->data_fd, settings->secrets_key, err))
        return false;
    look_at_stores(host, host->pool.store_dir);
    cay_timer_open(&host->flush_keys, host->loop, on_flush_keys);
    cay_timer_start(&host->flush_keys, FLUSH_KEYS_MS, FLUSH_KEYS_MS);
    cay_host_lapse_start(host);
    host->journal = cay_journal_create(host->loop, host->data_fd);
    host->audit = cay_audit_create(host->loop, host->data_fd);
    cay_measure_start(host);
    cay_usage_history_start(host);
    cay_space_start(host);
    cay_aftermath_start(host);
    if (!cay_host_recover(host, err))
        return false;
    host->host_base->has_old = true; /* perhaps: an earlier life may have left some */
    cay_bases_sweep_now(host);
    cay_host_prepare_soon(host);
    cay_reserve_start(host);
    cay_host_base_start(host);
    return true;
}

/* Frees what the old store held: nothing but the built-in base. */
struct leave_job {
    struct cay_job job;
    struct cay_store *store;
    char names[8][CAY_STORE_NAME_SIZE];
    size_t count;
};

static bool note_base(void *context, const struct cay_store_item *item)
{
    struct leave_job *self = context;
    if (item->kind == CAY_STORE_ITEM_BASE && self->count < CAY_COUNT(self->names))
        snprintf(self->names[self->count++], CAY_STORE_NAME_SIZE, "%s", item->name);
    return true;
}

static void leave_work(struct cay_job *job)
{
    struct leave_job *self = CAY_CONTAINER_OF(job, struct leave_job, job);
    struct cay_error err = {};
    bool has_more = cay_store_list(self->store, note_base, self, &err);
    for (size_t i = 0; i < self->count; i++)
        (void)cay_store_base_remove(self->store, self->names[i], &err);
    while (has_more && cay_store_collect(self->store, UINT64_MAX, &has_more, &err))
        ; /* to the end: no later start looks there */
}

static void leave_done(struct cay_job *job)
{
    free(CAY_CONTAINER_OF(job, struct leave_job, job));
}

void cay_host_move(struct cay_host *host, struct cay_pool *pool, struct cay_store *store,
                   const struct cay_host_base_cost *cost)
{
    host->old_store = host->store;
    host->old_pool = host->pool;
    host->store = store;
    host->pool = *pool;
    struct leave_job *leave = cay_new(struct leave_job);
    leave->store = host->old_store;
    leave->job.work = leave_work;
    leave->job.done = leave_done;
    cay_loop_submit(host->loop, &leave->job);
    cay_log(CAY_INFO, "pool.created", CAY_S("path", pool->path),
            CAY_S("store", cay_store_kind(store)));
    cay_host_base_moved(host, cost);
}

static void sweep_old_bases(struct cay_host *host)
{
    if (host->host_base->has_old)
        cay_bases_sweep(host);
}

bool cay_host_create(struct cay_loop *loop, const struct cay_host_options *options,
                     struct cay_host **out_host, struct cay_error *err)
{
    (void)cay_host_verbs();
    struct cay_host *host = cay_new(struct cay_host);
    host->service.ops = &ops;
    host->parts = session_parts;
    host->on_tidy = sweep_old_bases;
    host->loop = loop;
    host->settings = options->settings;
    host->serves_e2b = options->serves_e2b;
    host->interpreter = cay_interpreter_read(options->interpreter_path);
    set_limits(host);
    host->data_fd = -1;
    host->lock_fd = -1;
    host->pool = (struct cay_pool){.mount_fd = -1, .device_fd = -1};
    host->old_pool = host->pool;
    host->started_ns = cay_clock_ns();
    cay_sessions_init(&host->sessions);
    cay_list_init(&host->endless);
    cay_list_init(&host->freeing);
    cay_list_init(&host->freeing_next);
    cay_map_init(&host->bases);
    host->space = cay_space_watch_create(host);
    host->host_base = cay_new(struct cay_host_base);
    host->host_base->host = host;
    host->host_base->root = options->host_root ? options->host_root : "/";
    cay_list_init(&host->host_base->waiting);
    host->builds = cay_builds_create();
    host->build_files = cay_build_files_create(loop);
    if (!open_host(host, options, err)) {
        host->keeps_sessions = true; /* nothing ends that did not begin */
        cay_loop_finish_jobs(loop);
        cay_host_destroy(host);
        return false;
    }
    *out_host = host;
    return true;
}

void cay_host_cut(struct cay_host *host)
{
    cay_host_cut_endless(host);
}

void cay_host_drain(struct cay_host *host, void (*on_quiet)(void *context), void *context)
{
    atomic_store(&host->is_stopping, true);
    cay_builds_drain(host, on_quiet, context);
}

void cay_host_keep_sessions(struct cay_host *host)
{
    host->keeps_sessions = true;
}

/* Sandboxes live on without us, unless they were not to. */
static void leave_sessions(struct cay_host *host)
{
    cay_list_for_each (struct cay_session, session, &host->sessions.list, in_table) {
        struct cay_error err = {};
        if (host->keeps_sessions || !host->settings->destroys_on_exit) {
            cay_live_leave(session);
            continue;
        }
        if (session->root_fd >= 0)
            close(cay_take_fd(session->root_fd));
        struct cay_sandbox *sandbox = cay_live_close(session, CAY_R_UNAVAILABLE);
        if (sandbox)
            (void)cay_sandbox_destroy(sandbox, &err);
        (void)cay_network_detach(host, NULL, session->uid_slot, cay_network_mode(session->spec),
                                 &err);
        cay_filtering_remove_names(host, session->store_id);
        if (!cay_store_destroy(host->store, session->store_id, &err) ||
            !cay_session_record_delete(host->db, session->id, &err))
            cay_log(CAY_WARN, "session.destroy_failed", CAY_S("session", session->id),
                    CAY_ERR(&err));
    }
}

void cay_host_stop(struct cay_host *host)
{
    if (!host)
        return;
    atomic_store(&host->is_stopping, true);
    cay_stop_ask(&host->is_ending);
    cay_host_base_stop(host);
    cay_timer_close(&host->spares);
    cay_timer_close(&host->cut);
    cay_aftermath_stop(host);
    cay_reserve_stop(host);
    cay_list_for_each (struct cay_session, session, &host->sessions.list, in_table)
        cay_op_wait_no_longer(session);
    cay_stop_ask(&host->is_freeing_over);
    cay_host_free_no_longer(host);
}

void cay_host_destroy(struct cay_host *host)
{
    if (!host)
        return;
    cay_host_stop(host);
    cay_measure_stop(host);
    cay_usage_history_stop(host);
    cay_space_stop(host);
    leave_sessions(host);
    cay_list_for_each (struct cay_session, session, &host->sessions.list, in_table)
        cay_pause_leave(session);
    cay_sessions_finish(&host->sessions);
    cay_reserve_destroy(host);
    cay_build_files_destroy(host->build_files);
    cay_accounts_finish(host);
    cay_gone_finish(&host->gone);
    cay_net_finish(&host->net);
    cay_network_stop(host);
    cay_bases_finish(&host->bases);
    cay_builds_destroy(host->builds);
    if (host->flush_keys.handle) {
        cay_host_flush_keys(host, true);
        cay_host_flush_secrets(host, true);
    }
    cay_timer_close(&host->flush_keys);
    cay_timer_close(&host->keys_lapse);
    cay_keys_finish(&host->keys);
    cay_tokens_finish(&host->tokens);
    cay_vault_finish(&host->vault);
    cay_runtimes_close(&host->runtimes);
    cay_store_close(host->store);
    cay_store_close(host->old_store);
    cay_pool_close(&host->pool);
    cay_pool_close(&host->old_pool);
    cay_audit_destroy(host->audit);
    cay_journal_destroy(host->journal);
    cay_db_close(host->db);
    if (host->lock_fd >= 0)
        close(host->lock_fd);
    free(host->space);
    free(host->measuring);
    free(host->sampling);
    free(host->host_base);
    if (host->data_fd >= 0)
        close(host->data_fd);
    free(host->interpreter);
    free(host);
}

struct cay_service *cay_host_service(struct cay_host *host)
{
    return &host->service;
}
