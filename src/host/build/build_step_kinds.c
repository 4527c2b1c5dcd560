/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "api/noun.h"
#include "base/stop.h"
#include "base/utf8.h"
#include "host/build/build_files.h"
#include "host/build/build_steps_internal.h"
#include "host/file/tree.h"
#include "host/life/cwd.h"
#include "host/runtime/runtime.h"
#include "host/session/chore.h"
#include "host/session/host.h"
#include "host/session/request.h"

/* What the steps of a build do. */

struct cay_str cay_step_arg(const struct cay_steps *self, size_t at)
{
    struct cay_pb_strs args = self->request->steps.items[self->at].args;
    return at < args.count ? args.items[at] : (struct cay_str){};
}

/* --- RUN --- */

void cay_step_take_line(void *context, struct cay_str line)
{
    struct cay_steps *self = context;
    snprintf(self->tail, sizeof(self->tail), "%.*s",
             (int)CAY_MIN(line.len, (size_t)CAY_BUILD_TAIL_BYTES), line.ptr);
    if (!cay_utf8_valid(cay_str(self->tail)))
        self->tail[0] = '\0'; /* cut within a character */
    cay_build_log_line(&self->log, "info", line);
}

static bool take_frame(void *context, const void *message)
{
    struct cay_steps *self = context;
    const struct cay_v1_attach_process_response *frame = message;
    if (frame->which_frame == CAY_V1_ATTACH_PROCESS_RESPONSE_FRAME_OUTPUT)
        cay_build_log_bytes(&self->log, frame->frame.output->data);
    else if (frame->which_frame == CAY_V1_ATTACH_PROCESS_RESPONSE_FRAME_EXITED &&
             frame->frame.exited->result && frame->frame.exited->result->has_exit_code)
        self->exit_code = frame->frame.exited->result->exit_code;
    return !self->log.is_full;
}

void cay_step_after_run(struct cay_steps *self)
{
    char text[200];
    self->is_run_over = false;
    cay_build_log_flush(&self->log);
    if (self->err.reason) {
        cay_steps_end(self); /* cancelled, or out of time */
    } else if (self->run_err.reason) {
        cay_step_failed(self, self->run_err.text);
    } else if (self->exit_code != 0) {
        snprintf(text, sizeof(text), "the command ended with status %d%s%s", self->exit_code,
                 self->tail[0] ? ": " : "", self->tail);
        cay_step_failed(self, text);
    } else {
        cay_step_done(self);
    }
}

/* By the timer: this may be inside of what the sandbox says, which may have to go. */
static void ran(void *context, const void *, const struct cay_error *err)
{
    struct cay_steps *self = context;
    self->running = NULL;
    self->run_err = err ? *err : (struct cay_error){};
    self->is_run_over = true;
    cay_timer_start(&self->timer, 0, CAY_BUILD_CHECK_MS);
}

static struct cay_str plain_shell[] = {{"/bin/sh", 7}, {"-c", 2}};

static void do_run(struct cay_steps *self)
{
    const struct cay_caller caller = cay_chore_caller(&self->call->caller);
    struct cay_chore *chore =
        cay_chore_new(self->host, CAY_V1_PROCESS_SERVICE_ATTACH_PROCESS, &caller);
    struct cay_v1_attach_process_request *ask = cay_errand_message(&chore->errand);
    struct cay_v1_process_spec *spec =
        cay_arena_new(&chore->errand.call.arena, struct cay_v1_process_spec);
    struct cay_v1_exec_policy *policy =
        cay_arena_new(&chore->errand.call.arena, struct cay_v1_exec_policy);
    const struct cay_pb_strs shell =
        self->request->shell.count ? self->request->shell : (struct cay_pb_strs){plain_shell, 2};
    struct cay_str *argv =
        cay_arena_array(&chore->errand.call.arena, shell.count + 1, sizeof(struct cay_str));
    if (spec && policy && argv) {
        memcpy(argv, shell.items, shell.count * sizeof(*argv));
        argv[shell.count] = cay_step_arg(self, 0);
        policy->kill_on_disconnect = true;
        policy->leftovers = CAY_V1_LEFTOVER_POLICY_KILL;
        spec->argv = (struct cay_pb_strs){argv, shell.count + 1};
        spec->env = self->settings.env;
        spec->cwd = self->cwd;
        spec->user = cay_step_arg(self, 1).len ? cay_step_arg(self, 1) : self->user;
        spec->policy = policy;
    }
    ask->session_id = cay_arena_str(&chore->errand.call.arena, cay_str(self->session_id));
    ask->which_target = CAY_V1_ATTACH_PROCESS_REQUEST_TARGET_LAUNCH;
    ask->target.launch = spec;
    chore->on_message = take_frame;
    self->running = chore;
    self->exit_code = -1;
    self->tail[0] = '\0';
    cay_chore_start(chore, ran, self);
}

/* The caller has no place in the session: this is the build's own way in. */
static void start_op(struct cay_steps *self, const struct cay_op_steps *steps)
{
    struct cay_session *session =
        cay_map_get(&self->host->sessions.by_id, cay_str(self->session_id));
    self->op = (struct cay_op){.steps = steps, .host = self->host, .call = self->call};
    if (session) {
        cay_op_start_on(&self->op, session, self->call, CAY_VERB_TOOL, true, steps);
        return;
    }
    cay_fail(&self->op.err, CAY_R_UNAVAILABLE, "the session of the build is gone");
    steps->end(&self->op);
}

/* --- COPY --- */

static bool copy_begin(struct cay_op *op, struct cay_error *err)
{
    struct cay_steps *self = CAY_CONTAINER_OF(op, struct cay_steps, op);
    const struct cay_session *session = op->session;
    if (session->root_fd < 0)
        return cay_fail(err, CAY_R_UNAVAILABLE, "the session of the build is gone");
    cay_pointing_init(&self->pointing, session);
    /* What a step left running would see files half written, and could move them about. */
    if (!cay_runtime_can(session->runtime, CAY_RUNTIME_FREEZES))
        self->pointing.needs_freeze = false;
    self->copy = (struct cay_build_copy){
        .tree = {.root_fd = session->root_fd, .id_base = cay_session_uid_base(session)},
        .context = self->request->context,
        .files_fd = self->files[self->at] ? self->files[self->at]->passing.fd : -1,
        .source = cay_step_arg(self, 0),
        .destination = cay_build_path(&self->arena, self->cwd, cay_step_arg(self, 1)),
        .owner = cay_step_arg(self, 2),
        .mode = cay_step_arg(self, 3),
    };
    cay_quota_taker_init(&self->copy.taker, op->session);
    return self->copy.destination.len || cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
}

static bool copy_work(struct cay_op *op, struct cay_error *err)
{
    struct cay_steps *self = CAY_CONTAINER_OF(op, struct cay_steps, op);
    if (!cay_pointing_freeze(&self->pointing, err))
        return false;
    cay_op_watch(op);
    cay_stop_watch_also(&self->is_given_up);
    bool is_copied = cay_op_unwatch(op, cay_build_copy(&self->copy, err), err);
    cay_pointing_thaw(&self->pointing);
    return is_copied;
}

static void op_end(struct cay_op *op)
{
    struct cay_steps *self = CAY_CONTAINER_OF(op, struct cay_steps, op);
    bool is_good = op->is_done;
    struct cay_error err = op->err;
    cay_op_leave(op);
    if (self->err.reason)
        cay_steps_end(self);
    else if (!is_good)
        cay_step_failed(self, err.text);
    else
        cay_step_done(self);
}

static const struct cay_op_steps copy_steps = {
    .begin = copy_begin, .work = copy_work, .end = op_end};

static void do_copy(struct cay_steps *self)
{
    start_op(self, &copy_steps);
}

/* --- ENV, WORKDIR, USER --- */

static void do_env(struct cay_steps *self)
{
    struct cay_pb_strs args = self->request->steps.items[self->at].args;
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
        cay_step_failed(self, self->err.text);
    else
        cay_step_done(self);
}

static bool workdir_begin(struct cay_op *op, struct cay_error *err)
{
    struct cay_steps *self = CAY_CONTAINER_OF(op, struct cay_steps, op);
    const struct cay_session *session = op->session;
    self->cwd = self->settings.cwd = cay_build_path(&self->arena, self->cwd, cay_step_arg(self, 0));
    self->copy.tree = (struct cay_tool_tree){.root_fd = session->root_fd,
                                             .id_base = cay_session_uid_base(session)};
    return self->cwd.len ? cay_check_cwd(self->cwd, err)
                         : cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
}

static bool workdir_work(struct cay_op *op, struct cay_error *)
{
    struct cay_steps *self = CAY_CONTAINER_OF(op, struct cay_steps, op);
    struct cay_error ignored = {}; /* the next step finds out who is missing */
    (void)cay_session_make_cwd(self->copy.tree.root_fd, self->copy.tree.id_base, self->user,
                               self->cwd, &ignored);
    return true;
}

static void do_workdir(struct cay_steps *self)
{
    static const struct cay_op_steps workdir_steps = {
        .begin = workdir_begin, .work = workdir_work, .end = op_end};
    start_op(self, &workdir_steps);
}

static void do_user(struct cay_steps *self)
{
    self->user = self->settings.user = cay_step_arg(self, 0);
    cay_step_done(self);
}

static const struct cay_step_kind kinds[] = {
    [CAY_V1_BUILD_STEP_KIND_RUN] = {"RUN", 1, 2, do_run},
    [CAY_V1_BUILD_STEP_KIND_COPY] = {"COPY", 2, 4, do_copy},
    [CAY_V1_BUILD_STEP_KIND_ENV] = {"ENV", 2, 2000, do_env},
    [CAY_V1_BUILD_STEP_KIND_WORKDIR] = {"WORKDIR", 1, 1, do_workdir},
    [CAY_V1_BUILD_STEP_KIND_USER] = {"USER", 1, 1, do_user},
};

const struct cay_step_kind *cay_step_kind(int kind)
{
    return kind > 0 && (size_t)kind < CAY_COUNT(kinds) && kinds[kind].run ? &kinds[kind] : NULL;
}
