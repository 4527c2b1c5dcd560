/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_STREAM_H
#define CAY_STREAM_H

/*
 * A process that is talked to: what it prints is read as it comes, and its standard input or its
 * terminal is written to, both at once.
 *
 *     struct cay_process_request request = CAY_PROCESS_REQUEST;
 *     request.sandbox_id = "demo";
 *     request.binary = "bash";
 *     request.rows = 24, request.columns = 80;      a terminal; or request.has_input: a pipe
 *     if (cay_control_launch(control, &request, NULL, &process, &err) &&
 *         cay_stream_open(control, "demo", process->process_id, NULL, &stream, &err) &&
 *         cay_stream_write(stream, "ls\n", 3, NULL, &err)) {
 *         while (cay_stream_read(stream, &piece, &err) == CAY_FLOW_MESSAGE)
 *             fwrite(piece->data, 1, piece->len, stdout);
 *         cay_stream_close(stream);
 *     }
 *
 * Reading either blocks (cay_stream_read) or is driven by a loop of the caller's, as that of flows
 * is (cay/client.h): poll cay_stream_fd for cay_stream_events within cay_stream_timeout_ms, then
 * cay_stream_step. When the host is restarted, or a connection breaks, reading goes on at the byte
 * where it was.
 *
 * One thread reads; any number of others may write, resize and close the input meanwhile. The
 * stream is closed when none of them is inside. The control may be closed before.
 */

#include "cay/control.h"

CAY_API_BEGIN

struct cay_stream;

struct cay_stream_options {
    size_t size;
    int64_t offset; /* of the first byte that is wanted, in all that the process prints */
    struct cay_cancel *cancel; /* ends the wait of the one who reads; NULL: nobody does */
};
#define CAY_STREAM_OPTIONS CAY_INIT(cay_stream_options)

/* Says nothing to the host yet: what is wrong with the ids the first read tells. `options` may be
 * NULL. */
CAY_API bool cay_stream_open(struct cay_control *control, const char *sandbox_id,
                             const char *process_id, const struct cay_stream_options *options,
                             struct cay_stream **out_stream, struct cay_error *err);
/* The process goes on; to end it is what cay_control_kill is for. Accepts NULL. */
CAY_API void cay_stream_close(struct cay_stream *stream);

struct cay_stream_piece {
    int stream;       /* 1: standard output, or the terminal; 2: standard error */
    const char *data; /* valid until the stream is read again */
    size_t len;
    int64_t offset;        /* of the data in all that was printed */
    int64_t dropped_bytes; /* lost directly before it: the host keeps the newest only */
};

/* CAY_FLOW_MESSAGE with the next piece, CAY_FLOW_END when the process has ended and all was read,
 * CAY_FLOW_FAILED; the second also CAY_FLOW_NOTHING. */
CAY_API enum cay_flow_news cay_stream_read(struct cay_stream *stream,
                                           const struct cay_stream_piece **out_piece,
                                           struct cay_error *err);
CAY_API enum cay_flow_news cay_stream_step(struct cay_stream *stream,
                                           const struct cay_stream_piece **out_piece,
                                           struct cay_error *err);

/* For a loop of the caller's. The descriptor may change with every step: ask again. */
CAY_API int cay_stream_fd(const struct cay_stream *stream);
CAY_API short cay_stream_events(const struct cay_stream *stream);   /* POLLIN, POLLOUT */
CAY_API int cay_stream_timeout_ms(const struct cay_stream *stream); /* for poll; -1: none */

/* How the process ended, once it was read to its end; NULL before. The stream's. */
CAY_API const struct cay_process_status *cay_stream_status(const struct cay_stream *stream);

/* To its standard input, or typed at its terminal. Returns when the host has taken all, and so
 * waits for a process that does not read, until the time of the call is over. When an answer is
 * lost (`unavailable`), it is not known how much was taken. Without an input:
 * `failed_precondition`. */
CAY_API bool cay_stream_write(struct cay_stream *stream, const void *data, size_t len,
                              const struct cay_call_options *options, struct cay_error *err);
/* The process reads the end of its input. That of a terminal cannot be closed: type "\004". */
CAY_API bool cay_stream_close_input(struct cay_stream *stream,
                                    const struct cay_call_options *options, struct cay_error *err);
CAY_API bool cay_stream_resize(struct cay_stream *stream, int rows, int columns,
                               const struct cay_call_options *options, struct cay_error *err);

CAY_API_END

#endif
