/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host/exec/verbs.h"
#include "host/life/wake.h"
#include "host/net/dial.h"
#include "host/net/relay.h"
#include "host/owner/account.h"
#include "host/session/endless.h"
#include "host/session/host.h"

/*
 * A connection to a port of a sandbox, carried by a call. Bytes of the program are read while the
 * caller has room for them; the caller's next message is asked for when the program has taken the
 * last one.
 */

enum {
    PORT_MAX = 65535,
    NOTE_MS = 1000,
};

struct tunnel {
    struct cay_call *call;
    struct cay_host *host;
    struct cay_dial *dial;
    struct cay_watch watch;
    int fd;
    uint16_t port;
    struct cay_str rest; /* of the message at hand, for the program */
    struct cay_account *account;
    char session_id[CAY_ID_SIZE];
    uint64_t noted_ms;    /* when the session was last said to be in use */
    bool is_half_closing; /* one half may end before the other */
    bool is_read_over;    /* the program's half */
    bool is_write_over;   /* the caller's half */
    bool is_waking;
    bool is_counted;
    bool is_sending; /* inside cay_call_send */
    bool is_full;    /* the caller has enough for now */
    bool is_gone;    /* the caller */
};

static void end_tunnel(struct tunnel *self, const struct cay_error *err)
{
    struct cay_call *call = self->call;
    if (self->dial)
        cay_dial_cancel(self->dial);
    cay_watch_close(&self->watch);
    if (self->fd >= 0 && err)
        cay_relay_reset(self->fd);
    else if (self->fd >= 0)
        close(self->fd);
    if (self->is_counted) {
        self->host->net.connection_count--;
        self->account->port_connections--;
    }
    free(self);
    if (err)
        cay_call_fail(call, err);
    else
        cay_call_done(call, NULL);
}

static void break_off(struct tunnel *self, enum cay_reason reason, const char *text)
{
    struct cay_error err = {};
    cay_fail(&err, reason, text ? "%s" : NULL, text);
    end_tunnel(self, &err);
}

static void caller_left(struct cay_call *call)
{
    struct tunnel *self = call->state;
    self->is_gone = true;
    if (!self->is_sending && !self->is_waking)
        break_off(self, CAY_R_CANCELED, NULL);
}

static void watch_for(struct tunnel *self)
{
    bool wants_read = !self->is_full && !self->is_read_over;
    cay_watch_set(&self->watch,
                  (wants_read ? CAY_READY_READ : 0u) | (self->rest.len ? CAY_READY_WRITE : 0u));
}

/* A session does not fall asleep over a connection on which something moves. It may have ended
 * since: it is asked for by its name. */
static void note_use(struct tunnel *self)
{
    uint64_t now_ms = cay_loop_now_ms(self->host->loop);
    if (now_ms - self->noted_ms < NOTE_MS)
        return;
    self->noted_ms = now_ms;
    struct cay_session *session =
        cay_map_get(&self->host->sessions.by_id, cay_str(self->session_id));
    if (session)
        session->last_active_ns = cay_clock_wall_ns();
}

/* False when the caller left inside: `self` is gone then. */
static bool tell(struct tunnel *self, const struct cay_v1_connect_port_response *response)
{
    self->is_sending = true;
    self->is_full = !cay_call_send(self->call, response);
    self->is_sending = false;
    if (!self->is_gone)
        return true;
    break_off(self, CAY_R_CANCELED, NULL);
    return false;
}

/* What the program takes of the message at hand. It may close its end for reading and go on
 * speaking: what it says is still read. False when both are over, and `self` is gone. */
static bool give(struct tunnel *self)
{
    note_use(self);
    while (self->rest.len) {
        ssize_t sent = send(self->fd, self->rest.ptr, self->rest.len, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno == EAGAIN)
            return true;
        if (sent < 0 && self->is_read_over) {
            break_off(self, CAY_R_UNAVAILABLE, "the program closed the connection");
            return false;
        }
        if (sent < 0)
            sent = (ssize_t)self->rest.len;
        self->rest.ptr += sent;
        self->rest.len -= (size_t)sent;
    }
    return true;
}

/* The program sends no more. False when that is the end, and `self` is gone. */
static bool end_read(struct tunnel *self)
{
    static const struct cay_v1_port_ended ended;
    static const struct cay_v1_connect_port_response response = {
        .which_frame = CAY_V1_CONNECT_PORT_RESPONSE_FRAME_ENDED,
        .frame.ended = (struct cay_v1_port_ended *)(uintptr_t)&ended,
    };
    self->is_read_over = true;
    if (self->is_half_closing && !self->is_write_over)
        return tell(self, &response);
    end_tunnel(self, NULL);
    return false;
}

/* False when it is over, and `self` gone. */
static bool take(struct tunnel *self)
{
    char *scratch = cay_loop_scratch(self->host->loop);
    ssize_t len = recv(self->fd, scratch, CAY_LOOP_SCRATCH_BYTES, 0);
    if (len < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (len < 0) {
        break_off(self, CAY_R_UNAVAILABLE, "the program broke the connection off");
        return false;
    }
    if (len == 0)
        return end_read(self);
    note_use(self);
    const struct cay_v1_connect_port_response response = {
        .which_frame = CAY_V1_CONNECT_PORT_RESPONSE_FRAME_DATA,
        .frame.data = {scratch, (size_t)len},
    };
    return tell(self, &response);
}

static void on_ready(struct cay_watch *watch, unsigned events)
{
    struct tunnel *self = CAY_CONTAINER_OF(watch, struct tunnel, watch);
    bool had_rest = self->rest.len > 0;
    if (events & CAY_READY_WRITE && had_rest && !give(self))
        return;
    if (events & CAY_READY_READ && !self->is_full && !self->is_read_over && !take(self))
        return;
    watch_for(self);
    if (had_rest && !self->rest.len)
        cay_call_next(self->call);
}

static void on_room(struct cay_call *call)
{
    struct tunnel *self = call->state;
    self->is_full = false;
    if (self->watch.handle)
        watch_for(self);
}

static void on_message(struct cay_call *call, const void *message)
{
    struct tunnel *self = call->state;
    const struct cay_v1_connect_port_request *request = message;
    if (!request) {
        (void)shutdown(self->fd, SHUT_WR);
        self->is_write_over = true;
        if (self->is_read_over)
            end_tunnel(self, NULL);
        return;
    }
    if (request->which_frame != CAY_V1_CONNECT_PORT_REQUEST_FRAME_DATA) {
        break_off(self, CAY_R_INVALID_ARGUMENT, "only data may follow the first message");
        return;
    }
    self->rest = request->frame.data;
    if (!give(self))
        return;
    watch_for(self);
    if (!self->rest.len)
        cay_call_next(call);
}

static void dialled(void *owner, int fd)
{
    static const struct cay_v1_port_opened opened;
    static const struct cay_v1_connect_port_response response = {
        .which_frame = CAY_V1_CONNECT_PORT_RESPONSE_FRAME_OPENED,
        .frame.opened = (struct cay_v1_port_opened *)(uintptr_t)&opened,
    };
    struct tunnel *self = owner;
    self->dial = NULL;
    if (fd == -ECONNREFUSED) {
        break_off(self, CAY_R_PORT_NOT_OPEN, NULL);
        return;
    }
    if (fd < 0) {
        break_off(self, CAY_R_UNAVAILABLE, "the port does not answer");
        return;
    }
    self->fd = fd;
    if (cay_watch_open(&self->watch, self->host->loop, fd, on_ready) < 0) {
        break_off(self, CAY_R_RESOURCE_EXHAUSTED, NULL);
        return;
    }
    if (!tell(self, &response))
        return;
    self->call->on_message = on_message;
    cay_host_endless(self->host, self->call);
    watch_for(self);
    cay_call_next(self->call);
}

static void awake(struct cay_call *call, struct cay_session *session, void *,
                  const struct cay_error *failure)
{
    struct tunnel *self = call->state;
    struct cay_net *net = &self->host->net;
    struct cay_error err = {};
    int netns_fd = -1;
    self->is_waking = false;
    if (failure)
        err = *failure;
    else if (self->is_gone)
        cay_fail(&err, CAY_R_CANCELED, NULL);
    else if (net->connection_count >= net->connection_count_max)
        cay_fail(&err, CAY_R_RESOURCE_EXHAUSTED,
                 "this host has as many connections to sandboxes as it may have; close some, or "
                 "try again later");
    else if (!cay_net_has_room(net, session->account->port_connections))
        cay_fail(
            &err, CAY_R_RESOURCE_EXHAUSTED,
            "the owner of session '%s' has so many connections to its sandboxes that too few are "
            "left for others; close some first",
            session->id);
    else
        (void)cay_sandbox_netns(session->sandbox, &netns_fd, &err);
    if (err.reason) {
        end_tunnel(self, &err);
        return;
    }
    net->connection_count++;
    self->account = session->account;
    self->account->port_connections++;
    self->is_counted = true;
    snprintf(self->session_id, sizeof(self->session_id), "%s", session->id);
    session->last_active_ns = cay_clock_wall_ns();
    cay_dial_start(net->loop, netns_fd, self->port, dialled, self, &self->dial);
    close(netns_fd);
}

static void on_open(struct cay_call *call, const void *message)
{
    struct tunnel *self = call->state;
    const struct cay_v1_connect_port_request *request = message;
    const struct cay_v1_port_open *open =
        request && request->which_frame == CAY_V1_CONNECT_PORT_REQUEST_FRAME_OPEN
            ? request->frame.open
            : NULL;
    struct cay_session *session = NULL;
    struct cay_error err = {};
    if (!open)
        cay_fail(&err, CAY_R_INVALID_ARGUMENT,
                 "the first message must be open, which says where to connect to");
    else if (open->port < 1 || open->port > PORT_MAX)
        cay_fail(&err, CAY_R_INVALID_ARGUMENT, "port must be 1 to %d", PORT_MAX);
    else
        (void)cay_session_check(self->host, call, open->session_id, CAY_VERB_EXEC, &session, &err);
    if (err.reason) {
        end_tunnel(self, &err);
        return;
    }
    self->port = (uint16_t)open->port;
    self->is_half_closing = open->half_close;
    self->is_waking = true;
    cay_wake(session, call, true, awake, NULL);
}

void cay_host_connect_port(struct cay_service *service, struct cay_call *call)
{
    struct tunnel *self = cay_new(struct tunnel);
    self->call = call;
    self->host = cay_host_of(service);
    self->fd = -1;
    call->state = self;
    call->on_cancel = caller_left;
    call->on_room = on_room;
    call->on_message = on_open;
    cay_call_next(call);
}
