/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tunnel.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/cay_v1.h"
#include "api/limits.h"
#include "base/buf.h"
#include "cli/again.h"
#include "client/rpc/client.h"

enum { PIECE_BYTES = 64 * 1024 };

struct tunnel {
    struct cay_client_duplex duplex;
    struct cay_v1_port_open open;
    struct cay_v1_connect_port_request request;
    bool has_asked;
    bool is_opened;
    bool is_ended;     /* the program sends no more */
    struct cay_buf in; /* of the program, not written to fd yet */
    size_t in_sent;
    char piece[PIECE_BYTES];
};

static bool hung_up(struct cay_error *err)
{
    return cay_fail(err, CAY_R_CANCELED, "the connection was closed on this side");
}

static bool flush(void *state, struct cay_error *err)
{
    struct tunnel *self = state;
    while (self->in_sent < self->in.len) {
        ssize_t sent = send(self->duplex.fd, self->in.data + self->in_sent,
                            self->in.len - self->in_sent, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno != EAGAIN)
            return hung_up(err);
        if (sent < 0) {
            self->duplex.is_full = true;
            return true;
        }
        self->in_sent += (size_t)sent;
    }
    cay_buf_clear(&self->in, 2 * PIECE_BYTES);
    self->in_sent = 0;
    self->duplex.is_full = false;
    if (self->is_ended)
        (void)shutdown(self->duplex.fd, SHUT_WR);
    return true;
}

static bool receive(void *state, const void *message, struct cay_error *err)
{
    struct tunnel *self = state;
    const struct cay_v1_connect_port_response *response = message;
    switch (response->which_frame) {
    case CAY_V1_CONNECT_PORT_RESPONSE_FRAME_OPENED:
        self->is_opened = true;
        self->duplex.is_held = false;
        return true;
    case CAY_V1_CONNECT_PORT_RESPONSE_FRAME_DATA:
        cay_buf_append_str(&self->in, response->frame.data);
        return self->in.failed ? cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL) : flush(self, err);
    case CAY_V1_CONNECT_PORT_RESPONSE_FRAME_ENDED: self->is_ended = true; return flush(self, err);
    case CAY_V1_CONNECT_PORT_RESPONSE_FRAME_NOT_SET: break; /* of a newer daemon */
    }
    return true;
}

static bool produce(void *state, struct cay_arena *, const void **out_message,
                    struct cay_error *err)
{
    struct tunnel *self = state;
    *out_message = &self->request;
    if (!self->has_asked) {
        self->has_asked = true;
        /* Whoever is at fd has said nothing yet, as far as we know: the call can be made again. */
        self->duplex.is_held = true;
        self->request = (struct cay_v1_connect_port_request){
            .which_frame = CAY_V1_CONNECT_PORT_REQUEST_FRAME_OPEN, .frame.open = &self->open};
        return true;
    }
    ssize_t len = recv(self->duplex.fd, self->piece, sizeof(self->piece), 0);
    if (len < 0 && errno != EAGAIN && errno != EINTR)
        return hung_up(err);
    self->duplex.is_waiting = len < 0;
    self->request = (struct cay_v1_connect_port_request){
        .which_frame = CAY_V1_CONNECT_PORT_REQUEST_FRAME_DATA,
        .frame.data = {self->piece, len > 0 ? (size_t)len : 0},
    };
    if (len <= 0)
        *out_message = NULL;
    return true;
}

static bool attempt(struct tunnel *self, struct cay_client *client, struct cay_error *err)
{
    self->has_asked = false;
    self->duplex.is_held = false;
    *err = (struct cay_error){};
    return cay_client_call_duplex(client, &cay_v1_methods[CAY_V1_PROCESS_SERVICE_CONNECT_PORT],
                                  &self->duplex, err);
}

static bool is_worth_waiting(const struct tunnel *self, const struct cay_error *err)
{
    return !self->is_opened && (err->reason == CAY_R_DAEMON_RESTARTING || cay_again_is_unsent(err));
}

bool cay_tunnel_run(struct cay_client *client, const char *session_id, uint16_t port, int fd,
                    struct cay_error *err)
{
    cay_autofree struct tunnel *self = cay_new(struct tunnel);
    struct cay_again again = {.has_begun = true};
    self->open = (struct cay_v1_port_open){
        .session_id = cay_str(session_id), .port = port, .half_close = true};
    self->duplex = (struct cay_client_duplex){
        .state = self, .fd = fd, .produce = produce, .receive = receive, .flush = flush};
    cay_buf_init(&self->in, 2 * CAY_LIMIT_MESSAGE_BYTES);
    bool is_done = attempt(self, client, err);
    while (!is_done && is_worth_waiting(self, err) && cay_again_waited(&again, err, NULL))
        is_done = attempt(self, client, err);
    cay_buf_finish(&self->in);
    if (!is_done) {
        const struct linger reset = {.l_onoff = 1};
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    }
    close(fd);
    return is_done;
}
