/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The running half of a session, on the loop thread: its sandbox, the link to the init in it, and
 * the commands that run there. It dies with the sandbox; the session lives on and is woken again.
 */

#include "api/cay_v1.h"
#include "base/list.h"
#include "host/runtime/link.h"
#include "host/runtime/runtime.h"

struct cay_process;
struct cay_session;
struct cay_live;

/* How a command ended. */
struct cay_exec_end {
    const struct cay_frame_exit *exit; /* NULL: the sandbox was lost, see err */
    const struct cay_error *err;
    const struct cay_frame_who *who;    /* it left behind; NULL: nobody */
    const char *leftover_id;            /* the process they are known as */
    const struct cay_frame_who *killed; /* with it; NULL: nobody */
};

/* One command, embedded in whoever wants its output. */
struct cay_exec {
    /* Output as it comes. Acknowledged with cay_exec_ack, now or when there is room for more. */
    void (*output)(struct cay_exec *exec, const struct cay_frame_output *output);
    /* The last call; the command is no longer known to `live` afterwards. */
    void (*ended)(struct cay_exec *exec, const struct cay_exec_end *end);
    /* It has run for a while. May be NULL. */
    void (*lingers)(struct cay_exec *exec);

    struct cay_list_node in_live; /* the rest is live's own */
    struct cay_live *live;
    uint64_t call;
    struct cay_frame_exit exit; /* kept while the leftovers are listed */
    uint64_t seen_offset;       /* output that came */
    uint64_t started_ms;        /* of the loop's clock */
    bool has_lingered;
    bool is_exited;
    bool is_told;                     /* all output until its end was passed on */
    enum cay_v1_end_cause kill_cause; /* why we killed it; unspecified: we did not */
    char label[64];                   /* for lists: the beginning of the command */
};

/* A number for the next command; no other command of any sandbox of the session has it. */
[[nodiscard]] uint64_t cay_live_next_call(struct cay_live *live);

/* Starts a process of the table under its number; what it says goes there. */
[[nodiscard]] bool cay_live_spawn(struct cay_live *live, const struct cay_process *process,
                                  const struct cay_frame_exec *frame, struct cay_error *err);

/* The link was used by the table. */
void cay_live_touched(struct cay_live *live);

/* Follows a command no longer; it goes on as a process of the table. */
void cay_exec_leave(struct cay_exec *exec);

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

[[nodiscard]] bool cay_live_exec(struct cay_live *live, struct cay_exec *exec,
                                 const struct cay_frame_exec *frame, struct cay_error *err);
void cay_exec_ack(struct cay_exec *exec, uint64_t offset);
void cay_exec_stdin(struct cay_exec *exec, struct cay_str data, bool is_last);
void cay_exec_kill(struct cay_exec *exec);

/* Everything in it; the commands' results say `cause`. */
void cay_live_kill_all(struct cay_live *live, enum cay_v1_end_cause cause);

extern const struct cay_session_part cay_live_part;
