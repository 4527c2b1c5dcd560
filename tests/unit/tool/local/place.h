/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A directory of this host as an environment, and calls of its tools as JSON. After each case
 * nothing may be left: no descriptor, no child. */

#include "tests/unit/test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "sys/remove.h"
#include "tool/local/local.h"

enum { PLACE_ARENA_BYTES = 128 * 1024 * 1024, PLACE_WAIT_MS = 10'000 };

struct place {
    char dir[256];
    struct cay_local *local;
    size_t fd_count; /* before */
};

/* One call and all that belongs to it. */
struct
try {
    struct cay_arena arena;
    struct cay_v1_exec_policy policy;
    struct cay_v1_tool_call tool;
    struct cay_local_call call;
    struct cay_v1_tool_result result;
    struct cay_error err;
    bool is_done;
};

static inline size_t place_count_fds(void)
{
    size_t count = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static inline int place_open(void **state)
{
    const char *base = getenv("TMPDIR");
    struct place *place = calloc(1, sizeof(*place));
    struct cay_error err = {};
    assert_non_null(place);
    snprintf(place->dir, sizeof(place->dir), "%s/local-XXXXXX", base ? base : "/tmp");
    assert_non_null(mkdtemp(place->dir));
    place->fd_count = place_count_fds();
    if (!cay_local_open(place->dir, NULL, &place->local, &err))
        fail_msg("%s", err.text);
    *state = place;
    return 0;
}

static inline void place_remove_dir(const char *path)
{
    int dir_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int above_fd = openat(dir_fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(above_fd >= 0);
    close(dir_fd);
    assert_int_equal(cay_remove_tree(above_fd, strrchr(path, '/') + 1, NULL), 0);
    close(above_fd);
}

static inline int place_close(void **state)
{
    struct place *place = *state;
    int status = 0;
    cay_local_close(place->local);
    assert_int_equal(waitpid(-1, &status, WNOHANG | __WALL), -1);
    assert_int_equal(errno, ECHILD);
    assert_int_equal(place_count_fds(), place->fd_count);
    place_remove_dir(place->dir);
    free(place);
    return 0;
}

static inline void try_init(struct try *try, const char *tool, const char *json)
{
    char problem[256] = "";
    *try = (struct try){};
    cay_arena_init(&try->arena, PLACE_ARENA_BYTES);
    /* What is read borrows from the text. */
    const char *kept = cay_arena_copy(&try->arena, cay_str(json));
    struct google_protobuf_struct *params =
        cay_arena_new(&try->arena, struct google_protobuf_struct);
    if (cay_pb_json_read(&google_protobuf_struct_desc, cay_str(kept), NULL, &try->arena, params,
                         problem, sizeof(problem)) != 0)
        fail_msg("%s", problem);
    try->tool = (struct cay_v1_tool_call){
        .tool_name = cay_str(tool), .params = params, .policy = &try->policy};
    try->call = (struct cay_local_call){.tool = &try->tool, .cancel_fd = -1};
}

static inline bool try_run(struct try *try, struct cay_local *local)
{
    try->is_done = cay_local_tool(local, &try->call, &try->arena, &try->result, &try->err);
    return try->is_done;
}

static inline const char *try_text(const struct try *try)
{
    if (!try->is_done)
        fail_msg("the call failed: %s", try->err.text);
    assert_int_equal(try->result.content.count, 1);
    return try->result.content.items[0].block.text.ptr;
}

static inline void try_finish(struct try *try)
{
    cay_arena_finish(&try->arena);
}

/* bash with a command, whose quotes are single. */
static inline void try_bash(struct try *try, const char *command, const char *more)
{
    char json[4096];
    int len = snprintf(json, sizeof(json), "{\"cmd\":\"%s\"%s%s}", command, more ? "," : "",
                       more ? more : "");
    assert_true(len > 0 && (size_t)len < sizeof(json));
    try_init(try, "bash", json);
}

static inline void expect_bash(struct place *place, const char *command, const char *more,
                               const char *text)
{
    struct try try;
    try_bash(&try, command, more);
    (void)try_run(&try, place->local);
    assert_string_equal(try_text(&try), text);
    try_finish(&try);
}

static inline void place_write(const struct place *place, const char *name, const char *text)
{
    char path[400];
    snprintf(path, sizeof(path), "%s/%s", place->dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static inline off_t place_size(const struct place *place, const char *name)
{
    char path[400];
    struct stat st;
    snprintf(path, sizeof(path), "%s/%s", place->dir, name);
    return stat(path, &st) == 0 ? st.st_size : -1;
}

static inline void place_pause(void)
{
    const struct timespec moment = {.tv_nsec = 2'000'000};
    nanosleep(&moment, NULL);
}

/* Until the file has so much in it. */
static inline void place_wait_size(const struct place *place, const char *name, off_t size)
{
    int64_t until = cay_clock_ms() + PLACE_WAIT_MS;
    while (place_size(place, name) < size) {
        assert_true(cay_clock_ms() < until);
        place_pause();
    }
}

/* The number that a command wrote into a file. */
static inline pid_t place_pid(const struct place *place, const char *name)
{
    char path[400];
    char text[32] = "";
    snprintf(path, sizeof(path), "%s/%s", place->dir, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_true(read(fd, text, sizeof(text) - 1) > 0);
    close(fd);
    return (pid_t)strtol(text, NULL, 10);
}

/* 'Z' and 0, which is nobody, are both dead. */
static inline char pid_state(pid_t pid)
{
    char path[64];
    char text[512] = "";
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t len = read(fd, text, sizeof(text) - 1);
    close(fd);
    const char *after = len > 0 ? strrchr(text, ')') : NULL;
    return after ? after[2] : 0;
}

static inline bool pid_is_alive(pid_t pid)
{
    char state = pid_state(pid);
    return state && state != 'Z' && state != 'X';
}
