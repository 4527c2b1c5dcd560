/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A small tree to try the tools on: a directory OUTER with `secret` in it, and in that the
 * session's root with /workspace, /tmp and /etc/passwd. Whatever tests do, "TOP SECRET" must never
 * come out.
 */

#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "tool/tool.h"
#include "tool/tree/files.h"

enum { WORLD_ARENA_BYTES = 128 * 1024 * 1024, WORLD_UID = 1000 };

struct world {
    char outer[256];
    char root[300];
    struct cay_tool_tree tree;
    struct cay_arena arena;
    struct cay_v1_tool_result result;
    struct cay_error err;
    bool is_root; /* the tests run as root: the tree belongs to ids from 100000 on */
};

static inline void world_path(const struct world *world, const char *path, char out[600])
{
    snprintf(out, 600, "%s%s", world->root, path);
}

/* Puts a file there behind the tools' back, owned by the sandbox user. */
static inline void world_put_bytes(const struct world *world, const char *path, const void *data,
                                   size_t len)
{
    char full[600];
    world_path(world, path, full);
    int fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, len), (ssize_t)len);
    if (world->is_root)
        assert_int_equal(fchown(fd, 100000 + WORLD_UID, 100000 + WORLD_UID), 0);
    close(fd);
}

static inline void world_put(const struct world *world, const char *path, const char *text)
{
    world_put_bytes(world, path, text, strlen(text));
}

static inline void world_mkdir(const struct world *world, const char *path)
{
    char full[600];
    world_path(world, path, full);
    assert_int_equal(mkdir(full, 0755), 0);
    if (world->is_root)
        assert_int_equal(chown(full, 100000 + WORLD_UID, 100000 + WORLD_UID), 0);
}

static inline struct stat world_stat(const struct world *world, const char *path)
{
    char full[600];
    struct stat st = {};
    world_path(world, path, full);
    assert_int_equal(lstat(full, &st), 0);
    return st;
}

static inline bool world_exists(const struct world *world, const char *path)
{
    char full[600];
    struct stat st;
    world_path(world, path, full);
    return lstat(full, &st) == 0;
}

/* What is in a file; the caller frees it. */
static inline char *world_get(const struct world *world, const char *path)
{
    char full[600];
    world_path(world, path, full);
    FILE *file = fopen(full, "re");
    assert_non_null(file);
    char *text = calloc(1, 1 << 20);
    assert_non_null(text);
    (void)!fread(text, 1, (1 << 20) - 1, file);
    fclose(file);
    return text;
}

#define assert_file(world, path, text)           \
    do {                                         \
        char *content_ = world_get(world, path); \
        assert_string_equal(content_, text);     \
        free(content_);                          \
    } while (0)

static inline struct world *world_new(void)
{
    struct world *world = calloc(1, sizeof(*world));
    assert_non_null(world);
    const char *tmp = getenv("TMPDIR");
    snprintf(world->outer, sizeof(world->outer), "%s/cay-tool-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(world->outer));
    assert_int_equal(chmod(world->outer, 0755), 0);
    char secret[400];
    snprintf(secret, sizeof(secret), "%s/secret", world->outer);
    FILE *file = fopen(secret, "we");
    assert_non_null(file);
    fputs("TOP SECRET\n", file);
    fclose(file);
    snprintf(world->root, sizeof(world->root), "%s/root", world->outer);
    assert_int_equal(mkdir(world->root, 0755), 0);
    world->is_root = geteuid() == 0;
    world->tree = (struct cay_tool_tree){
        .id_base = world->is_root ? 100000 : 0,
        .uid = world->is_root ? WORLD_UID : geteuid(),
        .gid = world->is_root ? WORLD_UID : getegid(),
        .cwd = CAY_STR("/workspace"),
        .root_fd = open(world->root, O_PATH | O_DIRECTORY | O_CLOEXEC),
    };
    assert_true(world->tree.root_fd >= 0);
    cay_arena_init(&world->arena, WORLD_ARENA_BYTES);
    world_mkdir(world, "/workspace");
    world_mkdir(world, "/etc");
    world_put(world, "/etc/passwd",
              "root:x:0:0::/root:/bin/sh\nuser:x:1000:1000:A User:/homes/user:/bin/sh\n");
    world_put(world, "/etc/group", "root:x:0:\nusers:x:1000:\n");
    return world;
}

static inline void world_free(struct world *world)
{
    int64_t removed = 0;
    struct cay_error err;
    int outer_fd = open(world->outer, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct cay_tool_tree outer = {.root_fd = outer_fd, .uid = geteuid(), .gid = getegid()};
    assert_true(cay_files_remove(&outer, CAY_STR("/root"), true, false, &removed, &err));
    assert_true(cay_files_remove(&outer, CAY_STR("/secret"), false, false, &removed, &err));
    close(outer_fd);
    assert_int_equal(rmdir(world->outer), 0);
    close(world->tree.root_fd);
    cay_arena_finish(&world->arena);
    free(world);
}

static inline int world_setup(void **state)
{
    *state = world_new();
    return 0;
}

static inline int world_teardown(void **state)
{
    world_free(*state);
    return 0;
}

static inline struct google_protobuf_struct *world_params(struct world *world, const char *json)
{
    struct google_protobuf_struct *params =
        cay_arena_new(&world->arena, struct google_protobuf_struct);
    char problem[256] = "";
    int read = cay_pb_json_read(&google_protobuf_struct_desc, cay_str(json), NULL, &world->arena,
                                params, problem, sizeof(problem));
    if (read < 0)
        fail_msg("%s: %s", json, problem);
    return params;
}

/* Runs a tool and returns its text. */
static inline const char *world_run_limited(struct world *world, const char *tool, const char *json,
                                            int64_t max)
{
    world->result = (struct cay_v1_tool_result){};
    world->err = (struct cay_error){};
    if (!cay_tool_run(cay_tool_find(cay_str(tool)), &world->tree, world_params(world, json), 0, max,
                      &world->arena, &world->result, &world->err))
        fail_msg("%s %s: %s", tool, json, world->err.text);
    assert_int_equal(world->result.content.count, 1);
    const char *text = cay_arena_copy(&world->arena, world->result.content.items[0].block.text);
    assert_null(strstr(text, "TOP SECRET"));
    assert_int_equal(world->result.is_error, world->result.error_reason.len > 0);
    return text;
}

static inline const char *world_run(struct world *world, const char *tool, const char *json)
{
    const char *text = world_run_limited(world, tool, json, 0);
    if (world->result.is_error)
        fail_msg("%s %s: %s", tool, json, text);
    return text;
}

static inline const char *world_run_failing(struct world *world, const char *tool, const char *json,
                                            const char *reason)
{
    const char *text = world_run_limited(world, tool, json, 0);
    if (!cay_str_is(world->result.error_reason, reason))
        fail_msg("%s %s: expected %s, found '%.*s': %s", tool, json, reason,
                 (int)world->result.error_reason.len, world->result.error_reason.ptr, text);
    return text;
}

static inline double world_fact(const struct world *world, const char *name)
{
    const struct google_protobuf_struct *data = world->result.data;
    for (size_t i = 0; data && i < data->fields.count; i++)
        if (cay_str_is(data->fields.items[i].key, name))
            return data->fields.items[i].value->which_kind == GOOGLE_PROTOBUF_VALUE_KIND_BOOL_VALUE
                       ? data->fields.items[i].value->kind.bool_value
                       : data->fields.items[i].value->kind.number_value;
    fail_msg("no fact '%s'", name);
    return 0;
}

#define assert_text_has(text, part)                      \
    do {                                                 \
        if (!strstr(text, part))                         \
            fail_msg("'%s' is not in:\n%s", part, text); \
    } while (0)

#define world_test(function) cmocka_unit_test_setup_teardown(function, world_setup, world_teardown)
