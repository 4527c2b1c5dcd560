/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writing frames into memory the caller owns. A frame that does not fit is not written at all:
 * false, and the writer is as before.
 */

#include "wire/frame/frame.h"

struct cay_frame_writer {
    uint8_t *data;
    size_t len;
    size_t cap;
};

static inline size_t cay_frame_room(const struct cay_frame_writer *writer)
{
    return writer->cap - writer->len;
}

[[nodiscard]] bool cay_frame_put_empty(struct cay_frame_writer *writer, enum cay_frame_type type,
                                       uint64_t call);
/* A single number as payload: ACK, PING, PONG, SKIP_CLOCK, STDIN_ROOM, GONE (u64), LISTED (u32). */
[[nodiscard]] bool cay_frame_put_u64(struct cay_frame_writer *writer, enum cay_frame_type type,
                                     uint64_t call, uint64_t value);
[[nodiscard]] bool cay_frame_put_u32(struct cay_frame_writer *writer, enum cay_frame_type type,
                                     uint64_t call, uint32_t value);
[[nodiscard]] bool cay_frame_put_start(struct cay_frame_writer *writer,
                                       const struct cay_frame_start *start);
[[nodiscard]] bool cay_frame_put_ready(struct cay_frame_writer *writer,
                                       const struct cay_frame_ready *ready);
[[nodiscard]] bool cay_frame_put_hello(struct cay_frame_writer *writer,
                                       const struct cay_frame_hello *hello);
[[nodiscard]] bool cay_frame_put_welcome(struct cay_frame_writer *writer,
                                         const struct cay_frame_welcome *welcome);
[[nodiscard]] bool cay_frame_put_slot(struct cay_frame_writer *writer,
                                      const struct cay_frame_slot *slot);
[[nodiscard]] bool cay_frame_put_exec(struct cay_frame_writer *writer, uint64_t call,
                                      const struct cay_frame_exec *exec);
[[nodiscard]] bool cay_frame_put_stdin(struct cay_frame_writer *writer, uint64_t call,
                                       struct cay_str data);
[[nodiscard]] bool cay_frame_put_signal(struct cay_frame_writer *writer, uint64_t call,
                                        const struct cay_frame_signal *signal);
[[nodiscard]] bool cay_frame_put_attach(struct cay_frame_writer *writer, uint64_t call,
                                        uint64_t offset, uint32_t window_bytes);
[[nodiscard]] bool cay_frame_put_started(struct cay_frame_writer *writer, uint64_t call,
                                         const struct cay_frame_started *started);
[[nodiscard]] bool cay_frame_put_output(struct cay_frame_writer *writer, uint64_t call,
                                        const struct cay_frame_output *output);
[[nodiscard]] bool cay_frame_put_exit(struct cay_frame_writer *writer, uint64_t call,
                                      const struct cay_frame_exit *exit);
[[nodiscard]] bool cay_frame_put_call(struct cay_frame_writer *writer, uint64_t call,
                                      const struct cay_frame_call *entry);
[[nodiscard]] bool cay_frame_put_procs(struct cay_frame_writer *writer, uint64_t call,
                                       const struct cay_frame_procs *procs);
[[nodiscard]] bool cay_frame_put_refused(struct cay_frame_writer *writer, uint64_t call,
                                         const struct cay_frame_refused *refused);

[[nodiscard]] bool cay_frame_put_read(struct cay_frame_writer *writer, uint64_t call,
                                      uint64_t offset, uint32_t len_max);
[[nodiscard]] bool cay_frame_put_piece(struct cay_frame_writer *writer, uint64_t call,
                                       const struct cay_frame_piece *piece);
[[nodiscard]] bool cay_frame_put_who(struct cay_frame_writer *writer, uint64_t call,
                                     const struct cay_frame_who *who);
[[nodiscard]] bool cay_frame_put_killed(struct cay_frame_writer *writer, uint64_t call,
                                        const struct cay_frame_who *who);
[[nodiscard]] bool cay_frame_put_size(struct cay_frame_writer *writer, uint64_t call,
                                      const struct cay_frame_size *size);
[[nodiscard]] bool cay_frame_put_detail(struct cay_frame_writer *writer, uint64_t call,
                                        const struct cay_frame_detail *detail);

/* Bytes an EXEC or SPAWN frame needs, header included; more than CAY_FRAME_BYTES_MAX when
 * it cannot be sent. */
[[nodiscard]] size_t cay_frame_exec_size(const struct cay_frame_exec *exec);

/* It can be said with EXEC, which every version knows; put_exec then does so. */
[[nodiscard]] bool cay_frame_exec_is_plain(const struct cay_frame_exec *exec);
