/* SPDX-License-Identifier: Apache-2.0 */
/* What attempts from outside have in common: programs that run meanwhile, and files. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/selftest/outside.h"
#include "client/rpc/client.h"

enum { END_PATIENCE_MS = 3000, AWAIT_MS = 10'000, LOOK_MS = 10 };

const char *outside_start(struct outside *at, const char *id, const char *const *words,
                          int timeout_s)
{
    struct cay_error ignored = {};
    struct cay_str argv[8] = {CAY_STR("/bin/cay-probe")};
    size_t count = 1;
    for (; words[count - 1] && count < CAY_COUNT(argv); count++)
        argv[count] = cay_str(words[count - 1]);
    struct google_protobuf_duration timeout = {.seconds = timeout_s};
    struct cay_v1_exec_policy policy = {.timeout = &timeout,
                                        .leftovers = CAY_V1_LEFTOVER_POLICY_KILL};
    struct cay_v1_process_spec spec = {
        .argv = {argv, count}, .user = CAY_STR("user"), .policy = &policy};
    struct cay_v1_launch_process_response response = {};
    struct cay_v1_launch_process_request request = {.session_id = cay_str(id), .spec = &spec};
    if (!cay_selftest_call(at->self, CAY_V1_PROCESS_SERVICE_LAUNCH_PROCESS, &request, &response,
                           &ignored) ||
        !response.process)
        return NULL;
    return cay_arena_copy(&at->self->arena, response.process->id);
}

bool outside_end(struct outside *at, const char *id, const char *process_id)
{
    struct cay_error ignored = {};
    struct cay_v1_kill_process_response response = {};
    struct cay_v1_kill_process_request request = {.session_id = cay_str(id),
                                                  .process_id = cay_str(process_id),
                                                  .signal = SIGKILL,
                                                  .scope = CAY_V1_KILL_SCOPE_TREE,
                                                  .wait = true};
    const struct cay_call_options options = {.size = sizeof(options),
                                             .timeout_ms = END_PATIENCE_MS};
    return cay_client_call_with(at->self->client, &options,
                                &cay_v1_methods[CAY_V1_PROCESS_SERVICE_KILL_PROCESS], &request,
                                &at->self->arena, &response, &ignored);
}

/* What may be closed to that user: the way to the program, and to the directory. */
pid_t outside_spawn_as(struct outside *, uid_t user, const char *cwd, const char *const *argv)
{
    char *const environment[] = {NULL};
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int program = open(argv[0], O_PATH | O_CLOEXEC);
    bool is_set = setpgid(0, 0) == 0 && dup2(null, 0) == 0 && dup2(null, 1) == 1 &&
                  dup2(null, 2) == 2 && (!cwd || chdir(cwd) == 0);
    if (is_set && user)
        is_set = setgroups(0, NULL) == 0 && setgid(user) == 0 && setuid(user) == 0;
    if (is_set)
        (void)execveat(program, "", (char *const *)(uintptr_t)argv, environment, AT_EMPTY_PATH);
    _exit(127);
}

pid_t outside_spawn(struct outside *at, const char *const *argv)
{
    return outside_spawn_as(at, 0, NULL, argv);
}

void outside_kill(pid_t pid)
{
    if (pid <= 0)
        return;
    (void)kill(-pid, SIGKILL);
    (void)kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

static bool is_there(struct outside *at, const char *id, const char *path)
{
    struct cay_error ignored = {};
    struct cay_v1_stat_file_response response = {};
    struct cay_v1_stat_file_request request = {
        .session_id = cay_str(id), .path = cay_str(path), .user = CAY_STR("root")};
    return cay_selftest_call(at->self, CAY_V1_FILE_SERVICE_STAT_FILE, &request, &response,
                             &ignored);
}

static bool await(struct outside *at, const char *id, const char *path)
{
    const struct timespec pause = {.tv_nsec = LOOK_MS * CAY_NS_PER_MS};
    int64_t until_ms = cay_clock_ms() + AWAIT_MS;
    for (;;) {
        if (at ? is_there(at, id, path) : access(path, F_OK) == 0)
            return true;
        if (cay_clock_ms() > until_ms || cay_selftest_is_over())
            return false;
        (void)nanosleep(&pause, NULL);
    }
}

bool outside_await(struct outside *at, const char *id, const char *path)
{
    return await(at, id, path);
}

bool outside_await_bare(const char *path)
{
    return await(NULL, NULL, path);
}

struct text {
    char *at;
    size_t len;
    size_t size;
};

static bool on_data(void *state, const void *message, struct cay_error *)
{
    struct text *text = state;
    const struct cay_v1_read_file_response *response = message;
    if (response->which_frame != CAY_V1_READ_FILE_RESPONSE_FRAME_DATA)
        return true;
    size_t len = CAY_MIN(response->frame.data.len, text->size - 1 - text->len);
    memcpy(text->at + text->len, response->frame.data.ptr, len);
    text->len += len;
    return true;
}

size_t outside_read(struct outside *at, const char *id, const char *path, char *out_text,
                    size_t size)
{
    struct cay_error ignored = {};
    struct text text = {.at = out_text, .size = size};
    struct cay_v1_read_file_request request = {
        .session_id = cay_str(id), .path = cay_str(path), .user = CAY_STR("root")};
    (void)cay_client_call_stream(at->self->client, &cay_v1_methods[CAY_V1_FILE_SERVICE_READ_FILE],
                                 &request, on_data, &text, &ignored);
    out_text[text.len] = '\0';
    return text.len;
}

struct upload {
    struct cay_v1_write_file_request frames[2];
    size_t given;
};

static bool give(void *state, struct cay_arena *, const void **out_message, struct cay_error *)
{
    struct upload *upload = state;
    *out_message = upload->given < 2 ? &upload->frames[upload->given] : NULL;
    upload->given++;
    return true;
}

bool outside_write(struct outside *at, const char *id, const char *path, struct cay_str data)
{
    struct cay_error ignored = {};
    struct cay_v1_write_file_response response = {};
    struct cay_v1_write_file_open open = {.session_id = cay_str(id),
                                          .path = cay_str(path),
                                          .user = CAY_STR("root"),
                                          .has_mode = true,
                                          .mode = 0666};
    struct upload upload = {
        .frames = {{.which_frame = CAY_V1_WRITE_FILE_REQUEST_FRAME_OPEN, .frame.open = &open},
                   {.which_frame = CAY_V1_WRITE_FILE_REQUEST_FRAME_DATA, .frame.data = data}}};
    return cay_client_call_upload(at->self->client, &cay_v1_methods[CAY_V1_FILE_SERVICE_WRITE_FILE],
                                  give, &upload, &at->self->arena, &response, &ignored);
}
