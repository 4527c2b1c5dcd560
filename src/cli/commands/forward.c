/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/cay_v1.h"
#include "base/buf.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/offer.h"
#include "cli/tunnel.h"
#include "client/rpc/client.h"

/*
 * The main thread accepts, and every connection has a thread and a client of its own: none of them
 * waits for another. There is nothing to tidy up, so that a signal just ends the program.
 */

enum {
    PORT_MAX = 65535,
    FORWARDS_MAX = 64,
    CONNECTIONS_MAX = 512, /* at once; who comes then waits to be accepted */
    BACKLOG = 128,
    HOST_BYTES = 256,
};

struct forward {
    char host[HOST_BYTES]; /* to listen on, as given; empty: the default */
    uint16_t local_port;   /* 0: any */
    uint16_t port;
    int fd;
    char address[HOST_BYTES]; /* where it listens */
};

struct forwarder {
    struct cay_output *out;
    struct cay_client *client; /* to be cloned */
    char *session_id;
    struct forward forwards[FORWARDS_MAX];
    size_t count;
    sem_t slots;
    int wake[2];           /* written to when nothing can be forwarded any more */
    pthread_mutex_t mutex; /* of `end` */
    struct cay_error end;  /* why */
};

struct connection {
    struct forwarder *forwarder;
    const struct forward *forward;
    int fd;
};

static bool is_port(struct cay_str text, bool may_be_zero, uint16_t *out_port)
{
    uint64_t port = 0;
    if (cay_str_to_u64(text, PORT_MAX, &port) < 0 || (!port && !may_be_zero))
        return false;
    *out_port = (uint16_t)port;
    return true;
}

/* "8080", "9000:8080", "0.0.0.0:8080", "[::1]:9000:8080". */
static bool parse_forward(const char *text, struct forward *out)
{
    struct cay_str host = {};
    const char *at = text;
    const char *colon = strchr(text, ':');
    uint16_t ignored = 0;
    *out = (struct forward){.fd = -1};
    if (text[0] == '[') {
        const char *end = strstr(text, "]:");
        if (!end)
            return false;
        host = (struct cay_str){text + 1, (size_t)(end - text - 1)};
        at = end + 2;
    } else if (colon && !is_port((struct cay_str){text, (size_t)(colon - text)}, true, &ignored)) {
        host = (struct cay_str){text, (size_t)(colon - text)};
        at = colon + 1;
    }
    if (at != text && (!host.len || host.len >= sizeof(out->host)))
        return false;
    snprintf(out->host, sizeof(out->host), "%.*s", (int)host.len, host.ptr ? host.ptr : "");
    colon = strchr(at, ':');
    if (!colon)
        return is_port(cay_str(at), false, &out->port) &&
               is_port(cay_str(at), false, &out->local_port);
    return is_port((struct cay_str){at, (size_t)(colon - at)}, true, &out->local_port) &&
           is_port(cay_str(colon + 1), false, &out->port);
}

static int listen_on(const struct addrinfo *to)
{
    const int on = 1;
    cay_autoclose int fd =
        socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, to->ai_protocol);
    if (fd < 0)
        return -errno;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, to->ai_addr, to->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0)
        return -errno;
    return cay_take_fd(fd);
}

static void name_address(struct forward *forward)
{
    struct sockaddr_storage address;
    socklen_t len = sizeof(address);
    char host[NI_MAXHOST] = "";
    char port[NI_MAXSERV] = "";
    if (getsockname(forward->fd, (struct sockaddr *)&address, &len) == 0)
        (void)getnameinfo((struct sockaddr *)&address, len, host, sizeof(host), port, sizeof(port),
                          NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(forward->address, sizeof(forward->address),
             address.ss_family == AF_INET6 ? "[%.200s]:%s" : "%.200s:%s", host, port);
}

static bool start_listening(struct forward *forward, struct cay_error *err)
{
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    bool is_any = strcmp(forward->host, "*") == 0;
    const char *host = forward->host[0] ? forward->host : "127.0.0.1";
    struct addrinfo *found = NULL;
    char port[8];
    snprintf(port, sizeof(port), "%u", forward->local_port);
    if (getaddrinfo(is_any ? NULL : host, port, &hints, &found) != 0)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "there is no address '%.60s' to listen on; write one of this machine",
                        host);
    forward->fd = listen_on(found);
    freeaddrinfo(found);
    if (forward->fd >= 0) {
        name_address(forward);
        return true;
    }
    return cay_fail_errno(
        err, forward->fd == -EADDRINUSE ? CAY_R_ALREADY_EXISTS : CAY_R_INVALID_ARGUMENT,
        forward->fd,
        "cannot listen on %.60s port %u (write another one before "
        "the port, such as 0:%u for any)",
        host, forward->local_port, forward->port);
}

/* What makes every further connection fail, too. */
static bool is_final(enum cay_reason reason)
{
    enum cay_connect_code code = cay_reason_info(reason)->code;
    return code == CAY_CODE_NOT_FOUND || code == CAY_CODE_UNAUTHENTICATED ||
           code == CAY_CODE_PERMISSION_DENIED;
}

static void tell_failure(struct connection *self, const struct cay_error *err)
{
    struct forwarder *forwarder = self->forwarder;
    if (err->reason == CAY_R_CANCELED)
        return;
    if (!is_final(err->reason)) {
        cay_auto(cay_buf_finish) struct cay_buf line;
        cay_buf_init(&line, 4096);
        cay_output_clean(&line, cay_str(err->text));
        fprintf(stderr, "cay: port %u: %.*s\n", self->forward->port, (int)line.len, line.data);
        return;
    }
    pthread_mutex_lock(&forwarder->mutex);
    if (!forwarder->end.reason)
        forwarder->end = *err;
    pthread_mutex_unlock(&forwarder->mutex);
    (void)!write(forwarder->wake[1], "x", 1);
}

static void *run_connection(void *state)
{
    cay_autofree struct connection *self = state;
    struct forwarder *forwarder = self->forwarder;
    struct cay_error err = {};
    if (!cay_tunnel_run(forwarder->client, forwarder->session_id, self->forward->port, self->fd,
                        &err))
        tell_failure(self, &err);
    sem_post(&forwarder->slots);
    return NULL;
}

static void accept_one(struct forwarder *forwarder, const struct forward *forward)
{
    const int on = 1;
    while (sem_wait(&forwarder->slots) < 0)
        ;
    int fd = accept4(forward->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        sem_post(&forwarder->slots);
        return;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    struct connection *connection = cay_new(struct connection);
    *connection = (struct connection){.forwarder = forwarder, .forward = forward, .fd = fd};
    pthread_t thread;
    if (pthread_create(&thread, NULL, run_connection, connection) == 0) {
        (void)pthread_detach(thread);
        return;
    }
    fprintf(stderr, "cay: port %u: there is no room for another connection\n", forward->port);
    close(fd);
    free(connection);
    sem_post(&forwarder->slots);
}

/* Ends with an error, or with the program. */
static bool serve(struct forwarder *self, struct cay_error *err)
{
    struct pollfd entries[FORWARDS_MAX + 1] = {};
    for (size_t i = 0; i < self->count; i++)
        entries[i] = (struct pollfd){.fd = self->forwards[i].fd, .events = POLLIN};
    entries[self->count] = (struct pollfd){.fd = self->wake[0], .events = POLLIN};
    for (;;) {
        if (poll(entries, self->count + 1, -1) < 0)
            continue;
        if (entries[self->count].revents) {
            pthread_mutex_lock(&self->mutex);
            *err = self->end;
            pthread_mutex_unlock(&self->mutex);
            return false;
        }
        for (size_t i = 0; i < self->count; i++) {
            if (entries[i].revents)
                accept_one(self, &self->forwards[i]);
        }
    }
}

static void print_json(struct forwarder *self)
{
    cay_auto(cay_buf_finish) struct cay_buf buf;
    cay_buf_init(&buf, 64 * 1024);
    struct cay_json_writer json = {.buf = &buf};
    cay_json_object_begin(&json);
    cay_json_key(&json, "sessionId");
    cay_json_string(&json, cay_str(self->session_id));
    cay_json_key(&json, "forwards");
    cay_json_array_begin(&json);
    for (size_t i = 0; i < self->count; i++) {
        cay_json_object_begin(&json);
        cay_json_key(&json, "address");
        cay_json_string(&json, cay_str(self->forwards[i].address));
        cay_json_key(&json, "port");
        cay_json_i64(&json, self->forwards[i].port);
        cay_json_object_end(&json);
    }
    cay_json_array_end(&json);
    cay_json_object_end(&json);
    cay_output_json(self->out, cay_buf_str(&buf));
}

static void print_forwards(struct forwarder *self)
{
    struct cay_output *out = self->out;
    if (out->is_json) {
        print_json(self);
        return;
    }
    for (size_t i = 0; i < self->count; i++) {
        cay_output_text(out, CAY_STYLE_GOOD, cay_str(self->forwards[i].address));
        cay_output_printf(out, " -> port %u of ", self->forwards[i].port);
        cay_output_text(out, CAY_STYLE_PLAIN, cay_str(self->session_id));
        cay_output_printf(out, "\n");
    }
    (void)fflush(out->file);
}

static bool open_forwards(struct forwarder *self, struct cay_cli *cli, struct cay_error *err)
{
    const struct cay_args *args = &cli->args;
    struct cay_v1_get_session_request request = {.session_id = cay_str(self->session_id)};
    struct cay_v1_get_session_response response = {};
    if (args->word_count - 1 > FORWARDS_MAX)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "one 'cay forward' forwards at most %d ports; start another one for more",
                        FORWARDS_MAX);
    for (size_t i = 1; i < args->word_count; i++) {
        if (!parse_forward(args->words[i], &self->forwards[i - 1]))
            return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                            "'%.60s' is not a port to forward; write PORT, LOCAL:PORT or "
                            "BIND:LOCAL:PORT, such as 9000:8080",
                            args->words[i]);
    }
    if (!cay_cli_call(cli, CAY_V1_SANDBOX_SERVICE_GET_SESSION, &request, &response, err))
        return false;
    for (; self->count + 1 < args->word_count; self->count++) {
        if (!start_listening(&self->forwards[self->count], err))
            return false;
    }
    return true;
}

static bool run_forward(struct cay_cli *cli, struct cay_error *err)
{
    /* Threads use it until the program has ended. */
    static struct forwarder self = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    self.out = &cli->out;
    self.session_id = cay_strdup(cli->args.words[0]);
    if (!open_forwards(&self, cli, err))
        return false;
    self.client = cay_client_ref(cli->client);
    if (pipe2(self.wake, O_CLOEXEC | O_NONBLOCK) < 0 || sem_init(&self.slots, 0, CONNECTIONS_MAX))
        return cay_fail_errno(err, CAY_R_INTERNAL, -errno, "cannot prepare to forward");
    print_forwards(&self);
    return serve(&self, err);
}

const struct cay_command cay_command_forward = {
    .name = "forward",
    .arguments = "SESSION [[BIND:]LOCAL:]PORT...",
    .summary = "Reach ports of a sandbox at ports of this machine, wherever the daemon is",
    .details =
        "It carries TCP connections through the daemon, with its key and its TLS, until Ctrl-C\n"
        "ends it. LOCAL is the port here: the same as PORT if it is not given, any free one\n"
        "if it is 0. BIND is the address here, 127.0.0.1 if it is not given. A connection\n"
        "wakes a sandbox that sleeps.",
    .examples = "  cay forward demo 8080\n"
                "  cay forward demo 5433:5432 0:6379",
    .group = CAY_GROUP_SANDBOX,
    .words_min = 2,
    .words_max = UINT32_MAX,
    .run = run_forward,
    .complete = cay_session_offer,
};
