/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What runs in the keeper (keeper.h says why there is one), what it is told and what it says. */

#include "base/base.h"

struct cay_keeper_spec {
    const char *const *argv; /* all end with NULL, and stay until start has returned */
    const char *const *env;
    int cwd_fd;
    int stdio[3];  /* of the command */
    int output[2]; /* the other ends of its output: see drain */
};

enum cay_keeper_kind {
    CAY_KEEPER_STARTED = 1, /* pid */
    CAY_KEEPER_FAILED,      /* it never ran: step and error */
    CAY_KEEPER_ENDED,       /* status, has_left and the times */
};

struct cay_keeper_report {
    uint32_t kind;     /* enum cay_keeper_kind */
    int32_t pid;       /* of the command, and of its group and session */
    uint32_t step;     /* enum cay_outcome_step */
    int32_t error;     /* errno */
    int32_t status;    /* as wait(2) has it */
    uint32_t has_left; /* processes of it are still there */
    uint64_t user_usec;
    uint64_t system_usec;
    uint64_t peak_bytes; /* of the largest process; what the caller had counts in (execve(2)) */
};

/* On the control pipe: one byte, the number of a signal or one of these. */
enum { CAY_KEEPER_DRAIN = 254, CAY_KEEPER_KILL = 255 };

struct cay_keeper_main {
    struct cay_keeper_spec spec;
    int control_fd;
    int report_fd;
    void *child_stack; /* of CAY_CLONE_STACK_BYTES */
};

/* Runs in the new process, which ends with its result. */
int cay_keeper_main(void *main);
