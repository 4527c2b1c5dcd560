/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The recipe `debian`: what debootstrap is called with, and what is done to the tree it leaves: a
 * user, sudo without a password, no devices, no caches. The mirror is the one the machine itself
 * has its packages from.
 */

#include "api/cay_v1.h"
#include "base/arena.h"
#include "base/error.h"

struct cay_debian {
    const char *suite;
    const char *mirror;
    const char *packages; /* separated by commas */
};

/* From the parameters `suite`, `mirror` and `packages`, and from /etc; more_packages are those of
 * the recipe. Reads files: on a worker. */
[[nodiscard]] bool cay_debian_choose(struct cay_debian *out_debian, struct cay_pb_pairs params,
                                     const char *more_packages, int etc_fd, struct cay_arena *arena,
                                     struct cay_error *err);

/* argv for `unshare`, which gives debootstrap namespaces of its own and takes everything it started
 * along when it is killed. Ends with NULL; in the arena. */
[[nodiscard]] const char *const *cay_debian_argv(const struct cay_debian *debian,
                                                 const char *target, struct cay_arena *arena,
                                                 struct cay_error *err);

/* What debootstrap left becomes a base. On a worker. */
[[nodiscard]] bool cay_debian_finish(int root_fd, struct cay_error *err);
