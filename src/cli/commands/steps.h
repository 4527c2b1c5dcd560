/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A file of steps, in the words of a Dockerfile: FROM, RUN, COPY, ENV, WORKDIR, USER, CMD (what
 * sessions start with) and HEALTHCHECK CMD (what says that it is ready). Everything is in the
 * arena.
 */

#include "api/cay_v1.h"
#include "base/arena.h"
#include "base/error.h"

enum { CAY_STEPS_FILE_BYTES_MAX = 1 << 20, CAY_STEPS_MAX = 1000 };

/* Fills from_base, steps and settings. `text` is changed and must stay. Errors name the line. */
[[nodiscard]] bool cay_steps_parse(char *text, struct cay_arena *arena,
                                   struct cay_v1_build_base_request *request,
                                   struct cay_error *err);

/* A directory as a compressed archive. */
[[nodiscard]] bool cay_steps_pack(const char *directory, struct cay_arena *arena,
                                  struct cay_str *out_archive, struct cay_error *err);
