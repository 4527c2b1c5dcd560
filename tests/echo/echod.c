/* SPDX-License-Identifier: Apache-2.0 */
/*
 * echod: EchoService on the same doors, server and loop as cayd, for tests that need a server to do
 * a certain thing at a certain time. Prints `echod ready on ADDRESS` per listener; SIGTERM drains.
 */
#include <malloc.h>
#include <signal.h>

#include "front/connect/connect.h"
#include "front/http/server.h"
#include "tests/echo/echo_service.h"
#include "tests/echo/stand.h"

struct options {
    struct stand stand;
    const char *key;
    struct cay_server_options server;
    uint64_t drain_ms;
};

struct daemon {
    struct cay_loop *loop;
    struct cay_server *server;
    struct cay_porch porch;
    void *door;
    struct echo_service service;
    struct cay_signal term;
    uint64_t drain_ms;
};

static void route(struct cay_exchange *exchange, void *context)
{
    struct daemon *daemon = context;
    cay_connect_door.open(daemon->door, exchange);
}

static void on_drained(void *context)
{
    struct daemon *daemon = context;
    cay_loop_stop(daemon->loop);
}

static void on_term(struct cay_signal *signal, int)
{
    struct daemon *daemon = CAY_CONTAINER_OF(signal, struct daemon, term);
    cay_server_drain(daemon->server, daemon->drain_ms, on_drained, daemon);
}

static uint64_t number(const struct options *options, const char *text)
{
    uint64_t value = 0;
    if (cay_str_to_u64(cay_str(text), UINT32_MAX, &value) < 0)
        stand_die(&options->stand, "a number is needed");
    return value;
}

static struct options read_options(int argc, char **argv)
{
    static const struct option names[] = {
        STAND_FLAGS,
        {"key", required_argument, NULL, 'k'},
        {"head-timeout-ms", required_argument, NULL, 'h'},
        {"body-timeout-ms", required_argument, NULL, 'b'},
        {"idle-timeout-ms", required_argument, NULL, 'i'},
        {"send-timeout-ms", required_argument, NULL, 's'},
        {"connections-max", required_argument, NULL, 'm'},
        {"drain-ms", required_argument, NULL, 'd'},
        {},
    };
    struct options options = {
        .stand.program = "echod",
        .server = {.connection_count_max = 4096,
                   .head_timeout_ms = 10000,
                   .idle_timeout_ms = 60000,
                   .send_timeout_ms = 30000},
        .drain_ms = 5000,
    };
    int name = 0;
    while ((name = getopt_long(argc, argv, "", names, NULL)) != -1) {
        switch (name) {
        case 'k': options.key = optarg; break;
        case 'h': options.server.head_timeout_ms = number(&options, optarg); break;
        case 'b': options.server.body_timeout_ms = number(&options, optarg); break;
        case 'i': options.server.idle_timeout_ms = number(&options, optarg); break;
        case 's': options.server.send_timeout_ms = number(&options, optarg); break;
        case 'm': options.server.connection_count_max = number(&options, optarg); break;
        case 'd': options.drain_ms = number(&options, optarg); break;
        default: stand_take_flag(&options.stand, name, optarg);
        }
    }
    if (!options.stand.count)
        stand_take_flag(&options.stand, 'l', "127.0.0.1:0");
    return options;
}

int main(int argc, char **argv)
{
    struct options options = read_options(argc, argv);
    struct daemon daemon = {.drain_ms = options.drain_ms};
    /* TLS writes with write(2), which has no MSG_NOSIGNAL. */
    signal(SIGPIPE, SIG_IGN);
    (void)mallopt(M_MMAP_THRESHOLD, 1 << 20); /* as cayd does */
    if (cay_loop_create(&daemon.loop) < 0)
        stand_die(&options.stand, "no event loop");
    echo_service_init(&daemon.service, daemon.loop, options.key);
    daemon.porch.service = &daemon.service.base;
    daemon.porch.allow_anonymous = options.key == NULL;
    cay_bodies_init(&daemon.porch.bodies, 0, 0);
    daemon.door = cay_connect_door.create(&daemon.porch);
    options.server.route = route;
    options.server.context = &daemon;
    daemon.server = cay_server_create(daemon.loop, &options.server);
    daemon.service.server = daemon.server;
    struct cay_error err = {};
    if (cay_signal_open(&daemon.term, daemon.loop, SIGTERM, on_term) < 0)
        stand_die(&options.stand, "cannot catch SIGTERM");
    if (!stand_open(&options.stand, daemon.server, &err))
        stand_die(&options.stand, err.text);
    cay_loop_run(daemon.loop);
    cay_signal_close(&daemon.term);
    echo_service_end_calls(&daemon.service);
    cay_server_destroy(daemon.server);
    cay_loop_finish_jobs(daemon.loop);
    cay_connect_door.destroy(daemon.door);
    cay_bodies_finish(&daemon.porch.bodies);
    cay_loop_destroy(daemon.loop);
    return 0;
}
