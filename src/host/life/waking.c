/* SPDX-License-Identifier: Apache-2.0 */
#include "host/life/waking.h"

#include <unistd.h>

#include "base/crash.h"
#include "base/log.h"
#include "host/live/live.h"
#include "host/live/network.h"
#include "host/live/trust.h"
#include "host/live/watching.h"
#include "host/session/host.h"
#include "host/session/session.h"
#include "host/session/tidy.h"
#include "sys/descriptors.h"
#include "sys/userns.h"

struct cay_cgroup_limits cay_session_cgroup_limits(const struct cay_v1_resource_limits *limits)
{
    return (struct cay_cgroup_limits){
        .cpu_millis = limits->has_cpus ? (uint32_t)(limits->cpus * 1000) : 0,
        .memory_bytes = limits->has_memory_bytes ? (uint64_t)limits->memory_bytes : 0,
        .pids = limits->has_pids ? (uint32_t)limits->pids : 0,
    };
}

void cay_waking_init(struct cay_waking *waking, const struct cay_session *session,
                     bool needs_sandbox)
{
    *waking = (struct cay_waking){
        .runtime = session->runtime,
        .uid_base = cay_session_uid_base(session),
        .slot = session->uid_slot,
        .network = cay_network_mode(session->spec),
        .has_nesting = session->spec->nesting,
        .needs_trust = cay_trust_is_needed(session->host, session->spec),
        .needs_mount = session->root_fd < 0,
        .needs_sandbox = needs_sandbox && !session->live,
        .root_fd = session->root_fd,
        .old_fd = -1,
        .limits = cay_session_cgroup_limits(session->spec->limits),
    };
    memcpy(waking->store_id, session->store_id, sizeof(waking->store_id));
    /* A label of a host name: the session's id, with what DNS does not know replaced. */
    size_t len = CAY_MIN(strlen(session->id), sizeof(waking->hostname) - 2);
    for (size_t i = 0; i < len; i++) {
        char c = session->id[i];
        waking->hostname[i] = c == '.' || c == '_' ? '-' : c;
    }
}

/* Tree and sandbox have the same map of ids: one namespace for both. -1 when it is not for us to
 * make it, or when it fails: who needs one then makes it and says what is wrong. */
static int shared_userns(const struct cay_waking *waking, struct cay_host *host)
{
    bool is_shared = waking->needs_mount && waking->needs_sandbox &&
                     cay_store_caps(host->store) & CAY_STORE_ID_MAPPED &&
                     cay_runtime_can(waking->runtime, CAY_RUNTIME_OWN_IDS);
    return is_shared ? cay_userns_open(waking->uid_base, CAY_SESSION_ID_COUNT) : -1;
}

/* Whatever is wrong with one that waited, the session does not suffer for it. */
static bool start_sandbox(struct cay_waking *waking, const struct cay_sandbox_spec *spec,
                          struct cay_error *err)
{
    struct cay_waiting *waiting = waking->waiting;
    struct cay_error why = {};
    if (!waiting)
        return cay_runtime_start(waking->runtime, spec, &waking->sandbox, err);
    waking->was_waiting = cay_sandbox_hand_out(waiting->sandbox, spec, &waking->old_fd, &why);
    CAY_CRASH_POINT("create.handed_out");
    if (waking->was_waiting) {
        waking->sandbox = cay_take_ptr(waiting->sandbox);
        return true;
    }
    cay_log(CAY_WARN, "reserve.hand_out_failed", CAY_ERR(&why));
    return cay_sandbox_destroy(cay_take_ptr(waiting->sandbox), err) &&
           cay_runtime_start(waking->runtime, spec, &waking->sandbox, err);
}

bool cay_waking_work(struct cay_waking *waking, struct cay_host *host, struct cay_error *err)
{
    cay_autoclose int made_userns = waking->waiting ? -1 : shared_userns(waking, host);
    int userns_fd = waking->waiting ? waking->waiting->userns_fd : made_userns;
    const struct cay_store_owner owner = {
        .id_base = waking->uid_base, .id_count = CAY_SESSION_ID_COUNT, .userns_fd = userns_fd};
    if (waking->needs_sandbox && !cay_runtimes_offer(&host->runtimes, waking->runtime, err))
        return false;
    int status = cay_descriptors_check(); /* what is opened here stays open */
    if (status < 0)
        return cay_fail_errno(err, CAY_R_INTERNAL, status, "open the session's files");
    if (waking->needs_mount &&
        !cay_store_mount(host->store, waking->store_id, &owner, &waking->root_fd, err))
        return false;
    if (!waking->needs_sandbox)
        return true;
    const struct cay_sandbox_spec spec = {
        .id = waking->store_id,
        .root_fd = waking->root_fd,
        .uid_base = waking->uid_base,
        .userns_fd = userns_fd,
        .limits = waking->limits,
        .hostname = waking->hostname,
        .nesting = waking->has_nesting,
    };
    if (start_sandbox(waking, &spec, err) &&
        cay_network_attach(host, waking->sandbox, waking->slot, waking->network, err)) {
        if (waking->needs_trust)
            cay_trust_write(host, waking->runtime, waking->sandbox, waking->root_fd,
                            waking->uid_base);
        return true;
    }
    cay_waking_undo(waking, host);
    return false;
}

void cay_waking_undo(struct cay_waking *waking, struct cay_host *host)
{
    struct cay_error err = {};
    if (waking->sandbox &&
        !cay_network_detach(host, waking->sandbox, waking->slot, waking->network, &err))
        cay_log(CAY_WARN, "network.undo_failed", CAY_S("sandbox", waking->store_id), CAY_ERR(&err));
    if (waking->sandbox && !cay_sandbox_destroy(cay_take_ptr(waking->sandbox), &err))
        cay_log(CAY_WARN, "sandbox.undo_failed", CAY_S("sandbox", waking->store_id), CAY_ERR(&err));
    if (waking->waiting && waking->waiting->sandbox &&
        !cay_sandbox_destroy(cay_take_ptr(waking->waiting->sandbox), &err))
        cay_log(CAY_WARN, "sandbox.undo_failed", CAY_S("sandbox", waking->store_id), CAY_ERR(&err));
    if (waking->old_fd >= 0)
        close(cay_take_fd(waking->old_fd));
    if (waking->needs_mount && waking->root_fd >= 0)
        close(cay_take_fd(waking->root_fd));
}

void cay_waking_install(struct cay_waking *waking, struct cay_session *session)
{
    struct cay_error err = {};
    if (waking->needs_mount && waking->root_fd >= 0) {
        cay_fail(&err, CAY_R_UNAVAILABLE, "the session's tree was mounted anew; watch again");
        cay_watching_end(session, &err);
    }
    session->root_fd = waking->root_fd;
    cay_host_close_later(session->host, cay_take_fd(waking->old_fd));
    cay_waiting_drop(session->host, cay_take_ptr(waking->waiting));
    if (waking->sandbox) {
        cay_reserve_count(session->host, waking->was_waiting);
        session->state_text[0] = session->state_reason[0] = '\0';
        session->sandbox = cay_take_ptr(waking->sandbox);
        cay_live_open(session, false);
    }
}
