/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Readers of a process's output, any number, each at its own offset. The daemon keeps nothing:
 * one piece at a time is asked of init, for the reader that is furthest behind and has room, and
 * given to everybody who is at that place. A reader without room misses what the ring drops. For
 * the call that a process runs for, init does not wait to be asked (window_bytes of its start).
 */

#include "host/process/process.h"

struct cay_reader {
    /* A piece for this reader, `gap` lost bytes before it. Empty data: only the loss is to be told.
     * Sets is_full when no more is wanted until cay_reader_go_on. May close this and other readers.
     */
    void (*output)(struct cay_reader *reader, const struct cay_frame_output *output, uint64_t gap);
    /* The process has ended for good and all its output was given, or `limit` was reached, or the
     * process is forgotten (then `process` is NULL). The reader has been removed. */
    void (*ended)(struct cay_reader *reader);
    /* How many of the bytes given may still get lost on their way; may be NULL. A writer that waits
     * for its readers is not told of them: who comes back after a cut finds them. */
    size_t (*unsent)(struct cay_reader *reader);

    struct cay_list_node in_process;
    struct cay_process *process;
    uint64_t offset;
    uint64_t limit; /* ends here; UINT64_MAX: with the process */
    uint64_t dropped_bytes;
    uint64_t walk;
    bool is_full;
    bool is_callers; /* of the call that the process runs for: not counted as attached. It takes
                        what comes and the end also without room, after which no more comes */
};

/* From the offset on. `ended` may be called inside. */
void cay_reader_open(struct cay_reader *reader, struct cay_process *process, uint64_t offset,
                     uint64_t limit);
void cay_reader_close(struct cay_reader *reader);
void cay_reader_go_on(struct cay_reader *reader);

/* For the table: a piece has come; the state has changed. */
void cay_readers_piece(struct cay_process *process, const struct cay_frame_piece *piece);
void cay_readers_pump(struct cay_process *process);
