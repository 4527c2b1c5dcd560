/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/selftest/selftest.h"

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/id.h"
#include "cli/programs.h"
#include "client/rpc/client.h"

enum { ARENA_BYTES = 256 * 1024 * 1024, OPEN_DIRS = 32 };

static volatile sig_atomic_t was_signalled;

static void on_signal(int)
{
    was_signalled = 1;
}

bool cay_selftest_is_over(void)
{
    return was_signalled;
}

static bool make_dir(struct cay_selftest *self, struct cay_error *err)
{
    const char *tmp = getenv("TMPDIR");
    unsigned char random[16];
    cay_random_bytes(random, sizeof(random));
    cay_hex_encode(random, sizeof(random), self->token, sizeof(self->token));
    /* Not /tmp, which may be memory; and short, as a socket is in it. */
    snprintf(self->dir, sizeof(self->dir), "%.70s/cay-XXXXXX", tmp && *tmp ? tmp : "/var/tmp");
    if (!mkdtemp(self->dir))
        return cay_fail_errno(err, CAY_R_INTERNAL, -errno, "make a directory in '%.100s'",
                              self->dir);
    /* The prizes in it are for everybody: nothing but the sandbox is to stand before them. */
    return chmod(self->dir, 0755) == 0 ||
           cay_fail_errno(err, CAY_R_INTERNAL, -errno, "change '%.100s'", self->dir);
}

static int remove_entry(const char *path, const struct stat *, int kind, struct FTW *)
{
    return kind == FTW_DP || kind == FTW_D ? rmdir(path) : unlink(path);
}

static bool begin(struct cay_selftest *self, struct cay_error *err)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    const struct sigaction action = {.sa_handler = on_signal};
    if (geteuid() != 0)
        return cay_fail(err, CAY_R_PERMISSION_DENIED,
                        "the self-test starts a daemon of its own, which only root can; try sudo");
    for (size_t i = 0; i < CAY_COUNT(signals); i++)
        (void)sigaction(signals[i], &action, NULL);
    self->cayd_path = cay_program_find(&self->arena, CAY_PROGRAM_DAEMON);
    self->probe_path = cay_program_find(&self->arena, CAY_PROGRAM_PROBE);
    if (!self->cayd_path || !self->probe_path)
        return cay_fail(err, CAY_R_UNAVAILABLE, "the program %s is not installed",
                        self->cayd_path ? "cay-probe" : "cayd");
    return make_dir(self, err) && cay_selftest_plant(self, err) &&
           cay_selftest_start_daemon(self, err) &&
           cay_selftest_find_runtimes(self, cay_args_text(&self->cli->args, "runtime"), err) &&
           cay_selftest_import(self, err);
}

/* Sandboxes first: they outlive their daemon. */
void cay_selftest_end_daemon(struct cay_selftest *self)
{
    struct cay_error ignored = {};
    struct cay_v1_list_sessions_request request = {};
    struct cay_v1_list_sessions_response response = {};
    bool can_call = self->cayd_pid > 0;
    self->is_ending = true;
    if (self->client && !can_call && self->runtime_count)
        can_call = cay_selftest_start_daemon(self, &ignored);
    if (self->client && can_call &&
        cay_selftest_call(self, CAY_V1_SANDBOX_SERVICE_LIST_SESSIONS, &request, &response,
                          &ignored)) {
        for (size_t i = 0; i < response.sessions.count; i++) {
            const char *id = cay_arena_copy(&self->arena, response.sessions.items[i].id);
            if (id)
                cay_selftest_destroy(self, id);
        }
    }
    cay_selftest_kill_daemon(self, SIGTERM);
    cay_client_close(self->client);
    self->client = NULL;
}

static void end(struct cay_selftest *self)
{
    cay_selftest_end_daemon(self);
    cay_selftest_unplant(self);
    if (self->dir[0] && !cay_args_has(&self->cli->args, "keep"))
        (void)nftw(self->dir, remove_entry, OPEN_DIRS, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

static bool test(struct cay_selftest *self, struct cay_error *err)
{
    if (!begin(self, err) || !cay_selftest_control(self, err))
        return false;
    cay_selftest_outside_control(self);
    /* What a control does to the host is undone by now. */
    cay_selftest_end_daemon(self);
    bool is_done = cay_selftest_parts(self, err);
    /* Whatever else a part says then comes of that. */
    return cay_selftest_is_over() ? cay_fail(err, CAY_R_CANCELED, "interrupted") : is_done;
}

static bool run_selftest(struct cay_cli *cli, struct cay_error *err)
{
    struct cay_selftest self = {
        .cli = cli, .holder_input = -1, .terminal_fd = -1, .started_ms = cay_clock_ms()};
    if (!cay_args_has(&cli->args, "escape"))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "say what to test: 'cay selftest --escape' is all there is");
    cay_arena_init(&self.arena, ARENA_BYTES);
    bool is_done = cay_selftest_make_rows(&self, err) && test(&self, err);
    end(&self);
    if (is_done)
        cli->exit_status = cay_selftest_report(&self);
    cay_selftest_free_rows(&self);
    cay_arena_finish(&self.arena);
    return is_done;
}

static const struct cay_flag selftest_flags[] = {
    {.name = "escape", .help = "try to get out of sandboxes"},
    {.name = "runtime", .value = "RUNTIME", .help = "only this one; all that isolate otherwise"},
    {.name = "all", .help = "print every probe, not only what failed"},
    {.name = "keep", .help = "keep the directory of the run, with the daemon's log"},
    {},
};

const struct cay_command cay_command_selftest = {
    .name = "selftest",
    .arguments = "",
    .summary = "Try to get out of sandboxes on this machine",
    .details =
        "A daemon of its own is started in a directory of its own; that of this machine is not\n"
        "touched. Hostile code runs in its sandboxes, as root and as a user, in every runtime, "
        "and\n"
        "once without a sandbox: what is not reached there proves nothing, and is told. The exit\n"
        "status is 1 when something was reached from inside, or a probe reached nothing outside.",
    .examples = "  sudo cay selftest --escape\n"
                "  sudo cay selftest --escape --all --runtime namespaces",
    .flags = selftest_flags,
    .group = CAY_GROUP_HOST,
    .run = run_selftest,
};
