/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/program.h"

#include <errno.h>
#include <limits.h>

#include "sys/raw.h"

static int try_exec(const char *path, const char *const *args, const char *const *env)
{
    return (int)cay_raw3(SYS_execve, path, args, env);
}

static int exec_along_path(const char *const *args, const char *const *env)
{
    struct cay_str dirs = CAY_STR("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    for (const char *const *at = env; *at; at++) {
        if (strncmp(*at, "PATH=", 5) == 0)
            dirs = cay_str(*at + 5);
    }
    int result = -ENOENT;
    size_t name_len = strlen(args[0]);
    struct cay_str dir;
    while (cay_str_split(&dirs, ':', &dir)) {
        char path[PATH_MAX];
        if (dir.len == 0 || dir.len + 1 + name_len >= sizeof(path))
            continue;
        memcpy(path, dir.ptr, dir.len);
        path[dir.len] = '/';
        memcpy(path + dir.len + 1, args[0], name_len + 1);
        int error = try_exec(path, args, env);
        if (error != -ENOENT && error != -ENOTDIR)
            result = error;
        if (error != -ENOENT && error != -ENOTDIR && error != -EACCES)
            return error;
    }
    return result;
}

int cay_program_exec(const char *const *args, const char *const *env)
{
    return strchr(args[0], '/') ? try_exec(args[0], args, env) : exec_along_path(args, env);
}
