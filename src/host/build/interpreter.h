/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The recipe `code-interpreter`: a Debian with Python and what people use it for, or any base that
 * has Python, with our code interpreter in it, which sessions start and wait for.
 */

#include "api/cay_v1.h"
#include "base/arena.h"
#include "base/error.h"

#define CAY_INTERPRETER_RECIPE   "code-interpreter"
#define CAY_INTERPRETER_ALIAS    "code-interpreter-v1"
#define CAY_INTERPRETER_PACKAGES "python3-numpy,python3-pandas,python3-matplotlib"

/* The program's text, in memory of its own; NULL when it cannot be read. */
char *cay_interpreter_read(const char *path);

/* What is built instead: the same with settings, the alias and, on a base, a step and its context.
 * In the arena. */
[[nodiscard]] bool cay_interpreter_request(const struct cay_v1_build_base_request *request,
                                           const char *text, struct cay_arena *arena,
                                           struct cay_v1_build_base_request *out_request,
                                           struct cay_error *err);

/* On a worker: puts it into a tree. */
[[nodiscard]] bool cay_interpreter_install(int root_fd, const char *text, struct cay_error *err);
