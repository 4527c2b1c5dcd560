/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A directory of this host as an environment for an agent: the tools of the table, in the caller's
 * process and as the caller, without a daemon and without root. It isolates nothing: a command can
 * do whatever the caller can.
 *
 * Order: open -> tool | pause | resume | processes | kill | output, by any number of threads ->
 * close, once nobody is inside any more; kill_all makes those who are inside come back. An
 * environment belongs to the process that opened it, not to a fork of that.
 *
 * Results are those of the daemon's ExecuteTool, to the byte. So the directory has the name that a
 * session's workspace has, /workspace, in what file tools take and say; its path on this host is
 * taken for it, too, since commands print that. File tools stay below it: other absolute paths, `~`
 * and links that lead out are refused, also absolute links that lead back in. Commands start in the
 * directory and see the host as it is, where there is no /workspace; paths in the parameters of git
 * tools and `cwd` are translated for them, the text of bash is not.
 *
 * Nothing here exits, aborts, prints, changes signal handlers or keeps anything outside of the
 * environment. Every allocation may fail: RESOURCE_EXHAUSTED.
 */

#include "api/cay_v1.h"
#include "base/arena.h"
#include "base/error.h"

struct cay_local;

#define CAY_LOCAL_NAME "/workspace"

enum { CAY_LOCAL_PROCESSES_MAX = 128 }; /* that run at a time, leftovers included */

struct cay_local_options {
    struct cay_str id;       /* CAY_SESSION of commands; empty: "local" */
    struct cay_pb_pairs env; /* over the usual one; the caller's own is not handed on */
    int64_t command_ms;      /* of commands that name no timeout; 0: as long as the tool says */
};

/* `path` is looked up once, the usual way. What is in `options`, which may be NULL, is copied.
 * Reasons: FILE_NOT_FOUND, NOT_A_DIRECTORY, ACCESS_DENIED, RESOURCE_EXHAUSTED. */
[[nodiscard]] bool cay_local_open(const char *path, const struct cay_local_options *options,
                                  struct cay_local **out_local, struct cay_error *err);
/* Kills and waits for all that its tools started and that still runs. Accepts NULL. */
void cay_local_close(struct cay_local *local);

/* What a tool tells on its way, on the thread that runs it. Both may be NULL. */
struct cay_local_progress {
    /* It runs; `process_id` is empty for a tool that is no command. */
    void (*started)(void *context, const char *process_id);
    void (*output)(void *context, const struct cay_v1_output_chunk *chunk);
    void *context;
};

struct cay_local_call {
    const struct cay_v1_tool_call *tool; /* its id is not looked at: a second call runs again */
    const struct cay_local_progress *progress; /* may be NULL */
    int cancel_fd;    /* readable: it is not wanted any more, and its command is killed; -1: none */
    const bool *stop; /* the same for tools that are no commands: see base/stop.h; may be NULL */
};

/* Runs a tool to its end. A tool that fails at its task is true, with is_error in the result, which
 * is all in the arena. Reasons: those of ExecuteTool; NOT_SUPPORTED for another user and for
 * limits; SESSION_PAUSED; SESSION_DESTROYING while everything is killed; CANCELED. */
[[nodiscard]] bool cay_local_tool(struct cay_local *local, const struct cay_local_call *call,
                                  struct cay_arena *arena, struct cay_v1_tool_result *out_result,
                                  struct cay_error *err);

/* What runs stands still, and time does not count for it; tools are refused until resume. Reason:
 * INTERNAL when somebody cannot be stopped; it is paused all the same. */
[[nodiscard]] bool cay_local_pause(struct cay_local *local, struct cay_error *err);
[[nodiscard]] bool cay_local_resume(struct cay_local *local, struct cay_error *err);

/* What was started: commands on behalf of calls, those in the background (the last of them also
 * after their end), and leftovers. */
struct cay_local_processes {
    struct cay_v1_process *items;
    size_t count;
};
[[nodiscard]] bool cay_local_list(struct cay_local *local, struct cay_arena *arena,
                                  struct cay_local_processes *out_processes, struct cay_error *err);

/* SIGKILL goes to all that the process started, any other signal to its group. Reasons:
 * PROCESS_NOT_FOUND, INVALID_ARGUMENT. */
[[nodiscard]] bool cay_local_kill(struct cay_local *local, struct cay_str id, int signal,
                                  struct cay_error *err);

/* What one in the background has printed: the beginning and the end of it. */
struct cay_local_output {
    struct cay_str out, err_out; /* in the arena */
    uint64_t out_bytes, err_bytes;
};
[[nodiscard]] bool cay_local_output(struct cay_local *local, struct cay_str id,
                                    struct cay_arena *arena, struct cay_local_output *out_output,
                                    struct cay_error *err);

/* Kills all that runs and refuses tools from now on; for a close while others are inside. */
void cay_local_kill_all(struct cay_local *local);
