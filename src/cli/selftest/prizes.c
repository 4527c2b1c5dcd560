/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/selftest/selftest.h"

enum { LINE_BYTES = 2048, WORDS_MAX = 64 };

/* The first line that comes, without its end; NULL when there is none. */
static const char *read_line(struct cay_arena *arena, int fd)
{
    char line[LINE_BYTES];
    size_t len = 0;
    while (len < sizeof(line) - 1) {
        ssize_t got = read(fd, line + len, 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return NULL;
        if (line[len] == '\n')
            break;
        len++;
    }
    return cay_arena_copy(arena, (struct cay_str){line, len});
}

static bool start_holder(struct cay_selftest *self, struct cay_error *err)
{
    int input[2] = {-1, -1};
    int output[2] = {-1, -1};
    if (pipe2(input, O_CLOEXEC) < 0 || pipe2(output, O_CLOEXEC) < 0)
        return cay_fail_errno(err, CAY_R_INTERNAL, -errno, "make a pipe");
    const char *dir = cay_arena_printf(&self->arena, "%s/prizes", self->dir);
    self->prizes_dir = dir;
    const char *const argv[] = {self->probe_path, "hold", dir, self->token, NULL};
    const char *const environment[] = {"HELD=1", NULL};
    self->holder_pid = dir && mkdir(dir, 0755) == 0
                           ? cay_selftest_spawn(argv, environment, input[0], output[1], 2)
                           : -errno;
    close(input[0]);
    close(output[1]);
    self->holder_input = input[1];
    self->prizes = self->holder_pid > 0 ? read_line(&self->arena, output[0]) : NULL;
    close(output[0]);
    return self->prizes ||
           cay_fail(err, CAY_R_INTERNAL, "the program '%.150s' cannot be run", self->probe_path);
}

/* Somebody at a terminal of this machine. */
static void open_terminal(struct cay_selftest *self)
{
    char name[64] = "/dev/pts/none";
    self->terminal_fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (self->terminal_fd >= 0 && grantpt(self->terminal_fd) == 0 &&
        unlockpt(self->terminal_fd) == 0)
        (void)ptsname_r(self->terminal_fd, name, sizeof(name));
    self->terminal = cay_arena_copy(&self->arena, cay_str(name));
}

/* In a keyring of its own, which all that is started from here inherits. */
static void plant_key(const struct cay_selftest *self)
{
    if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) >= 0)
        (void)syscall(SYS_add_key, "user", self->token, "x", 1, KEY_SPEC_SESSION_KEYRING);
}

static void read_facts(struct cay_selftest *self)
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (!file || !fgets(self->boot_id, sizeof(self->boot_id), file))
        snprintf(self->boot_id, sizeof(self->boot_id), "none");
    if (file)
        fclose(file);
    self->boot_id[strcspn(self->boot_id, "\n")] = '\0';
    char line[128];
    file = fopen("/proc/partitions", "re");
    while (file && !self->disk[0] && fgets(line, sizeof(line), file)) {
        unsigned major = 0;
        unsigned minor = 0;
        if (sscanf(line, "%u %u", &major, &minor) == 2)
            snprintf(self->disk, sizeof(self->disk), "%u:%u", major, minor);
    }
    if (file)
        fclose(file);
}

bool cay_selftest_plant(struct cay_selftest *self, struct cay_error *err)
{
    plant_key(self);
    open_terminal(self);
    read_facts(self);
    return start_holder(self, err);
}

void cay_selftest_unplant(struct cay_selftest *self)
{
    if (self->holder_input >= 0)
        close(cay_take_fd(self->holder_input));
    if (self->holder_pid > 0)
        (void)waitpid(self->holder_pid, NULL, 0);
    self->holder_pid = 0;
    if (self->terminal_fd >= 0)
        close(cay_take_fd(self->terminal_fd));
}

/* "a=1 b=2" as "host.a=1", "host.b=2". */
static size_t add_prizes(struct cay_selftest *self, const char *kind, const char *prizes,
                         const char **words, size_t count)
{
    struct cay_str rest = cay_str(prizes);
    struct cay_str word;
    while (count < WORDS_MAX - 1 && rest.len && cay_str_split(&rest, ' ', &word))
        words[count++] = cay_arena_printf(&self->arena, "%s.%.*s", kind, (int)word.len, word.ptr);
    return count;
}

const char **cay_selftest_words(struct cay_selftest *self, enum cay_selftest_kind kind)
{
    bool is_control = kind == CAY_SELFTEST_CONTROL;
    struct cay_arena *arena = &self->arena;
    const char **words = cay_arena_array(arena, WORDS_MAX, sizeof(*words));
    size_t count = 0;
    if (!words)
        abort();
    words[count++] = is_control ? self->probe_path : "/bin/cay-probe";
    words[count++] = "try";
    static const char *const kinds[] = {[CAY_SELFTEST_CONTROL] = "control",
                                        [CAY_SELFTEST_FRUGAL] = "frugal",
                                        [CAY_SELFTEST_GREEDY] = "greedy"};
    words[count++] = kinds[kind];
    words[count++] =
        is_control ? cay_arena_printf(arena, "scratch=%s/scratch", self->dir) : "scratch=/tmp";
    words[count++] =
        cay_arena_printf(arena, "supervisor=%d", is_control ? (int)self->holder_pid : 1);
    words[count++] = cay_arena_printf(arena, "terminal=%s", self->terminal);
    words[count++] = cay_arena_printf(arena, "boot_id=%s", self->boot_id);
    words[count++] = cay_arena_printf(arena, "daemon_socket=%s", self->socket_path);
    words[count++] = cay_arena_printf(arena, "daemon_port=%d", self->cayd_port);
    words[count++] = cay_arena_printf(arena, "memory_bytes=%d", CAY_SELFTEST_MEMORY_BYTES);
    words[count++] = cay_arena_printf(arena, "process_count=%d", CAY_SELFTEST_PROCESSES);
    if (self->disk[0])
        words[count++] = cay_arena_printf(arena, "disk=%s", self->disk);
    count = add_prizes(self, "host", self->prizes, words, count);
    (void)add_prizes(self, "neighbour", is_control ? self->prizes : self->neighbour_prizes, words,
                     count);
    return words;
}

/* The same program as the host's root: with a descriptor and a variable that were forgotten, and
 * nothing around it. */
bool cay_selftest_control(struct cay_selftest *self, struct cay_error *err)
{
    int output[2];
    const char **argv = cay_selftest_words(self, CAY_SELFTEST_CONTROL);
    const char *const environment[] = {
        cay_arena_printf(&self->arena, "SELFTEST_SECRET=%s", self->token), NULL};
    const char *scratch = cay_arena_printf(&self->arena, "%s/scratch", self->dir);
    cay_auto(cay_buf_finish) struct cay_buf said;
    cay_buf_init(&said, CAY_SELFTEST_OUTPUT_BYTES);
    if (!scratch || mkdir(scratch, 0755) < 0 || pipe2(output, O_CLOEXEC) < 0)
        return cay_fail_errno(err, CAY_R_INTERNAL, -errno, "prepare the control");
    cay_autoclose int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int leaked = fcntl(null, F_DUPFD, 3);
    pid_t pid = cay_selftest_spawn(argv, environment, null, output[1], null);
    close(leaked);
    close(output[1]);
    for (char *room; pid > 0 && (room = cay_buf_reserve(&said, LINE_BYTES));) {
        ssize_t len = read(output[0], room, LINE_BYTES);
        if (len == 0 || (len < 0 && errno != EINTR))
            break;
        cay_buf_grew(&said, (size_t)CAY_MAX(len, 0));
    }
    close(output[0]);
    if (pid > 0)
        (void)waitpid(pid, NULL, 0);
    cay_selftest_take(self, 0, NULL, cay_buf_str(&said));
    return true;
}
