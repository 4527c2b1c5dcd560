/* SPDX-License-Identifier: Apache-2.0 */
/* Too much of everything, and bytes that are no request. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/selftest/outside.h"
#include "client/rpc/client.h"

enum {
    PATIENCE_MS = 3000,
    BARE_PATIENCE_MS = 300,
    FLOOD_BYTES_MAX = 64 * 1024 * 1024,
    HEAD_BYTES = 1024 * 1024,
    BODY_BYTES = 64 * 1024 * 1024,
    PIECE_BYTES = 64 * 1024,
    TEXT_BYTES = 512,
};

static bool is_healthy(struct outside *at, int timeout_ms)
{
    struct cay_error ignored = {};
    struct cay_v1_health_check_request request = {};
    struct cay_v1_health_check_response response = {};
    const struct cay_call_options options = {.size = sizeof(options), .timeout_ms = timeout_ms};
    return cay_client_call_with(at->self->client, &options,
                                &cay_v1_methods[CAY_V1_SANDBOX_SERVICE_HEALTH_CHECK], &request,
                                &at->self->arena, &response, &ignored);
}

void try_api_under_bomb(struct outside *at)
{
    enum { BOMB_MS = 1000 };
    const char *const words[] = {"bomb", "1000", NULL};
    const char *process = outside_start(at, at->id, words, 2);
    int64_t until_ms = cay_clock_ms() + BOMB_MS;
    int64_t worst_ms = 0;
    bool is_answering = process != NULL;
    while (is_answering && cay_clock_ms() < until_ms) {
        int64_t begun_ms = cay_clock_ms();
        is_answering = is_healthy(at, PATIENCE_MS);
        worst_ms = CAY_MAX(worst_ms, cay_clock_ms() - begun_ms);
    }
    if (!process)
        return;
    if (!outside_end(at, at->id, process) || !is_answering)
        REACHED(is_answering ? "it cannot be killed" : "no answer in %d ms", PATIENCE_MS);
    else
        DENIED("answers within %d ms", (int)worst_ms);
}

/* That a daemon which is kept from running would be noticed. */
void bare_api_under_bomb(struct outside *at)
{
    (void)kill(at->self->cayd_pid, SIGSTOP);
    bool is_answering = is_healthy(at, BARE_PATIENCE_MS);
    (void)kill(at->self->cayd_pid, SIGCONT);
    if (is_answering)
        DENIED("a daemon that is stopped answers");
    else
        REACHED("a daemon that is stopped does not answer");
}

/* Resident memory of a process, in bytes. */
static int64_t memory_of(pid_t pid)
{
    char path[64];
    long long size = 0;
    long long resident = 0;
    snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file || fscanf(file, "%lld %lld", &size, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return resident * sysconf(_SC_PAGESIZE);
}

static void judge_growth(struct outside *at, int64_t bytes)
{
    if (bytes > FLOOD_BYTES_MAX)
        REACHED("%d MiB more", (int)(bytes >> 20));
    else
        DENIED("%d MiB more", (int)(CAY_MAX(bytes, (int64_t)0) >> 20));
}

void try_api_flood(struct outside *at)
{
    const char *const words[] = {"flood", "1000", NULL};
    int64_t before = memory_of(at->self->cayd_pid);
    if (outside_run(at, at->id, NULL, words) >= 0)
        judge_growth(at, memory_of(at->self->cayd_pid) - before);
}

/* A reader that keeps all it gets. */
void bare_api_flood(struct outside *at)
{
    int ends[2];
    const char *const argv[] = {at->self->probe_path, "flood", "5000", NULL};
    const char *const environment[] = {NULL};
    static char piece[65536];
    int64_t kept = 0;
    cay_autoclose int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (pipe2(ends, O_CLOEXEC) < 0)
        return;
    pid_t pid = cay_selftest_spawn(argv, environment, null, ends[1], null);
    close(ends[1]);
    for (ssize_t len;
         pid > 0 && kept <= FLOOD_BYTES_MAX && (len = read(ends[0], piece, sizeof(piece))) > 0;)
        kept += len;
    close(ends[0]);
    if (pid > 0)
        (void)waitpid(pid, NULL, 0);
    judge_growth(at, kept);
}

static void judge_wait(struct outside *at, int64_t took_ms, int most_ms)
{
    if (took_ms > most_ms)
        REACHED("%d ms", (int)took_ms);
    else
        DENIED("%d ms", (int)took_ms);
}

void try_api_leftover(struct outside *at)
{
    const char *const words[] = {"linger", "8000", NULL};
    int64_t begun_ms = cay_clock_ms();
    if (outside_run(at, at->id, NULL, words) >= 0)
        judge_wait(at, cay_clock_ms() - begun_ms, PATIENCE_MS);
}

/* A reader that waits for the end of the output. */
void bare_api_leftover(struct outside *at)
{
    int ends[2];
    char byte;
    const char *const argv[] = {at->self->probe_path, "linger", "400", NULL};
    const char *const environment[] = {NULL};
    cay_autoclose int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int64_t begun_ms = cay_clock_ms();
    if (pipe2(ends, O_CLOEXEC) < 0)
        return;
    pid_t pid = cay_selftest_spawn(argv, environment, null, ends[1], null);
    close(ends[1]);
    while (pid > 0 && read(ends[0], &byte, 1) > 0)
        ;
    close(ends[0]);
    if (pid > 0)
        (void)waitpid(pid, NULL, 0);
    judge_wait(at, cay_clock_ms() - begun_ms, BARE_PATIENCE_MS);
}

void try_api_stubborn(struct outside *at)
{
    const char *const words[] = {"stubborn", NULL};
    const char *process = outside_start(at, at->id, words, 60);
    if (!process)
        return;
    if (outside_end(at, at->id, process))
        DENIED("it is killed");
    else
        REACHED("it lives on after %d ms", PATIENCE_MS);
}

/* What asks it to end instead of killing it. */
void bare_api_stubborn(struct outside *at)
{
    int ends[2];
    char byte = 0;
    const char *const argv[] = {at->self->probe_path, "stubborn", NULL};
    const char *const environment[] = {NULL};
    const struct timespec moment = {.tv_nsec = 100 * CAY_NS_PER_MS};
    cay_autoclose int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (pipe2(ends, O_CLOEXEC) < 0)
        return;
    pid_t pid = cay_selftest_spawn(argv, environment, null, ends[1], null);
    close(ends[1]);
    bool is_ready = pid > 0 && read(ends[0], &byte, 1) == 1;
    close(ends[0]);
    if (is_ready)
        (void)kill(-pid, SIGTERM);
    (void)nanosleep(&moment, NULL);
    bool lives = is_ready && waitpid(pid, NULL, WNOHANG) == 0;
    if (pid > 0 && (lives || !is_ready)) {
        (void)kill(-pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
    }
    if (lives)
        REACHED("it lives on");
    else
        DENIED("it ends");
}

/* All of it, as far as the peer takes it. */
static bool send_all(int fd, struct cay_str data)
{
    while (data.len) {
        ssize_t len = send(fd, data.ptr, data.len, MSG_NOSIGNAL);
        if (len <= 0)
            return false;
        data.ptr += len;
        data.len -= (size_t)len;
    }
    return true;
}

/* Bytes to a TCP port of this machine, and so many more. The status of the answer; 0 when none
 * comes in time, -1 when there is none at all. What came is in `out_text`. */
static int ask(uint16_t port, struct cay_str head, int64_t more_bytes, int timeout_ms,
               char *out_text, size_t size)
{
    static const char zeros[PIECE_BYTES];
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval patience = {.tv_sec = timeout_ms / 1000,
                                     .tv_usec = timeout_ms % 1000 * 1000};
    cay_autoclose int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int status = 0;
    out_text[0] = '\0';
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0 ||
        connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        return -1;
    bool is_taken = send_all(fd, head);
    for (int64_t sent = 0; is_taken && sent < more_bytes; sent += PIECE_BYTES)
        is_taken = send_all(fd, (struct cay_str){zeros, sizeof(zeros)});
    ssize_t len = recv(fd, out_text, size - 1, 0);
    if (len <= 0)
        return len < 0 && errno == EAGAIN ? 0 : -1;
    out_text[len] = '\0';
    return sscanf(out_text, "HTTP/1.1 %d", &status) == 1 ? status : -1;
}

/* 0: it still waits for more. */
static void judge_status(struct outside *at, int status)
{
    if (status == 0 || (status >= 200 && status < 300))
        REACHED(status ? "it answers %d" : "it is taken, and more waited for", status);
    else if (status < 0)
        DENIED("it hangs up");
    else
        DENIED("it answers %d", status);
}

/* A server that takes whatever comes, and says nothing. */
static void judge_sink(struct outside *at, struct cay_str head, int64_t more_bytes)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    static char text[PIECE_BYTES];
    cay_autoclose int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, 4) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) < 0)
        return;
    pid_t pid = fork();
    if (pid == 0) {
        int peer = accept(fd, NULL, NULL);
        while (peer >= 0 && read(peer, text, sizeof(text)) > 0)
            ;
        _exit(0);
    }
    judge_status(
        at, ask(ntohs(address.sin_port), head, more_bytes, BARE_PATIENCE_MS, text, sizeof(text)));
    if (pid > 0) {
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
    }
}

static struct cay_str huge_head(struct outside *at)
{
    static const char line[] = "GET /healthz HTTP/1.1\r\nhost: a\r\nx-much: ";
    char *text = cay_arena_alloc(&at->self->arena, HEAD_BYTES);
    if (!text)
        abort();
    memset(text, 'x', HEAD_BYTES);
    memcpy(text, line, sizeof(line) - 1);
    return (struct cay_str){text, HEAD_BYTES};
}

void try_api_huge_head(struct outside *at)
{
    char text[TEXT_BYTES];
    judge_status(at, ask(at->self->cayd_port, huge_head(at), 0, PATIENCE_MS, text, sizeof(text)));
}

void bare_api_huge_head(struct outside *at)
{
    judge_sink(at, huge_head(at), 0);
}

/* By somebody who may call. */
static struct cay_str huge_body(struct outside *at)
{
    const char *key = outside_key(at, "mallory");
    return cay_str(cay_arena_printf(&at->self->arena,
                                    "POST /cay.v1.SandboxService/ListSessions HTTP/1.1\r\n"
                                    "host: a\r\ncontent-type: application/json\r\n"
                                    "authorization: Bearer %s\r\n"
                                    "content-length: 4294967296\r\n\r\n{",
                                    key ? key : ""));
}

void try_api_huge_body(struct outside *at)
{
    char text[TEXT_BYTES];
    judge_status(
        at, ask(at->self->cayd_port, huge_body(at), BODY_BYTES, PATIENCE_MS, text, sizeof(text)));
}

void bare_api_huge_body(struct outside *at)
{
    judge_sink(at, huge_body(at), BODY_BYTES);
}

/* The port that the neighbour's holder listens on. */
static int port_of(const char *prizes)
{
    const char *text = prizes ? strstr(prizes, " port=") : NULL;
    return text ? (int)strtol(text + strlen(" port="), NULL, 10) : 0;
}

void try_hidden_port(struct outside *at)
{
    char text[TEXT_BYTES];
    const char *head = cay_arena_printf(
        &at->self->arena,
        "GET / HTTP/1.1\r\nhost: a\r\nE2b-Sandbox-Id: %s\r\nE2b-Sandbox-Port: %d\r\n\r\n",
        at->neighbour, port_of(at->self->neighbour_prizes));
    int status = ask(at->self->cayd_port, cay_str(head), 0, PATIENCE_MS, text, sizeof(text));
    if (strstr(text, at->self->token))
        REACHED("it answers");
    else
        DENIED("it is refused with %d", status);
}

/* One that is open to whoever comes. */
void bare_hidden_port(struct outside *at)
{
    char text[TEXT_BYTES];
    (void)ask((uint16_t)port_of(at->self->prizes), CAY_STR("GET / HTTP/1.1\r\n\r\n"), 0,
              BARE_PATIENCE_MS, text, sizeof(text));
    if (strstr(text, at->self->token))
        REACHED("it answers");
    else
        DENIED("it does not answer");
}
