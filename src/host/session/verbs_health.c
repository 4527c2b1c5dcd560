/* SPDX-License-Identifier: Apache-2.0 */
#include "api/cay_v1.h"
#include "api/limits.h"
#include "host/session/host.h"
#include "host/session/noun.h"

void cay_host_health_check(struct cay_service *service, struct cay_call *call)
{
    struct cay_host *host = cay_host_of(service);
    int64_t uptime_ns = cay_clock_ns() - host->started_ns;
    struct google_protobuf_duration uptime = {
        .seconds = uptime_ns / CAY_NS_PER_SEC,
        .nanos = (int32_t)(uptime_ns % CAY_NS_PER_SEC),
    };
    struct cay_v1_health_check_response response = {
        .status = CAY_V1_HEALTH_STATUS_HEALTHY,
        .uptime = &uptime,
        .checked_at = cay_noun_time(&call->arena, cay_clock_wall_ns()),
    };
    cay_call_done(call, &response);
}

void cay_host_get_capabilities(struct cay_service *, struct cay_call *call)
{
    struct cay_v1_capabilities capabilities = {
        .version = CAY_STR(CAY_VERSION),
        .api_version = CAY_STR("v1"),
        .max_message_bytes = CAY_LIMIT_MESSAGE_BYTES,
    };
    struct cay_v1_get_capabilities_response response = {.capabilities = &capabilities};
    cay_call_done(call, &response);
}
