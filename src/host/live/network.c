/* SPDX-License-Identifier: Apache-2.0 */
#include "host/live/network.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "host/authority/authority.h"
#include "host/live/filtered.h"
#include "host/live/network_rules.h"
#include "host/net/dns.h"
#include "host/session/host.h"
#include "sys/netdev.h"
#include "sys/nftables.h"
#include "tool/tree/tree.h"

bool cay_network_can_open(const struct cay_runtime *runtime, struct cay_error *err)
{
    if (!cay_runtime_can(runtime, CAY_RUNTIME_OWN_NETWORK))
        return cay_fail(err, CAY_R_NOT_SUPPORTED,
                        "network open: the runtime '%s' has no network of its own to open",
                        cay_runtime_name(runtime));
    return cay_gateway_check(err);
}

enum cay_v1_network_mode cay_network_mode(const struct cay_v1_session *spec)
{
    return spec->network ? spec->network->mode : CAY_V1_NETWORK_MODE_NONE;
}

bool cay_network_is_open(const struct cay_v1_session *spec)
{
    return cay_network_mode(spec) == CAY_V1_NETWORK_MODE_OPEN;
}

bool cay_network_has_names(enum cay_v1_network_mode mode)
{
    return mode == CAY_V1_NETWORK_MODE_OPEN || mode == CAY_V1_NETWORK_MODE_FILTERED;
}

bool cay_network_can_filter(const struct cay_host *host, const struct cay_runtime *runtime,
                            struct cay_error *err)
{
    if (!cay_runtime_can(runtime, CAY_RUNTIME_OWN_NETWORK))
        return cay_fail(err, CAY_R_NOT_SUPPORTED,
                        "network filtered: the runtime '%s' has no network of its own to filter",
                        cay_runtime_name(runtime));
    return cay_gateway_check(err) && cay_filtering_check(host->filtering, err);
}

/* It becomes a header of requests. */
static bool check_mask(struct cay_str host, struct cay_error *err)
{
    enum { HOST_BYTES_MAX = 253 };
    bool is_good = host.len <= HOST_BYTES_MAX;
    for (size_t i = 0; is_good && i < host.len; i++)
        is_good = host.ptr[i] > 0x20 && host.ptr[i] < 0x7F;
    return is_good ||
           cay_fail(err, CAY_R_INVALID_ARGUMENT, "network.mask_request_host: the name of a host");
}

static enum cay_v1_network_mode default_mode(const struct cay_host *host)
{
    static const enum cay_v1_network_mode modes[] = {
        [CAY_NETWORK_SETTING_NONE] = CAY_V1_NETWORK_MODE_NONE,
        [CAY_NETWORK_SETTING_FILTERED] = CAY_V1_NETWORK_MODE_FILTERED,
        [CAY_NETWORK_SETTING_OPEN] = CAY_V1_NETWORK_MODE_OPEN,
    };
    return modes[host->settings->network];
}

/* What the administrator gives to those who do not choose; rules of their own count instead. */
static bool take_default(const struct cay_host *host, struct cay_arena *arena,
                         struct cay_v1_network_policy *policy, enum cay_v1_network_mode *out_mode)
{
    const struct cay_conf_list *rules = &host->settings->network_rules;
    *out_mode = default_mode(host);
    if (*out_mode != CAY_V1_NETWORK_MODE_FILTERED || policy->allow.count)
        return true;
    struct cay_str *items = cay_arena_array(arena, rules->count + 1, sizeof(*items));
    if (!items)
        return false;
    for (size_t i = 0; i < rules->count; i++)
        items[i] = cay_str(rules->items[i]);
    policy->allow = (struct cay_pb_strs){items, rules->count};
    return true;
}

/* Rules are for networks that hold to them. */
static bool check_rules(const struct cay_host *host, const struct cay_runtime *runtime,
                        enum cay_v1_network_mode mode, const struct cay_v1_network_policy *policy,
                        struct cay_error *err)
{
    struct cay_policy *rules = NULL;
    if (mode != CAY_V1_NETWORK_MODE_FILTERED)
        return (!policy->allow.count && !policy->deny.count && !policy->ask) ||
               cay_fail(err, CAY_R_NOT_SUPPORTED,
                        "network: only one that is filtered can have rules, or ask; the daemon's "
                        "network_allow opens ranges for all");
    if (!cay_network_can_filter(host, runtime, err) ||
        !cay_network_rules_make(host, policy, &rules, err))
        return false;
    bool is_good =
        !cay_policy_has_requests(rules) || cay_filtering_can_intercept(host->filtering, err);
    cay_policy_destroy(rules);
    return is_good;
}

bool cay_network_choose(struct cay_host *host, const struct cay_runtime *runtime,
                        const struct cay_v1_network_policy *wanted,
                        const struct cay_v1_network_policy *now, struct cay_arena *arena,
                        struct cay_v1_network_policy **out_policy, struct cay_error *err)
{
    const struct cay_v1_network_policy *chosen = wanted ? wanted : now;
    enum cay_v1_network_mode mode = chosen ? chosen->mode : CAY_V1_NETWORK_MODE_UNSPECIFIED;
    struct cay_v1_network_policy *policy = cay_arena_new(arena, struct cay_v1_network_policy);
    if (!policy)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    if (chosen)
        *policy = *chosen;
    if (mode == CAY_V1_NETWORK_MODE_UNSPECIFIED && now)
        mode = now->mode;
    else if (mode == CAY_V1_NETWORK_MODE_UNSPECIFIED && !take_default(host, arena, policy, &mode))
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    if (mode != CAY_V1_NETWORK_MODE_NONE && mode != CAY_V1_NETWORK_MODE_OPEN &&
        mode != CAY_V1_NETWORK_MODE_FILTERED)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "there is no such network mode; a session can have none, open or filtered");
    if (mode == CAY_V1_NETWORK_MODE_OPEN && !cay_network_can_open(runtime, err))
        return false;
    if (!check_rules(host, runtime, mode, policy, err))
        return false;
    if (chosen && !check_mask(chosen->mask_request_host, err))
        return false;
    if (chosen && chosen->public_ports && chosen->private_ports)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "network: ports are public_ports or private_ports, not both");
    policy->mode = mode;
    *out_policy = policy;
    return true;
}

bool cay_network_attach(struct cay_host *host, const struct cay_sandbox *sandbox, uint32_t slot,
                        enum cay_v1_network_mode mode, struct cay_error *err)
{
    int fd = -1;
    if (!cay_network_has_names(mode))
        return true;
    if (!cay_sandbox_netns(sandbox, &fd, err))
        return false;
    cay_autoclose int netns_fd = fd;
    return mode == CAY_V1_NETWORK_MODE_OPEN
               ? cay_filtering_attach_gateway(host, netns_fd, slot, err)
               : cay_filtering_attach(host, netns_fd, slot, err);
}

bool cay_network_detach(struct cay_host *host, const struct cay_sandbox *sandbox, uint32_t slot,
                        enum cay_v1_network_mode mode, struct cay_error *err)
{
    int fd = -1;
    if (!cay_network_has_names(mode))
        return true;
    if (mode == CAY_V1_NETWORK_MODE_OPEN)
        return cay_gateway_detach(&host->gateway, slot, err);
    if (sandbox && !cay_sandbox_netns(sandbox, &fd, err))
        return false;
    cay_autoclose int netns_fd = fd;
    return cay_filtering_detach(host, netns_fd, slot, err);
}

void cay_network_make_resolver(int root_fd, uint32_t id_base)
{
    static const char text[] = "nameserver 127.0.0.1\n";
    const struct cay_tool_tree tree = {.root_fd = root_fd, .id_base = id_base, .cwd = CAY_STR("/")};
    cay_auto(cay_tree_leave) struct cay_tree_visit visit = {};
    struct cay_error ignored = {};
    char name[CAY_TREE_NAME_BYTES];
    bool has_slash = false;
    struct stat info;
    if (!cay_tree_enter(&tree, &visit, &ignored))
        return;
    cay_autoclose int etc_fd = cay_tree_parent(&tree, "/etc/resolv.conf", false, name, &has_slash);
    if (etc_fd < 0 || fstatat(etc_fd, name, &info, AT_SYMLINK_NOFOLLOW) < 0 ||
        (S_ISREG(info.st_mode) && info.st_size == 0))
        return;
    if (unlinkat(etc_fd, name, 0) < 0)
        return;
    cay_autoclose int fd =
        openat(etc_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd >= 0 && (write(fd, text, sizeof(text) - 1) < 0 || fchmod(fd, 0644) < 0))
        (void)unlinkat(etc_fd, name, 0); /* better none than half of one */
}

static void serve_names(struct cay_session *session, int netns_fd)
{
    struct cay_error err = {};
    int status = cay_dns_open(session->host->loop, netns_fd, &session->dns);
    if (status < 0) {
        cay_fail_errno(&err, CAY_R_UNAVAILABLE, status, "port 53 of the sandbox");
        cay_log(CAY_WARN, "network.names_failed", CAY_S("session", session->id), CAY_ERR(&err));
    }
}

/* The daemon ends, and its sandboxes do not. */
static bool is_leaving(struct cay_host *host)
{
    return atomic_load(&host->is_stopping) &&
           (host->keeps_sessions || !host->settings->destroys_on_exit);
}

bool cay_network_is_applied(struct cay_session *session, struct cay_settle *settle,
                            void (*done)(struct cay_settle *settle))
{
    return !session->filtered || cay_filtered_is_applied(session->filtered, settle, done);
}

void cay_network_serve(struct cay_session *session, const struct cay_sandbox *sandbox)
{
    int fd = -1;
    struct cay_error err = {};
    enum cay_v1_network_mode mode =
        sandbox ? cay_network_mode(session->spec) : CAY_V1_NETWORK_MODE_NONE;
    if (mode != CAY_V1_NETWORK_MODE_OPEN)
        cay_dns_close(cay_take_ptr(session->dns));
    if (mode != CAY_V1_NETWORK_MODE_FILTERED)
        cay_filtered_close(cay_take_ptr(session->filtered), is_leaving(session->host));
    else if (session->filtered && !cay_filtered_is_outdated(session->filtered))
        cay_filtered_renew(session->filtered);
    if (!cay_network_has_names(mode) || session->dns ||
        (session->filtered && !cay_filtered_is_outdated(session->filtered)))
        return;
    if (!cay_sandbox_netns(sandbox, &fd, &err)) {
        cay_log(CAY_WARN, "network.names_failed", CAY_S("session", session->id), CAY_ERR(&err));
        return;
    }
    cay_autoclose int netns_fd = fd;
    if (mode == CAY_V1_NETWORK_MODE_OPEN) {
        serve_names(session, netns_fd);
        return;
    }
    cay_filtered_close(cay_take_ptr(session->filtered), false);
    cay_filtered_open(session, cay_take_fd(netns_fd));
}

static bool uses_secret(const struct cay_session *session, const char *owner, struct cay_str secret)
{
    size_t count = session->spec ? session->spec->secrets.count : 0;
    for (size_t i = 0; i < count && strcmp(session->owner, owner) == 0; i++) {
        if (cay_str_equal(session->spec->secrets.items[i].secret, secret))
            return true;
    }
    return false;
}

void cay_network_renew_secret(struct cay_host *host, const char *owner, struct cay_str secret)
{
    cay_list_for_each (struct cay_session, session, &host->sessions.list, in_table) {
        if (session->live && uses_secret(session, owner, secret))
            cay_network_serve(session, session->sandbox);
    }
}

/* --- the guard: rules that somebody else takes away are put back, and follow the host's routes ---
 */

struct cay_network_guard {
    struct cay_host *host;
    int fd;
    struct cay_watch watch;
    int route_fd; /* -1: none */
    struct cay_watch route_watch;
    bool is_renewing;
    bool is_outdated; /* there were news meanwhile */
};

struct renewal {
    struct cay_job job;
    struct cay_host *host;
};

static void renew_work(struct cay_job *job)
{
    struct cay_host *host = CAY_CONTAINER_OF(job, struct renewal, job)->host;
    struct cay_error err = {};
    if (!cay_gateway_renew(&host->gateway, &err))
        cay_log(CAY_ERROR, "network.rules_lost", CAY_ERR(&err));
}

static void renew(struct cay_network_guard *guard);

static void renew_done(struct cay_job *job)
{
    struct renewal *renewal = CAY_CONTAINER_OF(job, struct renewal, job);
    struct cay_network_guard *guard = renewal->host->network_guard;
    free(renewal);
    if (!guard)
        return;
    guard->is_renewing = false;
    if (guard->is_outdated)
        renew(guard);
}

static void renew(struct cay_network_guard *guard)
{
    guard->is_outdated = guard->is_renewing;
    if (guard->is_renewing)
        return;
    struct renewal *renewal = cay_new(struct renewal);
    renewal->host = guard->host;
    renewal->job.work = renew_work;
    renewal->job.done = renew_done;
    guard->is_renewing = cay_loop_try_submit(guard->host->loop, &renewal->job);
    if (!guard->is_renewing)
        free(renewal);
}

static void on_news(struct cay_watch *watch, unsigned)
{
    struct cay_network_guard *guard = CAY_CONTAINER_OF(watch, struct cay_network_guard, watch);
    if (cay_nft_was_deleted(guard->fd, guard->host->gateway.table))
        renew(guard);
}

static void on_routes(struct cay_watch *watch, unsigned)
{
    struct cay_network_guard *guard =
        CAY_CONTAINER_OF(watch, struct cay_network_guard, route_watch);
    if (cay_route_was_changed(guard->route_fd))
        renew(guard);
}

/* Where the kernel has no tables there is nothing to guard. */
static void start_guard(struct cay_host *host)
{
    int fd = cay_nft_listen();
    if (fd < 0)
        return;
    struct cay_network_guard *guard = cay_new(struct cay_network_guard);
    guard->host = host;
    guard->fd = fd;
    guard->route_fd = cay_route_listen();
    host->network_guard = guard;
    if (cay_watch_open(&guard->watch, host->loop, fd, on_news) == 0)
        cay_watch_set(&guard->watch, CAY_READY_READ);
    if (guard->route_fd >= 0 &&
        cay_watch_open(&guard->route_watch, host->loop, guard->route_fd, on_routes) == 0)
        cay_watch_set(&guard->route_watch, CAY_READY_READ);
}

void cay_network_stop(struct cay_host *host)
{
    struct cay_network_guard *guard = cay_take_ptr(host->network_guard);
    if (guard) {
        cay_watch_close(&guard->watch);
        cay_watch_close(&guard->route_watch);
        close(guard->fd);
        if (guard->route_fd >= 0)
            close(guard->route_fd);
        free(guard);
    }
    cay_gateway_finish(&host->gateway);
    cay_filtering_destroy(cay_take_ptr(host->filtering));
    cay_authority_close(cay_take_ptr(host->authority));
    free(cay_take_ptr(host->network_totals));
}

/* --- after a restart --- */

static bool is_wanted(void *context, uint32_t slot)
{
    struct cay_host *host = context;
    cay_list_for_each (struct cay_session, session, &host->sessions.list, in_table) {
        if (session->uid_slot == slot)
            return session->sandbox && cay_network_has_names(cay_network_mode(session->spec));
    }
    return false;
}

static bool is_filtered(void *context, uint32_t slot)
{
    struct cay_host *host = context;
    cay_list_for_each (struct cay_session, session, &host->sessions.list, in_table) {
        if (session->uid_slot == slot)
            return session->filtered != NULL;
    }
    return false;
}

/* A daemon died between the record and the device. */
static bool attach_missing(struct cay_host *host, struct cay_session *session,
                           struct cay_error *err)
{
    const struct cay_sandbox *sandbox = session->sandbox;
    return !sandbox || !cay_network_is_open(session->spec) ||
           cay_gateway_is_attached(&host->gateway, session->uid_slot) ||
           cay_network_attach(host, sandbox, session->uid_slot, CAY_V1_NETWORK_MODE_OPEN, err);
}

bool cay_network_recover(struct cay_host *host, struct cay_error *err)
{
    start_guard(host);
    cay_filtering_sweep(host, is_filtered, host);
    if (!cay_gateway_recover(&host->gateway, is_wanted, host, err))
        return false;
    cay_list_for_each (struct cay_session, session, &host->sessions.list, in_table) {
        struct cay_error lost = {};
        /* It has no way out then, and says so in the log; it is there all the same. */
        if (!attach_missing(host, session, &lost))
            cay_log(CAY_ERROR, "network.attach_failed", CAY_S("session", session->id),
                    CAY_ERR(&lost));
    }
    return true;
}
