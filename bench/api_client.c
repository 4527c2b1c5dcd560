/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Calls an API one request at a time and says how long each took, as the caller sees it: from the
 * first byte of the request to the last of the answer, over one kept connection.
 *
 *     api_client ADDRESS [KEY] < SCRIPT
 *
 * ADDRESS is a port of 127.0.0.1 or a socket's path. If it is a URL ("unix:" and so on), libcay
 * makes the calls: what that costs is the difference to the same script without it. Every line of
 * the script is a call: label, path, JSON body and, if wanted, what must be in the answer, with
 * tabs between. Calls labelled "-" are made but not counted. A line "sleep", tab, milliseconds
 * waits. One line per label comes out: label, count, and the shortest, median and 99th percentile
 * in microseconds. A call that is answered with anything but 200 ends the run.
 *
 * All requests are put together before the first is sent.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "cay/client.h"

enum { CALLS_MAX = 100'000, LABELS_MAX = 32, ANSWER_BYTES_MAX = 32 * 1024 * 1024 };

struct call {
    const char *label; /* NULL: not counted */
    const char *expected;
    const char *path;
    const char *body;
    char *request;
    size_t request_len;
    long sleep_ms;
    double took_us;
};

static struct call calls[CALLS_MAX];
static size_t call_count;
static char *answer;

[[gnu::noreturn]] static void die(const char *what)
{
    fprintf(stderr, "api_client: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void read_script(const char *key)
{
    char *line = NULL;
    size_t size = 0;
    ssize_t len = 0;
    while ((len = getline(&line, &size, stdin)) > 0) {
        if (call_count == CALLS_MAX)
            die("the script is too long");
        line[strcspn(line, "\n")] = '\0';
        struct call *call = &calls[call_count++];
        char *rest = line;
        const char *label = strsep(&rest, "\t");
        const char *path = strsep(&rest, "\t");
        if (path && strcmp(label, "sleep") == 0) {
            call->sleep_ms = strtol(path, NULL, 10);
            continue;
        }
        const char *body = strsep(&rest, "\t");
        if (!body)
            die("a line of the script has no body");
        call->label = strcmp(label, "-") == 0 ? NULL : strdup(label);
        call->expected = rest ? strdup(rest) : NULL;
        call->path = strdup(path);
        call->body = strdup(body);
        int written = asprintf(&call->request,
                               "POST %s HTTP/1.1\r\nhost: localhost\r\n%s%s%s"
                               "content-type: application/json\r\ncontent-length: %zu\r\n\r\n%s",
                               path, key ? "authorization: Bearer " : "", key ? key : "",
                               key ? "\r\n" : "", strlen(body), body);
        if (written < 0)
            die("out of memory");
        call->request_len = (size_t)written;
    }
    free(line);
}

static int dial(const char *address)
{
    int fd = socket(*address == '/' ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int status = -1;
    if (*address == '/') {
        struct sockaddr_un to = {.sun_family = AF_UNIX};
        snprintf(to.sun_path, sizeof(to.sun_path), "%s", address);
        status = connect(fd, (struct sockaddr *)&to, sizeof(to));
    } else {
        struct sockaddr_in to = {
            .sin_family = AF_INET,
            .sin_port = htons((uint16_t)strtoul(address, NULL, 10)),
            .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
        };
        int on = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        status = connect(fd, (struct sockaddr *)&to, sizeof(to));
    }
    if (status < 0)
        die(address);
    return fd;
}

/* The whole answer's length once its end is in sight, 0 until then. */
static size_t answer_len(size_t have)
{
    answer[have] = '\0';
    const char *head_end = strstr(answer, "\r\n\r\n");
    if (!head_end)
        return 0;
    size_t head_len = (size_t)(head_end - answer) + 4;
    for (const char *line = strstr(answer, "\r\n"); line < head_end;
         line = strstr(line + 2, "\r\n")) {
        if (strncasecmp(line + 2, "content-length:", 15) == 0)
            return head_len + strtoul(line + 17, NULL, 10);
    }
    errno = EPROTO;
    die("an answer without length");
}

static void receive(int fd)
{
    size_t have = 0;
    size_t wanted = 0;
    while (!wanted || have < wanted) {
        ssize_t got = read(fd, answer + have, ANSWER_BYTES_MAX - have);
        if (got <= 0)
            die("the server hung up");
        have += (size_t)got;
        if (!wanted)
            wanted = answer_len(have);
    }
    answer[have] = '\0';
}

static void check(const struct call *call, bool is_good, const char *text)
{
    if (is_good && (!call->expected || strstr(text, call->expected)))
        return;
    fprintf(stderr, "api_client: %s\n-> %.2000s\n", call->request, text);
    exit(1);
}

static void make_call(int fd, struct call *call)
{
    double start = now_us();
    for (size_t sent = 0; sent < call->request_len;) {
        ssize_t put = write(fd, call->request + sent, call->request_len - sent);
        if (put <= 0)
            die("send");
        sent += (size_t)put;
    }
    receive(fd);
    call->took_us = now_us() - start;
    check(call, strncmp(answer, "HTTP/1.1 200 ", 13) == 0, answer);
}

static void ask(struct cay_client *client, struct call *call)
{
    struct cay_text text = {};
    struct cay_error err = {};
    double start = now_us();
    bool is_done = cay_client_ask(client, call->path, call->body, NULL, &text, &err);
    call->took_us = now_us() - start;
    check(call, is_done, is_done ? text.data : err.text);
    cay_text_free(&text);
}

static struct cay_client *open_client(const char *url, const char *key)
{
    struct cay_client_options options = CAY_CLIENT_OPTIONS;
    struct cay_client *client = NULL;
    struct cay_error err = {};
    options.url = url;
    options.key = key;
    if (cay_client_open(&options, &client, &err))
        return client;
    fprintf(stderr, "api_client: %s\n", err.text);
    exit(1);
}

static int by_size(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;
    return left < right ? -1 : left > right;
}

static void report(const char *label)
{
    double *took = calloc(call_count, sizeof(*took));
    size_t count = 0;
    for (size_t i = 0; took && i < call_count; i++) {
        if (calls[i].label && strcmp(calls[i].label, label) == 0)
            took[count++] = calls[i].took_us;
    }
    if (!took || !count)
        die("nothing was counted");
    qsort(took, count, sizeof(*took), by_size);
    printf("%s\t%zu\t%.2f\t%.2f\t%.2f\n", label, count, took[0], took[count / 2],
           took[(count * 99) / 100]);
    free(took);
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: %s ADDRESS [KEY] < SCRIPT\n", argv[0]);
        return 2;
    }
    const char *labels[LABELS_MAX];
    size_t label_count = 0;
    answer = malloc(ANSWER_BYTES_MAX + 1);
    if (!answer)
        die("out of memory");
    const char *key = argc > 2 ? argv[2] : NULL;
    read_script(key);
    struct cay_client *client = strchr(argv[1], ':') ? open_client(argv[1], key) : NULL;
    int fd = client ? -1 : dial(argv[1]);
    for (size_t i = 0; i < call_count; i++) {
        if (calls[i].sleep_ms)
            usleep((useconds_t)calls[i].sleep_ms * 1000);
        else if (client)
            ask(client, &calls[i]);
        else
            make_call(fd, &calls[i]);
        size_t at = 0;
        while (calls[i].label && at < label_count && strcmp(labels[at], calls[i].label) != 0)
            at++;
        if (calls[i].label && at == label_count && label_count < LABELS_MAX)
            labels[label_count++] = calls[i].label;
    }
    for (size_t i = 0; i < label_count; i++)
        report(labels[i]);
    cay_client_close(client);
    if (fd >= 0)
        close(fd);
    return 0;
}
