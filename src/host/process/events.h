/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What happens to the processes of a session: what its sandbox's init says, and the beginning and
 * the end of the sandbox itself.
 */

#include "host/process/process.h"

/* What init says; the owner of the link is the table. */
extern const struct cay_link_handlers cay_processes_handlers;

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

/* It ended without an exit of its own. Without an error there is nothing to say of it. */
void cay_process_end(struct cay_process *process, enum cay_v1_end_cause cause,
                     const struct cay_error *err);

/* restart.c: after an end; true when it will be started again. */
[[nodiscard]] bool cay_process_restarts(struct cay_process *process);
/* It could not be: the end was the last. */
void cay_process_not_again(struct cay_process *process, const struct cay_error *err);
/* It could not be now: try again soon. */
void cay_process_again_soon(struct cay_process *process);
