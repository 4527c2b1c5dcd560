/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/selftest/selftest.h"
#include "client/rpc/client.h"

enum { START_TIMEOUT_MS = 20'000, LOOK_MS = 10, CALL_TIMEOUT_MS = 60'000, USER = 1000 };

pid_t cay_selftest_spawn(const char *const *argv, const char *const *environment, int input,
                         int output, int error)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t all;
    sigset_t none;
    pid_t pid = -1;
    sigfillset(&all);
    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attr);
    posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, error, STDERR_FILENO);
    /* A group of its own: Ctrl-C is for us, who then end all of it in order. */
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                        POSIX_SPAWN_SETPGROUP);
    int result = posix_spawn(&pid, argv[0], &actions, &attr, (char *const *)(uintptr_t)argv,
                             (char *const *)(uintptr_t)environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    return result ? -result : pid;
}

/* Free a moment ago; nobody else takes it by chance. */
static uint16_t free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    cay_autoclose int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) < 0)
        return 0;
    return ntohs(address.sin_port);
}

static bool is_answering(struct cay_selftest *self)
{
    struct cay_v1_health_check_request request = {};
    struct cay_v1_health_check_response response = {};
    struct cay_error ignored = {};
    return cay_selftest_call(self, CAY_V1_SANDBOX_SERVICE_HEALTH_CHECK, &request, &response,
                             &ignored);
}

static bool fail_start(const struct cay_selftest *self, struct cay_error *err)
{
    char path[256];
    char text[512] = "";
    snprintf(path, sizeof(path), "%s/cayd.log", self->dir);
    cay_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
    if (fd >= 0 && pread(fd, text, sizeof(text) - 1, CAY_MAX(size - 500, (off_t)0)) < 0)
        text[0] = '\0';
    for (char *at = text; *at; at++)
        *at = *at < ' ' ? ' ' : *at;
    return cay_fail(err, CAY_R_UNAVAILABLE, "cayd does not start: %.160s",
                    text[0] ? text + CAY_MAX((int)strlen(text) - 160, 0) : "it says nothing");
}

static pid_t spawn_daemon(struct cay_selftest *self)
{
    struct cay_arena *arena = &self->arena;
    /* The default base is ours: that of the host would be made at the start, and is large. */
    const char *argv[32] = {self->cayd_path, "--access-log=false", "--default-base=selftest"};
    size_t count = 3;
    /* Empty: nothing of this machine's own configuration counts. */
    const char *conf = cay_arena_printf(arena, "%s/cayd.conf", self->dir);
    cay_autoclose int conf_fd = conf ? open(conf, O_CREAT | O_WRONLY | O_CLOEXEC, 0600) : -1;
    argv[count++] = cay_arena_printf(arena, "--config=%s", conf);
    argv[count++] = cay_arena_printf(arena, "--data=%s/data", self->dir);
    argv[count++] = cay_arena_printf(arena, "--run=%s/run", self->dir);
    argv[count++] = cay_arena_printf(arena, "--listen=127.0.0.1:%d", self->cayd_port);
    for (size_t i = 0; self->runtime_flags[i]; i++)
        argv[count++] = self->runtime_flags[i];
    /* Nothing of ours but where programs are; and a secret that no sandbox may see. */
    const char *path = getenv("PATH");
    const char *const environment[] = {
        cay_arena_printf(arena, "PATH=%s", path ? path : "/usr/sbin:/usr/bin:/sbin:/bin"),
        cay_arena_printf(arena, "SELFTEST_SECRET=%s", self->token), NULL};
    const char *log_path = cay_arena_printf(arena, "%s/cayd.log", self->dir);
    cay_autoclose int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    cay_autoclose int log_fd =
        log_path ? open(log_path, O_CREAT | O_APPEND | O_WRONLY | O_CLOEXEC, 0600) : -1;
    return cay_selftest_spawn(argv, environment, null, log_fd, log_fd);
}

bool cay_selftest_start_daemon(struct cay_selftest *self, struct cay_error *err)
{
    struct cay_client_options options = {.size = sizeof(options), .timeout_ms = CALL_TIMEOUT_MS};
    const struct timespec pause = {.tv_nsec = LOOK_MS * CAY_NS_PER_MS};
    int64_t until_ms = cay_clock_ms() + START_TIMEOUT_MS;
    if (!self->cayd_port)
        self->cayd_port = free_port();
    self->socket_path = cay_arena_printf(&self->arena, "%s/run/cayd.sock", self->dir);
    options.url = cay_arena_printf(&self->arena, "unix:%s", self->socket_path);
    self->cayd_pid = spawn_daemon(self);
    if (self->cayd_pid < 0)
        return cay_fail_errno(err, CAY_R_UNAVAILABLE, self->cayd_pid, "run '%.150s'",
                              self->cayd_path);
    if (!self->client && !cay_client_open(&options, &self->client, err))
        return false;
    while (!is_answering(self)) {
        if (waitpid(self->cayd_pid, NULL, WNOHANG) == self->cayd_pid) {
            self->cayd_pid = 0;
            return fail_start(self, err);
        }
        if (cay_clock_ms() > until_ms || (cay_selftest_is_over() && !self->is_ending))
            return fail_start(self, err);
        (void)nanosleep(&pause, NULL);
    }
    return true;
}

void cay_selftest_kill_daemon(struct cay_selftest *self, int signal)
{
    if (self->cayd_pid <= 0)
        return;
    (void)kill(self->cayd_pid, signal);
    while (waitpid(self->cayd_pid, NULL, 0) < 0 && errno == EINTR)
        ;
    self->cayd_pid = 0;
}

/* NULL with *err filled. */
static struct cay_v1_capabilities *get_capabilities(struct cay_selftest *self,
                                                    struct cay_error *err)
{
    struct cay_v1_get_capabilities_request request = {};
    struct cay_v1_get_capabilities_response response = {};
    if (!cay_selftest_call(self, CAY_V1_SANDBOX_SERVICE_GET_CAPABILITIES, &request, &response, err))
        return NULL;
    if (!response.capabilities)
        (void)cay_fail(err, CAY_R_INTERNAL, "the daemon does not say what it can do");
    return response.capabilities;
}

/* What the daemon says of it now; NULL: nothing. */
static const struct cay_v1_runtime_info *find_info(struct cay_selftest *self, const char *name)
{
    struct cay_error ignored = {};
    const struct cay_v1_capabilities *all = get_capabilities(self, &ignored);
    for (size_t i = 0; all && i < all->runtimes.count; i++) {
        if (cay_str_is(all->runtimes.items[i].name, name))
            return &all->runtimes.items[i];
    }
    return NULL;
}

/* A daemon knows what a runtime can once it offers it. One that then does not start says why not,
 * and starts again without; so it does when the runtime isolates nothing. */
static const struct cay_v1_runtime_info *
offer(struct cay_selftest *self, struct cay_selftest_runtime *runtime, struct cay_error *err)
{
    struct cay_error why = {};
    const struct cay_v1_runtime_info *info = NULL;
    size_t count = 0;
    while (self->runtime_flags[count])
        count++;
    cay_selftest_kill_daemon(self, SIGTERM);
    self->runtime_flags[count] = cay_arena_printf(&self->arena, "--runtimes=%s", runtime->name);
    if (cay_selftest_start_daemon(self, &why))
        info = find_info(self, runtime->name);
    else
        runtime->note = cay_arena_copy(&self->arena, cay_str(why.text));
    if (info && info->available && info->isolated)
        return info;
    if (info && info->available)
        runtime->note = "it isolates nothing, and is not judged";
    else if (info)
        runtime->note = cay_arena_copy(&self->arena, info->unavailable_reason);
    cay_selftest_kill_daemon(self, SIGTERM);
    self->runtime_flags[count] = NULL;
    (void)cay_selftest_start_daemon(self, err);
    return NULL;
}

static bool has_mode(const struct cay_v1_capabilities *all, const char *mode)
{
    for (size_t i = 0; i < all->network_modes.count; i++) {
        if (cay_str_is(all->network_modes.items[i], mode))
            return true;
    }
    return false;
}

static bool add_runtime(struct cay_selftest *self, const struct cay_v1_runtime_info *info,
                        const struct cay_v1_capabilities *all, const char *wanted,
                        struct cay_error *err)
{
    struct cay_selftest_runtime *runtime = &self->runtimes[self->runtime_count++];
    *runtime = (struct cay_selftest_runtime){.name = cay_arena_copy(&self->arena, info->name)};
    if (wanted && !cay_str_is(info->name, wanted)) {
        runtime->note = "it was not asked for";
        return true;
    }
    if (!info->available)
        info = offer(self, runtime, err);
    runtime->is_judged = info && info->isolated;
    bool has_network = info && info->own_network;
    runtime->has_open = has_network && has_mode(all, "open");
    runtime->has_filtered = has_network && has_mode(all, "filtered");
    if (info && !info->isolated)
        runtime->note = "it isolates nothing, and is not judged";
    return !err->reason;
}

bool cay_selftest_find_runtimes(struct cay_selftest *self, const char *wanted,
                                struct cay_error *err)
{
    const struct cay_v1_capabilities *all = get_capabilities(self, err);
    size_t judged = 0;
    if (!all)
        return false;
    for (size_t i = 0; i < CAY_MIN(all->runtimes.count, (size_t)CAY_SELFTEST_RUNTIMES_MAX); i++) {
        if (!add_runtime(self, &all->runtimes.items[i], all, wanted, err))
            return false;
        judged += self->runtimes[i].is_judged;
    }
    return judged ||
           cay_fail(err, CAY_R_UNAVAILABLE, "no runtime that isolates can be used here%s%.150s",
                    self->runtimes[0].note ? ": " : "",
                    self->runtimes[0].note ? self->runtimes[0].note : "");
}

int cay_selftest_copy(const char *from, const char *to)
{
    char piece[65536];
    cay_autoclose int in = open(from, O_RDONLY | O_CLOEXEC);
    cay_autoclose int out = open(to, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0755);
    ssize_t len = in < 0 || out < 0 ? -1 : 0;
    while (len >= 0 && (len = read(in, piece, sizeof(piece))) > 0) {
        if (write(out, piece, (size_t)len) != len)
            len = -1;
    }
    return len < 0 || fchmod(out, 0755) < 0 ? -errno : 0;
}

static int write_text(const char *path, const char *text)
{
    cay_autoclose int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
    return fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text) ? -errno : 0;
}

/* A tree with one program, what a login needs, and things that came with a hostile image. */
static int make_tree(const struct cay_selftest *self, const char *root)
{
    static const char *const dirs[] = {"",      "/bin",       "/etc",       "/dev",
                                       "/proc", "/sys",       "/tmp",       "/root",
                                       "/home", "/home/user", "/workspace", "/planted"};
    char path[512];
    int result = 0;
    for (size_t i = 0; i < CAY_COUNT(dirs) && result == 0; i++) {
        snprintf(path, sizeof(path), "%s%s", root, dirs[i]);
        result = mkdir(path, 0755) < 0 ? -errno : 0;
        if (result == 0 && (i == 9 || i == 10) && chown(path, USER, USER) < 0)
            result = -errno;
        if (result == 0 && strcmp(dirs[i], "/tmp") == 0 && chmod(path, 01777) < 0)
            result = -errno;
    }
    static const struct {
        const char *name;
        const char *text;
    } texts[] = {{"/etc/passwd", "root:x:0:0:root:/root:/bin/cay-probe\n"
                                 "user:x:1000:1000:user:/home/user:/bin/cay-probe\n"},
                 {"/etc/group", "root:x:0:\nuser:x:1000:\n"},
                 {"/planted/shared", "of the image\n"}};
    for (size_t i = 0; i < CAY_COUNT(texts) && result == 0; i++) {
        snprintf(path, sizeof(path), "%s%s", root, texts[i].name);
        result = write_text(path, texts[i].text);
    }
    snprintf(path, sizeof(path), "%s/planted/zero", root);
    (void)mknod(path, S_IFCHR | 0666, makedev(1, 5));
    (void)chmod(path, 0666);
    snprintf(path, sizeof(path), "%s/bin/cay-probe", root);
    return result < 0 ? result : cay_selftest_copy(self->probe_path, path);
}

struct import {
    struct cay_v1_import_base_options options;
    bool is_begun;
};

static bool give_options(void *state, struct cay_arena *arena, const void **out_message,
                         struct cay_error *err)
{
    struct import *import = state;
    struct cay_v1_import_base_request *request =
        cay_arena_new(arena, struct cay_v1_import_base_request);
    if (!request)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    request->which_frame = CAY_V1_IMPORT_BASE_REQUEST_FRAME_OPTIONS;
    request->frame.options = &import->options;
    *out_message = import->is_begun ? NULL : request;
    import->is_begun = true;
    return true;
}

bool cay_selftest_import_tree(struct cay_selftest *self, const char *name, const char *root,
                              struct cay_error *err)
{
    struct import import = {.options = {.name = cay_str(name),
                                        .format = CAY_V1_BASE_FORMAT_DIRECTORY,
                                        .host_path = cay_str(root)}};
    struct cay_v1_import_base_response response = {};
    return cay_client_call_upload(self->client, &cay_v1_methods[CAY_V1_BASE_SERVICE_IMPORT_BASE],
                                  give_options, &import, &self->arena, &response, err);
}

bool cay_selftest_import(struct cay_selftest *self, struct cay_error *err)
{
    const char *root = cay_arena_printf(&self->arena, "%s/base", self->dir);
    int result = root ? make_tree(self, root) : -ENOMEM;
    if (result < 0)
        return cay_fail_errno(err, CAY_R_INTERNAL, result, "make a tree in '%.100s'", root);
    return cay_selftest_import_tree(self, "selftest", root, err);
}
