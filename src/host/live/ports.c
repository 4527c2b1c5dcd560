/* SPDX-License-Identifier: Apache-2.0 */
#include "host/live/ports.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/noun.h"
#include "base/log.h"
#include "host/owner/account.h"
#include "host/owner/account_quota.h"
#include "host/session/host.h"
#include "host/session/tell.h"

enum {
    LOOK_AGAIN_MS = 100,
    PRIVILEGED_PORTS = 1024,
    PORT_MAX = 65535,
    WAIT_MS_MAX = 10 * 60 * 1000,
};

bool cay_port_request_check(const struct cay_v1_port_request *request, struct cay_error *err)
{
    if (!request || request->port < 1 || request->port > PORT_MAX)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "port must be 1 to %d", PORT_MAX);
    if (request->host_port > PORT_MAX)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "host_port: %d at most", PORT_MAX);
    int64_t wait_ms = cay_noun_duration_ms(request->wait_listening);
    return (wait_ms >= 0 && wait_ms <= WAIT_MS_MAX) ||
           cay_fail(err, CAY_R_INVALID_ARGUMENT, "wait_listening: 10 min at most");
}

struct cay_exposed *cay_exposed_find(const struct cay_session *session, uint32_t number)
{
    cay_list_for_each (struct cay_exposed, exposed, &session->ports, in_session) {
        if (exposed->number == number)
            return exposed;
    }
    return NULL;
}

/* --- looking --- */

static void look(struct cay_exposed *exposed);

static void on_again(struct cay_timer *timer)
{
    look(CAY_CONTAINER_OF(timer, struct cay_exposed, again));
}

static void looked(void *owner, bool is_listening)
{
    struct cay_exposed *exposed = owner;
    exposed->look = NULL;
    exposed->is_listening = is_listening;
    cay_list_for_each (struct cay_port_waiter, waiter, &exposed->waiters, in_port)
        waiter->looked(waiter, true);
    if (!cay_list_empty(&exposed->waiters))
        cay_timer_start(&exposed->again, LOOK_AGAIN_MS, 0);
}

static void start_look(struct cay_exposed *exposed)
{
    if (exposed->look || exposed->write)
        return;
    cay_timer_stop(&exposed->again);
    exposed->look = cay_listening_start(exposed->session->host->loop, cay_port_netns(exposed->port),
                                        exposed->number, looked, exposed);
    if (!exposed->look)
        cay_timer_start(&exposed->again, LOOK_AGAIN_MS, 0);
}

static void look(struct cay_exposed *exposed)
{
    if (!cay_list_empty(&exposed->waiters))
        start_look(exposed);
}

void cay_exposed_heard(struct cay_session *session, uint16_t number)
{
    struct cay_exposed *exposed = cay_exposed_find(session, number);
    if (exposed)
        start_look(exposed);
}

void cay_exposed_wait(struct cay_exposed *exposed, struct cay_port_waiter *waiter,
                      void (*looked_fn)(struct cay_port_waiter *waiter, bool is_open))
{
    waiter->looked = looked_fn;
    waiter->exposed = exposed;
    cay_list_push_back(&exposed->waiters, &waiter->in_port);
    look(exposed);
}

void cay_port_waiter_remove(struct cay_port_waiter *waiter)
{
    cay_list_remove(&waiter->in_port);
}

static void seen(void *owner, bool is_listening)
{
    struct cay_exposed *exposed = owner;
    exposed->is_listening = is_listening;
}

/* --- opening and closing --- */

static void tell(const struct cay_exposed *exposed, const struct cay_call *call, const char *type,
                 const char *why)
{
    char number[16];
    snprintf(number, sizeof(number), "%u", exposed->number);
    cay_tell(
        exposed->session->host,
        &(struct cay_happening){.type = type,
                                .session = exposed->session,
                                .call = call,
                                .process_id = exposed->process_id[0] ? exposed->process_id : NULL,
                                .port = exposed->number,
                                .reason = why,
                                .fact = "port",
                                .value = cay_str(number)});
}

static void close_port(struct cay_exposed *exposed, const struct cay_call *call, const char *why)
{
    cay_list_remove(&exposed->in_session);
    cay_process_unwatch(&exposed->watcher);
    if (exposed->look)
        cay_listening_cancel(exposed->look);
    cay_timer_close(&exposed->again);
    cay_port_close(exposed->port);
    for (struct cay_list_node *node; (node = cay_list_pop_front(&exposed->waiters));) {
        struct cay_port_waiter *waiter = CAY_CONTAINER_OF(node, struct cay_port_waiter, in_port);
        waiter->looked(waiter, false);
    }
    tell(exposed, call, "port.closed", why);
    free(exposed);
}

void cay_unexpose(struct cay_exposed *exposed, const struct cay_call *call, const char *why,
                  cay_port_written_fn *done, void *owner)
{
    struct cay_host *host = exposed->session->host;
    struct cay_error err = {};
    char id[CAY_PORT_ID_SIZE];
    bool is_recorded = exposed->is_recorded;
    memcpy(id, exposed->id, sizeof(id));
    if (exposed->write)
        cay_port_write_leave(cay_take_ptr(exposed->write), true);
    close_port(exposed, call, why);
    if (is_recorded && cay_port_erase_start(host->loop, host->db, id, done, owner))
        return;
    if (is_recorded)
        cay_fail(&err, CAY_R_UNAVAILABLE, NULL);
    if (done)
        done(owner, is_recorded ? &err : NULL);
}

void cay_unexpose_all(struct cay_session *session, const char *why)
{
    cay_list_for_each (struct cay_exposed, exposed, &session->ports, in_session)
        cay_unexpose(exposed, NULL, why, NULL, NULL);
}

static bool is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
}

static bool has_private_ports(const struct cay_session *session)
{
    return session->spec->network && session->spec->network->private_ports;
}

void cay_ports_hold_to_policy(struct cay_session *session)
{
    cay_list_for_each (struct cay_exposed, exposed, &session->ports, in_session) {
        if (has_private_ports(session) && !is_loopback(cay_port_bind_address(exposed->port)))
            cay_unexpose(exposed, NULL, "private", NULL, NULL);
    }
}

void cay_ports_leave(struct cay_session *session)
{
    cay_list_for_each (struct cay_exposed, exposed, &session->ports, in_session) {
        if (exposed->write)
            cay_port_write_leave(cay_take_ptr(exposed->write), false);
        close_port(exposed, NULL, "daemon_ended");
    }
}

/* It is closed again when it cannot be written down: who waits is told. */
static void written(void *owner, const struct cay_error *err)
{
    struct cay_exposed *exposed = owner;
    exposed->write = NULL;
    exposed->is_recorded = !err;
    if (err) {
        cay_log(CAY_WARN, "port.record_failed", CAY_S("session", exposed->session->id),
                CAY_ERR(err));
        cay_unexpose(exposed, NULL, "not_recorded", NULL, NULL);
    } else {
        look(exposed);
    }
}

static bool write_down(struct cay_exposed *exposed, struct cay_error *err)
{
    const struct cay_session *session = exposed->session;
    struct cay_port_record record = {.number = exposed->number,
                                     .host_port = cay_port_host_port(exposed->port),
                                     .created_ns = exposed->created_ns};
    cay_id_make(exposed->id, sizeof(exposed->id), "x-");
    memcpy(record.id, exposed->id, sizeof(record.id));
    memcpy(record.session_id, session->id, sizeof(record.session_id));
    memcpy(record.process_id, exposed->process_id, sizeof(record.process_id));
    snprintf(record.bind_address, sizeof(record.bind_address), "%s",
             cay_port_bind_address(exposed->port));
    exposed->write =
        cay_port_write_start(session->host->loop, session->host->db, &record, written, exposed);
    return exposed->write || cay_fail(err, CAY_R_UNAVAILABLE, NULL);
}

static void process_changed(struct cay_process_watcher *watcher)
{
    struct cay_exposed *exposed = CAY_CONTAINER_OF(watcher, struct cay_exposed, watcher);
    if (!watcher->process || cay_process_is_over(watcher->process))
        cay_unexpose(exposed, NULL, "process_exited", NULL, NULL);
}

static bool check_place(const struct cay_session *session, const struct cay_call *call,
                        const struct cay_v1_port_request *request, char *bind, size_t size,
                        struct cay_error *err)
{
    const struct cay_host *host = session->host;
    bool is_admin = call->caller.role == CAY_ROLE_ADMIN;
    bool is_own =
        !request->bind_address.len || cay_str_is(request->bind_address, host->net.bind_address);
    if (is_own)
        snprintf(bind, size, "%s", host->net.bind_address);
    else
        snprintf(bind, size, "%.*s", (int)CAY_MIN(request->bind_address.len, size - 1),
                 request->bind_address.ptr);
    if (!is_own && !is_admin)
        return cay_fail(err, CAY_R_PERMISSION_DENIED,
                        "bind_address: this host exposes ports on %s only", host->net.bind_address);
    if (!cay_net_is_address(bind))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "bind_address: an address as numbers, e.g. 127.0.0.1");
    if (has_private_ports(session) && !is_loopback(bind))
        return cay_fail(err, CAY_R_PERMISSION_DENIED,
                        "the ports of session '%s' are private, and %s is reached from elsewhere",
                        session->id, bind);
    if (request->host_port && request->host_port < PRIVILEGED_PORTS && !is_admin)
        return cay_fail(err, CAY_R_PERMISSION_DENIED,
                        "host_port: ports below %d are for admin keys", PRIVILEGED_PORTS);
    unsigned first = (unsigned)host->settings->port_first;
    unsigned last = host->settings->port_last ? (unsigned)host->settings->port_last : UINT16_MAX;
    if (request->host_port && !is_admin &&
        (request->host_port < first || request->host_port > last))
        return cay_fail(err, CAY_R_PERMISSION_DENIED,
                        "host_port: choose one from port_first to port_last, %u to %u, or none; "
                        "others are for admin keys",
                        first, last);
    return true;
}

static bool is_same(const struct cay_exposed *exposed, const struct cay_v1_port_request *request,
                    const char *bind, const struct cay_process *process)
{
    return (!request->host_port || request->host_port == cay_port_host_port(exposed->port)) &&
           strcmp(bind, cay_port_bind_address(exposed->port)) == 0 &&
           strcmp(process ? process->id : "", exposed->process_id) == 0;
}

static bool has_room(const struct cay_session *session, struct cay_error *err)
{
    size_t count = 0;
    cay_list_for_each (struct cay_exposed, exposed, &session->ports, in_session)
        count++;
    return count < CAY_PORTS_PER_SESSION ||
           cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, "a session has %d exposed ports at most",
                    CAY_PORTS_PER_SESSION);
}

static bool open_port(struct cay_exposed *exposed, uint16_t host_port, const char *bind,
                      struct cay_error *err)
{
    const struct cay_session *session = exposed->session;
    const struct cay_port_options options = {.bind_address = bind,
                                             .host_port = host_port,
                                             .port = exposed->number,
                                             .seen = seen,
                                             .owner = exposed,
                                             .own_count = &session->account->port_connections};
    int netns_fd = -1;
    return cay_sandbox_netns(session->sandbox, &netns_fd, err) &&
           cay_port_open(&session->host->net, &options, netns_fd, &exposed->port, err);
}

/* NULL when it cannot be opened. */
static struct cay_exposed *add(struct cay_session *session, uint32_t number, uint16_t host_port,
                               const char *bind, struct cay_process *process, int64_t created_ns,
                               struct cay_error *err)
{
    struct cay_exposed *exposed = cay_new(struct cay_exposed);
    exposed->session = session;
    exposed->number = (uint16_t)number;
    exposed->created_ns = created_ns;
    cay_list_init(&exposed->waiters);
    if (!open_port(exposed, host_port, bind, err)) {
        free(exposed);
        return NULL;
    }
    cay_timer_open(&exposed->again, session->host->loop, on_again);
    cay_list_push_back(&session->ports, &exposed->in_session);
    if (process) {
        snprintf(exposed->process_id, sizeof(exposed->process_id), "%s", process->id);
        cay_process_watch(process, &exposed->watcher, process_changed);
    }
    return exposed;
}

bool cay_expose(struct cay_session *session, const struct cay_call *call,
                const struct cay_v1_port_request *request, struct cay_process *process,
                struct cay_exposed **out_exposed, struct cay_error *err)
{
    char bind[64];
    if (!session->live)
        return cay_fail(err, CAY_R_UNAVAILABLE, "the sandbox of session '%s' is gone; try again",
                        session->id);
    if (!check_place(session, call, request, bind, sizeof(bind), err))
        return false;
    struct cay_exposed *old = cay_exposed_find(session, request->port);
    if (old && !is_same(old, request, bind, process))
        return cay_fail(err, CAY_R_ALREADY_EXISTS,
                        "port %u is exposed in another way; close it first", request->port);
    if (old) {
        *out_exposed = old;
        return true;
    }
    if (!has_room(session, err) || !cay_quotas_check_port(session, &call->caller, err))
        return false;
    struct cay_exposed *exposed = add(session, request->port, (uint16_t)request->host_port, bind,
                                      process, cay_clock_wall_ns(), err);
    if (!exposed)
        return false;
    if (!write_down(exposed, err)) {
        close_port(exposed, call, "not_recorded");
        return false;
    }
    tell(exposed, call, "port.exposed", NULL);
    *out_exposed = exposed;
    return true;
}

/* --- after a restart --- */

static bool restore(struct cay_session *session, const struct cay_port_record *record,
                    struct cay_error *err)
{
    struct cay_process *process = NULL;
    if (!session || !session->sandbox)
        return cay_fail(err, CAY_R_UNAVAILABLE, "its sandbox is gone");
    if (record->process_id[0]) {
        process = cay_processes_find(&session->processes, cay_str(record->process_id));
        if (!process || cay_process_is_over(process))
            return cay_fail(err, CAY_R_UNAVAILABLE, "its process has ended");
    }
    if (cay_exposed_find(session, record->number))
        return cay_fail(err, CAY_R_ALREADY_EXISTS, "it is exposed already");
    struct cay_exposed *exposed = add(session, record->number, record->host_port,
                                      record->bind_address, process, record->created_ns, err);
    if (!exposed)
        return false;
    memcpy(exposed->id, record->id, sizeof(exposed->id));
    exposed->is_recorded = true;
    tell(exposed, NULL, "port.exposed", "restored");
    return true;
}

struct recovering {
    struct cay_host *host;
    struct cay_port_record *lost;
    size_t lost_count;
};

static void recover_one(void *context, const struct cay_port_record *record)
{
    struct recovering *recovering = context;
    struct cay_host *host = recovering->host;
    struct cay_session *session = cay_map_get(&host->sessions.by_id, cay_str(record->session_id));
    struct cay_error err = {};
    if (restore(session, record, &err))
        return;
    cay_log(CAY_INFO, "port.lost", CAY_S("session", record->session_id), CAY_ERR(&err));
    recovering->lost =
        cay_realloc_array(recovering->lost, recovering->lost_count + 1, sizeof(*recovering->lost));
    recovering->lost[recovering->lost_count++] = *record;
}

/* What is lost stays lost, also when the daemon dies right after it is ready. */
bool cay_ports_recover(struct cay_host *host, struct cay_error *err)
{
    struct recovering recovering = {.host = host};
    bool is_good = cay_port_records_load(host->db, recover_one, &recovering, err);
    for (size_t i = 0; is_good && i < recovering.lost_count; i++)
        is_good = cay_port_record_delete(host->db, recovering.lost[i].id, err);
    free(recovering.lost);
    return is_good;
}

/* --- answers --- */

/* A name of the domain has one label more, which not every id can be. */
static struct cay_str proxy_url(const struct cay_net *net, const struct cay_exposed *exposed,
                                struct cay_arena *arena)
{
    enum { LABEL_BYTES_MAX = 63 };
    char label[160];
    int len = snprintf(label, sizeof(label), "%u-%s", exposed->number, exposed->session->id);
    if (!net->domain || len > LABEL_BYTES_MAX ||
        strspn(label, "0123456789abcdefghijklmnopqrstuvwxyz-") != (size_t)len)
        return CAY_STR("");
    const char *url = cay_arena_printf(arena, "%s://%s.%s", net->is_domain_https ? "https" : "http",
                                       label, net->domain);
    return url ? cay_str(url) : CAY_STR("");
}

void cay_exposed_message(const struct cay_exposed *exposed, struct cay_arena *arena,
                         struct cay_v1_exposed_port *out_message)
{
    const struct cay_net *net = &exposed->session->host->net;
    const char *bind = cay_port_bind_address(exposed->port);
    bool is_usual = strcmp(bind, net->bind_address) == 0;
    uint16_t host_port = cay_port_host_port(exposed->port);
    char address[320];
    cay_net_join(address, sizeof(address), is_usual && net->advertised ? net->advertised : bind,
                 host_port);
    *out_message = (struct cay_v1_exposed_port){
        .port = exposed->number,
        .host_port = host_port,
        .bind_address = cay_arena_str(arena, cay_str(bind)),
        .address = cay_arena_str(arena, cay_str(address)),
        .url = proxy_url(net, exposed, arena),
        .process_id = cay_arena_str(arena, cay_str(exposed->process_id)),
        .listening = exposed->is_listening,
        .created_at = cay_noun_time(arena, exposed->created_ns),
    };
}

void cay_exposed_list(const struct cay_session *session, const char *process_id,
                      struct cay_arena *arena, struct cay_v1_exposed_port_array *out_list)
{
    *out_list = (struct cay_v1_exposed_port_array){};
    if (cay_list_empty(&session->ports))
        return;
    out_list->items =
        cay_arena_array(arena, CAY_PORTS_PER_SESSION, sizeof(struct cay_v1_exposed_port));
    if (!out_list->items)
        return;
    cay_list_for_each (struct cay_exposed, exposed, &session->ports, in_session) {
        if (!process_id || strcmp(process_id, exposed->process_id) == 0)
            cay_exposed_message(exposed, arena, &out_list->items[out_list->count++]);
    }
}

static void init_ports(struct cay_session *session)
{
    cay_list_init(&session->ports);
}

static void tell_ports(const struct cay_session *session, struct cay_arena *arena,
                       struct cay_v1_session *message)
{
    cay_exposed_list(session, NULL, arena, &message->ports);
}

static void free_ports(struct cay_session *session)
{
    cay_unexpose_all(session, "session_ended");
}

const struct cay_session_part cay_ports_part = {
    .init = init_ports, .tell = tell_ports, .free = free_ports};
