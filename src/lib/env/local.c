/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/env/local.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "api/limits.h"
#include "base/clock.h"
#include "client/rpc/client.h"
#include "tool/tree/tree.h"

/* --- open and close --- */

static bool open_local(const char *where, const struct cay_env_options *options,
                       struct cay_env **out_env, struct cay_error *err)
{
    if (!*where)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "address: which directory? local:/some/dir");
    cay_autoclose int dir_fd = open(where, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0)
        return cay_tree_fail(err, -errno, cay_str(where));
    struct cay_local_env *self = calloc(1, sizeof(*self));
    if (!self)
        return cay_fail(err, CAY_R_OUT_OF_MEMORY, NULL);
    cay_env_init(&self->env, &cay_env_local);
    self->dir_fd = cay_take_fd(dir_fd);
    self->timeout_ms = options->timeout_ms;
    self->is_expected =
        (options->store && *options->store) || (options->runtime && *options->runtime);
    atomic_init(&self->engine, NULL);
    atomic_init(&self->is_paused, false);
    pthread_mutex_init(&self->pause_lock, NULL);
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->changed, NULL);
    cay_list_init(&self->apart);
    *out_env = &self->env;
    return true;
}

static void let_go(struct cay_env *env)
{
    struct cay_local *engine = atomic_load(&cay_local_env_of(env)->engine);
    if (engine)
        cay_local_kill_all(engine);
}

static void release(struct cay_env *env)
{
    struct cay_local_env *self = cay_local_env_of(env);
    cay_local_apart_finish(self);
    cay_local_close(atomic_load(&self->engine));
    pthread_cond_destroy(&self->changed);
    pthread_mutex_destroy(&self->lock);
    pthread_mutex_destroy(&self->pause_lock);
    close(self->dir_fd);
    free(self);
}

/* --- what it is --- */

static bool capabilities(struct cay_env *, const struct cay_call_options *,
                         const struct cay_env_capabilities **out_capabilities, struct cay_error *)
{
    *out_capabilities = cay_env_kind_capabilities(cay_env_local.kind);
    return true;
}

static enum cay_env_state state(struct cay_env *env)
{
    return atomic_load(&cay_local_env_of(env)->is_paused) ? CAY_ENV_PAUSED : CAY_ENV_ACTIVE;
}

/* --- its life --- */

/* What cannot be kept is not promised. */
static bool check_config(const struct cay_local_env *self, const struct cay_env_config *config,
                         struct cay_error *err)
{
    if (self->is_expected)
        return cay_fail(err, CAY_R_FAILED_PRECONDITION,
                        "a local environment has no store and no runtime, and one is expected");
    if (config->memory_bytes || config->cpus > 0 || config->disk_bytes || config->process_count)
        return cay_fail(err, CAY_R_CAPABILITY_NOT_SUPPORTED,
                        "a local environment cannot keep limits");
    if (config->base && *config->base)
        return cay_fail(err, CAY_R_CAPABILITY_NOT_SUPPORTED,
                        "a local environment has no bases: its files are those of the directory");
    if (config->network && *config->network && strcmp(config->network, "open") != 0)
        return cay_fail(err, CAY_R_CAPABILITY_NOT_SUPPORTED,
                        "a local environment has the network of this host");
    if (config->runtime && *config->runtime && strcmp(config->runtime, "none") != 0)
        return cay_fail(err, CAY_R_CAPABILITY_NOT_SUPPORTED,
                        "a local environment isolates nothing: it has no runtime '%.40s'",
                        config->runtime);
    return true;
}

static bool create(struct cay_env *env, const struct cay_env_birth *birth,
                   const struct cay_call_options *, struct cay_error *err)
{
    struct cay_local_env *self = cay_local_env_of(env);
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, CAY_LIMIT_CALL_ARENA_BYTES);
    struct cay_local_options options = {.id = cay_str(birth->session_id)};
    struct cay_local *engine = NULL;
    char path[32];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", self->dir_fd);
    if (!check_config(self, birth->config, err) ||
        !cay_env_order_pairs(birth->config->environment, birth->config->environment_count, &arena,
                             &options.env, err) ||
        !cay_local_open(path, &options, &engine, err))
        return false;
    atomic_store(&self->engine, engine);
    return true;
}

/* The engine stays until nobody is inside any more: whoever destroys may be inside, too. */
static bool destroy(struct cay_env *env, const struct cay_call_options *, struct cay_error *)
{
    cay_local_kill_all(atomic_load(&cay_local_env_of(env)->engine));
    return true;
}

static bool pause_local(struct cay_env *env, const struct cay_call_options *, struct cay_error *err)
{
    struct cay_local_env *self = cay_local_env_of(env);
    pthread_mutex_lock(&self->pause_lock);
    bool is_done = !atomic_load(&self->is_paused) || cay_fail(err, CAY_R_SESSION_PAUSED, NULL);
    if (is_done) {
        is_done = cay_local_pause(atomic_load(&self->engine), err);
        atomic_store(&self->is_paused, true); /* also when not all could be stopped */
    }
    pthread_mutex_unlock(&self->pause_lock);
    return is_done;
}

static bool resume_local(struct cay_env *env, const struct cay_call_options *,
                         struct cay_error *err)
{
    struct cay_local_env *self = cay_local_env_of(env);
    pthread_mutex_lock(&self->pause_lock);
    bool is_done = atomic_load(&self->is_paused) ||
                   cay_fail(err, CAY_R_INVALID_STATE, "the environment is not paused");
    if (is_done && (is_done = cay_local_resume(atomic_load(&self->engine), err)))
        atomic_store(&self->is_paused, false);
    pthread_mutex_unlock(&self->pause_lock);
    return is_done;
}

/* --- tools --- */

bool cay_local_patience_over(const struct cay_local_patience *patience, struct cay_error *err)
{
    struct pollfd entry = {.fd = patience->cancel_fd, .events = POLLIN};
    if (patience->cancel_fd >= 0 && poll(&entry, 1, 0) > 0)
        cay_fail(err, CAY_R_CANCELED, "the call was cancelled");
    else if (patience->until_ms && cay_clock_ms() >= patience->until_ms)
        cay_fail(err, CAY_R_DEADLINE_EXCEEDED, NULL);
    else
        return false;
    return true;
}

/* One descriptor that can be read when patience ends: what the engine waits with. */
struct alarm {
    int timer_fd;
    int both_fd;
};

static void alarm_close(const struct alarm *alarm)
{
    if (alarm->timer_fd >= 0)
        close(alarm->timer_fd);
    if (alarm->both_fd >= 0)
        close(alarm->both_fd);
}

static bool watch(int epoll_fd, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* -1 when there is no end; without descriptors that is an error. */
static bool alarm_open(struct alarm *alarm, const struct cay_local_patience *patience, int *out_fd,
                       struct cay_error *err)
{
    *out_fd = patience->cancel_fd;
    if (!patience->until_ms)
        return true;
    const struct itimerspec until = {
        .it_value = {.tv_sec = patience->until_ms / 1000,
                     .tv_nsec = patience->until_ms % 1000 * (long)CAY_NS_PER_MS}};
    alarm->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (alarm->timer_fd < 0 ||
        timerfd_settime(alarm->timer_fd, TFD_TIMER_ABSTIME, &until, NULL) < 0)
        return cay_fail_errno(err, CAY_R_RESOURCE_EXHAUSTED, -errno, "a deadline needs a timer");
    *out_fd = alarm->timer_fd;
    if (patience->cancel_fd < 0)
        return true;
    alarm->both_fd = epoll_create1(EPOLL_CLOEXEC);
    if (alarm->both_fd < 0 || !watch(alarm->both_fd, alarm->timer_fd) ||
        !watch(alarm->both_fd, patience->cancel_fd))
        return cay_fail_errno(err, CAY_R_RESOURCE_EXHAUSTED, -errno, "a deadline needs a timer");
    *out_fd = alarm->both_fd;
    return true;
}

static void on_output(void *context, const struct cay_v1_output_chunk *chunk)
{
    cay_env_order_show(context, chunk);
}

/* On the caller's thread. */
static bool run_here(struct cay_local_env *self, struct cay_env_order *order,
                     const struct cay_local_patience *patience, struct cay_error *err)
{
    cay_auto(alarm_close) struct alarm alarm = {-1, -1};
    cay_auto(cay_arena_finish) struct cay_arena arena;
    cay_arena_init(&arena, CAY_LIMIT_CALL_ARENA_BYTES);
    const struct cay_local_progress progress = {.output = on_output, .context = order};
    struct cay_local_call call = {
        .tool = &order->call,
        .progress = order->request->progress ? &progress : NULL,
        .cancel_fd = -1,
    };
    struct cay_v1_tool_result result;
    if (cay_local_patience_over(patience, err) ||
        !alarm_open(&alarm, patience, &call.cancel_fd, err))
        return false;
    if (cay_local_tool(atomic_load(&self->engine), &call, &arena, &result, err))
        return cay_env_order_take(order, &result, err);
    if (err->reason == CAY_R_CANCELED)
        (void)cay_local_patience_over(patience, err);
    return false;
}

static bool execute_tool(struct cay_env *env, const struct cay_tool_request *request,
                         const struct cay_call_options *options,
                         struct cay_tool_response **out_response, struct cay_error *err)
{
    struct cay_local_env *self = cay_local_env_of(env);
    cay_auto(cay_env_order_finish) struct cay_env_order order = {};
    struct cay_local_patience patience = {.cancel_fd = cay_cancel_fd(options->cancel)};
    int64_t timeout_ms = options->timeout_ms ? options->timeout_ms : self->timeout_ms;
    if (timeout_ms > 0 && __builtin_add_overflow(cay_clock_ms(), timeout_ms, &patience.until_ms))
        patience.until_ms = 0;
    if (!cay_env_order_build(&order, request, err))
        return false;
    /* Work on files cannot be interrupted from outside: whoever may leave lets another do it. */
    bool has_end = patience.until_ms || patience.cancel_fd >= 0;
    bool is_apart = !order.made_up_id[0] || (has_end && cay_is_file_op(request->tool_name));
    bool is_done = is_apart ? cay_local_apart_run(self, &order, &patience, err)
                            : run_here(self, &order, &patience, err);
    if (is_done)
        *out_response = cay_take_ptr(order.response);
    return is_done;
}

const struct cay_env_ops cay_env_local = {
    .kind = "local",
    .open = open_local,
    .let_go = let_go,
    .release = release,
    .capabilities = capabilities,
    .state = state,
    .create = create,
    .destroy = destroy,
    .execute_tool = execute_tool,
    .pause = pause_local,
    .resume = resume_local,
};
