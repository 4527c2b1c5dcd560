/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reading frames. Every function returns false (or -EPROTO) for anything that is not exactly what
 * the protocol says; outputs point into the frame's memory.
 */

#include "wire/frame/frame.h"

/* Looks for a whole frame at the start of the data, sent by `side`. Returns its size, 0 when more
 * bytes are needed, -EPROTO when the other side does not follow the protocol. */
[[nodiscard]] ssize_t cay_frame_next(const uint8_t *data, size_t len, enum cay_frame_side side,
                                     struct cay_frame *out_frame);

[[nodiscard]] bool cay_frame_get_u64(const struct cay_frame *frame, uint64_t *out_value);
[[nodiscard]] bool cay_frame_get_u32(const struct cay_frame *frame, uint32_t *out_value);
[[nodiscard]] bool cay_frame_get_start(const struct cay_frame *frame,
                                       struct cay_frame_start *out_start);
[[nodiscard]] bool cay_frame_get_ready(const struct cay_frame *frame,
                                       struct cay_frame_ready *out_ready);
[[nodiscard]] bool cay_frame_get_hello(const struct cay_frame *frame,
                                       struct cay_frame_hello *out_hello);
[[nodiscard]] bool cay_frame_get_welcome(const struct cay_frame *frame,
                                         struct cay_frame_welcome *out_welcome);
[[nodiscard]] bool cay_frame_get_slot(const struct cay_frame *frame,
                                      struct cay_frame_slot *out_slot);

/* Of EXEC and SPAWN. The caller gives args and env with room for CAY_FRAME_ARGS_MAX + 1 and
 * CAY_FRAME_ENV_MAX + 1. */
[[nodiscard]] bool cay_frame_get_exec(const struct cay_frame *frame,
                                      struct cay_frame_exec *in_out_exec);
[[nodiscard]] bool cay_frame_get_signal(const struct cay_frame *frame,
                                        struct cay_frame_signal *out_signal);
[[nodiscard]] bool cay_frame_get_attach(const struct cay_frame *frame, uint64_t *out_offset,
                                        uint32_t *out_window_bytes);
[[nodiscard]] bool cay_frame_get_started(const struct cay_frame *frame,
                                         struct cay_frame_started *out_started);
[[nodiscard]] bool cay_frame_get_output(const struct cay_frame *frame,
                                        struct cay_frame_output *out_output);
[[nodiscard]] bool cay_frame_get_exit(const struct cay_frame *frame,
                                      struct cay_frame_exit *out_exit);
[[nodiscard]] bool cay_frame_get_call(const struct cay_frame *frame,
                                      struct cay_frame_call *out_entry);
[[nodiscard]] bool cay_frame_get_procs(const struct cay_frame *frame,
                                       struct cay_frame_procs *out_procs);
[[nodiscard]] bool cay_frame_get_refused(const struct cay_frame *frame,
                                         struct cay_frame_refused *out_refused);

[[nodiscard]] bool cay_frame_get_piece(const struct cay_frame *frame,
                                       struct cay_frame_piece *out_piece);
[[nodiscard]] bool cay_frame_get_who(const struct cay_frame *frame, struct cay_frame_who *out_who);
[[nodiscard]] bool cay_frame_get_read(const struct cay_frame *frame, uint64_t *out_offset,
                                      uint32_t *out_len_max);
[[nodiscard]] bool cay_frame_get_size(const struct cay_frame *frame,
                                      struct cay_frame_size *out_size);
[[nodiscard]] bool cay_frame_get_detail(const struct cay_frame *frame,
                                        struct cay_frame_detail *out_detail);

/* "dev", "cwd", ...; never NULL. */
[[nodiscard]] const char *cay_frame_stage_name(uint32_t stage);
