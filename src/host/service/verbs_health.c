/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay_v1.h"
#include "api/noun.h"
#include "host/base/host_base.h"
#include "host/life/reserve.h"
#include "host/live/network.h"
#include "host/service/verbs.h"
#include "host/session/host.h"
#include "tool/tool.h"

static void tell_health(struct cay_host *host, struct cay_call *call)
{
    int64_t active_tools = 0;
    int failed = 0;
    cay_list_for_each (struct cay_session, session, &host->sessions.list, in_table) {
        active_tools += session->tools_in_flight;
        failed += session->state == CAY_SESSION_FAILED;
    }
    struct cay_problems problems = {.arena = &call->arena};
    cay_space_problems(host, &problems);
    cay_host_base_problems(host, &problems);
    if (failed)
        cay_problem_add(&problems, CAY_V1_HEALTH_STATUS_DEGRADED, "sessions_failed",
                        "%d of the sessions failed; 'cay ls --state failed' lists them and 'cay "
                        "show' says why; remove them",
                        failed);
    const struct cay_reserve_figures figures = cay_reserve_figures(host);
    struct cay_v1_reserve reserve = {
        .waiting = (int64_t)figures.waiting,
        .size = (int64_t)figures.size_max,
        .memory_bytes = (int64_t)figures.memory_bytes,
        .handed_out = (int64_t)figures.handed_out,
        .started = (int64_t)figures.cold,
    };
    struct cay_v1_health_check_response response = {
        .status = problems.count ? problems.items[0].status : CAY_V1_HEALTH_STATUS_HEALTHY,
        .problems = {problems.items, problems.count},
        .pool_state = cay_space_state(&host->space->seen),
        .pool_size_bytes = (int64_t)host->space->seen.now.size_bytes,
        .pool_used_bytes = (int64_t)host->space->seen.now.used_bytes,
        .session_count = (int64_t)cay_map_count(&host->sessions.by_id),
        .active_tools = active_tools,
        .uptime = cay_noun_duration(&call->arena, cay_clock_ns() - host->started_ns),
        .checked_at = cay_noun_time(&call->arena, host->space->seen.looked_ns),
        .reserve = figures.size_max ? &reserve : NULL,
    };
    cay_call_done(call, &response);
}

void cay_host_health_check(struct cay_service *service, struct cay_call *call)
{
    struct cay_host *host = cay_host_of(service);
    const struct cay_v1_health_check_request *request = call->request;
    if (request->fresh)
        cay_space_ask(host, call, tell_health);
    else
        tell_health(host, call);
}

/* Those there are to choose from, and the one in use. */
static size_t list_stores(const struct cay_host *host, struct cay_v1_store_info *stores)
{
    const char *kind = cay_store_kind(host->store);
    bool has_active = false;
    size_t count = 0;
    for (size_t i = 0; i < host->store_count; i++) {
        const struct cay_host_store *store = &host->stores[i];
        bool is_active = strcmp(store->name, kind) == 0;
        has_active = has_active || is_active;
        stores[count++] = (struct cay_v1_store_info){
            .name = cay_str(store->name),
            .available = store->is_available || is_active,
            .active = is_active,
            .snapshots = cay_store_takes_snapshots(store->name),
            .unavailable_reason = cay_str(store->is_available || is_active ? "" : store->reason),
        };
    }
    if (!has_active)
        stores[count++] = (struct cay_v1_store_info){
            .name = cay_str(kind),
            .available = true,
            .active = true,
            .snapshots = cay_store_takes_snapshots(kind),
        };
    return count;
}

static struct cay_v1_runtime_info describe(const struct cay_runtime *runtime)
{
    return (struct cay_v1_runtime_info){
        .name = cay_str(cay_runtime_name(runtime)),
        .available = true,
        .isolated = cay_runtime_can(runtime, CAY_RUNTIME_ISOLATES),
        .own_network = cay_runtime_can(runtime, CAY_RUNTIME_OWN_NETWORK),
        .pause_keeps_processes = cay_runtime_can(runtime, CAY_RUNTIME_FREEZES),
        .survives_restart = cay_runtime_can(runtime, CAY_RUNTIME_ADOPTS),
    };
}

/* Those that the caller's sessions may ask for, the default first, and those that the daemon does
 * not offer. */
static struct cay_v1_runtime_info_array
list_runtimes(const struct cay_host *host, const struct cay_caller *caller, struct cay_arena *arena)
{
    const char *const *names = cay_runtime_names();
    const struct cay_runtimes *runtimes = &host->runtimes;
    size_t count = 0;
    while (names[count])
        count++;
    struct cay_v1_runtime_info_array list = {
        .items = cay_arena_array(arena, count + runtimes->offered_count,
                                 sizeof(struct cay_v1_runtime_info))};
    if (!list.items)
        return list;
    for (size_t i = 0; i < runtimes->offered_count; i++) {
        const char *name = cay_runtime_name(runtimes->open[i]);
        struct cay_runtime *chosen;
        struct cay_error ignored = {};
        if (cay_runtimes_choose(runtimes, cay_str(name), caller->role == CAY_ROLE_ADMIN, &chosen,
                                &ignored))
            list.items[list.count++] = describe(chosen);
    }
    list.items[0].is_default = true;
    for (size_t i = 0; i < count; i++) {
        const struct cay_runtime *runtime = cay_runtimes_find(runtimes, cay_str(names[i]));
        struct cay_error ignored = {};
        if (runtime && cay_runtimes_offer(runtimes, runtime, &ignored))
            continue;
        const char *reason = cay_arena_printf(
            arena, "the daemon does not offer it; 'runtimes = %s' in its configuration would",
            names[i]);
        list.items[list.count++] = (struct cay_v1_runtime_info){
            .name = cay_str(names[i]), .unavailable_reason = cay_str(reason ? reason : "")};
    }
    return list;
}

enum { LIMIT_KINDS = 6 };

static void list_limits(const struct cay_host *host,
                        struct cay_v1_limit_info limits[static LIMIT_KINDS])
{
    static const struct {
        const char *name;
        enum cay_cgroup_controller by;
    } kinds[LIMIT_KINDS - 2] = {{"cpus", CAY_CGROUP_CPU},
                                {"memory", CAY_CGROUP_MEMORY},
                                {"pids", CAY_CGROUP_PIDS},
                                {"call_memory", CAY_CGROUP_MEMORY}};
    const char *by = NULL;
    unsigned kept = cay_runtime_limits(cay_runtimes_default(&host->runtimes), &by);
    for (size_t i = 0; i < CAY_COUNT(kinds); i++) {
        bool is_kept = kept & 1u << kinds[i].by;
        limits[i] = (struct cay_v1_limit_info){
            .name = cay_str(kinds[i].name),
            .enforcement = is_kept ? CAY_V1_ENFORCEMENT_KERNEL : CAY_V1_ENFORCEMENT_NONE,
            .detail = is_kept ? cay_str(by) : CAY_STR("no such control group is mounted"),
        };
    }
    bool is_kernel_quota = cay_store_caps(host->store) & CAY_STORE_KERNEL_QUOTA;
    limits[LIMIT_KINDS - 2] = (struct cay_v1_limit_info){
        .name = CAY_STR("disk"),
        .enforcement = is_kernel_quota ? CAY_V1_ENFORCEMENT_KERNEL : CAY_V1_ENFORCEMENT_ACCOUNTING,
        .detail = is_kernel_quota
                      ? CAY_STR("quotas of the file system")
                      : CAY_STR("measured, 0.25 to 2 s apart; writers over it are killed"),
    };
    limits[LIMIT_KINDS - 1] = (struct cay_v1_limit_info){
        .name = CAY_STR("inodes"),
        .enforcement = CAY_V1_ENFORCEMENT_ACCOUNTING,
        .detail = CAY_STR("measured, 0.25 to 2 s apart; writers over it are killed"),
    };
}

void cay_host_get_capabilities(struct cay_service *service, struct cay_call *call)
{
    struct cay_host *host = cay_host_of(service);
    const struct cay_runtime *runtime = cay_runtimes_default(&host->runtimes);
    bool has_snapshots = cay_store_caps(host->store) & CAY_STORE_SNAPSHOTS;
    struct cay_v1_store_info stores[CAY_HOST_STORES_MAX + 1] = {};
    size_t store_count = list_stores(host, stores);
    struct cay_v1_limit_info limits[LIMIT_KINDS];
    list_limits(host, limits);
    struct cay_error ignored = {};
    struct cay_str network_modes[3] = {CAY_STR("none")};
    size_t network_mode_count = 1;
    if (cay_network_can_open(runtime, &ignored))
        network_modes[network_mode_count++] = CAY_STR("open");
    if (cay_network_can_filter(host, runtime, &ignored))
        network_modes[network_mode_count++] = CAY_STR("filtered");
    struct cay_str features[8] = {CAY_STR("idempotent_tools"), CAY_STR("idempotent_launches"),
                                  CAY_STR("idle_policy"), CAY_STR("watch_dir"), CAY_STR("events")};
    size_t feature_count = 5;
    if (cay_runtime_can(runtime, CAY_RUNTIME_ISOLATES))
        features[feature_count++] = CAY_STR("base_build");
    if (has_snapshots)
        features[feature_count++] = CAY_STR("idempotent_turns");
    if (host->serves_e2b)
        features[feature_count++] = CAY_STR("e2b");
    int64_t tool_timeout_ms =
        cay_tool_timeout_ms(cay_tool_find(CAY_STR("bash")), host->settings->tool_timeout_ms);
    struct cay_v1_capabilities capabilities = {
        .version = CAY_STR(CAY_VERSION),
        .api_version = CAY_STR("v1"),
        .snapshots = has_snapshots,
        .rollback = has_snapshots,
        .fork = has_snapshots,
        .diff = true, /* with the base at least */
        .restore = has_snapshots,
        .export_import = has_snapshots,
        .pause = true,
        .pause_keeps_processes = cay_runtime_can(runtime, CAY_RUNTIME_FREEZES),
        .tier_routing = true,
        .streaming = true,
        .pty = cay_runtime_can(runtime, CAY_RUNTIME_RUNS_PROGRAMS),
        .ports = cay_runtime_can(runtime, CAY_RUNTIME_OWN_NETWORK),
        .survives_restart = cay_runtime_can(runtime, CAY_RUNTIME_ADOPTS),
        .runtimes = list_runtimes(host, &call->caller, &call->arena),
        .stores = {stores, store_count},
        .limits = {limits, CAY_COUNT(limits)},
        .network_modes = {network_modes, network_mode_count},
        .default_limits = &host->default_limits,
        .max_sessions = host->settings->max_sessions,
        .durable_turns = host->settings->has_durable_turns && has_snapshots,
        .max_concurrent_tools = (int32_t)host->settings->max_concurrent_tools,
        .max_snapshots_per_session = (int32_t)host->settings->max_snapshots,
        .tool_timeout = cay_noun_duration(&call->arena, tool_timeout_ms * CAY_NS_PER_MS),
        .max_message_bytes = CAY_LIMIT_MESSAGE_BYTES,
        .max_output_ring_bytes = CAY_LIMIT_OUTPUT_RING_MAX,
        .features = {features, feature_count},
    };
    struct cay_v1_get_capabilities_response response = {.capabilities = &capabilities};
    cay_call_done(call, &response);
}
