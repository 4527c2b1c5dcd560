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

/* Whether the host's directory of prizes has what it had: the secret, and nothing new. */
[[nodiscard]] bool outside_is_whole(const struct outside *at);

/* A directory of the run, made for a control. */
[[nodiscard]] const char *outside_dir(struct outside *at, const char *name);

/* outside_owners.c: a new key of an owner, in the arena; NULL when there is none. */
[[nodiscard]] const char *outside_key(struct outside *at, const char *owner);

/* A call as somebody with this key or token; NULL: without. By TCP. */
[[nodiscard]] bool outside_call_as(struct outside *at, const char *key, unsigned method,
                                   const void *request, void *out_response, struct cay_error *err);
