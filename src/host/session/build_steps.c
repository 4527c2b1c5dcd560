/* SPDX-License-Identifier: Apache-2.0 */
#include "host/session/build_steps.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/noun.h"
#include "base/id.h"
#include "base/log.h"
#include "base/utf8.h"
#include "host/session/base_keep.h"
#include "host/session/base_record.h"
#include "host/session/build_copy.h"
#include "host/session/build_log.h"
#include "host/session/errand.h"
#include "host/session/host.h"
#include "host/session/op.h"
#include "host/session/request.h"
#include "host/session/tree.h"

/*
 * The steps run in a session of their own, one errand after the other: create, the steps, stop.
 * What it is then becomes the base, and the session is destroyed, however it went. A daemon that
 * dies finds it by its label.
 */

enum {
    STEPS_MAX = 1000,
    TIMEOUT_DEFAULT_MS = 60 * 60 * 1000,
    CHECK_MS = 1000,
    TAIL_BYTES = 100,
    ARENA_BYTES_MAX = 32 << 20,
};

struct steps {
    struct cay_call *call;
    struct cay_host *host;
    const struct cay_v1_build_base_request *request;
    struct cay_build_log log;
    struct cay_base_keeping keeping;
    struct cay_arena arena;
    struct cay_job job;
    struct cay_op op; /* of a COPY */
    struct cay_build_copy copy;
    struct cay_timer timer;
    uint64_t until_ms;
    char session_id[64];
    char store_id[CAY_STORE_ID_SIZE];
    size_t at; /* step being done */
    struct cay_v1_base_settings settings;
    struct cay_str cwd;
    struct cay_str user;
    struct cay_errand *running; /* a command, which can be cancelled */
    char tail[TAIL_BYTES + 1];  /* the last line it said */
    int exit_code;              /* -1: not known */
    struct cay_error run_err;
    bool is_run_over;
    bool is_ending;
    bool is_good;
    struct cay_error err;
};

bool cay_build_is_label(struct cay_pb_pairs labels)
{
    for (size_t i = 0; i < labels.count; i++) {
        if (cay_str_is(labels.items[i].key, CAY_BUILD_LABEL))
            return true;
    }
    return false;
}

struct cay_pb_pairs cay_build_labels(void)
{
    static struct cay_pb_pair label = {{CAY_BUILD_LABEL, sizeof(CAY_BUILD_LABEL) - 1}, {"1", 1}};
    return (struct cay_pb_pairs){&label, 1};
}

static const struct cay_v1_build_step *step_of(const struct steps *self)
{
    return &self->request->steps.items[self->at];
}

static struct cay_str arg(const struct steps *self, size_t at)
{
    struct cay_pb_strs args = step_of(self)->args;
    return at < args.count ? args.items[at] : (struct cay_str){};
}

static void steps_free(struct steps *self)
{
    cay_timer_close(&self->timer);
    cay_arena_finish(&self->arena);
    free(self);
}

static void destroyed(struct cay_errand *, void *context, const void *, const struct cay_error *)
{
    struct steps *self = context;
    struct cay_call *call = self->call;
    struct cay_error err = self->err;
    bool is_good = self->is_good;
    cay_host_collect_soon(self->host);
    if (is_good) {
        cay_bases_put(self->host, &self->keeping.spec);
        cay_log(CAY_INFO, "base.built", CAY_S("base", self->keeping.name));
        self->keeping.spec.aliases = self->request->aliases;
        cay_build_log_base(&self->log, &self->keeping.spec);
    }
    steps_free(self);
    if (is_good)
        cay_call_done(call, NULL);
    else
        cay_call_fail(call, &err);
}

static void end(struct steps *self)
{
    self->is_ending = true;
    struct cay_errand *errand = cay_errand_new(self->host, CAY_V1_SANDBOX_SERVICE_DESTROY_SESSION,
                                               self->call->caller.owner);
    struct cay_v1_destroy_session_request *ask = cay_errand_message(errand);
    ask->session_id = cay_arena_str(&errand->call.arena, cay_str(self->session_id));
    ask->missing_ok = true;
    cay_errand_start(errand, destroyed, self);
}

static void keep_work(struct cay_job *job)
{
    struct steps *self = CAY_CONTAINER_OF(job, struct steps, job);
    struct cay_store_base_draft draft;
    const struct cay_store_ref ref = {.session = self->store_id};
    self->is_good = cay_store_base_begin_from(self->host->store, &ref, &draft, &self->err) &&
                    cay_base_keeping_run(&self->keeping, &draft, &self->err);
    if (self->is_good && !cay_base_keeping_confirm(&self->keeping, &self->err)) {
        self->is_good = false;
        cay_base_keeping_take_back(&self->keeping);
    }
}

static void keep_done(struct cay_job *job)
{
    end(CAY_CONTAINER_OF(job, struct steps, job));
}

/* What sessions of the new base start with: the old base's, the steps', the request's. */
static bool settle_settings(struct steps *self, struct cay_error *err)
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
        settings->limits = given->limits ? given->limits : settings->limits;
    }
    return cay_base_check_settings(self->host, settings, err);
}

static void stopped(struct cay_errand *, void *context, const void *, const struct cay_error *err)
{
    struct steps *self = context;
    const struct cay_session *session =
        cay_map_get(&self->host->sessions.by_id, cay_str(self->session_id));
    if (err)
        self->err = *err;
    else if (!session)
        cay_fail(&self->err, CAY_R_UNAVAILABLE, "the session of the build is gone");
    if (self->err.reason) {
        end(self);
        return;
    }
    memcpy(self->store_id, session->store_id, sizeof(self->store_id));
    self->is_ending = true;
    self->job.work = keep_work;
    self->job.done = keep_done;
    cay_loop_submit(self->host->loop, &self->job);
}

static void finish(struct steps *self)
{
    self->log.step = 0;
    cay_build_log_progress(&self->log, 0.95, "Finishing");
    if (!settle_settings(self, &self->err)) {
        end(self);
        return;
    }
    struct cay_errand *errand =
        cay_errand_new(self->host, CAY_V1_SANDBOX_SERVICE_PAUSE_SESSION, self->call->caller.owner);
    struct cay_v1_pause_session_request *ask = cay_errand_message(errand);
    ask->session_id = cay_arena_str(&errand->call.arena, cay_str(self->session_id));
    ask->mode = CAY_V1_PAUSE_MODE_STOP;
    cay_errand_start(errand, stopped, self);
}

static void next_step(struct steps *self);

static void step_failed(struct steps *self, const char *why)
{
    char text[200];
    snprintf(text, sizeof(text), "%s", why); /* it may be in the error itself */
    cay_fail(&self->err, CAY_R_BUILD_STEP_FAILED, "step %zu of %zu: %s", self->at + 1,
             self->request->steps.count, text);
    cay_build_log_line(&self->log, "error", cay_str(text));
    end(self);
}

static void step_done(struct steps *self)
{
    self->at++;
    next_step(self);
}

/* --- RUN --- */

static void take_line(void *context, struct cay_str line)
{
    struct steps *self = context;
    snprintf(self->tail, sizeof(self->tail), "%.*s", (int)CAY_MIN(line.len, (size_t)TAIL_BYTES),
             line.ptr);
    if (!cay_utf8_valid(cay_str(self->tail)))
        self->tail[0] = '\0'; /* cut within a character */
    cay_build_log_line(&self->log, "info", line);
}

static bool take_frame(void *context, const void *message)
{
    struct steps *self = context;
    const struct cay_v1_attach_process_response *frame = message;
    if (frame->which_frame == CAY_V1_ATTACH_PROCESS_RESPONSE_FRAME_OUTPUT)
        cay_build_log_bytes(&self->log, frame->frame.output->data);
    else if (frame->which_frame == CAY_V1_ATTACH_PROCESS_RESPONSE_FRAME_EXITED &&
             frame->frame.exited->result && frame->frame.exited->result->has_exit_code)
        self->exit_code = frame->frame.exited->result->exit_code;
    return !self->log.is_full;
}

static void after_run(struct steps *self)
{
    char text[200];
    self->is_run_over = false;
    cay_build_log_flush(&self->log);
    if (self->err.reason) {
        end(self); /* cancelled, or out of time */
    } else if (self->run_err.reason) {
        step_failed(self, self->run_err.text);
    } else if (self->exit_code != 0) {
        snprintf(text, sizeof(text), "the command ended with status %d%s%s", self->exit_code,
                 self->tail[0] ? ": " : "", self->tail);
        step_failed(self, text);
    } else {
        step_done(self);
    }
}

/* By the timer: this may be inside of what the sandbox says, which may have to go. */
static void ran(struct cay_errand *, void *context, const void *, const struct cay_error *err)
{
    struct steps *self = context;
    self->running = NULL;
    self->run_err = err ? *err : (struct cay_error){};
    self->is_run_over = true;
    cay_timer_start(&self->timer, 0, CHECK_MS);
}

static void do_run(struct steps *self)
{
    struct cay_errand *errand =
        cay_errand_new(self->host, CAY_V1_PROCESS_SERVICE_ATTACH_PROCESS, self->call->caller.owner);
    struct cay_v1_attach_process_request *ask = cay_errand_message(errand);
    struct cay_v1_process_spec *spec =
        cay_arena_new(&errand->call.arena, struct cay_v1_process_spec);
    struct cay_v1_exec_policy *policy =
        cay_arena_new(&errand->call.arena, struct cay_v1_exec_policy);
    struct cay_str *argv = cay_arena_array(&errand->call.arena, 3, sizeof(struct cay_str));
    if (spec && policy && argv) {
        argv[0] = CAY_STR("/bin/sh");
        argv[1] = CAY_STR("-c");
        argv[2] = arg(self, 0);
        policy->kill_on_disconnect = true;
        policy->leftovers = CAY_V1_LEFTOVER_POLICY_KILL;
        spec->argv = (struct cay_pb_strs){argv, 3};
        spec->env = self->settings.env;
        spec->cwd = self->cwd;
        spec->user = arg(self, 1).len ? arg(self, 1) : self->user;
        spec->policy = policy;
    }
    ask->session_id = cay_arena_str(&errand->call.arena, cay_str(self->session_id));
    ask->which_target = CAY_V1_ATTACH_PROCESS_REQUEST_TARGET_LAUNCH;
    ask->target.launch = spec;
    errand->on_message = take_frame;
    self->running = errand;
    self->exit_code = -1;
    self->tail[0] = '\0';
    cay_errand_start(errand, ran, self);
}

/* --- COPY --- */

static bool copy_begin(struct cay_op *op, struct cay_error *err)
{
    struct steps *self = CAY_CONTAINER_OF(op, struct steps, op);
    const struct cay_session *session = op->session;
    if (session->root_fd < 0)
        return cay_fail(err, CAY_R_UNAVAILABLE, "the session of the build is gone");
    self->copy = (struct cay_build_copy){
        .tree = {.root_fd = session->root_fd, .id_base = cay_session_uid_base(session->uid_slot)},
        .context = self->request->context,
        .source = arg(self, 0),
        .destination = cay_build_path(&self->arena, self->cwd, arg(self, 1)),
        .owner = arg(self, 2),
        .mode = arg(self, 3),
    };
    return self->copy.destination.len || cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
}

static bool copy_work(struct cay_op *op, struct cay_error *err)
{
    struct steps *self = CAY_CONTAINER_OF(op, struct steps, op);
    return cay_build_copy(&self->copy, err);
}

static void op_end(struct cay_op *op)
{
    struct steps *self = CAY_CONTAINER_OF(op, struct steps, op);
    bool is_good = op->is_done;
    struct cay_error err = op->err;
    cay_op_leave(op);
    if (self->err.reason)
        end(self);
    else if (!is_good)
        step_failed(self, err.text);
    else
        step_done(self);
}

static const struct cay_op_steps copy_steps = {
    .begin = copy_begin, .work = copy_work, .end = op_end};

static void do_copy(struct steps *self)
{
    self->op = (struct cay_op){};
    cay_op_start(&self->op, self->host, self->call, cay_str(self->session_id), CAY_VERB_TOOL, true,
                 &copy_steps);
}

/* --- ENV, WORKDIR, USER --- */

static void do_env(struct steps *self)
{
    struct cay_pb_strs args = step_of(self)->args;
    struct cay_pb_pairs added = {
        .items = cay_arena_array(&self->arena, args.count / 2, sizeof(struct cay_pb_pair))};
    for (size_t i = 0; added.items && i + 1 < args.count; i += 2)
        added.items[added.count++] = (struct cay_pb_pair){args.items[i], args.items[i + 1]};
    if (!added.items ||
        !cay_noun_merge(&self->arena, self->settings.env, added, &self->settings.env))
        cay_fail(&self->err, CAY_R_MESSAGE_TOO_LARGE, NULL);
    else
        (void)cay_check_env(self->settings.env, &self->err);
    if (self->err.reason)
        step_failed(self, self->err.text);
    else
        step_done(self);
}

static bool workdir_begin(struct cay_op *op, struct cay_error *err)
{
    struct steps *self = CAY_CONTAINER_OF(op, struct steps, op);
    const struct cay_session *session = op->session;
    self->cwd = self->settings.cwd = cay_build_path(&self->arena, self->cwd, arg(self, 0));
    self->copy.tree = (struct cay_tool_tree){.root_fd = session->root_fd,
                                             .id_base = cay_session_uid_base(session->uid_slot)};
    return self->cwd.len ? cay_check_cwd(self->cwd, err)
                         : cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
}

static bool workdir_work(struct cay_op *op, struct cay_error *)
{
    struct steps *self = CAY_CONTAINER_OF(op, struct steps, op);
    cay_session_make_cwd(self->copy.tree.root_fd, self->copy.tree.id_base, self->user, self->cwd);
    return true;
}

static void do_workdir(struct steps *self)
{
    static const struct cay_op_steps workdir_steps = {
        .begin = workdir_begin, .work = workdir_work, .end = op_end};
    self->op = (struct cay_op){};
    cay_op_start(&self->op, self->host, self->call, cay_str(self->session_id), CAY_VERB_TOOL, true,
                 &workdir_steps);
}

static void do_user(struct steps *self)
{
    self->user = self->settings.user = arg(self, 0);
    step_done(self);
}

static const struct {
    const char *name;
    size_t args_min, args_max;
    void (*run)(struct steps *self);
} kinds[] = {
    [CAY_V1_BUILD_STEP_KIND_RUN] = {"RUN", 1, 2, do_run},
    [CAY_V1_BUILD_STEP_KIND_COPY] = {"COPY", 2, 4, do_copy},
    [CAY_V1_BUILD_STEP_KIND_ENV] = {"ENV", 2, 2000, do_env},
    [CAY_V1_BUILD_STEP_KIND_WORKDIR] = {"WORKDIR", 1, 1, do_workdir},
    [CAY_V1_BUILD_STEP_KIND_USER] = {"USER", 1, 1, do_user},
};

static void next_step(struct steps *self)
{
    size_t count = self->request->steps.count;
    if (self->call->is_cancelled && !self->err.reason)
        cay_fail(&self->err, CAY_R_CANCELED, NULL);
    if (self->err.reason) {
        end(self);
        return;
    }
    if (self->at == count) {
        finish(self);
        return;
    }
    char text[200];
    struct cay_str first = arg(self, 0);
    snprintf(text, sizeof(text), "%s %.*s", kinds[step_of(self)->kind].name,
             (int)CAY_MIN(first.len, (size_t)120), first.ptr);
    text[strcspn(text, "\n")] = '\0';
    if (!cay_utf8_valid(cay_str(text)))
        snprintf(text, sizeof(text), "%s", kinds[step_of(self)->kind].name);
    self->log.step = (int32_t)self->at + 1;
    cay_build_log_progress(&self->log, 0.05 + 0.9 * (double)self->at / (double)count, text);
    cay_build_log_line(&self->log, "info", cay_str(text));
    kinds[step_of(self)->kind].run(self);
}

static void created(struct cay_errand *, void *context, const void *, const struct cay_error *err)
{
    struct steps *self = context;
    if (err)
        self->err = *err;
    next_step(self);
}

static void create(struct steps *self)
{
    struct cay_errand *errand =
        cay_errand_new(self->host, CAY_V1_SANDBOX_SERVICE_CREATE_SESSION, self->call->caller.owner);
    struct cay_v1_create_session_request *ask = cay_errand_message(errand);
    ask->session_id = cay_arena_str(&errand->call.arena, cay_str(self->session_id));
    ask->base = self->request->from_base;
    ask->limits = self->request->limits;
    ask->default_user = CAY_STR("root");
    ask->default_cwd = CAY_STR("/");
    cay_errand_start(errand, created, self);
}

/* Ends the command that runs; what else is under way ends soon, and then sees why. */
static void give_up(struct steps *self)
{
    if (self->running)
        cay_errand_cancel(self->running);
}

static void on_tick(struct cay_timer *timer)
{
    struct steps *self = CAY_CONTAINER_OF(timer, struct steps, timer);
    if (self->is_run_over) {
        after_run(self);
        return;
    }
    if (self->is_ending || self->err.reason)
        return;
    if (cay_loop_now_ms(self->host->loop) > self->until_ms)
        cay_fail(&self->err, CAY_R_DEADLINE_EXCEEDED, "the build took too long");
    else if (atomic_load(&self->host->is_stopping))
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
    struct steps *self = call->state;
    self->log.is_full = false;
    if (self->running && !self->log.is_sending)
        cay_errand_room(self->running);
}

static void on_cancel(struct cay_call *call)
{
    struct steps *self = call->state;
    if (self->log.is_sending || self->is_ending || self->err.reason)
        return; /* the timer will see */
    cay_fail(&self->err, CAY_R_CANCELED, NULL);
    give_up(self);
}

static bool check_step(const struct steps *self, const struct cay_v1_build_step *step, size_t at,
                       struct cay_error *err)
{
    if (step->kind <= 0 || (size_t)step->kind >= CAY_COUNT(kinds) || !kinds[step->kind].run)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "steps: step %zu is of no kind", at + 1);
    const char *name = kinds[step->kind].name;
    if (step->args.count < kinds[step->kind].args_min ||
        step->args.count > kinds[step->kind].args_max || !step->args.items[0].len)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "steps: step %zu: %s takes %zu to %zu words",
                        at + 1, name, kinds[step->kind].args_min, kinds[step->kind].args_max);
    if (step->kind == CAY_V1_BUILD_STEP_KIND_ENV && step->args.count % 2)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "steps: step %zu: ENV takes names and values by turns", at + 1);
    if (step->kind == CAY_V1_BUILD_STEP_KIND_COPY && !self->request->context.len)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "context: step %zu copies from it", at + 1);
    if (step->kind == CAY_V1_BUILD_STEP_KIND_USER && !cay_check_user(step->args.items[0], err))
        return cay_wrap(err, "steps: step %zu", at + 1);
    return true;
}

static bool check(struct steps *self, struct cay_error *err)
{
    const struct cay_v1_build_base_request *request = self->request;
    struct cay_v1_resource_limits ignored;
    if (request->context_base.len)
        return cay_fail(err, CAY_R_NOT_SUPPORTED, "context_base: not available in this version");
    if (request->context.len > CAY_BUILD_CONTEXT_BYTES_MAX)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "context: %d MiB at most",
                        CAY_BUILD_CONTEXT_BYTES_MAX >> 20);
    if (request->steps.count > STEPS_MAX)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "steps: %d at most", STEPS_MAX);
    for (size_t i = 0; i < request->steps.count; i++) {
        if (!check_step(self, &request->steps.items[i], i, err))
            return false;
    }
    return cay_base_check_name(request->name, "name", self->keeping.name, err) &&
           cay_base_check_aliases(request->aliases, &self->call->arena, &self->keeping.aliases,
                                  err) &&
           cay_check_labels(request->labels, err) &&
           cay_check_limits(request->limits, &self->host->default_limits, &ignored, err) &&
           cay_base_check_settings(self->host, request->settings, err) &&
           (request->replace || cay_base_check_free(self->host->store, self->keeping.name, err));
}

/* What the old base says, for the time after it. */
static bool begin(struct steps *self, struct cay_error *err)
{
    const struct cay_v1_build_base_request *request = self->request;
    const struct cay_v1_base *base = cay_bases_find(self->host, request->from_base);
    struct cay_base_keeping *keeping = &self->keeping;
    keeping->host = self->host;
    keeping->arena = &self->arena;
    keeping->alias_count = request->aliases.count;
    keeping->replaces = request->replace;
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
        .architecture = base ? cay_arena_str(&self->arena, base->architecture) : (struct cay_str){},
    };
    self->cwd = self->settings.cwd.len ? self->settings.cwd : CAY_STR("/");
    self->user = CAY_STR("root");
    cay_id_make(self->session_id, sizeof(self->session_id), "build");
    return true;
}

void cay_build_by_steps(struct cay_host *host, struct cay_call *call,
                        const struct cay_v1_build_base_request *request)
{
    struct steps *self = cay_new(struct steps);
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
    self->log.seen = take_line;
    self->log.context = self;
    cay_timer_open(&self->timer, host->loop, on_tick);
    cay_timer_start(&self->timer, CHECK_MS, CHECK_MS);
    call->state = self;
    call->on_cancel = on_cancel;
    call->on_room = on_room;
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
