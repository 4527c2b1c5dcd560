/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay-remote: the doors of cayd, and another daemon behind them. Prints `cay-remote ready on
 * ADDRESS` per listener; SIGTERM drains. The key for the daemon behind is in CAY_API_KEY.
 */
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>

#include "api/cay_v1.h"
#include "base/log.h"
#include "front/e2b/e2b.h"
#include "front/http/server.h"
#include "front/router.h"
#include "remote/remote.h"
#include "tests/echo/echo.h"
#include "tests/echo/stand.h"
#include "tests/remote/guess.h"

enum { DRAIN_MS = 5000 };

struct options {
    struct stand stand;
    const char *behind;
    bool is_echo;
    const char *echo_key; /* NULL: none is needed */
    struct cay_e2b_options e2b;
};

struct daemon {
    struct cay_loop *loop;
    struct cay_remote *remote;
    struct cay_router router;
    struct cay_server *server;
    struct cay_signal term;
};

static struct options read_options(int argc, char **argv)
{
    static const struct option names[] = {
        STAND_FLAGS,
        {"behind", required_argument, NULL, 'b'},
        {"echo", no_argument, NULL, 'e'},
        {"key", required_argument, NULL, 'k'},
        {"e2b-template", required_argument, NULL, 't'},
        {"default-base", required_argument, NULL, 'd'},
        {"e2b-domain", required_argument, NULL, 'n'},
        {},
    };
    struct options options = {.stand.program = "cay-remote", .e2b = {.is_on = true}};
    int name = 0;
    while ((name = getopt_long(argc, argv, "", names, NULL)) != -1) {
        switch (name) {
        case 'b': options.behind = optarg; break;
        case 'e': options.is_echo = true; break;
        case 'k': options.echo_key = optarg; break;
        case 't': options.e2b.template = optarg; break;
        case 'd': options.e2b.default_base = optarg; break;
        case 'n': options.e2b.domain = optarg; break;
        default: stand_take_flag(&options.stand, name, optarg);
        }
    }
    if (!options.behind)
        stand_die(&options.stand, "--behind ADDRESS is needed");
    return options;
}

static void on_drained(void *context)
{
    struct daemon *daemon = context;
    cay_loop_stop(daemon->loop);
}

static void on_term(struct cay_signal *signal, int)
{
    struct daemon *daemon = CAY_CONTAINER_OF(signal, struct daemon, term);
    cay_remote_stop(daemon->remote);
    cay_server_drain(daemon->server, DRAIN_MS, on_drained, daemon);
}

static bool start(struct daemon *daemon, const struct options *options, struct cay_error *err)
{
    const char *key = getenv("CAY_API_KEY");
    const struct cay_remote_options remote = {
        .loop = daemon->loop,
        .url = options->behind,
        .key = key,
        .methods = options->is_echo ? echo_methods : cay_v1_methods,
        .method_count = options->is_echo ? (size_t)ECHO_METHOD_COUNT : CAY_V1_METHOD_COUNT,
    };
    if (!cay_remote_create(&remote, &daemon->remote, err))
        return false;
    struct cay_service *service = cay_remote_service(daemon->remote);
    if (options->is_echo)
        guess_init(service, daemon->loop, options->echo_key);
    cay_router_init(&daemon->router, service, options->is_echo ? NULL : &options->e2b,
                    options->is_echo && !options->echo_key);
    const struct cay_server_options server = {
        .route = cay_router_route,
        .context = &daemon->router,
        .connection_count_max = 4096,
        .head_timeout_ms = 10000,
        .idle_timeout_ms = 60000,
        .send_timeout_ms = 30000,
    };
    daemon->server = cay_server_create(daemon->loop, &server);
    daemon->router.porch.server = daemon->server;
    if (cay_signal_open(&daemon->term, daemon->loop, SIGTERM, on_term) < 0)
        return cay_fail(err, CAY_R_INTERNAL, "cannot catch SIGTERM");
    return stand_open(&options->stand, daemon->server, err);
}

int main(int argc, char **argv)
{
    struct options options = read_options(argc, argv);
    struct daemon daemon = {};
    struct cay_error err = {};
    /* TLS writes with write(2), which has no MSG_NOSIGNAL. */
    signal(SIGPIPE, SIG_IGN);
    (void)mallopt(M_MMAP_THRESHOLD, 1 << 20); /* as cayd does */
    if (cay_loop_create(&daemon.loop) < 0)
        stand_die(&options.stand, "no event loop");
    if (!start(&daemon, &options, &err))
        stand_die(&options.stand, err.text);
    cay_loop_run(daemon.loop);
    cay_signal_close(&daemon.term);
    cay_server_destroy(daemon.server);
    cay_loop_finish_jobs(daemon.loop);
    cay_router_finish(&daemon.router);
    cay_remote_destroy(daemon.remote);
    cay_loop_destroy(daemon.loop);
    return 0;
}
