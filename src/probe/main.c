/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay-probe try [control | frugal | greedy] KEY=VALUE… [host.KEY=VALUE…] [neighbour.KEY=VALUE…]
 *     every probe, a line each: NAME, verdict and reason, with tabs between
 * cay-probe hold DIR TOKEN
 *     holds prizes until its input ends, and says which
 * cay-probe read PATH TOKEN
 *     ends with 0 when the token is in the file
 * cay-probe TRICK …
 *     see tricks.c
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe/probe.h"

enum { PROBE_TIMEOUT_S = 10 };

static bool take_prize(struct prize *prize, const char *key, const char *value)
{
    const struct {
        const char *key;
        const char **text;
    } texts[] = {{"token", &prize->token},   {"name", &prize->name},
                 {"secret", &prize->secret}, {"socket", &prize->socket},
                 {"queue", &prize->queue},   {"address", &prize->address}};
    const struct {
        const char *key;
        int *number;
    } numbers[] = {{"port", &prize->port}, {"segment", &prize->segment}, {"pid", &prize->pid}};
    for (size_t i = 0; i < CAY_COUNT(texts); i++) {
        if (strcmp(texts[i].key, key) == 0)
            return (*texts[i].text = value) != NULL;
    }
    for (size_t i = 0; i < CAY_COUNT(numbers); i++) {
        if (strcmp(numbers[i].key, key) == 0)
            return (*numbers[i].number = (int)strtol(value, NULL, 10)) >= 0;
    }
    return false;
}

static bool take_word(struct world *world, char *word)
{
    char *value = strchr(word, '=');
    if (strcmp(word, "control") == 0)
        return world->is_control = true;
    if (strcmp(word, "frugal") == 0)
        return world->is_frugal = true;
    if (strcmp(word, "greedy") == 0)
        return world->is_greedy = true;
    if (!value)
        return false;
    *value++ = '\0';
    if (strncmp(word, "host.", 5) == 0)
        return take_prize(&world->host, word + 5, value);
    if (strncmp(word, "neighbour.", 10) == 0)
        return take_prize(&world->neighbour, word + 10, value);
    const struct {
        const char *key;
        const char **text;
    } texts[] = {{"scratch", &world->scratch},
                 {"terminal", &world->terminal},
                 {"boot_id", &world->boot_id},
                 {"disk", &world->disk},
                 {"daemon_socket", &world->daemon_socket}};
    for (size_t i = 0; i < CAY_COUNT(texts); i++) {
        if (strcmp(texts[i].key, word) == 0)
            return (*texts[i].text = value) != NULL;
    }
    unsigned long long number = strtoull(value, NULL, 10);
    if (strcmp(word, "supervisor") == 0)
        world->supervisor = (int)number;
    else if (strcmp(word, "daemon_port") == 0)
        world->daemon_port = (int)number;
    else if (strcmp(word, "process_count") == 0)
        world->process_count = (int)number;
    else if (strcmp(word, "memory_bytes") == 0)
        world->memory_bytes = number;
    else
        return false;
    return true;
}

static bool is_complete(const struct world *world)
{
    const struct prize *const prizes[] = {&world->host, &world->neighbour};
    for (size_t i = 0; i < CAY_COUNT(prizes); i++) {
        if (!prizes[i]->token || !prizes[i]->name || !prizes[i]->secret || !prizes[i]->socket ||
            !prizes[i]->queue)
            return false;
    }
    return world->scratch && world->terminal && world->boot_id && world->daemon_socket &&
           world->supervisor && world->process_count && world->memory_bytes;
}

/* The control has no sandbox around it. Its mounts are its own, so that they go with it, and what
 * it writes is on one of these. */
static bool be_control(const struct world *world)
{
    be_patient();
    return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("probe", world->scratch, "tmpfs", 0, "mode=1777") == 0;
}

static void run_child(const struct world *world, const struct probe *probe, struct outcome *out)
{
    (void)setpgid(0, 0);
    (void)alarm(PROBE_TIMEOUT_S);
    if (world->is_control && !be_control(world))
        *out = absent("the control cannot be made: %s", strerror(errno));
    else
        *out = probe->attempt.run(world, &probe->attempt);
    _exit(0);
}

static void run_probe(const struct world *world, const struct probe *probe, struct outcome *shared)
{
    *shared = (struct outcome){};
    pid_t pid = fork();
    if (pid == 0)
        run_child(world, probe, shared);
    int status = 0;
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (pid > 0) {
        (void)kill(-pid, SIGKILL); /* what it started */
        while (waitpid(-pid, NULL, 0) > 0)
            ;
    }
    struct outcome made = *shared;
    if (pid < 0)
        made = denied("no process: %s", strerror(errno));
    else if (!made.verdict && WIFSIGNALED(status))
        made = denied("killed by signal %d", WTERMSIG(status));
    else if (!made.verdict)
        made = denied("no verdict");
    static const char *const words[] = {
        [PROBE_DENIED] = "denied", [PROBE_REACHED] = "reached", [PROBE_ABSENT] = "absent"};
    printf("%s\t%s\t%s\n", probe->name, words[made.verdict], made.why);
    fflush(stdout);
}

static int try_all(int argc, char **argv)
{
    static struct world world;
    for (int i = 0; i < argc; i++) {
        if (!take_word(&world, argv[i])) {
            fprintf(stderr, "cay-probe: '%s' means nothing\n", argv[i]);
            return 2;
        }
    }
    if (!is_complete(&world)) {
        fprintf(stderr, "cay-probe: too little is told of the world\n");
        return 2;
    }
    struct outcome *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 1;
    for (size_t i = 0; i < probe_count; i++) {
        if (probes[i].attempt.is_greedy ? !world.is_frugal : !world.is_greedy)
            run_probe(&world, &probes[i], shared);
    }
    return 0;
}

static int read_one(const char *path, const char *token)
{
    cay_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && holds_token(fd, token) ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc >= 2 && strcmp(argv[1], "try") == 0)
        return try_all(argc - 2, argv + 2);
    if (argc >= 2 && strcmp(argv[1], "hold") == 0)
        return hold(argc - 2, argv + 2);
    if (argc == 4 && strcmp(argv[1], "read") == 0)
        return read_one(argv[2], argv[3]);
    int result = trick(argc - 1, argv + 1);
    if (result >= 0)
        return result;
    fprintf(stderr, "cay-probe: it is run by 'cay selftest --escape'\n");
    return 2;
}
