/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The runtimes of this host. Which sessions may ask for is the administrator's choice, made at the
 * start; the first is the one of those that do not ask. Sessions of an earlier configuration may
 * have another: their files can be used, nothing is started in them.
 *
 * Nothing changes here once recovery is over: workers may ask, too.
 */

#include "base/error.h"
#include "host/runtime/runtime.h"

enum { CAY_RUNTIMES_MAX = 8 };

struct cay_runtimes {
    char *run_dir, *cgroup_parent, *init_path, *runsc,
        *platform; /* see struct cay_runtime_config */
    struct cay_runtime *open[CAY_RUNTIMES_MAX];
    size_t offered_count; /* the first of them; the others are of old sessions */
    size_t count;
};

/* `others` may name the first again. Reasons: those of cay_runtime_open, INVALID_ARGUMENT for too
 * many. */
[[nodiscard]] bool cay_runtimes_open(struct cay_runtimes *runtimes, const char *first,
                                     const char *const *others, size_t other_count,
                                     const struct cay_runtime_config *config,
                                     struct cay_error *err);
/* Accepts what was never opened. */
void cay_runtimes_close(struct cay_runtimes *runtimes);

static inline struct cay_runtime *cay_runtimes_default(const struct cay_runtimes *runtimes)
{
    return runtimes->open[0];
}

/* What a session gets that asks for `name`; empty: nothing said. Reasons: NOT_SUPPORTED, with those
 * there are; PERMISSION_DENIED for one that isolates nothing, which is an administrator's to choose
 * unless it is the default: whoever has it can do to this machine whatever the daemon can. */
[[nodiscard]] bool cay_runtimes_choose(const struct cay_runtimes *runtimes, struct cay_str name,
                                       bool is_admin, struct cay_runtime **out_runtime,
                                       struct cay_error *err);

/* Whether anything may be started in it. Reason: NOT_SUPPORTED. */
[[nodiscard]] bool cay_runtimes_offer(const struct cay_runtimes *runtimes,
                                      const struct cay_runtime *runtime, struct cay_error *err);

/* The open one of that name, offered or not; NULL: none is. Empty: the default. */
[[nodiscard]] struct cay_runtime *cay_runtimes_find(const struct cay_runtimes *runtimes,
                                                    struct cay_str name);

/* For a session of an earlier configuration, at recovery: from now on find knows it. Reasons: those
 * of cay_runtime_open. */
[[nodiscard]] bool cay_runtimes_need(struct cay_runtimes *runtimes, struct cay_str name,
                                     struct cay_error *err);

/* Whether sessions may have one that can do this. */
[[nodiscard]] bool cay_runtimes_can(const struct cay_runtimes *runtimes, enum cay_runtime_caps cap);

/* Those that an earlier daemon let wait. Before any is started. */
[[nodiscard]] bool cay_runtimes_remove_waiting(const struct cay_runtimes *runtimes,
                                               struct cay_error *err);

/* Whatever exists under the id, by whichever runtime. */
[[nodiscard]] bool cay_runtimes_remove(const struct cay_runtimes *runtimes, const char *id,
                                       struct cay_error *err);
