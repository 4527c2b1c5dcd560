/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/conform/env_world.h"

#include <time.h>
#include <unistd.h>

const char *world_address;
const char *world_reference;
static int world_fd = -1;

void world_begin(int argc, char **argv)
{
    world_address = argc > 1 ? argv[1] : NULL;
    const char *number = getenv("CAY_TEST_WORLD");
    if (number)
        world_fd = (int)strtol(number, NULL, 10);
    world_reference = getenv("CAY_TEST_REFERENCE");
}

void world_skip(const char *why)
{
    print_message("skipped: %s\n", why);
    skip();
}

const char *world_asks(const char *fmt, ...)
{
    static char answer[4096];
    char wish[1024];
    va_list args;
    if (world_fd < 0)
        world_skip("there is nobody to change the world");
    va_start(args, fmt);
    int len = vsnprintf(wish, sizeof(wish) - 1, fmt, args);
    va_end(args);
    wish[len] = '\n';
    assert_int_equal(write(world_fd, wish, (size_t)len + 1), len + 1);
    size_t got = 0;
    while (got < sizeof(answer) - 1 && read(world_fd, answer + got, 1) == 1 && answer[got] != '\n')
        got++;
    answer[got] = '\0';
    if (strncmp(answer, "no", 2) == 0)
        world_skip(answer);
    if (strncmp(answer, "ok", 2) != 0)
        fail_msg("the world says '%s' to '%s'", answer, wish);
    return answer[2] ? answer + 3 : "";
}

int64_t world_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

bool world_awaits(bool (*condition)(void *context), void *context)
{
    const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
    for (int64_t until = world_now_ms() + WORLD_PATIENCE_MS; world_now_ms() < until;) {
        if (condition(context))
            return true;
        nanosleep(&pause, NULL);
    }
    return false;
}

void world_check(bool is_done, const struct cay_error *err, const char *call, const char *file,
                 int line)
{
    if (!is_done)
        print_error("%s: %s (%s)\n", call, err->text, cay_error_reason(err));
    _assert_true(is_done, call, file, line);
}

void world_check_refused(bool is_done, const struct cay_error *err, enum cay_env_error error,
                         const char *call, const char *file, int line)
{
    _assert_true(!is_done, call, file, line);
    if (cay_env_error_of(err) != error)
        print_error("%s: %s (%s)\n", call, err->text, cay_error_reason(err));
    _assert_int_equal(cay_env_error_of(err), error, file, line);
    _assert_true(err->text[0] != '\0', "it says why", file, line);
}

struct cay_env *world_open_at(const char *address, const struct cay_env_options *options)
{
    struct cay_error err = {};
    struct cay_env *env = NULL;
    assert_done(cay_env_open(address, options, &env, &err), &err);
    assert_non_null(env);
    return env;
}

struct cay_env *world_open(void)
{
    return world_open_at(world_address, NULL);
}

struct cay_env *world_make(void)
{
    struct cay_error err = {};
    struct cay_env *env = world_open();
    assert_done(cay_env_create(env, NULL, NULL, &err), &err);
    return env;
}

void world_end(struct cay_env *env)
{
    struct cay_error err = {};
    assert_done(cay_env_destroy(env, NULL, &err), &err);
    cay_env_close(env);
}

struct cay_env_capabilities world_capabilities(struct cay_env *env)
{
    struct cay_error err = {};
    const struct cay_env_capabilities *capabilities = NULL;
    assert_done(cay_env_capabilities(env, NULL, &capabilities, &err), &err);
    return *capabilities;
}

const char *world_name(const char *stem)
{
    static char names[16][128];
    static unsigned count;
    char *name = names[count++ % 16];
    snprintf(name, sizeof(names[0]), "%s-%d-%u", stem, (int)getpid(), count);
    return name;
}

struct cay_tool_response *world_tool(struct cay_env *env, const char *tool, const char *fmt, ...)
{
    char *params = NULL;
    struct cay_error err = {};
    struct cay_tool_response *response = NULL;
    struct cay_tool_request request = CAY_TOOL_REQUEST;
    va_list args;
    va_start(args, fmt);
    assert_true(vasprintf(&params, fmt, args) >= 0);
    va_end(args);
    request.tool_name = tool;
    request.params = params;
    assert_done(cay_env_execute_tool(env, &request, NULL, &response, &err), &err);
    free(params);
    return response;
}

char *world_bash(struct cay_env *env, const char *fmt, ...)
{
    char *command = NULL;
    va_list args;
    va_start(args, fmt);
    assert_true(vasprintf(&command, fmt, args) >= 0);
    va_end(args);
    struct cay_tool_response *response = world_tool(env, "bash", "{\"cmd\":\"%s\"}", command);
    if (response->is_error)
        fail_msg("%s: %s: %s", command, response->reason, response->text);
    assert_true(response->has_exit_code);
    assert_int_equal(response->exit_code, 0);
    char *text = strdup(response->text);
    cay_tool_response_free(response);
    free(command);
    return text;
}

void world_write(struct cay_env *env, const char *path, const char *content)
{
    struct cay_tool_response *response =
        world_tool(env, "write_file", "{\"path\":\"%s\",\"content\":\"%s\"}", path, content);
    if (response->is_error)
        fail_msg("write %s: %s", path, response->text);
    cay_tool_response_free(response);
}

void world_expect_file(struct cay_env *env, const char *path, const char *content)
{
    char *text = world_bash(env, "cat %s", path);
    if (!strstr(text, content))
        fail_msg("%s holds '%s' instead of '%s'", path, text, content);
    free(text);
}
