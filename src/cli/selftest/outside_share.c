/* SPDX-License-Identifier: Apache-2.0 */
/* What sandboxes and owners share: workers, what the kernel counts, the start of programs. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "api/noun.h"
#include "base/clock.h"
#include "cli/selftest/outside.h"
#include "client/rpc/client.h"

#define SPUN_LIMIT 0.05
#define SPUN_MS    "1000"
#define SPINNERS   "16"

enum {
    PATIENCE_MS = 3000,
    SPUN_PERCENT_MAX = 15, /* three times the limit: the kernel gives it in slices */
    HELD_MS = 15'000,      /* the daemon looks after starts that take long, and is given time to */
    BARE_HELD_MS = 300,
    NOBODY_ELSE = 61'234,
    SEARCHES = 24,
    SEARCHED_BYTES = 64 * 1024,
    TEXT_BYTES = 512,
};

static bool run_some_bare(struct outside *at)
{
    const char *const words[] = {"some", NULL};
    return outside_run_bare(at, NULL, words) == 0;
}

void try_api_exhaust(struct outside *at)
{
    const char *const words[] = {"exhaust", "/tmp/exhausted", NULL};
    const char *const some[] = {"some", NULL};
    const char *process = outside_start(at, at->id, words, 30);
    if (!process || !outside_await(at, at->id, "/tmp/exhausted"))
        return;
    if (!run_some_bare(at))
        REACHED("there is nothing left for the host");
    else if (outside_run(at, at->neighbour, NULL, some) != 0)
        REACHED("there is nothing left for another sandbox");
    else
        DENIED("there is enough for others");
    if (!outside_end(at, at->id, process))
        REACHED("it cannot be killed");
}

/* As a user of the host that both are. */
void bare_api_exhaust(struct outside *at)
{
    const char *dir = outside_dir(at, "exhaust");
    const char *ready = cay_arena_printf(&at->self->arena, "%s/ready", dir);
    const char *const all[] = {at->self->probe_path, "exhaust", "ready", NULL};
    const char *const some[] = {at->self->probe_path, "some", NULL};
    if (!dir || chown(dir, NOBODY_ELSE, NOBODY_ELSE) < 0)
        return;
    pid_t pid = outside_spawn_as(at, NOBODY_ELSE, dir, all);
    if (pid > 0 && outside_await_bare(ready)) {
        int status = 0;
        pid_t other = outside_spawn_as(at, NOBODY_ELSE, dir, some);
        while (other > 0 && waitpid(other, &status, 0) < 0 && errno == EINTR)
            ;
        if (other > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 1)
            REACHED("there is nothing left for another of that user");
        else
            DENIED("there is enough for another of that user");
    }
    outside_kill(pid);
}

/* What the others on the machine do can only lower it. */
static void judge_spinning(struct outside *at, int64_t used_ms, int64_t took_ms)
{
    if (used_ms * 100 > took_ms * SPUN_PERCENT_MAX)
        REACHED("%d ms of them in %d ms", (int)used_ms, (int)took_ms);
    else
        DENIED("%d ms of them in %d ms", (int)used_ms, (int)took_ms);
}

/* Of the processors, as the host counts it; -1 when it does not. */
static int64_t used_by(struct outside *at, const char *id)
{
    struct cay_error ignored = {};
    struct cay_v1_get_usage_request request = {.session_id = cay_str(id)};
    struct cay_v1_get_usage_response response = {};
    if (!cay_selftest_call(at->self, CAY_V1_SANDBOX_SERVICE_GET_USAGE, &request, &response,
                           &ignored) ||
        response.sessions.count != 1 || !response.sessions.items[0].usage->cpu_time)
        return -1;
    return cay_noun_duration_ms(response.sessions.items[0].usage->cpu_time);
}

void try_processors(struct outside *at)
{
    const struct cay_v1_resource_limits limits = {.has_cpus = true, .cpus = SPUN_LIMIT};
    const char *const words[] = {"spin", SPUN_MS, SPINNERS, NULL};
    const char *id = outside_make(at, "spinning", &limits);
    if (!id)
        return;
    int64_t before_ms = used_by(at, id);
    int64_t begun_ms = cay_clock_ms();
    if (before_ms < 0)
        ABSENT("nobody counts here");
    else if (outside_run(at, id, NULL, words) == 0)
        judge_spinning(at, used_by(at, id) - before_ms, cay_clock_ms() - begun_ms);
    cay_selftest_destroy(at->self, id);
}

static int64_t used_by_children(void)
{
    struct rusage usage = {};
    (void)getrusage(RUSAGE_CHILDREN, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
}

void bare_processors(struct outside *at)
{
    const char *const words[] = {"spin", SPUN_MS, SPINNERS, NULL};
    int64_t before_ms = used_by_children();
    int64_t begun_ms = cay_clock_ms();
    if (outside_run_bare(at, NULL, words) == 0)
        judge_spinning(at, used_by_children() - before_ms, cay_clock_ms() - begun_ms);
}

static void read_bare(const char *path, char text[TEXT_BYTES])
{
    cay_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, text, TEXT_BYTES - 1);
    text[CAY_MAX(len, (ssize_t)0)] = '\0';
}

/* Who starts a program that somebody has a lease on must not wait for that one. */
void try_api_held_start(struct outside *at)
{
    const char *const words[] = {"lease", "/tmp/leased", "/tmp/lease-ready", NULL};
    const char *const held[] = {"/tmp/leased", "some", NULL};
    struct cay_selftest_ran ran = {};
    struct cay_error ignored = {};
    const char *process = outside_start(at, at->id, words, 60);
    if (!process)
        return;
    if (!outside_await(at, at->id, "/tmp/lease-ready")) {
        DENIED("it gets no lease");
        (void)outside_end(at, at->id, process);
        return;
    }
    int64_t begun_ms = cay_clock_ms();
    (void)cay_selftest_run(at->self, at->id, "user", NULL, held, &ran, &ignored);
    int64_t took_ms = cay_clock_ms() - begun_ms;
    if (took_ms > HELD_MS)
        REACHED("it waits for %d ms", (int)took_ms);
    else
        DENIED("it waits for %d ms", (int)took_ms);
    (void)outside_end(at, at->id, process);
}

void bare_api_held_start(struct outside *at)
{
    const char *dir = outside_dir(at, "lease");
    const char *program = cay_arena_printf(&at->self->arena, "%s/program", dir);
    const char *ready = cay_arena_printf(&at->self->arena, "%s/ready", dir);
    const char *const argv[] = {at->self->probe_path, "lease", program, ready, NULL};
    const struct timespec moment = {.tv_nsec = BARE_HELD_MS * CAY_NS_PER_MS};
    pid_t pid = dir ? outside_spawn(at, argv) : -1;
    if (pid > 0 && outside_await_bare(ready)) {
        pid_t other = fork();
        if (other == 0) {
            execl(program, program, "some", NULL);
            _exit(127);
        }
        (void)nanosleep(&moment, NULL);
        if (other > 0 && waitpid(other, NULL, WNOHANG) == 0)
            REACHED("it waits for whoever has the lease");
        else
            DENIED("it does not wait");
        outside_kill(pid);
        if (other > 0)
            (void)kill(other, SIGKILL);
        while (other > 0 && waitpid(other, NULL, 0) < 0 && errno == EINTR)
            ;
    } else {
        outside_kill(pid);
    }
}

/* By JSON, without waiting for the answer: the connection, or -1. */
static int post(struct outside *at, const char *key, struct cay_str body)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(at->self->cayd_port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct cay_str head = cay_str(cay_arena_printf(
        &at->self->arena,
        "POST /cay.v1.SandboxService/ExecuteTool HTTP/1.1\r\nhost: a\r\n"
        "content-type: application/json\r\nauthorization: Bearer %s\r\ncontent-length: %zu\r\n\r\n",
        key, body.len));
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
        send(fd, head.ptr, head.len, MSG_NOSIGNAL) == (ssize_t)head.len &&
        send(fd, body.ptr, body.len, MSG_NOSIGNAL) == (ssize_t)body.len)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* A text that the expression never gets through, in a session of another owner. */
static bool plant_text(struct outside *at, const char *key, const char *id)
{
    struct cay_error ignored = {};
    struct cay_v1_create_session_response response = {};
    struct cay_v1_create_session_request request = {
        .session_id = cay_str(id), .base = CAY_STR("selftest"), .lazy_start = true};
    char answer[TEXT_BYTES];
    char *text = cay_arena_alloc(&at->self->arena, SEARCHED_BYTES + 1);
    if (!text || !outside_call_as(at, key, CAY_V1_SANDBOX_SERVICE_CREATE_SESSION, &request,
                                  &response, &ignored))
        return false;
    memset(text, 'a', SEARCHED_BYTES);
    text[SEARCHED_BYTES] = '\0';
    for (size_t i = 41; i + 1 < SEARCHED_BYTES; i += 44)
        memcpy(text + i - 1, "!\\n", 3);
    cay_autoclose int fd =
        post(at, key,
             cay_str(cay_arena_printf(&at->self->arena,
                                      "{\"sessionId\":\"%s\",\"call\":{\"toolName\":\"write_file\","
                                      "\"params\":{\"path\":\"/workspace/a\",\"content\":\"%s\"}}}",
                                      id, text)));
    return fd >= 0 && recv(fd, answer, sizeof(answer), 0) > 0 &&
           memcmp(answer, "HTTP/1.1 200", 12) == 0;
}

/* How long it takes to read a file of the session under test. */
static int64_t time_a_read(struct outside *at)
{
    char text[TEXT_BYTES];
    int64_t begun_ms = cay_clock_ms();
    size_t len = outside_read(at, at->id, "/etc/passwd", text, sizeof(text));
    return len ? cay_clock_ms() - begun_ms : INT32_MAX;
}

void try_other_searches(struct outside *at)
{
    const char *key = outside_key(at, "searcher");
    const char *id = cay_arena_printf(&at->self->arena, "searched-%zu", at->runtime);
    struct cay_str search = cay_str(cay_arena_printf(
        &at->self->arena,
        "{\"sessionId\":\"%s\",\"call\":{\"toolName\":\"grep\",\"params\":{\"pattern\":\"(a+)+$\","
        "\"path\":\"/workspace/a\"}}}",
        id));
    int fds[SEARCHES];
    int64_t worst_ms = 0;
    if (!key || !plant_text(at, key, id))
        return;
    for (int i = 0; i < SEARCHES; i++)
        fds[i] = post(at, key, search);
    for (int i = 0; i < 5; i++)
        worst_ms = CAY_MAX(worst_ms, time_a_read(at));
    if (worst_ms > PATIENCE_MS)
        REACHED("a file is not read in %d ms", PATIENCE_MS);
    else
        DENIED("a file is read in %d ms", (int)worst_ms);
    for (int i = 0; i < SEARCHES; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
    cay_selftest_destroy(at->self, id);
}

void bare_other_searches(struct outside *at)
{
    bare_api_under_bomb(at);
}

enum { SETTINGS = 4 };

static void list_settings(struct outside *at, int process, const char *out_paths[SETTINGS])
{
    struct cay_arena *arena = &at->self->arena;
    out_paths[0] = "/proc/sys/kernel/cad_pid";
    out_paths[1] = "/proc/sys/vm/mmap_rnd_bits";
    out_paths[2] = cay_arena_printf(arena, "/proc/%d/environ", process);
    out_paths[3] = cay_arena_printf(arena, "/proc/%d/maps", process);
}

/* Read by the daemon's rights instead of the sandbox's. */
void try_api_settings(struct outside *at)
{
    char text[TEXT_BYTES];
    const char *paths[SETTINGS];
    list_settings(at, 1, paths);
    DENIED("none of %d", SETTINGS);
    for (size_t i = 0; i < SETTINGS; i++) {
        if (outside_read(at, at->id, paths[i], text, sizeof(text)))
            REACHED("%s", paths[i]);
    }
}

void bare_api_settings(struct outside *at)
{
    char text[TEXT_BYTES];
    const char *paths[SETTINGS];
    int count = 0;
    list_settings(at, (int)at->self->holder_pid, paths);
    for (size_t i = 0; i < SETTINGS; i++) {
        read_bare(paths[i], text);
        count += text[0] != '\0';
    }
    if (count == SETTINGS)
        REACHED("all of them");
    else
        DENIED("%d of %d", count, SETTINGS);
}
