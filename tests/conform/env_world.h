/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the suites of environments share. A program is given the address of the environments to test
 * and knows nothing of their kind but what the interface says: capabilities decide what is asked.
 *
 *     conform_env ADDRESS
 *
 * Whoever runs it may stand for the world around (a daemon that dies, a key that is revoked), at
 * the other end of the socket whose number is in CAY_TEST_WORLD: a line with a wish is answered by
 * a line with `ok` and what was asked for, or `no`, and then the case is skipped.
 * CAY_TEST_REFERENCE is the address of other environments whose results must be the same.
 */

#include "cay/env.h"
#include "tests/unit/test.h"

enum { WORLD_PATIENCE_MS = 30000, WORLD_SKIPPED = 77 };

/* From main. */
void world_begin(int argc, char **argv);
extern const char *world_address;
extern const char *world_reference; /* NULL: there is none */

/* Asks the world; skips the case if it cannot. The answer lives until the next one. */
const char *world_asks(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

void world_skip(const char *why);

/* An environment without a session, and one with. They fail the case when they cannot. */
struct cay_env *world_open(void);
struct cay_env *world_open_at(const char *address, const struct cay_env_options *options);
struct cay_env *world_make(void);
void world_end(struct cay_env *env); /* destroys and closes it */
struct cay_env_capabilities world_capabilities(struct cay_env *env);

/* A path that no other case uses, also where environments share their files. */
const char *world_name(const char *stem);

/* Runs a tool whose params are JSON in printf's form; it must not fail as a call. */
struct cay_tool_response *world_tool(struct cay_env *env, const char *tool, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Runs a command, which must end with 0; its output is to be freed. */
char *world_bash(struct cay_env *env, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void world_write(struct cay_env *env, const char *path, const char *content);
void world_expect_file(struct cay_env *env, const char *path, const char *content);

/* `call` succeeds, and says why not if it does not. */
#define assert_done(call, err) \
    world_check((call), (err), #call, __FILE__, __LINE__) /* NOLINT: as assert_true */
void world_check(bool is_done, const struct cay_error *err, const char *call, const char *file,
                 int line);

/* `call` fails with this error of the interface, and a sentence. */
#define assert_refused(call, err, error) \
    world_check_refused((call), (err), (error), #call, __FILE__, __LINE__)
void world_check_refused(bool is_done, const struct cay_error *err, enum cay_env_error error,
                         const char *call, const char *file, int line);

/* Awaits a condition, with patience. */
bool world_awaits(bool (*condition)(void *context), void *context);

int64_t world_now_ms(void);
