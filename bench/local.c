/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a tool costs when it is called through libcay's local environment, and what it costs by
 * itself:
 *
 *     bench_local DIR COUNT
 *
 * A file of 4 kB in DIR is read by read_file, COUNT times each way and in turns, so that both see
 * the same machine. One line for each comes out, as of api_client: tool, local.
 */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "cay/env.h"
#include "tool/tool.h"

#define FILE_NAME "four-kb"

enum { COUNT_MAX = 1'000'000, FILE_LINES = 64, ARENA_BYTES = 64 * 1024 * 1024 };

[[gnu::noreturn]] static void die(const char *what, const struct cay_error *err)
{
    fprintf(stderr, "bench_local: %s: %s\n", what, err->text);
    exit(1);
}

static void make_file(int dir_fd)
{
    int fd = openat(dir_fd, FILE_NAME, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    for (int line = 0; fd >= 0 && line < FILE_LINES; line++)
        dprintf(fd, "%-63d\n", line);
    if (fd < 0 || close(fd) < 0)
        die(FILE_NAME, &(const struct cay_error){.text = "it cannot be made"});
}

static double run_tool(const struct cay_tool_tree *tree,
                       const struct google_protobuf_struct *params)
{
    struct cay_v1_tool_result result = {};
    struct cay_error err = {};
    struct cay_arena arena;
    int64_t start_ns = cay_clock_ns();
    cay_arena_init(&arena, ARENA_BYTES);
    if (!cay_tool_run(cay_tool_find(CAY_STR("read_file")), tree, params, 0, 0, &arena, &result,
                      &err) ||
        result.is_error)
        die("the tool", &err);
    cay_arena_finish(&arena);
    return (double)(cay_clock_ns() - start_ns) / 1e3;
}

static double run_local(struct cay_env *env)
{
    struct cay_tool_request request = CAY_TOOL_REQUEST;
    struct cay_tool_response *response = NULL;
    struct cay_error err = {};
    request.tool_name = "read_file";
    request.params = "{\"path\":\"" FILE_NAME "\"}";
    int64_t start_ns = cay_clock_ns();
    if (!cay_env_execute_tool(env, &request, NULL, &response, &err) || response->is_error)
        die("local", &err);
    cay_tool_response_free(response);
    return (double)(cay_clock_ns() - start_ns) / 1e3;
}

static int by_size(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;
    return left < right ? -1 : left > right;
}

static void report(const char *label, double *took, size_t count)
{
    qsort(took, count, sizeof(*took), by_size);
    printf("%s\t%zu\t%.2f\t%.2f\t%.2f\n", label, count, took[0], took[count / 2],
           took[count * 99 / 100]);
}

int main(int argc, char **argv)
{
    size_t count = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
    int dir_fd = argc == 3 ? open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (dir_fd < 0 || !count || count > COUNT_MAX) {
        fprintf(stderr, "usage: %s DIR COUNT\n", argv[0]);
        return 2;
    }
    make_file(dir_fd);
    const struct cay_tool_tree tree = {.root_fd = dir_fd,
                                       .is_own = true,
                                       .uid = geteuid(),
                                       .gid = getegid(),
                                       .name = CAY_STR("/workspace")};
    struct google_protobuf_value path = {.which_kind = GOOGLE_PROTOBUF_VALUE_KIND_STRING_VALUE,
                                         .kind.string_value = CAY_STR(FILE_NAME)};
    struct google_protobuf_struct_fields_entry field = {CAY_STR("path"), &path};
    const struct google_protobuf_struct params = {.fields = {&field, 1}};
    cay_autofree char *address = cay_asprintf("local:%s", argv[1]);
    struct cay_env *env = NULL;
    struct cay_error err = {};
    if (!cay_env_open(address, NULL, &env, &err) || !cay_env_create(env, NULL, NULL, &err))
        die(address, &err);
    cay_autofree double *tool_us = cay_alloc(count * sizeof(*tool_us));
    cay_autofree double *local_us = cay_alloc(count * sizeof(*local_us));
    for (size_t i = 0; i < count; i++) {
        tool_us[i] = run_tool(&tree, &params);
        local_us[i] = run_local(env);
    }
    report("tool", tool_us, count);
    report("local", local_us, count);
    cay_env_close(env);
    close(dir_fd);
    return 0;
}
