/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What happens to the processes of a session: what its sandbox's init says, and the beginning and
 * the end of the sandbox itself.
 */

#include "host/process/process.h"

/* A sandbox runs. In an adopted one, processes of an earlier daemon may: init is asked, and what it
 * does not know is lost. */
[[nodiscard]] bool cay_processes_attach(struct cay_processes *table, struct cay_link *link,
                                        bool is_adopted, struct cay_error *err);

/* A frozen sandbox was taken over: what was started runs, as far as anybody can know. */
void cay_processes_rest(struct cay_processes *table);

/* The sandbox is gone: what ran in it ended by `cause`, and the error says why. */
void cay_processes_detach(struct cay_processes *table, enum cay_v1_end_cause cause,
                          const struct cay_error *err);

/* The daemon ends; what runs, runs on. */
void cay_processes_leave(struct cay_processes *table);

/* Each says whether the call is one of the table's. */
bool cay_processes_started(struct cay_processes *table, uint64_t call, uint32_t pid);
bool cay_processes_exited(struct cay_processes *table, uint64_t call,
                          const struct cay_frame_exit *exit);
/* The answer for a call that left processes behind; with a command of somebody else's it makes the
 * process they are known as. */
struct cay_process *cay_processes_who(struct cay_processes *table, uint64_t call,
                                      const struct cay_frame_who *who);
void cay_processes_piece(struct cay_processes *table, uint64_t call,
                         const struct cay_frame_piece *piece);
/* What init sends by itself: to the caller of a command, or because it is too old for reads. */
void cay_processes_output(struct cay_processes *table, uint64_t call,
                          const struct cay_frame_output *output);
bool cay_processes_gone(struct cay_processes *table, uint64_t call);
bool cay_processes_refused(struct cay_processes *table, uint64_t call, enum cay_frame_type request,
                           int error);
bool cay_processes_stdin_room(struct cay_processes *table, uint64_t call, uint64_t taken_bytes);
void cay_processes_listed(struct cay_processes *table, uint64_t call,
                          const struct cay_frame_call *entry,
                          const struct cay_frame_detail *detail);
void cay_processes_list_ended(struct cay_processes *table);

/* It ended without an exit of its own. Without an error there is nothing to say of it. */
void cay_process_end(struct cay_process *process, enum cay_v1_end_cause cause,
                     const struct cay_error *err);

/* restart.c: after an end; true when it will be started again. */
[[nodiscard]] bool cay_process_restarts(struct cay_process *process);
/* It could not be: the end was the last. */
void cay_process_not_again(struct cay_process *process, const struct cay_error *err);
/* It could not be now: try again soon. */
void cay_process_again_soon(struct cay_process *process);
