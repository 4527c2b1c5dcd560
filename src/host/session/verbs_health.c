/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay_v1.h"
#include "api/noun.h"
#include "host/session/host.h"
#include "host/session/network.h"

void cay_host_health_check(struct cay_service *service, struct cay_call *call)
{
    struct cay_host *host = cay_host_of(service);
    int64_t active_tools = 0;
    cay_list_for_each (struct cay_session, session, &host->sessions.list, in_table)
        active_tools += session->tools_in_flight;
    struct cay_v1_health_problem problem;
    bool has_problem = cay_space_problem(host, &call->arena, &problem);
    struct cay_v1_health_check_response response = {
        .status = has_problem ? problem.status : CAY_V1_HEALTH_STATUS_HEALTHY,
        .problems = {&problem, has_problem ? 1 : 0},
        .pool_state = cay_space_state(&host->space),
        .pool_size_bytes = (int64_t)host->space.now.size_bytes,
        .pool_used_bytes = (int64_t)host->space.now.used_bytes,
        .session_count = (int64_t)cay_map_count(&host->sessions.by_id),
        .active_tools = active_tools,
        .uptime = cay_noun_duration(&call->arena, cay_clock_ns() - host->started_ns),
        .checked_at = cay_noun_time(&call->arena, host->space.looked_ns),
    };
    cay_call_done(call, &response);
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

void cay_host_get_capabilities(struct cay_service *service, struct cay_call *call)
{
    struct cay_host *host = cay_host_of(service);
    unsigned store_caps = cay_store_caps(host->store);
    unsigned runtime_caps = cay_runtime_caps(host->runtime);
    bool has_snapshots = store_caps & CAY_STORE_SNAPSHOTS;
    enum cay_v1_enforcement by_cgroup =
        runtime_caps & CAY_RUNTIME_LIMITS ? CAY_V1_ENFORCEMENT_KERNEL : CAY_V1_ENFORCEMENT_NONE;
    struct cay_v1_runtime_info runtime = {
        .name = cay_str(cay_runtime_name(host->runtime)),
        .available = true,
        .is_default = true,
        .isolated = runtime_caps & CAY_RUNTIME_ISOLATES,
    };
    struct cay_v1_store_info stores[CAY_HOST_STORES_MAX + 1] = {};
    size_t store_count = list_stores(host, stores);
    bool is_kernel_quota = store_caps & CAY_STORE_KERNEL_QUOTA;
    struct cay_v1_limit_info disk = {
        .name = CAY_STR("disk"),
        .enforcement = is_kernel_quota ? CAY_V1_ENFORCEMENT_KERNEL : CAY_V1_ENFORCEMENT_ACCOUNTING,
        .detail = is_kernel_quota ? CAY_STR("quotas of the file system")
                                  : CAY_STR("measured every two seconds"),
    };
    struct cay_v1_limit_info limits[] = {
        {CAY_STR("cpus"), by_cgroup, CAY_STR("control groups")},
        {CAY_STR("memory"), by_cgroup, CAY_STR("control groups")},
        {CAY_STR("pids"), by_cgroup, CAY_STR("control groups")},
        {CAY_STR("call_memory"), by_cgroup, CAY_STR("control groups")},
        disk,
    };
    struct cay_error ignored = {};
    struct cay_str network_modes[] = {CAY_STR("none"), CAY_STR("open")};
    size_t network_mode_count = cay_network_can_open(host, &ignored) ? 2 : 1;
    struct cay_v1_capabilities capabilities = {
        .version = CAY_STR(CAY_VERSION),
        .api_version = CAY_STR("v1"),
        .snapshots = has_snapshots,
        .rollback = has_snapshots,
        .fork = has_snapshots,
        .diff = has_snapshots,
        .tier_routing = true,
        .streaming = true,
        .ports = runtime_caps & CAY_RUNTIME_ISOLATES,
        .survives_restart = runtime_caps & CAY_RUNTIME_PERSISTS,
        .runtimes = {&runtime, 1},
        .stores = {stores, store_count},
        .limits = {limits, CAY_COUNT(limits)},
        .network_modes = {network_modes, network_mode_count},
        .default_limits = &host->default_limits,
        .max_sessions = (int64_t)host->max_sessions,
        .durable_turns = host->has_durable_turns,
        .max_concurrent_tools = (int32_t)host->max_concurrent_tools,
        .max_message_bytes = CAY_LIMIT_MESSAGE_BYTES,
        .max_output_ring_bytes = CAY_LIMIT_OUTPUT_RING_MAX,
    };
    struct cay_v1_get_capabilities_response response = {.capabilities = &capabilities};
    cay_call_done(call, &response);
}
