/* SPDX-License-Identifier: Apache-2.0 */
#include "host/build/interpreter.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/resolve.h"

#define INSTALLED_DIRECTORY "usr/local/lib/cay"
#define PROGRAM             "code_interpreter.py"
#define INSTALLED           "/" INSTALLED_DIRECTORY "/" PROGRAM

enum { TEXT_BYTES_MAX = 1 << 20, BLOCK_BYTES = 512 };

char *cay_interpreter_read(const char *path)
{
    cay_autoclose int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    cay_autofree char *text = cay_alloc(TEXT_BYTES_MAX + 1);
    ssize_t len = fd < 0 ? -1 : read(fd, text, TEXT_BYTES_MAX);
    if (len <= 0)
        return NULL;
    text[len] = '\0';
    return cay_strdup(text);
}

/* An archive of the one file, in the oldest form of tar. */
static bool make_context(const char *text, struct cay_arena *arena, struct cay_str *out_context)
{
    size_t len = strlen(text);
    size_t padded = (len + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
    size_t size = BLOCK_BYTES + padded + (size_t)2 * BLOCK_BYTES;
    char *archive = cay_arena_alloc(arena, size);
    unsigned sum = 0;
    if (!archive)
        return false;
    memset(archive, 0, size);
    snprintf(archive, 100, PROGRAM);
    snprintf(archive + 100, 8, "%07o", 0644U);
    snprintf(archive + 108, 8, "%07o", 0U);
    snprintf(archive + 116, 8, "%07o", 0U);
    snprintf(archive + 124, 12, "%011zo", len);
    snprintf(archive + 136, 12, "%011o", 0U);
    memset(archive + 148, ' ', 8);
    archive[156] = '0';
    memcpy(archive + 257, "ustar\00000", 8);
    for (size_t i = 0; i < BLOCK_BYTES; i++)
        sum += (unsigned char)archive[i];
    snprintf(archive + 148, 8, "%06o", sum);
    memcpy(archive + BLOCK_BYTES, text, len);
    *out_context = (struct cay_str){archive, size};
    return true;
}

static bool add_settings(struct cay_arena *arena, struct cay_v1_build_base_request *request)
{
    static struct cay_str start[] = {{"python3", 7}, {INSTALLED, sizeof(INSTALLED) - 1}};
    static const char check[] =
        "import socket; socket.create_connection(('127.0.0.1', 49999), 1).close()";
    static struct cay_str ready[] = {{"python3", 7}, {"-c", 2}, {check, sizeof(check) - 1}};
    struct cay_v1_base_settings *settings = cay_arena_new(arena, struct cay_v1_base_settings);
    if (!settings)
        return false;
    if (request->settings)
        *settings = *request->settings;
    if (!settings->start_command.count) {
        settings->start_command = (struct cay_pb_strs){start, CAY_COUNT(start)};
        settings->ready_command = (struct cay_pb_strs){ready, CAY_COUNT(ready)};
    }
    request->settings = settings;
    return true;
}

static bool add_alias(struct cay_arena *arena, struct cay_v1_build_base_request *request)
{
    struct cay_str *aliases =
        cay_arena_array(arena, request->aliases.count + 1, sizeof(struct cay_str));
    if (!aliases)
        return false;
    if (request->aliases.count)
        memcpy(aliases, request->aliases.items, request->aliases.count * sizeof(*aliases));
    aliases[request->aliases.count] = CAY_STR(CAY_INTERPRETER_ALIAS);
    request->aliases.items = aliases;
    request->aliases.count += !cay_str_is(request->name, CAY_INTERPRETER_ALIAS);
    return true;
}

bool cay_interpreter_request(const struct cay_v1_build_base_request *request, const char *text,
                             struct cay_arena *arena, struct cay_v1_build_base_request *out_request,
                             struct cay_error *err)
{
    static struct cay_str args[] = {{PROGRAM, sizeof(PROGRAM) - 1},
                                    {INSTALLED, sizeof(INSTALLED) - 1},
                                    {"root", 4},
                                    {"0644", 4}};
    static struct cay_v1_build_step step = {.kind = CAY_V1_BUILD_STEP_KIND_COPY,
                                            .args = {args, CAY_COUNT(args)}};
    if (!text)
        return cay_fail(err, CAY_R_FAILED_PRECONDITION,
                        PROGRAM " is not where cayd looks for it; install Cay's data files");
    if (request->steps.count || request->context.len || request->context_base.len)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "steps: they do not go with a recipe");
    if (request->from_base.len && request->params.count)
        return cay_fail(err, CAY_R_INVALID_ARGUMENT, "params: they do not go with from_base");
    *out_request = *request;
    bool is_good = add_settings(arena, out_request) && add_alias(arena, out_request);
    if (request->from_base.len) {
        out_request->steps.items = &step;
        out_request->steps.count = 1;
        is_good = is_good && make_context(text, arena, &out_request->context);
    }
    return is_good || cay_fail(err, CAY_R_MESSAGE_TOO_LARGE, NULL);
}

bool cay_interpreter_install(int root_fd, const char *text, struct cay_error *err)
{
    size_t len = strlen(text);
    if (mkdirat(root_fd, INSTALLED_DIRECTORY, 0755) < 0 && errno != EEXIST)
        return cay_fail_errno(err, CAY_R_STORE_FAILED, -errno, "make /" INSTALLED_DIRECTORY);
    cay_autoclose int dir_fd =
        cay_resolve_open(root_fd, INSTALLED_DIRECTORY, O_RDONLY | O_DIRECTORY, 0);
    cay_autoclose int fd =
        dir_fd < 0
            ? dir_fd
            : openat(dir_fd, PROGRAM, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, text, len) != (ssize_t)len || fchmod(fd, 0644) < 0)
        return cay_fail_errno(err, CAY_R_STORE_FAILED, -errno, "write " INSTALLED);
    return true;
}
