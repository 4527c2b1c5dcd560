/* SPDX-License-Identifier: Apache-2.0 */
#include "host/net/port.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/list.h"
#include "host/net/dial.h"
#include "host/net/relay.h"
#include "io/heirs.h"
#include "io/listener.h"
#include "sys/descriptors.h"

struct cay_port {
    struct cay_net *net;
    struct cay_listener listener;
    int netns_fd;
    uint16_t port;
    uint16_t host_port;
    char bind_address[64];
    struct cay_list connections;
    size_t connection_count;
    size_t *own_count;
    void (*seen)(void *owner, bool is_listening);
    void *owner;
};

/* First with a dial, then with a relay. */
struct connection {
    struct cay_list_node in_port;
    struct cay_port *port;
    int client_fd; /* until the relay has it */
    struct cay_dial *dial;
    struct cay_relay relay;
};

static void count(struct cay_port *port, int more)
{
    port->connection_count += (size_t)more;
    port->net->connection_count += (size_t)more;
    *port->own_count += (size_t)more;
}

static void drop(struct connection *connection)
{
    struct cay_port *port = connection->port;
    if (connection->dial)
        cay_dial_cancel(connection->dial);
    if (connection->client_fd >= 0)
        cay_relay_reset(connection->client_fd);
    else
        cay_relay_close(&connection->relay);
    cay_list_remove(&connection->in_port);
    free(connection);
    count(port, -1);
}

static void relay_over(struct cay_relay *relay)
{
    drop(CAY_CONTAINER_OF(relay, struct connection, relay));
}

static void dialled(void *owner, int fd)
{
    struct connection *connection = owner;
    struct cay_port *port = connection->port;
    connection->dial = NULL;
    if (fd < 0) {
        drop(connection);
        if (fd == -ECONNREFUSED)
            port->seen(port->owner, false);
        return;
    }
    if (cay_relay_open(&connection->relay, port->net->loop, cay_take_fd(connection->client_fd), fd,
                       relay_over) < 0) {
        count(port, -1); /* both sides are closed */
        cay_list_remove(&connection->in_port);
        free(connection);
        return;
    }
    port->seen(port->owner, true);
}

static void accepted(struct cay_listener *listener, int fd, const struct cay_peer *)
{
    struct cay_port *port = CAY_CONTAINER_OF(listener, struct cay_port, listener);
    struct cay_net *net = port->net;
    if (port->connection_count >= CAY_PORT_CONNECTIONS ||
        !cay_net_has_room(net, *port->own_count)) {
        cay_relay_reset(fd);
        return;
    }
    struct connection *connection = cay_new(struct connection);
    connection->port = port;
    connection->client_fd = fd;
    cay_list_push_back(&port->connections, &connection->in_port);
    count(port, 1);
    cay_dial_start(net->loop, port->netns_fd, port->port, dialled, connection, &connection->dial);
}

static bool read_port(struct cay_port *port, struct cay_error *err)
{
    struct sockaddr_storage bound = {};
    socklen_t len = sizeof(bound);
    if (getsockname(port->listener.fd, (struct sockaddr *)&bound, &len) < 0)
        return cay_fail_errno(err, CAY_R_INTERNAL, -errno, "the port listened on");
    port->host_port = ntohs(bound.ss_family == AF_INET6
                                ? ((const struct sockaddr_in6 *)(const void *)&bound)->sin6_port
                                : ((const struct sockaddr_in *)(const void *)&bound)->sin_port);
    return true;
}

static bool open_listener(struct cay_port *port, uint16_t host_port, struct cay_error *err)
{
    char address[96];
    int status = cay_descriptors_check();
    if (status < 0)
        return cay_fail_errno(err, CAY_R_INTERNAL, status, "listen on a port");
    cay_net_join(address, sizeof(address), port->bind_address, host_port);
    if (cay_listener_open(&port->listener, port->net->loop, address, accepted, err)) {
        port->listener.heir_name = CAY_HEIR_PORT;
        return true;
    }
    if (err->sys_errno == EADDRINUSE)
        return cay_fail(err, CAY_R_ALREADY_EXISTS, "port %u of the host is in use", host_port);
    return false;
}

bool cay_port_open(struct cay_net *net, const struct cay_port_options *options, int netns_fd,
                   struct cay_port **out_port, struct cay_error *err)
{
    struct cay_port *port = cay_new(struct cay_port);
    port->net = net;
    port->netns_fd = netns_fd;
    port->port = options->port;
    port->seen = options->seen;
    port->owner = options->owner;
    port->own_count = options->own_count;
    port->listener = (struct cay_listener){.fd = -1, .spare_fd = -1};
    snprintf(port->bind_address, sizeof(port->bind_address), "%s", options->bind_address);
    cay_list_init(&port->connections);
    if (!open_listener(port, options->host_port, err) || !read_port(port, err)) {
        cay_port_close(port);
        return false;
    }
    *out_port = port;
    return true;
}

void cay_port_close(struct cay_port *port)
{
    cay_listener_close(&port->listener);
    cay_list_for_each (struct connection, connection, &port->connections, in_port)
        drop(connection);
    close(port->netns_fd);
    free(port);
}

uint16_t cay_port_host_port(const struct cay_port *port)
{
    return port->host_port;
}

const char *cay_port_bind_address(const struct cay_port *port)
{
    return port->bind_address;
}

int cay_port_netns(const struct cay_port *port)
{
    return port->netns_fd;
}
