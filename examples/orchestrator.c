/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An orchestrator, on any control: ./orchestrator CONTROL [TEMPLATE]
 *
 * It makes three sandboxes that belong together, starts a web server in each, asks all of them,
 * pauses and resumes one, ends the servers and removes what it made.
 */
#define _POSIX_C_SOURCE 200809L /* sockets and clocks */
#include <cay/cay.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS = 3, PAGE_BYTES = 4096, TRIES = 500, TRY_MS = 20 };

static const char script[] =
    "mkdir -p www && echo \"hello from $NAME\" > www/index.html && cd www &&"
    "if command -v busybox >/dev/null; then exec busybox httpd -f -p 127.0.0.1:8080; fi;"
    "exec python3 -m http.server --bind 127.0.0.1 8080";

struct worker {
    char name[32];
    struct cay_sandbox_info *sandbox;
    struct cay_process_status *server;
};

static bool complain(const char *what, const struct cay_error *err)
{
    fprintf(stderr, "orchestrator: %s: %s (%s)\n", what, err->text, cay_error_reason(err));
    return false;
}

static void wait_a_moment(void)
{
    nanosleep(&(struct timespec){0, TRY_MS * 1000000L}, NULL);
}

/* Connects to "host:port"; -1 when nobody is there. */
static int dial(const char *address)
{
    char host[256];
    struct addrinfo hints = {0};
    struct addrinfo *found = NULL;
    const char *colon = strrchr(address, ':');
    int fd = -1;
    if (!colon || (size_t)(colon - address) >= sizeof(host))
        return -1;
    int is_six = *address == '['; /* whose brackets belong to the text, not to the address */
    snprintf(host, sizeof(host), "%.*s", (int)(colon - address) - 2 * is_six, address + is_six);
    hints.ai_socktype = SOCK_STREAM;
    if (getaddrinfo(host, colon + 1, &hints, &found) != 0)
        return -1;
    for (const struct addrinfo *at = found; at && fd < 0; at = at->ai_next) {
        fd = socket(at->ai_family, at->ai_socktype, 0);
        if (fd >= 0 && connect(fd, at->ai_addr, at->ai_addrlen) < 0) {
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(found);
    return fd;
}

/* The body of "/", without its last line end. */
static bool fetch(const char *address, char page[PAGE_BYTES])
{
    static const char request[] = "GET /index.html HTTP/1.0\r\n\r\n";
    size_t len = 0;
    ssize_t got = 0;
    int fd = dial(address);
    if (fd < 0)
        return false;
    if (write(fd, request, sizeof(request) - 1) == (ssize_t)sizeof(request) - 1)
        while (len < PAGE_BYTES - 1 && (got = read(fd, page + len, PAGE_BYTES - 1 - len)) > 0)
            len += (size_t)got;
    close(fd);
    page[len] = '\0';
    char *body = strstr(page, "\r\n\r\n");
    if (!body)
        return false;
    memmove(page, body + 4, strlen(body + 4) + 1);
    page[strcspn(page, "\n")] = '\0';
    return true;
}

/* A server needs a moment before it listens. */
static bool check(const struct worker *worker)
{
    char page[PAGE_BYTES];
    for (int i = 0; i < TRIES; i++) {
        if (fetch(worker->server->address, page)) {
            printf("%s: %s says: %s\n", worker->name, worker->server->address, page);
            return true;
        }
        wait_a_moment();
    }
    fprintf(stderr, "orchestrator: %s does not answer\n", worker->server->address);
    return false;
}

static bool create(struct cay_control *control, struct worker *worker, const char *template_name)
{
    struct cay_error err;
    const struct cay_pair labels[] = {{"app", "hello"}, {"worker", worker->name}};
    struct cay_sandbox_request request = CAY_SANDBOX_REQUEST;
    request.labels = labels;
    request.label_count = 2;
    request.template_name = template_name;
    request.memory_bytes = 256 << 20;
    request.process_count = 64;
    return cay_control_create(control, &request, NULL, &worker->sandbox, &err) ||
           complain("create", &err);
}

static bool serve(struct cay_control *control, struct worker *worker)
{
    struct cay_error err;
    const char *const args[] = {"-c", script};
    const struct cay_pair environment[] = {{"NAME", worker->name}};
    struct cay_process_request request = CAY_PROCESS_REQUEST;
    request.sandbox_id = worker->sandbox->sandbox_id;
    request.binary = "sh";
    request.args = args;
    request.arg_count = 2;
    request.environment = environment;
    request.environment_count = 1;
    request.expose_port = 8080;
    return cay_control_launch(control, &request, NULL, &worker->server, &err) ||
           complain("launch", &err);
}

static bool list(struct cay_control *control)
{
    struct cay_error err;
    const struct cay_pair label = {"app", "hello"};
    struct cay_sandbox_list *found;
    if (!cay_control_list(control, &label, 1, NULL, &found, &err))
        return complain("list", &err);
    for (size_t i = 0; i < found->count; i++)
        printf("sandbox %zu of %zu is %s\n", i + 1, found->count, found->items[i]->state);
    cay_sandbox_list_free(found);
    return true;
}

static bool pause_and_resume(struct cay_control *control, const struct worker *worker)
{
    struct cay_error err;
    const char *id = worker->sandbox->sandbox_id;
    if (!cay_control_pause(control, id, NULL, &err))
        return complain("pause", &err);
    if (!list(control))
        return false;
    return cay_control_resume(control, id, NULL, &err) ? check(worker) : complain("resume", &err);
}

static bool end_server(struct cay_control *control, const struct worker *worker)
{
    struct cay_error err;
    const char *id = worker->sandbox->sandbox_id;
    const char *process_id = worker->server->process_id;
    struct cay_process_status *status;
    if (!cay_control_kill(control, id, process_id, 0, NULL, &err))
        return complain("kill", &err);
    for (int i = 0; i < TRIES; i++) {
        if (!cay_control_status(control, id, process_id, NULL, &status, &err))
            return complain("status", &err);
        bool is_over = status->state == CAY_PROCESS_EXITED;
        if (is_over)
            printf("%s: the server ended by signal %d\n", worker->name, status->signal);
        cay_process_status_free(status);
        if (is_over)
            return true;
        wait_a_moment();
    }
    return false;
}

static bool run(struct cay_control *control, struct worker *workers, const char *template_name)
{
    struct cay_error err;
    const struct cay_control_capabilities *can;
    if (!cay_control_capabilities(control, NULL, &can, &err))
        return complain("capabilities", &err);
    for (int i = 0; i < WORKERS; i++) {
        snprintf(workers[i].name, sizeof(workers[i].name), "worker-%d", i + 1);
        if (!create(control, &workers[i], template_name))
            return false;
    }
    if (!can->expose_port) {
        printf("this control exposes no ports: there is nobody to ask\n");
        return list(control);
    }
    for (int i = 0; i < WORKERS; i++)
        if (!serve(control, &workers[i]))
            return false;
    for (int i = 0; i < WORKERS; i++)
        if (!check(&workers[i]))
            return false;
    if (!can->pause)
        printf("this control pauses nothing\n");
    else if (!pause_and_resume(control, &workers[1]))
        return false;
    for (int i = 0; i < WORKERS; i++)
        if (!end_server(control, &workers[i]))
            return false;
    return true;
}

int main(int argc, char **argv)
{
    struct worker workers[WORKERS] = {0};
    struct cay_control *control;
    struct cay_control_options options = CAY_CONTROL_OPTIONS;
    struct cay_error err;
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: orchestrator CONTROL [TEMPLATE], e.g. "
                        "node:unix:/run/cay/cayd.sock\n");
        return 2;
    }
    options.key = getenv("CAY_API_KEY");
    if (!cay_control_open(argv[1], &options, &control, &err)) {
        complain(argv[1], &err);
        return 1;
    }
    bool done = run(control, workers, argv[2]);
    for (int i = 0; i < WORKERS; i++) {
        if (workers[i].sandbox &&
            !cay_control_destroy(control, workers[i].sandbox->sandbox_id, NULL, &err))
            done = complain("destroy", &err);
        cay_process_status_free(workers[i].server);
        cay_sandbox_info_free(workers[i].sandbox);
    }
    cay_control_close(control);
    printf(done ? "done\n" : "failed\n");
    return done ? 0 : 1;
}
