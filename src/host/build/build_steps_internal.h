/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A build by steps, for the files that do it: build_steps.c is its life, build_step_kinds.c what
 * the steps do.
 *
 *     for each step: next -> the kind's `run` -> cay_step_done | cay_step_failed, now or later
 */

#include "host/base/base_keep.h"
#include "host/build/build_copy.h"
#include "host/build/build_log.h"
#include "host/build/build_steps.h"
#include "host/past/point.h"
#include "host/session/op.h"

struct cay_build_file;
struct cay_chore;

enum {
    CAY_BUILD_TAIL_BYTES = 100,
    CAY_BUILD_CHECK_MS = 200,
};

struct cay_steps {
    struct cay_call *call;
    struct cay_host *host;
    const struct cay_v1_build_base_request *request;
    struct cay_build_file **files; /* per step: what a COPY takes from; NULL: the context */
    struct cay_build_log log;
    struct cay_base_keeping keeping;
    struct cay_account *claim; /* on the quota of bases */
    struct cay_arena arena;
    struct cay_job job;
    struct cay_op op; /* of a COPY */
    struct cay_build_copy copy;
    struct cay_pointing pointing; /* what runs while it copies */
    struct cay_timer timer;
    uint64_t until_ms;
    char session_id[64];
    char store_id[CAY_STORE_ID_SIZE];
    size_t at; /* step being done */
    struct cay_v1_base_settings settings;
    struct cay_str cwd;
    struct cay_str user;
    struct cay_chore *running;           /* a command, which can be cancelled */
    char tail[CAY_BUILD_TAIL_BYTES + 1]; /* the last line it said */
    int exit_code;                       /* -1: not known */
    struct cay_error run_err;
    bool is_run_over;
    bool is_given_up; /* watched by workers */
    bool is_ending;
    bool is_good;
    struct cay_error err;
};

struct cay_step_kind {
    const char *name;
    size_t args_min, args_max;
    void (*run)(struct cay_steps *self);
};

/* NULL: there is no such kind. */
[[nodiscard]] const struct cay_step_kind *cay_step_kind(int kind);

/* Of the step being done; empty when it has not so many. */
[[nodiscard]] struct cay_str cay_step_arg(const struct cay_steps *self, size_t at);

/* build_steps.c */
void cay_step_done(struct cay_steps *self);
void cay_step_failed(struct cay_steps *self, const char *why);
/* self->err says why it is all over, or it is done. */
void cay_steps_end(struct cay_steps *self);

/* build_step_kinds.c: output of the command that runs, and its end, by the timer. */
void cay_step_take_line(void *context, struct cay_str line);
void cay_step_after_run(struct cay_steps *self);
