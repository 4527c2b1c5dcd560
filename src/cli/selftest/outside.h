/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Of the attempts at the daemon: what their files share. */

#include "cli/selftest/selftest.h"

/* One attempt: what is tried with the session `id` of a runtime. */
struct outside {
    struct cay_selftest *self;
    size_t runtime;
    const char *id;        /* of the session under test */
    const char *neighbour; /* of the one beside */
    const char *secret;    /* the host's file, and its directory */
    const char *prizes_dir;
    struct cay_selftest_outcome *out;
};

#define OUTSIDE(number, name, title)     \
    void try_##name(struct outside *at); \
    void bare_##name(struct outside *at);
#include "cli/selftest/outside.def"
#undef OUTSIDE

#define DENIED(...)  cay_selftest_say(at->out, CAY_SELFTEST_DENIED, __VA_ARGS__)
#define REACHED(...) cay_selftest_say(at->out, CAY_SELFTEST_REACHED, __VA_ARGS__)
#define ABSENT(...)  cay_selftest_say(at->out, CAY_SELFTEST_ABSENT, __VA_ARGS__)

/* outside.c */

/* cay-probe with these words in the session, as root; its exit code, -1 when it did not come to
 * that. */
[[nodiscard]] int outside_run(struct outside *at, const char *id, const char *cwd,
                              const char *const *words);
/* The same on the host, in the control. */
[[nodiscard]] int outside_run_bare(struct outside *at, const char *cwd, const char *const *words);

/* Starts cay-probe in the session as a user and does not wait: its id, in the arena; NULL when that
 * fails. Kills it with all it started; false when it lives on. */
[[nodiscard]] const char *outside_start(struct outside *at, const char *id,
                                        const char *const *words, int timeout_s);
[[nodiscard]] bool outside_end(struct outside *at, const char *id, const char *process_id);

/* On the host, without waiting, as root or somebody else, who need not be able to come to the
 * directory: the pid or a negative number. What it
 * started is killed with it. */
[[nodiscard]] pid_t outside_spawn(struct outside *at, const char *const *argv);
[[nodiscard]] pid_t outside_spawn_as(struct outside *at, uid_t user, const char *cwd,
                                     const char *const *argv);
void outside_kill(pid_t pid);

/* Waits until there is something at the path; false when nothing comes. */
[[nodiscard]] bool outside_await(struct outside *at, const char *id, const char *path);
[[nodiscard]] bool outside_await_bare(const char *path);

/* By the file API, as root: the beginning of a file, with a NUL behind it, and its length, 0 when
 * it cannot be read; and a whole file. */
size_t outside_read(struct outside *at, const char *id, const char *path, char *out_text,
                    size_t size);
[[nodiscard]] bool outside_write(struct outside *at, const char *id, const char *path,
                                 struct cay_str data);

/* Whether the host's directory of prizes has what it had: the secret, and nothing new. */
[[nodiscard]] bool outside_is_whole(const struct outside *at);

/* A session of the attempt's own, with limits or without: its id, in the arena; NULL when there is
 * none. */
[[nodiscard]] const char *outside_make(struct outside *at, const char *word,
                                       const struct cay_v1_resource_limits *limits);

/* A directory of the run, made for a control. */
[[nodiscard]] const char *outside_dir(struct outside *at, const char *name);

/* outside_owners.c: a new key of an owner, in the arena; NULL when there is none. */
[[nodiscard]] const char *outside_key(struct outside *at, const char *owner);

/* A call as somebody with this key or token; NULL: without. By TCP. */
[[nodiscard]] bool outside_call_as(struct outside *at, const char *key, unsigned method,
                                   const void *request, void *out_response, struct cay_error *err);
