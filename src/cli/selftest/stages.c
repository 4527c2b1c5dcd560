/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stdio.h>

#include "cli/selftest/selftest.h"

/* Each gets the session in `id` to its stage, and may name another one. */
struct stage {
    const char *name;
    bool (*enter)(struct cay_selftest *self, size_t runtime, const char *id, const char **out_id,
                  struct cay_error *err);
    enum cay_v1_network_mode network; /* that it is about */
    bool has_new_limits;              /* set anew: they are tried, too */
};

static const char *id_of(struct cay_selftest *self, size_t runtime, const char *word)
{
    return cay_arena_printf(&self->arena, "%s-%s", word, self->runtimes[runtime].name);
}

static bool enter_new(struct cay_selftest *, size_t, const char *, const char **,
                      struct cay_error *)
{
    return true;
}

static bool enter_forked(struct cay_selftest *self, size_t runtime, const char *id,
                         const char **out_id, struct cay_error *err)
{
    struct cay_v1_turn_complete_request turn = {.session_id = cay_str(id)};
    struct cay_v1_turn_complete_response taken = {};
    const char *fork_id = id_of(self, runtime, "forked");
    struct cay_v1_fork_session_request fork = {.session_id = cay_str(id),
                                               .new_session_id = cay_str(fork_id)};
    struct cay_v1_fork_session_response forked = {};
    *out_id = fork_id;
    return cay_selftest_call(self, CAY_V1_SANDBOX_SERVICE_TURN_COMPLETE, &turn, &taken, err) &&
           cay_selftest_call(self, CAY_V1_SANDBOX_SERVICE_FORK_SESSION, &fork, &forked, err);
}

static bool enter_rolled_back(struct cay_selftest *self, size_t, const char *id, const char **,
                              struct cay_error *err)
{
    struct cay_v1_rollback_session_request request = {.session_id = cay_str(id),
                                                      .snapshot = CAY_STR("turn-0001")};
    struct cay_v1_rollback_session_response response = {};
    return cay_selftest_call(self, CAY_V1_SANDBOX_SERVICE_ROLLBACK_SESSION, &request, &response,
                             err);
}

static bool pause_and_resume(struct cay_selftest *self, const char *id, enum cay_v1_pause_mode mode,
                             struct cay_error *err)
{
    struct cay_v1_pause_session_request pause = {.session_id = cay_str(id), .mode = mode};
    struct cay_v1_pause_session_response paused = {};
    struct cay_v1_resume_session_request resume = {.session_id = cay_str(id)};
    struct cay_v1_resume_session_response resumed = {};
    return cay_selftest_call(self, CAY_V1_SANDBOX_SERVICE_PAUSE_SESSION, &pause, &paused, err) &&
           cay_selftest_call(self, CAY_V1_SANDBOX_SERVICE_RESUME_SESSION, &resume, &resumed, err);
}

static bool enter_resumed(struct cay_selftest *self, size_t, const char *id, const char **,
                          struct cay_error *err)
{
    return pause_and_resume(self, id, CAY_V1_PAUSE_MODE_UNSPECIFIED, err);
}

static bool enter_restarted(struct cay_selftest *self, size_t, const char *id, const char **,
                            struct cay_error *err)
{
    return pause_and_resume(self, id, CAY_V1_PAUSE_MODE_STOP, err);
}

static bool enter_taken_over(struct cay_selftest *self, size_t, const char *, const char **,
                             struct cay_error *err)
{
    cay_selftest_kill_daemon(self, SIGKILL);
    return cay_selftest_start_daemon(self, err);
}

static bool enter_open(struct cay_selftest *self, size_t runtime, const char *, const char **out_id,
                       struct cay_error *err)
{
    *out_id = id_of(self, runtime, "open");
    return cay_selftest_create(self, *out_id, self->runtimes[runtime].name,
                               CAY_V1_NETWORK_MODE_OPEN, err);
}

static bool enter_filtered(struct cay_selftest *self, size_t runtime, const char *,
                           const char **out_id, struct cay_error *err)
{
    *out_id = id_of(self, runtime, "filtered");
    return cay_selftest_create(self, *out_id, self->runtimes[runtime].name,
                               CAY_V1_NETWORK_MODE_FILTERED, err);
}

static const struct stage stages[] = {
    {.name = "new", .enter = enter_new, .has_new_limits = true},
    {.name = "forked", .enter = enter_forked, .has_new_limits = true},
    {.name = "rolled back", .enter = enter_rolled_back},
    {.name = "resumed", .enter = enter_resumed},
    {.name = "stopped and started", .enter = enter_restarted, .has_new_limits = true},
    {.name = "taken over by a new daemon", .enter = enter_taken_over},
    {.name = "with an open network", .enter = enter_open, .network = CAY_V1_NETWORK_MODE_OPEN},
    {.name = "with a filtered network",
     .enter = enter_filtered,
     .network = CAY_V1_NETWORK_MODE_FILTERED},
};

static bool try_probes(struct cay_selftest *self, size_t runtime, const char *where, const char *id,
                       const char *user, enum cay_selftest_kind kind, struct cay_error *err)
{
    struct cay_selftest_ran ran = {};
    if (!cay_selftest_run(self, id, user, NULL, cay_selftest_words(self, kind), &ran, err))
        return cay_wrap(err, "%s", where);
    if (ran.cause == CAY_V1_END_CAUSE_OOM)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, "%s: no memory is left", where);
    if (ran.exit_code != 0)
        return cay_fail(err, CAY_R_INTERNAL, "%s: cay-probe ended with %d", where, ran.exit_code);
    cay_selftest_take(self, runtime, where, ran.output);
    return true;
}

/* A runtime with a kernel of its own may end as a whole when its memory does: greed comes last, and
 * gets nothing then. */
static bool try_as(struct cay_selftest *self, size_t runtime, const struct stage *stage,
                   const char *id, const char *user, struct cay_error *err)
{
    char where[64];
    snprintf(where, sizeof(where), "%s, %s", stage->name, user);
    if (!try_probes(self, runtime, where, id, user, CAY_SELFTEST_FRUGAL, err))
        return false;
    if (!stage->has_new_limits ||
        try_probes(self, runtime, where, id, user, CAY_SELFTEST_GREEDY, err))
        return true;
    struct cay_selftest_outcome ended = {};
    if (err->reason != CAY_R_RESOURCE_EXHAUSTED)
        return false;
    *err = (struct cay_error){};
    cay_selftest_say(&ended, CAY_SELFTEST_DENIED, "the sandbox ended with its memory");
    cay_selftest_note_greedy(self, runtime, where, &ended);
    return true;
}

bool cay_selftest_settle(struct cay_selftest *self, size_t runtime, struct cay_error *err)
{
    const struct cay_selftest_runtime *which = &self->runtimes[runtime];
    const char *neighbour = id_of(self, runtime, "neighbour");
    return (cay_selftest_create(
                self, neighbour, which->name,
                which->has_open ? CAY_V1_NETWORK_MODE_OPEN : CAY_V1_NETWORK_MODE_NONE, err) &&
            cay_selftest_hold(self, neighbour, err) &&
            cay_selftest_create(self, id_of(self, runtime, "first"), which->name,
                                CAY_V1_NETWORK_MODE_NONE, err)) ||
           cay_wrap(err, "runtime '%s'", which->name);
}

bool cay_selftest_stages(struct cay_selftest *self, size_t runtime, struct cay_error *err)
{
    const struct cay_selftest_runtime *which = &self->runtimes[runtime];
    const char *id = id_of(self, runtime, "first");
    bool is_done = true;
    for (size_t i = 0; i < CAY_COUNT(stages) && is_done && !cay_selftest_is_over(); i++) {
        const char *now = id;
        if ((stages[i].network == CAY_V1_NETWORK_MODE_OPEN && !which->has_open) ||
            (stages[i].network == CAY_V1_NETWORK_MODE_FILTERED && !which->has_filtered))
            continue;
        is_done =
            stages[i].enter(self, runtime, id, &now, err) || cay_wrap(err, "%s", stages[i].name);
        is_done = is_done && try_as(self, runtime, &stages[i], now, "root", err) &&
                  try_as(self, runtime, &stages[i], now, "user", err);
        if (now != id)
            cay_selftest_destroy(self, now);
    }
    return is_done || cay_wrap(err, "runtime '%s'", which->name);
}
