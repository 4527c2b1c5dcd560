/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How a command ended, from what init says of it to what clients see. */

#include "api/cay_v1.h"
#include "base/arena.h"
#include "base/error.h"
#include "wire/frame/frame.h"

/* Who was left behind, and the process they are known as. */
struct cay_leftovers {
    const struct cay_frame_who *who; /* NULL: nobody */
    const char *process_id;
    const struct cay_frame_who *killed; /* together with the command; NULL: nobody */
};

/* False when it never ran because the call asked for what cannot be. */
[[nodiscard]] bool cay_result_began(const struct cay_frame_exit *exit, struct cay_error *err);

/* The same for whoever only wanted it started: also a program that cannot be run is an error. */
[[nodiscard]] bool cay_result_started(const struct cay_frame_exit *exit, struct cay_error *err);

/* The sentence of how it ended, once the cause is settled. */
void cay_result_say(struct cay_v1_exec_result *result, struct cay_arena *arena);

void cay_result_fill(const struct cay_frame_exit *exit, const struct cay_leftovers *leftovers,
                     int64_t started_ns, int64_t dropped_bytes, struct cay_arena *arena,
                     struct cay_v1_exec_result *out_result);

/* A sandbox's processes may be called anything; a string of the contract is text. */
struct cay_str cay_result_text(struct cay_arena *arena, struct cay_str text);
