/* SPDX-License-Identifier: Apache-2.0 */
/* Names that lead out of a sandbox, given to the daemon. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/selftest/outside.h"
#include "client/rpc/client.h"

enum { FIFO_PATIENCE_MS = 3000, RACE_MS = 1500, PATHS_MAX = 12 };

#define UP   "../../../../../../../../../../../.."
#define TRAP "/workspace/trap"

/* Ways to the secret from below a directory with what `cay-probe plant` makes. */
static size_t list_paths(struct outside *at, const char *dir, int process,
                         const char *out_paths[PATHS_MAX])
{
    static const char *const below[] = {"link", "folder/secret", "upwards", "process"};
    struct cay_arena *arena = &at->self->arena;
    size_t count = 0;
    for (size_t i = 0; i < CAY_COUNT(below); i++)
        out_paths[count++] = cay_arena_printf(arena, "%s/%s", dir, below[i]);
    out_paths[count++] = at->secret;
    out_paths[count++] = cay_arena_printf(arena, "%s/%s%s", dir, UP, at->secret);
    out_paths[count++] = cay_arena_printf(arena, "/proc/self/root%s", at->secret);
    out_paths[count++] = cay_arena_printf(arena, "/proc/%d/root%s", process, at->secret);
    out_paths[count++] = cay_arena_printf(arena, "/proc/self/cwd/%s%s", UP, at->secret);
    return count;
}

static bool plant(struct outside *at, const char *id)
{
    const char *const words[] = {"plant", TRAP, at->secret, NULL};
    return outside_run(at, id, NULL, words) == 0;
}

static const char *plant_bare(struct outside *at)
{
    const char *dir = outside_dir(at, "trap");
    const char *const words[] = {"plant", dir, at->secret, NULL};
    return dir && outside_run_bare(at, NULL, words) == 0 ? dir : NULL;
}

struct search {
    const char *token;
    struct cay_buf text;
    bool is_found;
};

static bool on_data(void *state, const void *message, struct cay_error *)
{
    struct search *search = state;
    const struct cay_v1_read_file_response *response = message;
    if (response->which_frame != CAY_V1_READ_FILE_RESPONSE_FRAME_DATA)
        return true;
    cay_buf_append_str(&search->text, response->frame.data);
    if (search->text.len &&
        memmem(search->text.data, search->text.len, search->token, strlen(search->token)))
        search->is_found = true;
    return true;
}

/* Whether the token is in what the daemon gives for the path. */
static bool reads_token(struct outside *at, const char *path, enum cay_v1_tree_format format,
                        int timeout_ms, struct cay_error *err)
{
    struct search search = {.token = at->self->token};
    struct cay_v1_read_file_request request = {.session_id = cay_str(at->id),
                                               .path = cay_str(path),
                                               .user = CAY_STR("root"),
                                               .archive = format};
    const struct cay_call_options options = {.size = sizeof(options), .timeout_ms = timeout_ms};
    cay_buf_init(&search.text, CAY_SELFTEST_OUTPUT_BYTES);
    (void)cay_client_call_stream_with(at->self->client, &options,
                                      &cay_v1_methods[CAY_V1_FILE_SERVICE_READ_FILE], &request,
                                      on_data, &search, err);
    cay_buf_finish(&search.text);
    return search.is_found;
}

void try_api_read(struct outside *at)
{
    const char *paths[PATHS_MAX];
    size_t count = list_paths(at, TRAP, 1, paths);
    if (!plant(at, at->id))
        return;
    DENIED("by none of %zu ways", count);
    for (size_t i = 0; i < count; i++) {
        struct cay_error err = {};
        if (reads_token(at, paths[i], CAY_V1_TREE_FORMAT_UNSPECIFIED, 0, &err))
            REACHED("%.120s", paths[i]);
    }
}

void bare_api_read(struct outside *at)
{
    const char *paths[PATHS_MAX];
    const char *dir = plant_bare(at);
    size_t count = dir ? list_paths(at, dir, (int)at->self->holder_pid, paths) : 0;
    size_t reached = 0;
    for (size_t i = 0; i < count; i++)
        reached += access(paths[i], R_OK) == 0;
    if (count && reached == count)
        REACHED("by %zu ways", reached);
    else
        DENIED("by %zu of %zu ways", reached, count);
}

struct upload {
    struct cay_v1_write_file_open open;
    struct cay_str data;
    int step;
};

static bool give(void *state, struct cay_arena *arena, const void **out_message,
                 struct cay_error *err)
{
    struct upload *upload = state;
    struct cay_v1_write_file_request *request =
        cay_arena_new(arena, struct cay_v1_write_file_request);
    if (!request)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    int step = upload->step++;
    request->which_frame =
        step ? CAY_V1_WRITE_FILE_REQUEST_FRAME_DATA : CAY_V1_WRITE_FILE_REQUEST_FRAME_OPEN;
    if (step)
        request->frame.data = upload->data;
    else
        request->frame.open = &upload->open;
    *out_message = step < 2 ? request : NULL;
    return true;
}

static bool write_file(struct outside *at, const char *path, struct cay_str data,
                       enum cay_v1_tree_format format)
{
    struct cay_error ignored = {};
    struct cay_v1_write_file_response response = {};
    struct upload upload = {.data = data,
                            .open = {.session_id = cay_str(at->id),
                                     .path = cay_str(path),
                                     .user = CAY_STR("root"),
                                     .create_parents = true,
                                     .archive = format}};
    return cay_client_call_upload(at->self->client, &cay_v1_methods[CAY_V1_FILE_SERVICE_WRITE_FILE],
                                  give, &upload, &at->self->arena, &response, &ignored);
}

void try_api_write(struct outside *at)
{
    const char *paths[PATHS_MAX];
    size_t count = list_paths(at, TRAP, 1, paths);
    if (!plant(at, at->id))
        return;
    for (size_t i = 0; i < count; i++)
        (void)write_file(at, paths[i], CAY_STR("overwritten\n"), CAY_V1_TREE_FORMAT_UNSPECIFIED);
    (void)write_file(at, TRAP "/folder/new", CAY_STR("new\n"), CAY_V1_TREE_FORMAT_UNSPECIFIED);
    if (outside_is_whole(at))
        DENIED("the host's file is as it was");
    else
        REACHED("the host's directory was changed");
}

void bare_api_write(struct outside *at)
{
    const char *dir = plant_bare(at);
    char path[512];
    snprintf(path, sizeof(path), "%s/link", dir ? dir : "");
    cay_autoclose int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0)
        REACHED("it can be written");
    else
        DENIED("%s", strerror(errno));
}

static bool lists_secret(struct outside *at, const char *path)
{
    struct cay_error ignored = {};
    struct cay_v1_list_dir_response response = {};
    struct cay_v1_list_dir_request request = {
        .session_id = cay_str(at->id), .path = cay_str(path), .user = CAY_STR("root")};
    bool has_secret = false;
    bool has_socket = false;
    if (!cay_selftest_call(at->self, CAY_V1_FILE_SERVICE_LIST_DIR, &request, &response, &ignored))
        return false;
    for (size_t i = 0; i < response.entries.count; i++) {
        has_secret = has_secret || cay_str_is(response.entries.items[i].name, "secret");
        has_socket = has_socket || cay_str_is(response.entries.items[i].name, "socket");
    }
    return has_secret && has_socket;
}

void try_api_list(struct outside *at)
{
    const char *const paths[] = {
        TRAP "/folder", TRAP "/folder/", at->prizes_dir,
        cay_arena_printf(&at->self->arena, "/proc/1/root%s", at->prizes_dir),
        cay_arena_printf(&at->self->arena, TRAP "/" UP "%s", at->prizes_dir)};
    if (!plant(at, at->id))
        return;
    DENIED("by none of %zu ways", CAY_COUNT(paths));
    for (size_t i = 0; i < CAY_COUNT(paths); i++) {
        if (lists_secret(at, paths[i]))
            REACHED("%.120s", paths[i]);
    }
}

void bare_api_list(struct outside *at)
{
    const char *dir = plant_bare(at);
    char path[512];
    snprintf(path, sizeof(path), "%s/folder/socket", dir ? dir : "");
    if (access(path, F_OK) == 0)
        REACHED("it is listed");
    else
        DENIED("%s", strerror(errno));
}

void try_api_remove(struct outside *at)
{
    const char *const paths[] = {TRAP "/folder/secret", at->secret,
                                 cay_arena_printf(&at->self->arena, "/proc/1/root%s", at->secret),
                                 cay_arena_printf(&at->self->arena, TRAP "/" UP "%s", at->secret),
                                 TRAP};
    struct cay_v1_remove_file_response response = {};
    if (!plant(at, at->id))
        return;
    for (size_t i = 0; i < CAY_COUNT(paths); i++) {
        struct cay_error ignored = {};
        struct cay_v1_remove_file_request request = {.session_id = cay_str(at->id),
                                                     .path = cay_str(paths[i]),
                                                     .user = CAY_STR("root"),
                                                     .recursive = true};
        (void)cay_selftest_call(at->self, CAY_V1_FILE_SERVICE_REMOVE_FILE, &request, &response,
                                &ignored);
    }
    if (outside_is_whole(at))
        DENIED("the host's files are there");
    else
        REACHED("files of the host are gone");
}

/* To be able to write to its directory is what it takes. */
void bare_api_remove(struct outside *at)
{
    const char *dir = plant_bare(at);
    char path[512];
    snprintf(path, sizeof(path), "%s/folder", dir ? dir : "");
    if (access(path, W_OK) == 0)
        REACHED("it can be removed");
    else
        DENIED("%s", strerror(errno));
}

void try_api_fifo(struct outside *at)
{
    struct cay_error err = {};
    if (!plant(at, at->id))
        return;
    (void)reads_token(at, TRAP "/fifo", CAY_V1_TREE_FORMAT_UNSPECIFIED, FIFO_PATIENCE_MS, &err);
    if (err.reason == CAY_R_DEADLINE_EXCEEDED)
        REACHED("no answer in %d ms", FIFO_PATIENCE_MS);
    else
        DENIED("%.120s", err.text);
}

void bare_api_fifo(struct outside *at)
{
    const char *dir = plant_bare(at);
    char path[512];
    snprintf(path, sizeof(path), "%s/fifo", dir ? dir : "");
    pid_t pid = fork();
    if (pid == 0)
        _exit(open(path, O_RDONLY | O_CLOEXEC) < 0);
    const struct timespec patience = {.tv_nsec = 200 * CAY_NS_PER_MS};
    (void)nanosleep(&patience, NULL);
    bool is_waiting = pid > 0 && waitpid(pid, NULL, WNOHANG) == 0;
    if (is_waiting) {
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
        REACHED("it waits");
    } else {
        DENIED("it does not wait");
    }
}

/* Starts the swapping in the sandbox, and does not wait for it. */
static bool start_swapping(struct outside *at)
{
    struct cay_error ignored = {};
    struct cay_str words[] = {CAY_STR("/bin/cay-probe"), CAY_STR("swap"), CAY_STR(TRAP),
                              cay_str(at->secret), CAY_STR("1500")};
    struct cay_v1_process_spec spec = {.argv = {words, CAY_COUNT(words)}, .user = CAY_STR("root")};
    struct cay_v1_launch_process_response response = {};
    struct cay_v1_launch_process_request request = {.session_id = cay_str(at->id), .spec = &spec};
    return cay_selftest_call(at->self, CAY_V1_PROCESS_SERVICE_LAUNCH_PROCESS, &request, &response,
                             &ignored);
}

void try_api_race(struct outside *at)
{
    static const char *const files[] = {TRAP "/race", TRAP "/race-link", TRAP "/turn/secret",
                                        TRAP "/turn-link/secret"};
    int64_t until_ms = cay_clock_ms() + RACE_MS;
    size_t tries = 0;
    if (!start_swapping(at))
        return;
    for (; cay_clock_ms() < until_ms && !at->out->verdict; tries++) {
        struct cay_error err = {};
        const char *path = files[tries % CAY_COUNT(files)];
        if (reads_token(at, path, CAY_V1_TREE_FORMAT_UNSPECIFIED, 0, &err) ||
            (tries % 8 == 0 && reads_token(at, TRAP, CAY_V1_TREE_FORMAT_TAR, 0, &err)))
            REACHED("%s, at the %zuth try", path, tries);
        (void)write_file(at, TRAP "/turn/secret", CAY_STR("overwritten\n"),
                         CAY_V1_TREE_FORMAT_UNSPECIFIED);
    }
    if (!outside_is_whole(at))
        REACHED("a file of the host was changed");
    else if (!at->out->verdict)
        DENIED("never in %zu tries", tries);
}

void bare_api_race(struct outside *at)
{
    const char *dir = outside_dir(at, "race");
    char path[512];
    char text[256];
    size_t tries = 0;
    if (!dir)
        return;
    snprintf(path, sizeof(path), "%s/race", dir);
    const char *const argv[] = {at->self->probe_path, "swap", dir, at->secret, "600", NULL};
    const char *const environment[] = {NULL};
    cay_autoclose int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    pid_t pid = cay_selftest_spawn(argv, environment, null, null, null);
    DENIED("never");
    for (; pid > 0 && waitpid(pid, NULL, WNOHANG) == 0; tries++) {
        cay_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t len = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
        if (len > 0 && memmem(text, (size_t)len, at->self->token, strlen(at->self->token)))
            REACHED("at the %zuth try", tries);
    }
}

void try_api_directory(struct outside *at)
{
    static const char *const cwds[] = {"/proc/self/fd/3",   "/proc/self/fd/4",  "/proc/self/fd/5",
                                       "/proc/self/fd/6",   "/proc/self/fd/7",  "/proc/self/fd/8",
                                       "/proc/self/fd/9",   "/proc/self/fd/10", "/proc/1/cwd",
                                       "/proc/1/root",      "/proc/self/cwd",   TRAP "/folder",
                                       "/proc/self/root/.."};
    const char *way = cay_arena_printf(&at->self->arena, UP "%s", at->secret);
    const char *const words[] = {"read", way, at->self->token, NULL};
    if (!plant(at, at->id))
        return;
    DENIED("from none of %zu", CAY_COUNT(cwds));
    for (size_t i = 0; i < CAY_COUNT(cwds); i++) {
        if (outside_run(at, at->id, cwds[i], words) == 0)
            REACHED("%s", cwds[i]);
    }
}

void bare_api_directory(struct outside *at)
{
    const char *way = cay_arena_printf(&at->self->arena, UP "%s", at->secret);
    const char *const words[] = {"read", way, at->self->token, NULL};
    if (outside_run_bare(at, at->self->dir, words) == 0)
        REACHED("it reads the file");
    else
        DENIED("it does not read the file");
}

/* The trees of sandboxes have the owners on disk that they have inside: a setuid file of root is
 * one, if a user of the host can come there. */
static bool is_listed_as_nobody(const struct outside *at, const char *name)
{
    pid_t pid = fork();
    if (pid == 0) {
        /* What stands above the run's own directory does not count. */
        DIR *dir = chdir(at->self->dir) == 0 && setgid(65534) == 0 && setuid(65534) == 0
                       ? opendir(name)
                       : NULL;
        _exit(dir ? 0 : 1);
    }
    int status = 1;
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void try_files_on_disk(struct outside *at)
{
    static const char *const names[] = {"data", "run/sandboxes"};
    DENIED("neither data nor run directory");
    for (size_t i = 0; i < CAY_COUNT(names); i++) {
        if (is_listed_as_nobody(at, names[i]))
            REACHED("%s", names[i]);
    }
}

void bare_files_on_disk(struct outside *at)
{
    if (is_listed_as_nobody(at, "prizes"))
        REACHED("a directory that is open to all");
    else
        DENIED("not even one that is open to all");
}

void try_shared_base(struct outside *at)
{
    const char *const scribble[] = {"scribble", "/planted/shared", at->self->token, NULL};
    const char *const read[] = {"read", "/planted/shared", at->self->token, NULL};
    if (outside_run(at, at->id, NULL, scribble) != 0)
        DENIED("it cannot be written at all");
    else if (outside_run(at, at->neighbour, NULL, read) == 0)
        REACHED("the neighbour reads what was written");
    else
        DENIED("the neighbour's is as it was");
}

void bare_shared_base(struct outside *at)
{
    const char *path = cay_arena_printf(&at->self->arena, "%s/shared", outside_dir(at, "trap"));
    cay_autoclose int fd = path ? open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0644) : -1;
    const char *const scribble[] = {"scribble", path, at->self->token, NULL};
    const char *const read[] = {"read", path, at->self->token, NULL};
    if (outside_run_bare(at, NULL, scribble) == 0 && outside_run_bare(at, NULL, read) == 0)
        REACHED("the other one reads what was written");
    else
        DENIED("it cannot be written");
}
