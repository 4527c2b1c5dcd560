/* SPDX-License-Identifier: Apache-2.0 */
#include "host/build/build_steps.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/noun.h"
#include "base/id.h"
#include "base/log.h"
#include "base/stop.h"
#include "base/utf8.h"
#include "host/base/base_record.h"
#include "host/base/builds.h"
#include "host/build/build_files.h"
#include "host/build/build_steps_internal.h"
#include "host/exec/command.h"
#include "host/owner/account.h"
#include "host/owner/account_quota.h"
#include "host/session/chore.h"
#include "host/session/endless.h"
#include "host/session/host.h"
#include "host/session/request.h"
#include "host/session/tidy.h"

/*
 * The steps run in a session of their own, one errand after the other: create, the steps, stop.
 * What it is then becomes the base, and the session is destroyed, however it went. A daemon that
 * dies finds it by its label.
 */

enum {
    STEPS_MAX = 1000,
    TIMEOUT_DEFAULT_MS = 60 * 60 * 1000,
    ARENA_BYTES_MAX = 32 << 20,
};

static const struct cay_v1_build_step *step_of(const struct cay_steps *self)
{
    return &self->request->steps.items[self->at];
}

static void steps_free(struct cay_steps *self)
{
    cay_timer_close(&self->timer);
    for (size_t i = 0; self->files && i < self->request->steps.count; i++)
        cay_build_file_unref(self->files[i]);
    cay_quotas_unclaim_base(self->claim);
    cay_base_keeping_unclaim(&self->keeping);
    cay_arena_finish(&self->arena);
    free(self);
}

static void destroyed(void *context, const void *, const struct cay_error *)
{
    struct cay_steps *self = context;
    struct cay_call *call = self->call;
    struct cay_error err = self->err;
    bool is_good = self->is_good;
    cay_host_collect_soon(self->host);
    if (is_good) {
        cay_bases_put(self->host, &self->keeping.spec);
        cay_bases_sweep(self->host);
        self->keeping.spec.aliases = self->request->aliases;
        self->keeping.spec.name = cay_base_shown(self->keeping.name, &self->arena);
        cay_log(CAY_INFO, "base.built", CAY_S("base", self->keeping.spec.name));
        cay_build_log_base(&self->log, &self->keeping.spec);
    }
    struct cay_host *host = self->host;
    steps_free(self);
    if (is_good)
        cay_call_done(call, NULL);
    else
        cay_call_fail(call, &err);
    cay_builds_leave(host);
}

void cay_steps_end(struct cay_steps *self)
{
    self->is_ending = true;
    const struct cay_caller caller = cay_chore_caller(&self->call->caller);
    struct cay_chore *chore =
        cay_chore_new(self->host, CAY_V1_SANDBOX_SERVICE_DESTROY_SESSION, &caller);
    struct cay_v1_destroy_session_request *ask = cay_errand_message(&chore->errand);
    ask->session_id = cay_arena_str(&chore->errand.call.arena, cay_str(self->session_id));
    ask->missing_ok = true;
    cay_chore_start(chore, destroyed, self);
}

static void keep_work(struct cay_job *job)
{
    struct cay_steps *self = CAY_CONTAINER_OF(job, struct cay_steps, job);
    struct cay_store_base_draft draft;
    const struct cay_store_ref ref = {.session = self->store_id};
    (void)cay_stop_watch(&self->call->is_cancelled);
    cay_stop_watch_also(&self->host->is_ending);
    self->is_good = cay_base_keeping_measure(&self->keeping, &ref, &self->err) &&
                    cay_store_base_begin_from(self->host->store, &ref, &draft, &self->err) &&
                    cay_base_keeping_run(&self->keeping, &draft, &self->err);
    (void)cay_stop_watch(NULL);
    if (self->is_good && !cay_base_keeping_confirm(&self->keeping, &self->err)) {
        self->is_good = false;
        cay_base_keeping_take_back(&self->keeping);
    }
}

/* The session goes when the base is made, and so does what that replaces. */
static void claim_disk(struct cay_steps *self, const struct cay_session *session)
{
    const struct cay_v1_resource_limits *limits = session->spec->limits;
    const struct cay_v1_base *old =
        self->keeping.replaces ? cay_bases_record(self->host, self->keeping.name) : NULL;
    int64_t makes_way =
        limits && limits->has_disk_bytes ? CAY_MIN(limits->disk_bytes, (int64_t)1 << 60) : 0;
    if (old && cay_str_is(old->owner, self->call->caller.owner))
        makes_way += cay_base_own_bytes(old);
    cay_base_keeping_claim(&self->keeping, &self->call->caller, session, makes_way);
}

static void keep_done(struct cay_job *job)
{
    cay_steps_end(CAY_CONTAINER_OF(job, struct cay_steps, job));
}

/* What sessions of the new base start with: the old base's, the steps', the request's. */
static bool settle_settings(struct cay_steps *self, struct cay_error *err)
{
    const struct cay_v1_base_settings *given = self->request->settings;
    struct cay_v1_base_settings *settings = &self->settings;
    if (given) {
        if (!cay_noun_merge(&self->arena, settings->env, given->env, &settings->env))
            return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
        settings->user = given->user.len ? given->user : settings->user;
        settings->cwd = given->cwd.len ? given->cwd : settings->cwd;
        if (given->start_command.count) {
            settings->start_command = given->start_command;
            settings->ready_command = given->ready_command;
        }
        settings->runtime = given->runtime.len ? given->runtime : settings->runtime;
        settings->limits = given->limits ? given->limits : settings->limits;
    }
    return cay_base_check_settings(self->host, settings, err);
}

static void stopped(void *context, const void *, const struct cay_error *err)
{
    struct cay_steps *self = context;
    const struct cay_session *session =
        cay_map_get(&self->host->sessions.by_id, cay_str(self->session_id));
    if (err)
        self->err = *err;
    else if (!session)
        cay_fail(&self->err, CAY_R_UNAVAILABLE, "the session of the build is gone");
    if (self->err.reason) {
        cay_steps_end(self);
        return;
    }
    memcpy(self->store_id, session->store_id, sizeof(self->store_id));
    claim_disk(self, session);
    self->is_ending = true;
    self->job.work = keep_work;
    self->job.done = keep_done;
    self->job.lane = &cay_account_of(self->host, self->call->caller.owner)->lane;
    cay_loop_submit(self->host->loop, &self->job);
}

static void finish(struct cay_steps *self)
{
    self->log.step = 0;
    cay_build_log_progress(&self->log, 0.95, "Finishing");
    if (!settle_settings(self, &self->err)) {
        cay_steps_end(self);
        return;
    }
    const struct cay_caller caller = cay_chore_caller(&self->call->caller);
    struct cay_chore *chore =
        cay_chore_new(self->host, CAY_V1_SANDBOX_SERVICE_PAUSE_SESSION, &caller);
    struct cay_v1_pause_session_request *ask = cay_errand_message(&chore->errand);
    ask->session_id = cay_arena_str(&chore->errand.call.arena, cay_str(self->session_id));
    ask->mode = CAY_V1_PAUSE_MODE_STOP;
    cay_chore_start(chore, stopped, self);
}

static void next_step(struct cay_steps *self);

void cay_step_failed(struct cay_steps *self, const char *why)
{
    char text[200];
    snprintf(text, sizeof(text), "%s", why); /* it may be in the error itself */
    cay_fail(&self->err, CAY_R_BUILD_STEP_FAILED, "step %zu of %zu: %s", self->at + 1,
             self->request->steps.count, text);
    cay_build_log_line(&self->log, "error", cay_str(text));
    cay_steps_end(self);
}

void cay_step_done(struct cay_steps *self)
{
    self->at++;
    next_step(self);
}

static void next_step(struct cay_steps *self)
{
    size_t count = self->request->steps.count;
    if (self->call->is_cancelled && !self->err.reason)
        cay_fail(&self->err, CAY_R_CANCELED, NULL);
    if (self->err.reason) {
        cay_steps_end(self);
        return;
    }
    if (self->at == count) {
        finish(self);
        return;
    }
    char text[200];
    const struct cay_step_kind *kind = cay_step_kind(step_of(self)->kind);
    struct cay_str first = cay_step_arg(self, 0);
    snprintf(text, sizeof(text), "%s %.*s", kind->name, (int)CAY_MIN(first.len, (size_t)120),
             first.ptr);
    text[strcspn(text, "\n")] = '\0';
    if (!cay_utf8_valid(cay_str(text)))
        snprintf(text, sizeof(text), "%s", kind->name);
    self->log.step = (int32_t)self->at + 1;
    cay_build_log_progress(&self->log, 0.05 + 0.9 * (double)self->at / (double)count, text);
    cay_build_log_line(&self->log, "info", cay_str(text));
    kind->run(self);
}

static void created(void *context, const void *, const struct cay_error *err)
{
    struct cay_steps *self = context;
    if (err)
        self->err = *err;
    next_step(self);
}

static void create(struct cay_steps *self)
{
    const struct cay_caller caller = cay_chore_caller(&self->call->caller);
    struct cay_chore *chore =
        cay_chore_new(self->host, CAY_V1_SANDBOX_SERVICE_CREATE_SESSION, &caller);
    struct cay_v1_create_session_request *ask = cay_errand_message(&chore->errand);
    ask->session_id = cay_arena_str(&chore->errand.call.arena, cay_str(self->session_id));
    ask->base = self->request->from_base;
    ask->limits = self->request->limits;
    ask->network = self->request->network;
    ask->default_user = CAY_STR("root");
    ask->default_cwd = CAY_STR("/");
    cay_chore_start(chore, created, self);
}

/* Ends the command that runs; what else is under way ends soon, and then sees why. */
static void give_up(struct cay_steps *self)
{
    cay_stop_ask(&self->is_given_up);
    if (self->running)
        cay_errand_cancel(&self->running->errand);
}

static void on_tick(struct cay_timer *timer)
{
    struct cay_steps *self = CAY_CONTAINER_OF(timer, struct cay_steps, timer);
    if (self->is_run_over) {
        cay_step_after_run(self);
        return;
    }
    if (self->is_ending || self->err.reason)
        return;
    if (cay_loop_now_ms(self->host->loop) > self->until_ms)
        cay_fail(&self->err, CAY_R_DEADLINE_EXCEEDED, "the build took too long");
    else if (__atomic_load_n(&self->host->is_ending, __ATOMIC_RELAXED))
        cay_fail(&self->err, CAY_R_UNAVAILABLE, NULL);
    else if (self->call->is_cancelled)
        cay_fail(&self->err, CAY_R_CANCELED, NULL);
    if (self->err.reason)
        give_up(self);
    else
        cay_build_log_tick(&self->log);
}

static void on_room(struct cay_call *call)
{
    struct cay_steps *self = call->state;
    self->log.is_full = false;
    if (self->running && !self->log.is_sending)
        cay_errand_room(&self->running->errand);
}

static void on_cancel(struct cay_call *call)
{
    struct cay_steps *self = call->state;
    if (self->log.is_sending || self->is_ending || self->err.reason)
        return; /* the timer will see */
    cay_fail(&self->err, CAY_R_CANCELED, NULL);
    give_up(self);
}

static bool check_step(struct cay_steps *self, const struct cay_v1_build_step *step, size_t at,
                       struct cay_error *err)
{
    const struct cay_step_kind *kind = cay_step_kind(step->kind);
    if (!kind)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "steps: step %zu does not say what to do; its kind is unset", at + 1);
    if (step->args.count < kind->args_min || step->args.count > kind->args_max ||
        !step->args.items[0].len)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "steps: step %zu: %s takes %zu to %zu words",
                        at + 1, kind->name, kind->args_min, kind->args_max);
    if (step->kind == CAY_V1_BUILD_STEP_KIND_ENV && step->args.count % 2)
        return cay_fail(
            err, CAY_R_INVALID_ARGUMENT,
            "steps: step %zu: ENV takes pairs, each a name and then its value; a value is missing",
            at + 1);
    if (step->kind == CAY_V1_BUILD_STEP_KIND_RUN &&
        !cay_runtime_can(cay_runtimes_default(&self->host->runtimes), CAY_RUNTIME_ISOLATES))
        return cay_fail(err, CAY_R_NOT_SUPPORTED,
                        "steps: step %zu: RUN would change this machine instead of the base, "
                        "because the runtime '%s' isolates nothing; build with another runtime, "
                        "and import the base here",
                        at + 1, cay_runtime_name(cay_runtimes_default(&self->host->runtimes)));
    if (step->files.len && step->kind != CAY_V1_BUILD_STEP_KIND_COPY)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "steps: step %zu: only COPY takes files",
                        at + 1);
    if (step->kind == CAY_V1_BUILD_STEP_KIND_COPY && !self->request->context.len &&
        !step->files.len)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "context: it is missing, and step %zu copies from it", at + 1);
    if (step->files.len) {
        self->files[at] =
            cay_build_files_ref(self->host->build_files, self->call->caller.owner, step->files);
        if (!self->files[at])
            return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                            "steps: step %zu: the daemon does not have its files, or no longer; "
                            "send them with PutBuildFiles first",
                            at + 1);
    }
    if (step->kind == CAY_V1_BUILD_STEP_KIND_USER && !cay_check_user(step->args.items[0], err))
        return cay_wrap(err, "steps: step %zu", at + 1);
    return true;
}

/* What the caller may build on and call a base. */
static bool check_rights(struct cay_steps *self, struct cay_error *err)
{
    const struct cay_v1_build_base_request *request = self->request;
    const struct cay_caller *caller = &self->call->caller;
    const struct cay_v1_base *there = cay_bases_record(self->host, self->keeping.name);
    struct cay_base_found from;
    if (!cay_bases_look_up(self->host, caller, request->from_base, &from, err))
        return false;
    for (size_t i = 0; i < request->aliases.count; i++) {
        if (!cay_base_check_owns_alias(caller, request->aliases.items[i], err))
            return false;
    }
    /* Somebody else's makes no way, also when it comes to be meanwhile. */
    self->keeping.replaces =
        request->replace &&
        (caller->role == CAY_ROLE_ADMIN || (there && cay_str_is(there->owner, caller->owner)));
    return self->keeping.replaces ||
           (cay_base_check_free(self->host->store, self->keeping.name, err) &&
            cay_quotas_claim_base(self->host, caller, &self->claim, err));
}

static bool check_rest(struct cay_steps *self, struct cay_error *err)
{
    const struct cay_v1_build_base_request *request = self->request;
    const struct cay_command_line shell = {.argv = request->shell};
    struct cay_v1_resource_limits ignored;
    if (request->goes_with_aliases && !request->aliases.count)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "goes_with_aliases: it needs aliases, which are missing");
    return cay_base_check_name(self->host, &self->call->caller, request->name, "name",
                               self->keeping.name, err) &&
           cay_base_check_aliases(request->aliases, &self->call->arena, &self->keeping.aliases,
                                  err) &&
           cay_check_labels(request->labels, err) &&
           cay_check_limits(request->limits, &self->host->default_limits, &ignored, err) &&
           cay_base_check_settings(self->host, request->settings, err) &&
           (!shell.argv.count || cay_command_check(&shell, err)) &&
           cay_check_user(request->user, err) && cay_check_cwd(request->cwd, err) &&
           check_rights(self, err);
}

static bool check(struct cay_steps *self, struct cay_error *err)
{
    const struct cay_v1_build_base_request *request = self->request;
    if (request->context_base.len)
        return cay_fail(err, CAY_R_NOT_SUPPORTED, "this version cannot build from context_base");
    if (request->context.len > CAY_BUILD_CONTEXT_BYTES_MAX)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "context: %d MiB at most",
                        CAY_BUILD_CONTEXT_BYTES_MAX >> 20);
    if (request->steps.count > STEPS_MAX)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "steps: %d at most", STEPS_MAX);
    self->files =
        cay_arena_array(&self->arena, request->steps.count, sizeof(struct cay_build_file *));
    if (!self->files)
        return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    for (size_t i = 0; i < request->steps.count; i++) {
        if (!check_step(self, &request->steps.items[i], i, err))
            return false;
    }
    return check_rest(self, err);
}

/* What the old base says, for the time after it. */
static bool begin(struct cay_steps *self, struct cay_error *err)
{
    const struct cay_v1_build_base_request *request = self->request;
    struct cay_base_keeping *keeping = &self->keeping;
    struct cay_base_found from;
    if (!cay_bases_look_up(self->host, &self->call->caller, request->from_base, &from, err))
        return false;
    const struct cay_v1_base *base = from.record;
    keeping->host = self->host;
    keeping->arena = &self->arena;
    keeping->alias_count = request->aliases.count;
    keeping->skips_digest = !base || !base->digest.len; /* the machine's own is not read again */
    if (base && base->settings) {
        const struct cay_v1_base_settings *copy =
            cay_noun_copy(&cay_v1_base_settings_desc, base->settings, &self->arena);
        if (!copy)
            return cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
        self->settings = *copy;
    }
    keeping->spec = (struct cay_v1_base){
        .origin = CAY_V1_BASE_ORIGIN_BUILT,
        .source = cay_arena_str(&self->arena, request->from_base),
        .settings = &self->settings,
        .labels = request->labels,
        .goes_with_aliases = request->goes_with_aliases,
        .architecture = base ? cay_arena_str(&self->arena, base->architecture) : (struct cay_str){},
    };
    if (self->call->caller.role != CAY_ROLE_ADMIN)
        keeping->spec.owner = cay_arena_str(&self->arena, cay_str(self->call->caller.owner));
    if (request->cwd.len)
        self->settings.cwd = request->cwd;
    if (request->user.len)
        self->settings.user = request->user;
    self->cwd = self->settings.cwd.len ? self->settings.cwd : CAY_STR("/");
    self->user = request->user.len ? request->user : CAY_STR("root");
    cay_id_make(self->session_id, sizeof(self->session_id), "build");
    return true;
}

void cay_build_by_steps(struct cay_host *host, struct cay_call *call,
                        const struct cay_v1_build_base_request *request)
{
    struct cay_steps *self = cay_new(struct cay_steps);
    self->call = call;
    self->host = host;
    self->request = request;
    cay_arena_init(&self->arena, ARENA_BYTES_MAX);
    cay_build_log_init(&self->log, call, host->loop);
    if (!check(self, &self->err) || !begin(self, &self->err)) {
        struct cay_error err = self->err;
        steps_free(self);
        cay_call_fail(call, &err);
        return;
    }
    int64_t timeout_ms = cay_noun_duration_ms(self->request->timeout);
    self->until_ms =
        cay_loop_now_ms(host->loop) + (uint64_t)(timeout_ms > 0 ? timeout_ms : TIMEOUT_DEFAULT_MS);
    self->log.steps = (int32_t)self->request->steps.count;
    self->log.seen = cay_step_take_line;
    self->log.context = self;
    cay_timer_open(&self->timer, host->loop, on_tick);
    cay_timer_start(&self->timer, CAY_BUILD_CHECK_MS, CAY_BUILD_CHECK_MS);
    call->state = self;
    call->on_cancel = on_cancel;
    call->on_room = on_room;
    cay_builds_enter(host);
    cay_host_endless(host, call);
    cay_build_log_progress(&self->log, 0.01, "Making a session");
    create(self);
}

struct cay_str cay_build_path(struct cay_arena *arena, struct cay_str cwd, struct cay_str path)
{
    if (cay_str_starts(path, "/"))
        return path;
    const char *text = cay_arena_printf(arena, "%.*s%s%.*s", (int)cwd.len, cwd.ptr,
                                        cwd.len && cwd.ptr[cwd.len - 1] == '/' ? "" : "/",
                                        (int)path.len, path.ptr);
    return text ? cay_str(text) : (struct cay_str){};
}
