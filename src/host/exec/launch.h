/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The start of a process of a session's table: wake the session, pass the gate, write it down,
 * start it, and expose its port. Whoever asked hears when it runs, or why it does not.
 */

#include "host/exec/command.h"
#include "host/live/ports.h"
#include "host/process/record.h"
#include "host/session/op.h"

struct cay_launch {
    /* Filled by the caller, which owns it until `done`. */
    struct cay_call *call;
    const struct cay_v1_process_spec *spec;
    enum cay_v1_process_origin origin;
    struct cay_str tool_call_id;
    struct cay_str request_id; /* one that started a process here is answered with that one */
    int64_t timeout_ms;        /* counts if the policy's is not shorter; 0: none */
    int64_t quiet_ms;          /* the same without output */
    bool is_terminal;          /* give it one also when the spec does not say so */
    bool has_reader;    /* output is read from the start: nothing of it is dropped meanwhile */
    bool shows_failure; /* a program that cannot be run is a process that ended with 126 or 127 */
    bool is_plain;      /* dies with its caller: not written down before it is started */
    bool is_for_call;   /* the caller waits for its end, and nobody else sees it meanwhile (see
                           host/process/linger.h): `done` comes when it is on its way */
    bool is_tool;       /* counted among the session's tools; who is told `done` ends that */
    /* Exactly once: the process runs (or has ended already), or *err says why it does not. */
    void (*done)(struct cay_launch *launch, struct cay_process *process,
                 const struct cay_error *err);

    struct cay_op op; /* the rest is the launch's own */
    struct cay_session *session;
    bool is_counted;
    bool is_repeated; /* `process` is of an earlier launch */
    struct cay_command_line command;
    struct cay_user user;
    struct cay_frame_exec frame;
    struct cay_process *process;
    struct cay_process_record record;
    struct cay_process_watcher watcher;
    struct cay_survey survey;    /* of a repeated one, until it is known what the sandbox knows */
    struct cay_port_waiter port; /* while it is looked at whether it listens */
    struct cay_timer port_limit;
};

/* What can be said of a spec without a session. */
[[nodiscard]] bool cay_launch_check(const struct cay_v1_process_spec *spec, struct cay_error *err);

/* `done` may be called inside. */
void cay_launch_start(struct cay_launch *launch, struct cay_host *host, struct cay_str session_id);

extern const struct cay_session_part cay_processes_part; /* the session's table of them */
