/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs a program of the host to its end: with an argument vector (never a shell), an environment of
 * PATH and LC_ALL=C alone, nothing to read, bounded output and bounded time. Blocks; any thread.
 */

#include "base/buf.h"

struct cay_program {
    const char *const *argv; /* NULL-terminated; argv[0] is looked for in the path below */
    int timeout_ms;          /* then it is killed: -ETIMEDOUT */
    struct cay_buf *out;     /* what it printed, both streams; more than its ceiling is dropped */
};

#define CAY_RUN_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* Its exit status (128 + n when signal n ended it), or -errno; -ENOENT: there is no such program.
 */
[[nodiscard]] int cay_run(const struct cay_program *run);

/* Where it is, or -ENOENT; nothing is run. */
[[nodiscard]] int cay_run_find(const char *name, char *out_path, size_t size);

/* Is there such a program? Nothing is run. */
[[nodiscard]] bool cay_run_has(const char *name);
