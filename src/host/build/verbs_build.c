/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/noun.h"
#include "base/log.h"
#include "base/stop.h"
#include "host/base/base_keep.h"
#include "host/base/base_record.h"
#include "host/base/builds.h"
#include "host/build/build_log.h"
#include "host/build/build_steps.h"
#include "host/build/debian.h"
#include "host/build/interpreter.h"
#include "host/build/verbs.h"
#include "host/owner/account.h"
#include "host/session/endless.h"
#include "host/session/host.h"
#include "host/session/request.h"
#include "host/session/tidy.h"
#include "host/store/base.h"
#include "io/child.h"
#include "sys/pin.h"

/*
 * BuildBase, by a recipe. A worker begins a draft in the store; debootstrap fills it as a child of
 * the loop, whose lines are the log; a worker makes a base of it. A client that leaves, a failure
 * and the end of the daemon all kill the child and throw the draft away.
 */

enum {
    TIMEOUT_DEFAULT_MS = 60 * 60 * 1000,
    CHECK_MS = 200,
};

struct build {
    struct cay_call *call;
    const struct cay_v1_build_base_request *request;
    bool is_interpreter; /* the recipe with our code interpreter */
    struct cay_host *host;
    struct cay_job job;
    struct cay_child child;
    struct cay_watch watch;
    struct cay_timer timer;
    struct cay_arena arena; /* the workers' */
    struct cay_debian debian;
    struct cay_store_base_draft draft;
    struct cay_base_keeping keeping;
    char target[4096];
    int pipe_fd;
    struct cay_build_log log;
    char last_error[200]; /* what debootstrap said was wrong */
    uint64_t started_ms;
    uint64_t timeout_ms;
    bool is_working; /* a job is under way */
    bool is_running; /* the child */
    bool is_good;
    struct cay_error err;
};

static void build_free(struct build *self)
{
    cay_arena_finish(&self->arena);
    free(self);
}

static void abort_work(struct cay_job *job)
{
    struct build *self = CAY_CONTAINER_OF(job, struct build, job);
    cay_store_base_abort(self->host->store, &self->draft);
}

static void abort_done(struct cay_job *job)
{
    struct build *self = CAY_CONTAINER_OF(job, struct build, job);
    struct cay_call *call = self->call;
    struct cay_error err = self->err;
    struct cay_host *host = self->host;
    cay_host_collect_soon(host);
    build_free(self);
    cay_call_fail(call, &err);
    cay_builds_leave(host);
}

static void close_child(struct build *self)
{
    cay_child_close(&self->child);
    cay_watch_close(&self->watch);
    cay_timer_close(&self->timer);
    if (self->pipe_fd >= 0)
        close(cay_take_fd(self->pipe_fd));
    self->is_running = false;
}

static void submit(struct build *self, void (*work)(struct cay_job *),
                   void (*done)(struct cay_job *))
{
    self->is_working = true;
    self->job.work = work;
    self->job.done = done;
    self->job.lane = &cay_account_of(self->host, self->call->caller.owner)->lane;
    cay_loop_submit(self->host->loop, &self->job);
}

/* self->err says why. */
static void give_up(struct build *self)
{
    close_child(self);
    submit(self, abort_work, abort_done);
}

/* debootstrap begins its lines with the letter of their level. */
static void take_line(void *context, struct cay_str line)
{
    static const struct {
        const char *begins;
        double fraction;
    } phases[] = {{"I: Retrieving", 0.1},   {"I: Validating", 0.15},
                  {"I: Extracting", 0.4},   {"I: Unpacking", 0.55},
                  {"I: Configuring", 0.75}, {"I: Base system installed", 0.9}};
    struct build *self = context;
    const char *level = cay_str_starts(line, "E:")   ? "error"
                        : cay_str_starts(line, "W:") ? "warn"
                                                     : "info";
    if (cay_str_starts(line, "E:"))
        snprintf(self->last_error, sizeof(self->last_error), "%.*s", (int)line.len, line.ptr);
    for (size_t i = 0; i < CAY_COUNT(phases); i++) {
        if (cay_str_starts(line, phases[i].begins))
            cay_build_log_progress(&self->log, phases[i].fraction, phases[i].begins + 3);
    }
    cay_build_log_line(&self->log, level, line);
}

/* False at the end of what is there now. */
static bool read_some(struct build *self)
{
    char buf[4096];
    ssize_t len = self->pipe_fd < 0 ? 0 : read(self->pipe_fd, buf, sizeof(buf));
    if (len > 0)
        cay_build_log_bytes(&self->log, (struct cay_str){buf, (size_t)len});
    else if (len == 0)
        cay_watch_set(&self->watch, 0);
    return len > 0;
}

static void on_output(struct cay_watch *watch, unsigned)
{
    struct build *self = CAY_CONTAINER_OF(watch, struct build, watch);
    (void)read_some(self);
    if (self->call->is_cancelled) {
        cay_fail(&self->err, CAY_R_CANCELED, NULL);
        give_up(self);
    } else if (self->log.is_full) {
        cay_watch_set(&self->watch, 0);
    }
}

static void on_tick(struct cay_timer *timer)
{
    struct build *self = CAY_CONTAINER_OF(timer, struct build, timer);
    uint64_t now_ms = cay_loop_now_ms(self->host->loop);
    if (now_ms - self->started_ms > self->timeout_ms)
        cay_fail(&self->err, CAY_R_DEADLINE_EXCEEDED, "the build took too long");
    else if (__atomic_load_n(&self->host->is_ending, __ATOMIC_RELAXED))
        cay_fail(&self->err, CAY_R_UNAVAILABLE, NULL);
    else
        cay_build_log_tick(&self->log);
    if (self->call->is_cancelled)
        cay_fail(&self->err, CAY_R_CANCELED, NULL);
    if (self->err.reason)
        give_up(self);
}

static void keep_work(struct cay_job *job)
{
    struct build *self = CAY_CONTAINER_OF(job, struct build, job);
    const struct cay_v1_build_base_request *request = self->request;
    struct cay_base_keeping *keeping = &self->keeping;
    keeping->host = self->host;
    keeping->arena = &self->arena;
    keeping->replaces = request->replace;
    keeping->spec = (struct cay_v1_base){
        .origin = CAY_V1_BASE_ORIGIN_BUILT,
        .source = cay_str(cay_arena_printf(&self->arena, "debian %s", self->debian.suite) ?: ""),
        .settings = request->settings,
        .labels = request->labels,
    };
    if (!cay_debian_finish(self->draft.root_fd, &self->err) ||
        (self->is_interpreter &&
         !cay_interpreter_install(self->draft.root_fd, self->host->interpreter, &self->err))) {
        cay_store_base_abort(self->host->store, &self->draft);
        return;
    }
    (void)cay_stop_watch(&self->call->is_cancelled);
    cay_stop_watch_also(&self->host->is_ending);
    self->is_good = cay_base_keeping_run(keeping, &self->draft, &self->err);
    (void)cay_stop_watch(NULL);
    if (self->is_good && !cay_base_keeping_confirm(keeping, &self->err)) {
        self->is_good = false;
        cay_base_keeping_take_back(keeping);
    }
}

static void keep_done(struct cay_job *job)
{
    struct build *self = CAY_CONTAINER_OF(job, struct build, job);
    const struct cay_v1_build_base_request *request = self->request;
    struct cay_call *call = self->call;
    struct cay_error err = self->err;
    bool is_good = self->is_good;
    cay_host_collect_soon(self->host);
    if (is_good || self->keeping.is_switched)
        cay_bases_put(self->host, &self->keeping.spec);
    if (is_good) {
        cay_log(CAY_INFO, "base.built", CAY_S("base", self->keeping.name));
        self->keeping.spec.aliases = request->aliases;
        cay_build_log_base(&self->log, &self->keeping.spec);
    }
    struct cay_host *host = self->host;
    cay_bases_sweep(host);
    build_free(self);
    if (is_good)
        cay_call_done(call, NULL);
    else
        cay_call_fail(call, &err);
    cay_builds_leave(host);
}

static void on_exit_of(struct cay_child *child)
{
    struct build *self = CAY_CONTAINER_OF(child, struct build, child);
    int code = child->exit_code;
    bool is_good = code == 0 && child->exit_signal == 0;
    while (!self->call->is_cancelled && read_some(self))
        ; /* what is left in the pipe is bounded by it */
    close_child(self);
    if (self->call->is_cancelled)
        cay_fail(&self->err, CAY_R_CANCELED, NULL);
    else if (!is_good)
        cay_fail(&self->err, CAY_R_BUILD_STEP_FAILED, "debootstrap ended with status %d%s%s", code,
                 self->last_error[0] ? ": " : "", self->last_error);
    if (self->err.reason) {
        submit(self, abort_work, abort_done);
        return;
    }
    cay_build_log_progress(&self->log, 0.95, "Finishing");
    submit(self, keep_work, keep_done);
}

/* On a worker: where to build, and from where. */
static void begin_work(struct cay_job *job)
{
    struct build *self = CAY_CONTAINER_OF(job, struct build, job);
    const struct cay_v1_build_base_request *request = self->request;
    cay_autoclose int etc_fd = open("/etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    self->is_good = (request->replace ||
                     cay_base_check_free(self->host->store, self->keeping.name, &self->err)) &&
                    cay_debian_choose(&self->debian, request->params,
                                      self->is_interpreter ? CAY_INTERPRETER_PACKAGES : "", etc_fd,
                                      &self->arena, &self->err) &&
                    cay_store_base_begin(self->host->store, &self->draft, &self->err);
    if (!self->is_good)
        return;
    ssize_t len = cay_pin_path(self->draft.root_fd, self->target, sizeof(self->target) - 1);
    self->is_good = len > 0 && self->target[0] == '/';
    if (!self->is_good)
        cay_fail_errno(&self->err, CAY_R_STORE_FAILED, len < 0 ? (int)len : -EINVAL,
                       "find the draft's path");
}

static bool start_child(struct build *self, struct cay_error *err)
{
    static const char *const passed[] = {"http_proxy", "https_proxy", "no_proxy"};
    const char *env[8] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                          "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive"};
    size_t count = 3;
    const char *const *argv = cay_debian_argv(&self->debian, self->target, &self->arena, err);
    int ends[2];
    if (!argv)
        return false;
    for (size_t i = 0; i < CAY_COUNT(passed); i++) {
        const char *value = getenv(passed[i]);
        if (value)
            env[count++] = cay_arena_printf(&self->arena, "%s=%s", passed[i], value);
    }
    if (access("/usr/sbin/debootstrap", X_OK) < 0)
        return cay_fail(err, CAY_R_FAILED_PRECONDITION,
                        "the host has no debootstrap; install the package 'debootstrap'");
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return cay_fail_errno(err, CAY_R_INTERNAL, -errno, "make a pipe");
    self->pipe_fd = ends[0];
    (void)fcntl(ends[1], F_SETFL, 0);
    const int fds[] = {-1, ends[1], ends[1]};
    const struct cay_child_spec spec = {
        .argv = argv, .env = env, .cwd = "/", .fds = fds, .fd_count = 3, .kills_leftovers = true};
    int status = cay_watch_open(&self->watch, self->host->loop, ends[0], on_output);
    if (status == 0)
        status = cay_child_spawn(&self->child, self->host->loop, &spec, on_exit_of);
    close(ends[1]);
    if (status < 0)
        return cay_fail_errno(err, CAY_R_INTERNAL, status, "start debootstrap");
    self->is_running = true;
    cay_watch_set(&self->watch, CAY_READY_READ);
    cay_timer_open(&self->timer, self->host->loop, on_tick);
    cay_timer_start(&self->timer, CHECK_MS, CHECK_MS);
    return true;
}

static void begin_done(struct cay_job *job)
{
    struct build *self = CAY_CONTAINER_OF(job, struct build, job);
    self->is_working = false;
    if (self->is_good && self->call->is_cancelled)
        self->is_good = cay_fail(&self->err, CAY_R_CANCELED, NULL);
    if (!self->is_good || !start_child(self, &self->err)) {
        give_up(self);
        return;
    }
    cay_build_log_progress(&self->log, 0.01, "Asking the mirror");
}

static void on_room(struct cay_call *call)
{
    struct build *self = call->state;
    self->log.is_full = false;
    if (self->is_running && !self->log.is_sending)
        cay_watch_set(&self->watch, CAY_READY_READ);
}

static void on_cancel(struct cay_call *call)
{
    struct build *self = call->state;
    if (!self->is_running || self->log.is_sending)
        return; /* who is at work will see; the timer, too */
    cay_fail(&self->err, CAY_R_CANCELED, NULL);
    give_up(self);
}

static bool check(struct build *self, const struct cay_v1_build_base_request *request,
                  struct cay_error *err)
{
    int64_t timeout_ms = cay_noun_duration_ms(request->timeout);
    if (!cay_str_is(request->recipe, "debian") && !self->is_interpreter)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "recipe: this version knows debian and " CAY_INTERPRETER_RECIPE);
    if (request->from_base.len || request->steps.count || request->context.len ||
        request->context_base.len)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "steps: they need a base that exists; build the recipe first, then name "
                        "its base in from_base");
    self->timeout_ms = timeout_ms > 0 ? (uint64_t)timeout_ms : TIMEOUT_DEFAULT_MS;
    self->keeping.alias_count = request->aliases.count;
    return cay_base_check_name(self->host, &self->call->caller, request->name, "name",
                               self->keeping.name, err) &&
           cay_base_check_aliases(request->aliases, &self->call->arena, &self->keeping.aliases,
                                  err) &&
           cay_check_labels(request->labels, err) &&
           cay_base_check_settings(self->host, request->settings, err);
}

static void build_by_recipe(struct cay_host *host, struct cay_call *call,
                            const struct cay_v1_build_base_request *request)
{
    struct build *self = cay_new(struct build);
    self->call = call;
    self->host = host;
    self->request = request;
    self->is_interpreter = cay_str_is(request->recipe, CAY_INTERPRETER_RECIPE);
    self->pipe_fd = -1;
    self->draft.root_fd = -1;
    cay_arena_init(&self->arena, 64 << 20);
    if (!check(self, request, &self->err)) {
        struct cay_error err = self->err;
        build_free(self);
        cay_call_fail(call, &err);
        return;
    }
    self->started_ms = cay_loop_now_ms(self->host->loop);
    cay_build_log_init(&self->log, call, self->host->loop);
    self->log.seen = take_line;
    self->log.context = self;
    call->state = self;
    call->on_cancel = on_cancel;
    call->on_room = on_room;
    cay_builds_enter(host);
    cay_host_endless(host, call);
    submit(self, begin_work, begin_done);
}

void cay_host_build_base(struct cay_service *service, struct cay_call *call)
{
    struct cay_host *host = cay_host_of(service);
    const struct cay_v1_build_base_request *request = call->request;
    struct cay_error err = {};
    if (call->caller.role != CAY_ROLE_ADMIN && request->recipe.len)
        cay_fail(&err, CAY_R_PERMISSION_DENIED, "only an admin may build by a recipe");
    else if (!request->recipe.len && !request->from_base.len)
        cay_fail(&err, CAY_R_INVALID_ARGUMENT, "the request must have recipe or from_base");
    else
        (void)cay_host_is_still(host, &err);
    struct cay_v1_build_base_request *made =
        cay_arena_new(&call->arena, struct cay_v1_build_base_request);
    if (!err.reason && cay_str_is(request->recipe, CAY_INTERPRETER_RECIPE)) {
        if (!made)
            cay_fail(&err, CAY_R_MESSAGE_TOO_LARGE, NULL);
        else if (cay_interpreter_request(request, host->interpreter, &call->arena, made, &err))
            request = made;
    }
    bool is_interpreter = request == made;
    if (err.reason)
        cay_call_fail(call, &err);
    else if (request->recipe.len && !(is_interpreter && request->from_base.len))
        build_by_recipe(host, call, request);
    else
        cay_build_by_steps(host, call, request);
}
