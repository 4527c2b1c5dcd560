/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Commands in a sandbox: the daemon's end of the connection to its init. Never blocks; an event
 * loop polls cay_link_fd for cay_link_wants and calls cay_link_step. What init says is checked; one
 * wrong byte closes the link, and the sandbox can be linked again (or destroyed).
 *
 * Order: open -> exec, stdin, signal, ack, ... and step, which calls the handlers -> close. Calls
 * are named by the caller, with numbers that are not used twice in the life of a sandbox
 * (cay_link_call_max after an adoption says which were used).
 *
 * Output comes as it is written, until `window_bytes` of it are not acknowledged; acknowledge what
 * is done with, in steps of half the window or so. Without a window it is kept by init, the last
 * ring_bytes of it, for cay_link_attach. A call is remembered until cay_link_release.
 */

#include "base/error.h"
#include "wire/frame/frame.h"

struct cay_link;
struct cay_sandbox;

/* Any may be NULL. They may use the link, but not close it. */
struct cay_link_handlers {
    void (*started)(void *owner, uint64_t call, uint32_t pid);
    void (*output)(void *owner, uint64_t call, const struct cay_frame_output *output);
    /* The answer to cay_link_read. */
    void (*piece)(void *owner, uint64_t call, const struct cay_frame_piece *piece);
    void (*stdin_room)(void *owner, uint64_t call, uint64_t taken_bytes);
    void (*exited)(void *owner, uint64_t call, const struct cay_frame_exit *exit);
    void (*gone)(void *owner, uint64_t call);
    /* `detail` is NULL where init is too old to tell. */
    void (*listed)(void *owner, uint64_t call, const struct cay_frame_call *entry,
                   const struct cay_frame_detail *detail);
    void (*list_ended)(void *owner, uint32_t count);
    void (*procs)(void *owner, uint64_t call, const struct cay_frame_procs *procs);
    /* The answer to cay_link_who, valid until it returns. */
    void (*who)(void *owner, uint64_t call, const struct cay_frame_who *who);
    void (*pong)(void *owner, uint64_t value);
    /* A request that could not be done: exec that found no room, a call that is not there. */
    void (*refused)(void *owner, uint64_t call, enum cay_frame_type request, int error);
};

enum {
    CAY_LINK_OUT_BYTES_MAX = 4 << 20, /* of requests that init has not read */
    CAY_LINK_RING_BYTES = 256 * 1024, /* a good ring, and a good window */
};

/* Connects, or takes the connection the sandbox was started with. Reasons: UNAVAILABLE. The
 * handlers are copied; the sandbox must outlive the link. */
[[nodiscard]] bool cay_link_open(struct cay_sandbox *sandbox,
                                 const struct cay_link_handlers *handlers, void *owner,
                                 struct cay_link **out_link, struct cay_error *err);
/* Commands run on. Accepts NULL. */
void cay_link_close(struct cay_link *link);

[[nodiscard]] int cay_link_fd(const struct cay_link *link);
/* POLLIN, POLLOUT */
[[nodiscard]] short cay_link_wants(struct cay_link *link);

/* Does what the descriptor is ready for; handlers are called from here only. False when the link is
 * dead: UNAVAILABLE (init is gone) or RUNTIME_FAILED (it broke the protocol). */
[[nodiscard]] bool cay_link_step(struct cay_link *link, struct cay_error *err);

/* Highest call number ever used; 0 until the first answer after an adoption has come. */
[[nodiscard]] uint64_t cay_link_call_max(const struct cay_link *link);

/* Version of the frames that init speaks; 0 until the first answer after an adoption. */
[[nodiscard]] uint32_t cay_link_version(const struct cay_link *link);

/* The answer is `exited`, or `refused`. args and env end with NULL, their counts are set. Reasons:
 * INVALID_ARGUMENT, RESOURCE_EXHAUSTED (too many calls, too much unread), NOT_SUPPORTED (init is
 * too old for this). */
[[nodiscard]] bool cay_link_exec(struct cay_link *link, uint64_t call,
                                 const struct cay_frame_exec *exec, struct cay_error *err);

/* Input that init takes ahead of the command; data at most this much beyond what stdin_room has
 * told. */
[[nodiscard]] uint32_t cay_link_stdin_window(const struct cay_link *link);
[[nodiscard]] bool cay_link_stdin(struct cay_link *link, uint64_t call, struct cay_str data,
                                  struct cay_error *err);
[[nodiscard]] bool cay_link_close_stdin(struct cay_link *link, uint64_t call,
                                        struct cay_error *err);
[[nodiscard]] bool cay_link_signal(struct cay_link *link, uint64_t call, int signal,
                                   enum cay_frame_target target, struct cay_error *err);
[[nodiscard]] bool cay_link_ack(struct cay_link *link, uint64_t call, uint64_t offset,
                                struct cay_error *err);
/* Streams from the offset on, or from the oldest that is kept; tells the exit (again) if there was
 * one. */
[[nodiscard]] bool cay_link_attach(struct cay_link *link, uint64_t call, uint64_t offset,
                                   uint32_t window_bytes, struct cay_error *err);
/* One piece of output of at most len_max bytes from the offset on, or from the oldest that is kept;
 * it comes when there is one. A second read of a call takes the place of the first. Where init is
 * too old, the call must not be attached otherwise. */
[[nodiscard]] bool cay_link_read(struct cay_link *link, uint64_t call, uint64_t offset,
                                 uint32_t len_max, struct cay_error *err);
[[nodiscard]] bool cay_link_resize(struct cay_link *link, uint64_t call,
                                   const struct cay_frame_size *size, struct cay_error *err);
[[nodiscard]] bool cay_link_detach(struct cay_link *link, uint64_t call, struct cay_error *err);
[[nodiscard]] bool cay_link_release(struct cay_link *link, uint64_t call, struct cay_error *err);
[[nodiscard]] bool cay_link_list(struct cay_link *link, struct cay_error *err);
[[nodiscard]] bool cay_link_list_procs(struct cay_link *link, uint64_t call, struct cay_error *err);
/* The same with command lines, where init can tell them. */
[[nodiscard]] bool cay_link_who(struct cay_link *link, uint64_t call, struct cay_error *err);
/* Who was killed together with a call that ended lately; NULL: nobody. */
const struct cay_frame_who *cay_link_killed(const struct cay_link *link, uint64_t call);
[[nodiscard]] bool cay_link_ping(struct cay_link *link, uint64_t value, struct cay_error *err);
/* The value of the latest one that init has answered. */
[[nodiscard]] uint64_t cay_link_answered(const struct cay_link *link);
/* Time that timeouts of running commands do not count: a pause. Before thaw. */
[[nodiscard]] bool cay_link_skip_clock(struct cay_link *link, uint64_t ms, struct cay_error *err);
