/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * cay-probe runs inside a sandbox and tries what hostile code tries: one function per attempt, each
 * in a process of its own. Whatever it reaches, it leaves as it was. The same program runs without
 * a sandbox as the control: what is not reached there cannot be told from what is refused.
 *
 * Prizes are things that another process holds (`cay-probe hold`), on the host or in another
 * sandbox. All of them carry a token that nobody else knows, so that nothing is taken for a prize
 * that only looks like one.
 */

#include <sys/socket.h>

#include "base/base.h"

enum verdict {
    PROBE_DENIED = 1,
    PROBE_REACHED,
    PROBE_ABSENT, /* there is nothing to reach: this kernel, or this user, has no such thing */
};

enum { WHY_BYTES = 120, ADDRESSES_MAX = 8 };

struct outcome {
    enum verdict verdict;
    char why[WHY_BYTES];
};

/* What a holder has; the text behind `hold` names the members. */
struct prize {
    const char *token;
    const char *name;    /* of its process */
    const char *secret;  /* a file with the token in it */
    const char *socket;  /* a Unix socket by its path, which says the token to whoever comes */
    const char *queue;   /* of POSIX messages; and the name of an abstract socket without the '/' */
    const char *address; /* besides loopback; NULL: there is none */
    int port;            /* TCP, which says the token */
    int segment;         /* key of a System V segment */
    int pid;
};

struct world {
    bool is_control;
    bool is_frugal;      /* without what takes memory and processes */
    bool is_greedy;      /* that only */
    const char *scratch; /* a directory to write to */
    int supervisor;      /* the process that must be out of reach: a sandbox's first one */
    struct prize host;
    struct prize neighbour; /* in another sandbox; the host's in the control */
    const char *terminal;   /* of somebody at the host */
    const char *boot_id;    /* the host's */
    const char *daemon_socket;
    int daemon_port;
    const char *disk; /* MAJOR:MINOR of one of the host's; NULL: none is known */
    uint64_t memory_bytes;
    int process_count; /* limits of the sandbox */
};

/* Something to try; those made of a table get their row. */
struct attempt {
    struct outcome (*run)(const struct world *world, const struct attempt *attempt);
    const char *path;
    long number;   /* of a system call, or what the function says */
    long args[3];  /* of it */
    int passes_as; /* the errno that only comes behind the check of rights; 0: success only */
    int domain;
    int type;
    int protocol;
    bool is_greedy; /* it takes memory or processes */
};

struct probe {
    int number;
    const char *name;
    struct attempt attempt;
};

extern const struct probe probes[];
extern const size_t probe_count;

CAY_PRINTF(1, 2) struct outcome denied(const char *fmt, ...);
CAY_PRINTF(1, 2) struct outcome reached(const char *fmt, ...);
CAY_PRINTF(1, 2) struct outcome absent(const char *fmt, ...);

/* Of a call that just returned: negative with errno is denied, unless the errno is the one that
 * comes behind the check of rights. In the control, what a kernel says that lacks the thing makes
 * it absent. */
struct outcome judge(const struct world *world, long result, int passes_as);

/* In the control: whether root of this machine itself lacks a capability (CAP_SYS_RESOURCE), as in
 * a container. What it denies then proves nothing. */
[[nodiscard]] bool control_lacks(const struct world *world, int capability);

/* Whether the token stands in what can be read there. */
[[nodiscard]] bool holds_token(int fd, const char *token);
struct outcome judge_secret(const struct world *world, const char *path, const char *token);

/* A connected socket says the token within its timeout. Closes it. */
struct outcome judge_socket(int fd, const struct sockaddr *address, socklen_t len,
                            const char *token);

/* For the control: an answer will come, however busy the machine is. */
void be_patient(void);

/* "scratch/name". */
enum { PROBE_PATH_BYTES = 512 };
void scratch_path(const struct world *world, const char *name, char out[PROBE_PATH_BYTES]);

/* hold.c: a process that holds prizes until its input ends. */
int hold(int argc, char **argv);

/* tricks.c: one that is watched by somebody else; -1 when there is none of that name. */
int trick(int argc, char **argv);
