/* SPDX-License-Identifier: Apache-2.0 */
#include "api/argv.h"

#include "api/limits.h"

static bool check_command_env(struct cay_pb_pairs env, size_t *in_out_bytes, struct cay_error *err)
{
    if (env.count > CAY_LIMIT_ENV_COUNT)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "env: %d variables at most",
                        CAY_LIMIT_ENV_COUNT);
    for (size_t i = 0; i < env.count; i++) {
        struct cay_str key = env.items[i].key;
        struct cay_str value = env.items[i].value;
        *in_out_bytes += key.len + value.len + 2;
        if (!key.len || memchr(key.ptr, '=', key.len) || memchr(key.ptr, '\0', key.len))
            return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                            "env: a name is not empty and has no '=' and no NUL");
        if (value.len && memchr(value.ptr, '\0', value.len))
            return cay_fail(err, CAY_R_INVALID_ARGUMENT, "env: a value has no NUL");
        if (key.len + value.len + 1 > CAY_LIMIT_ARG_ONE_BYTES)
            return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                            "a variable of env may have at most %d bytes, its name included",
                            CAY_LIMIT_ARG_ONE_BYTES);
    }
    return true;
}

bool cay_check_env(struct cay_pb_pairs env, struct cay_error *err)
{
    size_t total = 0;
    if (!check_command_env(env, &total, err))
        return false;
    if (total > CAY_LIMIT_ENV_BYTES)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "env: %d bytes at most in all",
                        CAY_LIMIT_ENV_BYTES);
    return true;
}

bool cay_check_argv(struct cay_pb_strs argv, struct cay_pb_pairs env, struct cay_error *err)
{
    size_t total = 0;
    if (!argv.count || !argv.items[0].len)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "argv: the program to run is missing");
    if (argv.count > CAY_LIMIT_ARG_COUNT)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "argv: %d arguments at most",
                        CAY_LIMIT_ARG_COUNT);
    for (size_t i = 0; i < argv.count; i++) {
        struct cay_str arg = argv.items[i];
        total += arg.len + 1;
        if (arg.len > CAY_LIMIT_ARG_ONE_BYTES)
            return cay_fail(err, CAY_R_INVALID_ARGUMENT,
                            "an argument of argv may have at most %d bytes",
                            CAY_LIMIT_ARG_ONE_BYTES);
        if (arg.len && memchr(arg.ptr, '\0', arg.len))
            return cay_fail(err, CAY_R_INVALID_ARGUMENT, "argv: an argument has no NUL");
    }
    if (!check_command_env(env, &total, err))
        return false;
    if (total > CAY_LIMIT_ARG_BYTES)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "argv, env: %d bytes at most in all",
                        CAY_LIMIT_ARG_BYTES);
    return true;
}

bool cay_check_cwd(struct cay_str cwd, struct cay_error *err)
{
    if (!cwd.len)
        return true;
    bool is_home = cwd.ptr[0] == '~' && (cwd.len == 1 || cwd.ptr[1] == '/');
    if ((cwd.ptr[0] == '/' || is_home) && cwd.len <= CAY_LIMIT_PATH_BYTES &&
        !memchr(cwd.ptr, '\0', cwd.len))
        return true;
    cay_fail(err, CAY_R_INVALID_ARGUMENT,
             "cwd: an absolute path, or one below ~, of at most %d bytes without NUL",
             CAY_LIMIT_PATH_BYTES);
    return cay_error_fact(err, "field", "cwd");
}
