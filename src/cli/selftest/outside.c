/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/selftest/outside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/rpc/client.h"

enum { OWN_PATIENCE_MS = 20'000 };

static const struct {
    const char *name;
    void (*run)(struct outside *at);
    void (*bare)(struct outside *at);
} attempts[] = {
#define OUTSIDE(number, name, title) {#name, try_##name, bare_##name},
#include "cli/selftest/outside.def"
#undef OUTSIDE
};

static struct outside begin(struct cay_selftest *self, size_t runtime)
{
    struct cay_arena *arena = &self->arena;
    struct outside at = {
        .self = self,
        .runtime = runtime,
        .prizes_dir = self->prizes_dir,
        .secret = cay_arena_printf(arena, "%s/secret", self->prizes_dir),
    };
    if (self->runtime_count) {
        at.id = cay_arena_printf(arena, "first-%s", self->runtimes[runtime].name);
        at.neighbour = cay_arena_printf(arena, "neighbour-%s", self->runtimes[runtime].name);
    }
    return at;
}

void cay_selftest_outside(struct cay_selftest *self, size_t runtime)
{
    struct outside at = begin(self, runtime);
    for (size_t i = 0; i < CAY_COUNT(attempts) && !cay_selftest_is_over(); i++) {
        struct cay_selftest_row *row = cay_selftest_row(self, cay_str(attempts[i].name));
        struct cay_selftest_outcome outcome = {};
        at.out = &outcome;
        attempts[i].run(&at);
        if (outcome.verdict)
            cay_selftest_note(row, runtime, "from outside", &outcome);
    }
}

void cay_selftest_outside_control(struct cay_selftest *self)
{
    struct outside at = begin(self, 0);
    for (size_t i = 0; i < CAY_COUNT(attempts) && !cay_selftest_is_over(); i++) {
        at.out = &cay_selftest_row(self, cay_str(attempts[i].name))->control;
        attempts[i].bare(&at);
    }
}

int outside_run(struct outside *at, const char *id, const char *cwd, const char *const *words)
{
    struct cay_error err = {};
    struct cay_selftest_ran ran = {};
    const char *argv[8] = {"/bin/cay-probe"};
    for (size_t i = 0; words[i] && i < CAY_COUNT(argv) - 2; i++)
        argv[i + 1] = words[i];
    return cay_selftest_run(at->self, id, "root", cwd, argv, &ran, &err) ? ran.exit_code : -1;
}

int outside_run_bare(struct outside *at, const char *cwd, const char *const *words)
{
    const char *argv[8] = {at->self->probe_path};
    const char *const environment[] = {NULL};
    for (size_t i = 0; words[i] && i < CAY_COUNT(argv) - 2; i++)
        argv[i + 1] = words[i];
    cay_autoclose int back = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    cay_autoclose int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (cwd && chdir(cwd) < 0)
        return -1;
    pid_t pid = cay_selftest_spawn(argv, environment, null, null, null);
    if (cwd && fchdir(back) < 0)
        return -1;
    int status = 0;
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return pid > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool outside_is_whole(const struct outside *at)
{
    char text[256] = "";
    DIR *dir = opendir(at->prizes_dir);
    int count = 0;
    for (const struct dirent *entry; dir && (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    if (dir)
        closedir(dir);
    cay_autoclose int fd = open(at->secret, O_RDONLY | O_CLOEXEC);
    /* The secret and the socket. */
    return count == 2 && fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 &&
           strncmp(text, at->self->token, strlen(at->self->token)) == 0;
}

const char *outside_dir(struct outside *at, const char *name)
{
    const char *path = cay_arena_printf(&at->self->arena, "%s/%s", at->self->dir, name);
    return path && (mkdir(path, 0755) == 0 || errno == EEXIST) ? path : NULL;
}

bool outside_call_as(struct outside *at, const char *key, unsigned method, const void *request,
                     void *out_response, struct cay_error *err)
{
    struct cay_client *client = NULL;
    struct cay_client_options options = {
        .size = sizeof(options),
        .url = cay_arena_printf(&at->self->arena, "http://127.0.0.1:%d", at->self->cayd_port),
        .key = key,
        .timeout_ms = OWN_PATIENCE_MS,
    };
    if (!cay_client_open(&options, &client, err))
        return false;
    bool is_done = cay_client_call(client, &cay_v1_methods[method], request, &at->self->arena,
                                   out_response, err);
    cay_client_close(client);
    return is_done;
}

const char *outside_make(struct outside *at, const char *word,
                         const struct cay_v1_resource_limits *limits)
{
    struct cay_error ignored = {};
    const char *id = cay_arena_printf(&at->self->arena, "%s-%zu", word, at->runtime);
    struct cay_v1_create_session_response response = {};
    struct cay_v1_create_session_request request = {
        .session_id = cay_str(id),
        .base = CAY_STR("selftest"),
        .runtime = cay_str(at->self->runtimes[at->runtime].name),
        .limits = limits ? (struct cay_v1_resource_limits *)(uintptr_t)limits : NULL,
    };
    return cay_selftest_call(at->self, CAY_V1_SANDBOX_SERVICE_CREATE_SESSION, &request, &response,
                             &ignored)
               ? id
               : NULL;
}
