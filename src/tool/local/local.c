/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/argv.h"
#include "api/noun.h"
#include "sys/pin.h"
#include "tool/local/local_internal.h"
#include "tool/tree/owner.h"

/* What the host's own files say of the caller. */
static bool find_user(struct cay_user *out_user, struct cay_error *err)
{
    char number[16];
    cay_autoclose int root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    const struct cay_tool_tree host = {.root_fd = root_fd, .is_own = true};
    snprintf(number, sizeof(number), "%u", (unsigned)geteuid());
    if (cay_user_find(&host, cay_str(number), true, out_user, err))
        return true;
    if (err->reason != CAY_R_USER_NOT_FOUND)
        return false;
    /* From a directory service, which a library does not ask: `options->env` can say more. */
    *out_user = (struct cay_user){.home = "/", .shell = "/bin/bash"};
    memcpy(out_user->name, number, sizeof(number));
    *err = (struct cay_error){};
    return true;
}

/* As every command of a session has it: the caller's own environment may hold secrets. */
static bool set_env(struct cay_local *local, const struct cay_local_options *options,
                    struct cay_error *err)
{
    struct cay_user user;
    if (!cay_check_env(options->env, err) || !find_user(&user, err))
        return false;
    struct cay_pb_pair usual[] = {
        {CAY_STR("PATH"), CAY_STR("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")},
        {CAY_STR("HOME"), cay_arena_str(&local->arena, cay_str(user.home))},
        {CAY_STR("USER"), cay_arena_str(&local->arena, cay_str(user.name))},
        {CAY_STR("LOGNAME"), cay_arena_str(&local->arena, cay_str(user.name))},
        {CAY_STR("SHELL"), cay_arena_str(&local->arena, cay_str(user.shell))},
        {CAY_STR("LANG"), CAY_STR("C.UTF-8")},
        {CAY_STR("TERM"), CAY_STR("dumb")},
        {CAY_STR("CAY_SESSION"), local->id},
    };
    struct cay_pb_pairs over = {
        .items = cay_arena_array(&local->arena, options->env.count + 1, sizeof(*over.items))};
    if (!over.items)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, NULL);
    for (size_t i = 0; i < options->env.count; i++) {
        const struct cay_pb_pair *pair = &options->env.items[i];
        over.items[over.count++] = (struct cay_pb_pair){cay_arena_str(&local->arena, pair->key),
                                                        cay_arena_str(&local->arena, pair->value)};
        if (!over.items[i].key.len || over.items[i].value.len != pair->value.len)
            return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, NULL);
    }
    const struct cay_pb_pairs own = {usual, CAY_COUNT(usual)};
    if (!usual[1].value.len || !cay_noun_merge(&local->arena, own, over, &local->env))
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, NULL);
    return true;
}

static bool set_up(struct cay_local *local, const char *path,
                   const struct cay_local_options *options, struct cay_error *err)
{
    local->dir_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (local->dir_fd < 0)
        return cay_tree_fail(err, -errno, cay_str(path));
    ssize_t len =
        cay_pin_path(local->dir_fd, local->host_name.bytes, sizeof(local->host_name.bytes));
    local->host_name.len =
        len > 0 && (size_t)len < sizeof(local->host_name.bytes) ? (size_t)len : 0;
    struct cay_str host_name = {local->host_name.bytes, local->host_name.len};
    /* Below /workspace of this host its path says something else already. */
    bool is_shadowed = cay_tree_rest(host_name, CAY_STR(CAY_LOCAL_NAME)).ptr != NULL;
    local->tree = (struct cay_tool_tree){
        .root_fd = local->dir_fd,
        .is_own = true,
        .uid = geteuid(),
        .gid = getegid(),
        .name = CAY_STR(CAY_LOCAL_NAME),
        .host_name = is_shadowed || host_name.len < 2 ? (struct cay_str){} : host_name,
    };
    local->id = options->id.len ? cay_arena_str(&local->arena, options->id) : CAY_STR("local");
    local->command_ms = options->command_ms;
    if (!local->id.len)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, NULL);
    return set_env(local, options, err);
}

bool cay_local_open(const char *path, const struct cay_local_options *options,
                    struct cay_local **out_local, struct cay_error *err)
{
    const struct cay_local_options usual = {};
    struct cay_local *local = calloc(1, sizeof(*local));
    if (!local)
        return cay_fail(err, CAY_R_RESOURCE_EXHAUSTED, "out of memory");
    local->dir_fd = -1;
    cay_list_init(&local->processes);
    cay_arena_init(&local->arena, CAY_LOCAL_ARENA_BYTES);
    pthread_mutex_init(&local->lock, NULL);
    pthread_cond_init(&local->changed, NULL);
    if (!set_up(local, path, options ? options : &usual, err)) {
        cay_local_close(local);
        return false;
    }
    *out_local = local;
    return true;
}

bool cay_local_check(struct cay_local *local, struct cay_error *err)
{
    pthread_mutex_lock(&local->lock);
    bool is_paused = local->is_paused;
    bool is_closing = local->is_closing;
    pthread_mutex_unlock(&local->lock);
    if (is_closing)
        return cay_fail(err, CAY_R_SESSION_DESTROYING, NULL);
    return !is_paused || cay_fail(err, CAY_R_SESSION_PAUSED, NULL);
}
