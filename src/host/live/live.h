/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The running half of a session, on the loop thread: its sandbox and the link to the init in it. It
 * dies with the sandbox; the session lives on and is woken again. What runs there is in the
 * session's table of processes.
 */

#include "api/cay_v1.h"
#include "base/list.h"
#include "host/runtime/link.h"
#include "host/runtime/runtime.h"

struct cay_process;
struct cay_session;
struct cay_live;

/* A number for the next command; no other command of any sandbox of the session has it. */
[[nodiscard]] uint64_t cay_live_next_call(struct cay_live *live);

/* Starts a process of the table under its number; what is heard of it goes there. */
[[nodiscard]] bool cay_live_spawn(struct cay_live *live, const struct cay_process *process,
                                  const struct cay_frame_exec *frame, struct cay_error *err);

/* The link was used by the table. */
void cay_live_touched(struct cay_live *live);

/* Waits until an adopted sandbox has told what runs in it. */
void cay_live_settle(struct cay_live *live, int timeout_ms);

/* Talks to the session's sandbox from now on; one whose init cannot be talked to is destroyed. In
 * an adopted one commands of an earlier daemon may run: nobody follows them, but they count as
 * alive.
 */
void cay_live_open(struct cay_session *session, bool is_adopted);

/* Ends every command with `reason` and gives the sandbox back, to be destroyed on a worker; also
 * one that rests. NULL when there is none. */
[[nodiscard]] struct cay_sandbox *cay_live_close(struct cay_session *session,
                                                 enum cay_reason reason);

/* At the end of the daemon: lets the sandbox run on without us. */
void cay_live_leave(struct cay_session *session);

/* The sandbox is of no use any more: commands end, and the session is woken anew by the next call.
 */
void cay_live_lost(struct cay_session *session, const struct cay_error *err);

/* Nothing but init is alive in it. */
[[nodiscard]] bool cay_live_is_quiet(const struct cay_live *live);

/* Somebody waits for a command in it. */
[[nodiscard]] bool cay_live_is_followed(const struct cay_live *live);

/* What runs, for an answer. */
void cay_live_list(const struct cay_live *live, struct cay_arena *arena,
                   struct cay_v1_leftover_process_array *out_list);

/* Time the commands stood still, which their timeouts do not count. */
void cay_live_skip_clock(struct cay_live *live, int64_t frozen_ns);

extern const struct cay_session_part cay_live_part;
