/* SPDX-License-Identifier: Apache-2.0 */
#include "host/exec/command.h"

#include <stdio.h>

#include "api/limits.h"
#include "api/noun.h"
#include "host/file/tree.h"
#include "host/life/waking.h"
#include "host/live/bindings.h"
#include "host/session/request.h"

bool cay_command_check(const struct cay_command_line *command, struct cay_error *err)
{
    const struct cay_v1_exec_policy *policy = command->policy;
    if (!cay_check_argv(command->argv, command->env, err))
        return false;
    struct cay_v1_resource_limits ignored;
    const struct cay_v1_resource_limits none = {};
    if (policy && policy->limits && policy->limits->has_inodes)
        return cay_fail(
            err, CAY_R_INVALID_ARGUMENT,
            "only whole sessions have the limit policy.limits.inodes; set it with UpdateSession");
    if (policy && policy->limits && policy->limits->has_disk_bytes)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                        "policy.limits.disk_bytes: only whole sessions have this limit; set it "
                        "with UpdateSession");
    if (policy && !cay_check_limits(policy->limits, &none, &ignored, err))
        return false;
    if (policy &&
        (policy->output_ring_bytes < 0 || policy->output_ring_bytes > CAY_LIMIT_OUTPUT_RING_MAX))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "policy.output_ring_bytes: %d at most",
                        CAY_LIMIT_OUTPUT_RING_MAX);
    if (policy && (cay_noun_duration_ms(policy->timeout) < 0 ||
                   cay_noun_duration_ms(policy->no_output_timeout) < 0))
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "policy: a timeout is not negative");
    return cay_check_cwd(command->cwd, err) && cay_check_user(command->user, err);
}

struct env_list {
    const char **items;
    size_t count;
    size_t cap;
};

/* A later value replaces an earlier one of the same name. */
static bool put_env(struct env_list *list, struct cay_arena *arena, struct cay_str key,
                    struct cay_str value)
{
    const char *text = cay_arena_printf(arena, "%.*s=%.*s", (int)key.len, key.ptr, (int)value.len,
                                        value.len ? value.ptr : "");
    if (!text)
        return false;
    for (size_t i = 0; i < list->count; i++) {
        if (strncmp(list->items[i], text, key.len + 1) == 0) {
            list->items[i] = text;
            return true;
        }
    }
    if (list->count == list->cap)
        return false;
    list->items[list->count++] = text;
    return true;
}

static bool put_pairs(struct env_list *list, struct cay_arena *arena, struct cay_pb_pairs pairs)
{
    for (size_t i = 0; i < pairs.count; i++) {
        if (!put_env(list, arena, pairs.items[i].key, pairs.items[i].value))
            return false;
    }
    return true;
}

static bool build_env(const struct cay_command_line *command, const struct cay_session *session,
                      const struct cay_user *user, struct cay_arena *arena,
                      struct cay_frame_exec *frame)
{
    const struct cay_pb_pair defaults[] = {
        {CAY_STR("PATH"), CAY_STR("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")},
        {CAY_STR("HOME"), cay_str(user->home)},
        {CAY_STR("USER"), cay_str(user->name)},
        {CAY_STR("LOGNAME"), cay_str(user->name)},
        {CAY_STR("SHELL"), cay_str(user->shell)},
        {CAY_STR("LANG"), CAY_STR("C.UTF-8")},
        {CAY_STR("TERM"), command->has_terminal ? CAY_STR("xterm-256color") : CAY_STR("dumb")},
        {CAY_STR("CAY_SESSION"), cay_str(session->id)},
    };
    struct cay_pb_pairs secrets;
    if (!cay_bindings_env(session, arena, &secrets))
        return false;
    struct env_list list = {.cap = CAY_COUNT(defaults) + session->spec->env.count + secrets.count +
                                   command->env.count};
    list.items = cay_arena_array(arena, list.cap + 1, sizeof(*list.items));
    bool is_full = !list.items || list.cap > CAY_FRAME_ENV_MAX;
    for (size_t i = 0; !is_full && i < CAY_COUNT(defaults); i++)
        is_full = !put_env(&list, arena, defaults[i].key, defaults[i].value);
    if (is_full || !put_pairs(&list, arena, session->spec->env) ||
        !put_pairs(&list, arena, secrets) || !put_pairs(&list, arena, command->env))
        return false;
    frame->env = list.items;
    frame->env_count = (uint32_t)list.count;
    return true;
}

static bool build_args(const struct cay_command_line *command, struct cay_arena *arena,
                       struct cay_frame_exec *frame)
{
    size_t count = command->argv.count;
    frame->args = cay_arena_array(arena, count + 1, sizeof(*frame->args));
    for (size_t i = 0; frame->args && i < count; i++) {
        frame->args[i] = cay_arena_copy(arena, command->argv.items[i]);
        if (!frame->args[i])
            return false;
    }
    frame->arg_count = (uint32_t)count;
    return frame->args != NULL;
}

static uint32_t flags_of(const struct cay_command_line *command)
{
    const struct cay_v1_exec_policy *policy = command->policy;
    bool kills =
        command->kills_leftovers || (policy && policy->leftovers == CAY_V1_LEFTOVER_POLICY_KILL);
    enum cay_v1_output_overflow overflow =
        policy ? policy->overflow : CAY_V1_OUTPUT_OVERFLOW_UNSPECIFIED;
    if (!overflow && command->has_reader)
        overflow = CAY_V1_OUTPUT_OVERFLOW_FOLLOW;
    bool follows = overflow == CAY_V1_OUTPUT_OVERFLOW_FOLLOW;
    bool blocks = follows || overflow == CAY_V1_OUTPUT_OVERFLOW_BLOCK;
    uint32_t flags = kills ? CAY_EXEC_KILL_LEFTOVERS : 0;
    if (command->has_terminal)
        flags |= CAY_EXEC_PTY;
    else if (command->has_stdin)
        flags |= CAY_EXEC_STDIN;
    if (!command->is_for_call)
        flags |=
            CAY_EXEC_TELL_START | (blocks ? CAY_EXEC_BLOCK : 0u) | (follows ? CAY_EXEC_FOLLOW : 0u);
    return flags;
}

/* The smallest power of two that keeps as much. */
static uint32_t ring_of(const struct cay_v1_exec_policy *policy)
{
    uint32_t wanted = policy && policy->output_ring_bytes ? (uint32_t)policy->output_ring_bytes
                                                          : CAY_LIMIT_OUTPUT_RING_BYTES;
    uint32_t size = CAY_FRAME_RING_BYTES_MIN;
    while (size < wanted)
        size *= 2;
    return size;
}

/* Of two timeouts, of which 0 is none. */
static int64_t shorter(int64_t one, int64_t other)
{
    return one && other ? CAY_MIN(one, other) : CAY_MAX(one, other);
}

bool cay_command_build(const struct cay_command_line *command, const struct cay_session *session,
                       const struct cay_user *user, struct cay_arena *arena,
                       struct cay_frame_exec *out_frame, struct cay_error *err)
{
    const struct cay_v1_exec_policy *policy = command->policy;
    char cwd[CAY_LIMIT_PATH_BYTES + 1];
    if (!cay_command_check(command, err))
        return false;
    if (!cay_session_cwd(session, user, command->cwd, cwd, sizeof(cwd))) {
        cay_fail(err, CAY_R_INVALID_ARGUMENT, "cwd: the path is too long");
        return cay_error_fact(err, "field", "cwd");
    }
    int64_t policy_ms = policy ? cay_noun_duration_ms(policy->timeout) : 0;
    int64_t policy_quiet_ms = policy ? cay_noun_duration_ms(policy->no_output_timeout) : 0;
    int64_t wall_ms = shorter(policy_ms, command->timeout_ms);
    int64_t quiet_ms = shorter(policy_quiet_ms, command->quiet_ms);
    *out_frame = (struct cay_frame_exec){
        .flags = flags_of(command),
        .uid = user->uid,
        .gid = user->gid,
        .group_count = user->group_count,
        .wall_ms = (uint64_t)wall_ms,
        .quiet_ms = (uint64_t)quiet_ms,
        .ring_bytes = ring_of(policy),
        .size = command->size,
        .cwd = cay_arena_copy(arena, cay_str(cwd)),
    };
    const struct cay_cgroup_limits limits = policy && policy->limits
                                                ? cay_session_cgroup_limits(policy->limits)
                                                : (struct cay_cgroup_limits){};
    if (limits.memory_bytes || limits.pids || limits.cpu_millis) {
        out_frame->flags |= CAY_EXEC_ROOM;
        out_frame->memory_bytes = limits.memory_bytes;
        out_frame->pids = limits.pids;
        out_frame->cpu_millis = limits.cpu_millis;
    }
    static_assert((int)CAY_TREE_USER_GROUPS_MAX <= (int)CAY_FRAME_GROUPS_MAX, "all of them fit");
    memcpy(out_frame->groups, user->groups, user->group_count * sizeof(user->groups[0]));
    if (command->is_for_call)
        out_frame->window_bytes =
            CAY_MIN((uint32_t)CAY_LIMIT_OUTPUT_WINDOW_BYTES, out_frame->ring_bytes);
    if (!out_frame->cwd || !build_args(command, arena, out_frame) ||
        !build_env(command, session, user, arena, out_frame))
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED,
                        "arguments and environment are too large for one command");
    return true;
}
