/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/cay_v1.h"
#include "base/crash.h"
#include "base/log.h"
#include "bin/cayd_conf.h"
#include "bin/cayd_harden.h"
#include "bin/cayd_notify.h"
#include "bin/cayd_replace.h"
#include "front/e2b/e2b.h"
#include "front/http/server.h"
#include "front/router.h"
#include "host/doctor/doctor.h"
#include "host/service/service.h"
#include "host/session/state.h"
#include "sys/descriptors.h"
#include "wire/e2b/template.h"

enum { EXIT_USAGE = 2 };

struct daemon {
    struct cayd_conf conf;
    struct cay_loop *loop;
    struct cay_host *host;
    struct cay_router router;
    struct cay_server *server;
    struct cay_signal terminate;
    struct cay_signal interrupt;
    struct cay_signal hangup;
    struct cay_signal replacing;
    struct cay_heirs *heirs;
    struct cayd_replace replace;
    size_t connection_count_max;
    bool is_replacing;   /* the next one goes on where we end */
    const char *address; /* of the first TCP listener, for the ready line */
};

static void on_quiet(void *context)
{
    struct daemon *daemon = context;
    cay_loop_stop(daemon->loop);
}

static void on_drained(void *context)
{
    struct daemon *daemon = context;
    cay_host_drain(daemon->host, on_quiet, daemon);
}

static void on_stop(struct cay_signal *, int);

static struct daemon *daemon_of(struct cay_signal *signal, int number)
{
    if (number == SIGTERM)
        return CAY_CONTAINER_OF(signal, struct daemon, terminate);
    if (number == SIGINT)
        return CAY_CONTAINER_OF(signal, struct daemon, interrupt);
    if (number == SIGUSR2)
        return CAY_CONTAINER_OF(signal, struct daemon, replacing);
    return CAY_CONTAINER_OF(signal, struct daemon, hangup);
}

/* Whoever waits for what may never come is told to come back; all others get their answers. */
static void end(struct daemon *daemon)
{
    cay_host_cut(daemon->host);
    cay_server_drain(daemon->server, daemon->conf.shutdown_timeout_ms, on_drained, daemon);
}

static void on_stop(struct cay_signal *signal, int number)
{
    struct daemon *daemon = daemon_of(signal, number);
    if (daemon->router.porch.is_draining) {
        cay_log(CAY_WARN, "cayd.cut", CAY_I("signal", number));
        cay_server_cut(daemon->server);
        return;
    }
    cay_log(CAY_INFO, "cayd.stopping", CAY_I("signal", number));
    cayd_notify("STOPPING=1");
    daemon->router.porch.is_draining = true;
    daemon->is_replacing = false;
    cay_heirs_collect(daemon->heirs, false);
    end(daemon);
}

static void on_checked(struct cayd_replace *replace, bool is_good)
{
    struct daemon *daemon = CAY_CONTAINER_OF(replace, struct daemon, replace);
    if (daemon->router.porch.is_draining)
        return;
    if (!is_good) {
        cay_log(CAY_ERROR, "cayd.not_replaced", CAY_S("program", replace->program),
                CAY_S("advice", "it does not take this configuration; this one goes on to serve"));
        return;
    }
    cay_log(CAY_INFO, "cayd.replacing", CAY_S("program", replace->program));
    cayd_notify_reloading();
    daemon->is_replacing = true;
    cay_heirs_collect(daemon->heirs, true);
    end(daemon);
}

static void on_replace(struct cay_signal *signal, int number)
{
    struct daemon *daemon = daemon_of(signal, number);
    struct cay_error err = {};
    if (daemon->router.porch.is_draining || daemon->is_replacing)
        return;
    if (!cayd_replace_check(&daemon->replace, daemon->loop, on_checked, &err))
        cay_log(CAY_ERROR, "cayd.not_replaced", CAY_ERR(&err));
}

static bool load_tls(struct daemon *daemon, struct cay_error *err)
{
    struct cay_tls *tls = NULL;
    const struct cayd_conf *conf = &daemon->conf;
    if (!conf->tls_cert && !conf->tls_key)
        return true;
    if (!conf->tls_cert || !conf->tls_key)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "tls_cert and tls_key go together");
    if (!cay_tls_create(conf->tls_cert, conf->tls_key, &tls, err))
        return false;
    cay_server_set_tls(daemon->server, tls);
    return true;
}

static void on_hangup(struct cay_signal *signal, int number)
{
    struct daemon *daemon = daemon_of(signal, number);
    struct cay_error err = {};
    if (load_tls(daemon, &err))
        cay_log(CAY_INFO, "cayd.reloaded");
    else
        cay_log(CAY_ERROR, "cayd.reload_failed", CAY_ERR(&err));
}

static bool open_signals(struct daemon *daemon, struct cay_error *err)
{
    /* A peer that hangs up is an error of that connection, not a reason to die. */
    signal(SIGPIPE, SIG_IGN);
    int status = cay_signal_open(&daemon->terminate, daemon->loop, SIGTERM, on_stop);
    if (status == 0)
        status = cay_signal_open(&daemon->interrupt, daemon->loop, SIGINT, on_stop);
    if (status == 0)
        status = cay_signal_open(&daemon->hangup, daemon->loop, SIGHUP, on_hangup);
    if (status == 0)
        status = cay_signal_open(&daemon->replacing, daemon->loop, SIGUSR2, on_replace);
    return status == 0 || cay_fail_errno(err, CAY_R_INTERNAL, status, "cannot watch signals");
}

static void raise_descriptor_limit(struct daemon *daemon)
{
    enum { FEW = 4096 };
    uint64_t limit = cay_descriptors_raise();
    /* The first look makes the kernel's table of open files large. As long as there is one thread
     * it does so at once; later it waits for an RCU grace period (expand_files() in fs/file.c). */
    (void)cay_descriptors_check();
    if (limit < FEW)
        cay_log(CAY_WARN, "cayd.few_descriptors", CAY_I("limit", (int64_t)limit),
                CAY_S("hint", "raise LimitNOFILE in the unit, or 'ulimit -Hn'"));
    /* Connections alone must not take all. */
    daemon->connection_count_max =
        (size_t)CAY_MIN((uint64_t)daemon->conf.max_connections, cay_descriptors_connections(limit));
}

/* glibc learns from the largest buffer it saw to keep as much for the next one: tens of megabytes
 * that a rare large message leaves behind. */
static void return_large_buffers(void)
{
    (void)mallopt(M_MMAP_THRESHOLD, 1 << 20);
}

static bool make_run_dir(const char *path, struct cay_error *err)
{
    if (mkdir(path, 0755) < 0 && errno != EEXIST)
        return cay_fail_errno(err, CAY_R_INVALID_ARGUMENT, -errno, "cannot make run directory '%s'",
                              path);
    return true;
}

/* In a build tree it stands beside us; else where it was installed. */
/* A file of ours: beside us as it was built, else as it was installed. */
static char *find_file(const char *beside, const char *installed)
{
    char self[4096];
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *slash = NULL;
    if (len > 0) {
        self[len] = '\0';
        slash = strrchr(self, '/');
    }
    if (slash) {
        cay_autofree char *path = cay_asprintf("%.*s/%s", (int)(slash - self), self, beside);
        if (access(path, R_OK) == 0)
            return cay_take_ptr(path);
    }
    return cay_strdup(installed);
}

static char *find_init(const char *configured)
{
    return configured ? cay_strdup(configured)
                      : find_file("../init/cay-init", CAY_LIBEXECDIR "/cay/cay-init");
}

static bool listen_unix(struct daemon *daemon, struct cay_error *err)
{
    const char *bound = NULL;
    cay_autofree char *address = cay_asprintf("unix:%s/cayd.sock", daemon->conf.host.run_dir);
    return cay_server_listen(daemon->server, address, false, &bound, err);
}

static bool is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strncmp(address, "[::1]", 5) == 0;
}

static void note_listener(struct daemon *daemon, const char *bound)
{
    const struct cayd_conf *conf = &daemon->conf;
    bool is_unix = strncmp(bound, "unix:", 5) == 0;
    if (!is_unix && !daemon->address)
        daemon->address = bound;
    cay_log(CAY_INFO, "cayd.listening", CAY_S("address", bound),
            CAY_B("tls", conf->tls_cert && !is_unix));
    if (!is_unix && !is_loopback(bound) && !conf->tls_cert)
        cay_log(CAY_WARN, "cayd.plain_text", CAY_S("address", bound),
                CAY_S("advice", "keys travel unencrypted; set tls_cert and tls_key"));
    if (!is_unix && conf->insecure_no_auth)
        cay_log(CAY_WARN, "cayd.no_auth", CAY_S("address", bound),
                CAY_S("advice", "anybody who reaches this address administers the daemon"));
}

static bool listen_all(struct daemon *daemon, struct cay_error *err)
{
    const struct cayd_conf *conf = &daemon->conf;
    const char *bound = NULL;
    int fd = -1;
    if (!listen_unix(daemon, err))
        return false;
    for (size_t i = 0; i < conf->listen.count; i++) {
        const char *wanted = conf->listen.items[i];
        bool is_unix = strncmp(wanted, "unix:", 5) == 0;
        if (!cay_server_listen(daemon->server, wanted, conf->tls_cert && !is_unix, &bound, err))
            return false;
        note_listener(daemon, bound);
    }
    while ((fd = cay_heirs_take_managed(daemon->heirs)) >= 0) {
        if (!cay_server_listen_managed(daemon->server, fd, conf->tls_cert, &bound, err))
            return false;
        note_listener(daemon, bound);
    }
    while ((fd = cay_heirs_take_connection(daemon->heirs)) >= 0)
        cay_server_adopt(daemon->server, fd);
    cay_heirs_close_rest(daemon->heirs);
    return true;
}

static void print_ready(const struct daemon *daemon)
{
    if (daemon->address)
        printf("cayd ready on %s://%s\n", daemon->conf.tls_cert ? "https" : "http",
               daemon->address);
    else
        printf("cayd ready on unix:%s/cayd.sock\n", daemon->conf.host.run_dir);
    fflush(stdout);
}

static bool check_images(const struct cay_conf_list *images, struct cay_error *err)
{
    for (size_t i = 0; i < images->count; i++) {
        if (!cay_e2b_image_line_valid(cay_str(images->items[i])))
            return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                            "e2b_images: '%.100s' is not of the form IMAGE=BASE", images->items[i]);
    }
    return true;
}

/* Paths below these are written down, for a daemon that is started from elsewhere. */
static bool make_absolute(char **path, struct cay_error *err)
{
    if (!*path || !**path || **path == '/')
        return true;
    cay_autofree char *here = getcwd(NULL, 0);
    if (!here)
        return cay_fail_errno(err, CAY_R_INVALID_ARGUMENT, -errno,
                              "'%.100s' is relative to a directory that is gone", *path);
    char *whole = cay_asprintf("%s/%s", here, *path);
    free(*path);
    *path = whole;
    return true;
}

/* What doors and server need besides what is set for them. */
static void complete(struct daemon *daemon)
{
    struct cayd_conf *conf = &daemon->conf;
    conf->e2b.default_base = conf->host.default_base;
    bool is_default = conf->e2b.network == CAY_E2B_NETWORK_DEFAULT;
    bool is_open = is_default ? conf->host.network == CAY_NETWORK_SETTING_OPEN
                              : conf->e2b.network == CAY_E2B_NETWORK_OPEN;
    if (is_default && conf->host.network == CAY_NETWORK_SETTING_FILTERED)
        conf->e2b.network_mode = CAY_V1_NETWORK_MODE_UNSPECIFIED;
    else
        conf->e2b.network_mode = is_open ? CAY_V1_NETWORK_MODE_OPEN : CAY_V1_NETWORK_MODE_NONE;
    conf->server.route = cay_router_route;
    conf->server.context = &daemon->router;
    conf->server.connection_count_max = daemon->connection_count_max;
}

static bool start(struct daemon *daemon, struct cay_error *err)
{
    if (!make_absolute(&daemon->conf.host.data_dir, err) ||
        !make_absolute(&daemon->conf.host.run_dir, err) ||
        !make_absolute(&daemon->conf.host.secrets_key, err))
        return false;
    const struct cayd_conf *conf = &daemon->conf;
    int status = cay_loop_create(&daemon->loop);
    if (status < 0)
        return cay_fail_errno(err, CAY_R_INTERNAL, status, "cannot start the event loop");
    cay_loop_set_heirs(daemon->loop, daemon->heirs);
    cay_autofree char *init_path = find_init(conf->init_path);
    cay_autofree char *egress_path =
        find_file("../egress/cay-egress", CAY_LIBEXECDIR "/cay/cay-egress");
    cay_autofree char *interpreter_path =
        find_file("../../share/code_interpreter.py", CAY_DATADIR "/cay/code_interpreter.py");
    const struct cay_host_options host_options = {
        .settings = &conf->host,
        .init_path = init_path,
        .egress_path = egress_path,
        .interpreter_path = interpreter_path,
        .host_root = getenv("CAY_TEST_HOST_ROOT"),
        .port_domain = conf->e2b.is_on ? conf->e2b.domain : NULL,
        /* Without a port of its own, clients use 443. */
        .is_port_domain_https =
            conf->tls_cert || (conf->e2b.domain && !strchr(conf->e2b.domain, ':')),
        .serves_e2b = conf->e2b.is_on,
    };
    if (!check_images(&conf->e2b.images, err) || !make_run_dir(conf->host.run_dir, err) ||
        !cay_host_create(daemon->loop, &host_options, &daemon->host, err))
        return false;
    complete(daemon);
    cay_router_init(&daemon->router, cay_host_service(daemon->host), &conf->e2b,
                    conf->insecure_no_auth);
    daemon->router.porch.bodies.bytes_max = conf->body_memory_bytes;
    daemon->router.porch.bodies.owner_bytes_max = conf->owner_body_memory_bytes;
    daemon->server = cay_server_create(daemon->loop, &conf->server);
    daemon->router.porch.server = daemon->server;
    return open_signals(daemon, err) && load_tls(daemon, err) && listen_all(daemon, err);
}

/* Also after a start that got only half way. */
static void stop(struct daemon *daemon)
{
    if (daemon->is_replacing) {
        cayd_replace_hold_signals();
        cay_host_keep_sessions(daemon->host);
    }
    cay_signal_close(&daemon->terminate);
    cay_signal_close(&daemon->interrupt);
    cay_signal_close(&daemon->hangup);
    cay_signal_close(&daemon->replacing);
    cay_child_close(&daemon->replace.child);
    cay_server_destroy(daemon->server);
    cay_host_stop(daemon->host);
    /* Jobs under way end first: what they were asked to write is written. */
    cay_loop_finish_jobs(daemon->loop);
    cay_router_finish(&daemon->router);
    cay_host_destroy(daemon->host);
    cay_loop_destroy(daemon->loop);
}

static int serve(struct daemon *daemon, const char *const *argv)
{
    struct cay_error err = {};
    daemon->heirs = cay_heirs_receive();
    cayd_replace_init(&daemon->replace, argv);
    cay_crash_arm(getenv("CAY_TEST_CRASH"));
    const struct cay_log_options log_options = {
        .level_min = (enum cay_log_level)(CAY_DEBUG + daemon->conf.log_level),
        .format = (enum cay_log_format)(CAY_LOG_LOGFMT + daemon->conf.log_format),
    };
    cay_log_setup(&log_options);
    cayd_harden();
    raise_descriptor_limit(daemon);
    return_large_buffers();
    bool is_started = start(daemon, &err);
    if (is_started) {
        print_ready(daemon);
        cayd_notify("READY=1");
        cay_loop_run(daemon->loop);
        cay_log(CAY_INFO, "cayd.stopped");
    } else {
        fprintf(stderr, "cayd: %s\n", err.text);
    }
    stop(daemon);
    if (daemon->is_replacing) {
        cayd_replace_exec(&daemon->replace, daemon->heirs, &err);
        fprintf(stderr, "cayd: %s\n", err.text);
        is_started = false;
    }
    cayd_replace_finish(&daemon->replace);
    cay_heirs_destroy(daemon->heirs);
    return is_started ? EXIT_SUCCESS : EXIT_FAILURE;
}

static void print(void (*write)(const struct cay_conf_entry *, size_t, struct cay_buf *))
{
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_buf_init(&text, 1 << 20);
    write(cayd_conf_entries, cayd_conf_entry_count, &text);
    fwrite(text.data, 1, text.len, stdout);
}

/* For the crash tests, which must reach every one of them. */
static void list_crash_points(void)
{
    size_t count = 0;
    const struct cay_crash_point *points = cay_crash_points(&count);
    for (size_t i = 0; i < count; i++)
        printf("%s\n", points[i].name);
}

/* For the manual and the tests: state, verb, why not, and what comes of it. */
static void list_states(void)
{
    for (int state = 1; state < CAY_SESSION_STATES; state++) {
        for (int verb = 1; verb < CAY_SESSION_VERBS; verb++) {
            const struct cay_session_cell *cell =
                cay_session_cell((enum cay_session_state)state, (enum cay_session_verb)verb);
            printf("%s %s %s %s\n", cay_session_state_name((enum cay_session_state)state),
                   cay_session_verb_name((enum cay_session_verb)verb),
                   cell->refusal ? cay_reason_info(cell->refusal)->name : "-",
                   cay_session_state_name(cell->next));
        }
    }
}

static bool offers(const struct cayd_conf *conf, const char *runtime)
{
    bool does = strcmp(conf->host.runtime, runtime) == 0;
    for (size_t i = 0; i < conf->host.runtimes.count; i++)
        does = does || strcmp(conf->host.runtimes.items[i], runtime) == 0;
    return does;
}

static int check(const struct cayd_conf *conf)
{
    cay_auto(cay_buf_finish) struct cay_buf text;
    cay_autofree char *init_path = find_init(conf->init_path);
    const struct cay_doctor_options options = {
        .data_dir = conf->host.data_dir,
        .init_path = init_path,
        .runsc = conf->host.runsc,
        .runsc_platform = conf->host.runsc_platform,
        .needs_gvisor = offers(conf, "gvisor"),
        .network_steering = (enum cay_filter_way)conf->host.network_steering};
    cay_buf_init(&text, 1 << 20);
    bool is_fit = cay_doctor_run(&options, &text);
    fwrite(text.data, 1, text.len, stdout);
    return is_fit ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--list-states") == 0) {
        list_states();
        return EXIT_SUCCESS;
    }
    if (argc == 2 && strcmp(argv[1], "--list-crash-points") == 0) {
        list_crash_points();
        return EXIT_SUCCESS;
    }
    /* Whatever the caller's is: trees that sandboxes cannot read, or that anybody can write to,
     * would be made otherwise. */
    umask(022);
    struct daemon daemon = {};
    struct cay_conf conf;
    struct cay_error err = {};
    int status = EXIT_SUCCESS;
    cay_conf_init(&conf, cayd_conf_entries, cayd_conf_entry_count, &daemon.conf,
                  sizeof(daemon.conf));
    bool is_loaded = cayd_conf_load(&conf, &daemon.conf, argc, (const char *const *)argv, &err);
    if (daemon.conf.help) {
        printf("Usage: cayd [FLAG...]\n\nServes sandboxes for agents on this machine.\n\n");
        print(cay_conf_print_help);
    } else if (daemon.conf.version) {
        printf("cayd %s\n", CAY_VERSION);
    } else if (daemon.conf.print_config_man) {
        print(cay_conf_print_scdoc);
    } else if (!is_loaded) {
        fprintf(stderr, "cayd: %s\nTry 'cayd --help'.\n", err.text);
        status = EXIT_USAGE;
    } else if (daemon.conf.check) {
        status = check(&daemon.conf);
    } else if (daemon.conf.print_config) {
        cay_auto(cay_buf_finish) struct cay_buf text;
        cay_buf_init(&text, 1 << 20);
        cay_conf_print(&conf, &text);
        fwrite(text.data, 1, text.len, stdout);
    } else {
        status = serve(&daemon, (const char *const *)argv);
    }
    cay_conf_finish(&conf);
    return status;
}
