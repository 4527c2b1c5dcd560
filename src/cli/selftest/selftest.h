/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * `cay selftest --escape`: hostile code in sandboxes of a daemon of its own, and the same code
 * without a sandbox as the control. One object for the whole run; everything it starts and makes is
 * taken away at its end, however far it came.
 *
 * Order: begin -> control -> parts, side by side -> end -> report. A part is the probes inside or
 * those from outside in one runtime: a process with a daemon and sandboxes of its own.
 */

#include "api/cay_v1.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"
#include "cli/command.h"

enum {
    CAY_SELFTEST_RUNTIMES_MAX = 8,
    CAY_SELFTEST_WHY_BYTES = 160,
    CAY_SELFTEST_OUTPUT_BYTES = 256 * 1024,
    CAY_SELFTEST_TOKEN_BYTES = 33,
};

enum cay_selftest_verdict {
    CAY_SELFTEST_UNTRIED = 0,
    CAY_SELFTEST_DENIED,
    CAY_SELFTEST_REACHED,
    CAY_SELFTEST_ABSENT,
};

struct cay_selftest_outcome {
    enum cay_selftest_verdict verdict;
    char why[CAY_SELFTEST_WHY_BYTES];
};

/* What a probe came to in one runtime, over all stages and users. */
struct cay_selftest_cell {
    struct cay_selftest_outcome outcome; /* the worst; with where it was, if it was reached */
    unsigned tried;
    unsigned reached;
};

struct cay_selftest_row {
    int number;
    const char *name;
    const char *title;
    struct cay_selftest_outcome control;
    struct cay_selftest_cell cells[CAY_SELFTEST_RUNTIMES_MAX];
};

struct cay_selftest_runtime {
    const char *name;
    bool is_judged; /* it isolates, and could be used */
    bool has_open;  /* networks */
    bool has_filtered;
    const char *note; /* why it is not judged */
};

struct cay_selftest {
    struct cay_cli *cli;
    struct cay_arena arena;
    struct cay_client *client;
    char token[CAY_SELFTEST_TOKEN_BYTES];
    char dir[128]; /* everything of the run, removed at the end */
    const char *prizes_dir;
    const char *probe_path;

    /* The daemon of the run. */
    const char *cayd_path;
    pid_t cayd_pid;
    uint16_t cayd_port;
    const char *socket_path;
    const char *runtime_flags[CAY_SELFTEST_RUNTIMES_MAX * 2 + 1];

    /* What is to be reached on the host. */
    pid_t holder_pid;
    int holder_input; /* its end is the holder's */
    int terminal_fd;
    const char *terminal;
    const char *prizes;           /* "token=… name=…", as the holder says it */
    const char *neighbour_prizes; /* of the sandbox beside; that of the part's runtime */
    char boot_id[64];
    char disk[32];

    struct cay_selftest_runtime runtimes[CAY_SELFTEST_RUNTIMES_MAX];
    size_t runtime_count;
    struct cay_selftest_row *rows; /* of the probes inside, then those outside */
    size_t row_count;
    int64_t started_ms;
    bool is_ending; /* a daemon that is started now is to take sandboxes away */
};

/* What the sandboxes under test may use. */
enum { CAY_SELFTEST_MEMORY_BYTES = 96 * 1024 * 1024, CAY_SELFTEST_PROCESSES = 200 };

/* A signal asked for the end. */
[[nodiscard]] bool cay_selftest_is_over(void);

/* prizes.c: the holder on the host, a terminal, a key, and the control. */
[[nodiscard]] bool cay_selftest_plant(struct cay_selftest *self, struct cay_error *err);
void cay_selftest_unplant(struct cay_selftest *self);
[[nodiscard]] bool cay_selftest_control(struct cay_selftest *self, struct cay_error *err);

/* The arguments of `cay-probe try` in the arena; a NULL behind them. What takes memory and
 * processes is greedy, all else is frugal; the control has both. */
enum cay_selftest_kind { CAY_SELFTEST_CONTROL = 1, CAY_SELFTEST_FRUGAL, CAY_SELFTEST_GREEDY };
[[nodiscard]] const char **cay_selftest_words(struct cay_selftest *self,
                                              enum cay_selftest_kind kind);

/* keeper.c: the daemon. */
[[nodiscard]] bool cay_selftest_start_daemon(struct cay_selftest *self, struct cay_error *err);
void cay_selftest_kill_daemon(struct cay_selftest *self, int signal);
[[nodiscard]] bool cay_selftest_find_runtimes(struct cay_selftest *self, const char *wanted,
                                              struct cay_error *err);
/* Destroys the sandboxes, which outlive their daemon, and ends it. */
void cay_selftest_end_daemon(struct cay_selftest *self);
/* The base of all sandboxes here; and a base of a directory. */
[[nodiscard]] bool cay_selftest_import(struct cay_selftest *self, struct cay_error *err);
[[nodiscard]] bool cay_selftest_import_tree(struct cay_selftest *self, const char *name,
                                            const char *root, struct cay_error *err);
[[nodiscard]] int cay_selftest_copy(const char *from, const char *to);

/* Starts a program of ours with these descriptors; the pid or -errno. */
[[nodiscard]] pid_t cay_selftest_spawn(const char *const *argv, const char *const *environment,
                                       int input, int output, int error);

/* sandbox.c: calls. */
[[nodiscard]] bool cay_selftest_call(struct cay_selftest *self, unsigned method,
                                     const void *request, void *out_response,
                                     struct cay_error *err);
[[nodiscard]] bool cay_selftest_create(struct cay_selftest *self, const char *id,
                                       const char *runtime, enum cay_v1_network_mode network,
                                       struct cay_error *err);
void cay_selftest_destroy(struct cay_selftest *self, const char *id);

/* Runs to the end; what it printed lives in the arena. */
struct cay_selftest_ran {
    struct cay_str output;
    int exit_code; /* -1: it did not exit by itself */
    int cause;     /* enum cay_v1_end_cause */
};
/* `cwd` may be NULL. */
[[nodiscard]] bool cay_selftest_run(struct cay_selftest *self, const char *id, const char *user,
                                    const char *cwd, const char *const *words,
                                    struct cay_selftest_ran *out, struct cay_error *err);

/* Starts a holder in the sandbox, which stays. */
[[nodiscard]] bool cay_selftest_hold(struct cay_selftest *self, const char *id,
                                     struct cay_error *err);

/* parts.c: everything but the control. */
[[nodiscard]] bool cay_selftest_parts(struct cay_selftest *self, struct cay_error *err);

/* stages.c: the session under test, and the one beside with a holder; the probes inside, at every
 * stage of a session's life. */
[[nodiscard]] bool cay_selftest_settle(struct cay_selftest *self, size_t runtime,
                                       struct cay_error *err);
[[nodiscard]] bool cay_selftest_stages(struct cay_selftest *self, size_t runtime,
                                       struct cay_error *err);

/* outside.c: those that call the daemon, once each. */
void cay_selftest_outside(struct cay_selftest *self, size_t runtime);
void cay_selftest_outside_control(struct cay_selftest *self);

/* rows.c */
[[nodiscard]] bool cay_selftest_make_rows(struct cay_selftest *self, struct cay_error *err);
void cay_selftest_free_rows(struct cay_selftest *self);
[[nodiscard]] struct cay_selftest_row *cay_selftest_row(struct cay_selftest *self,
                                                        struct cay_str name);
CAY_PRINTF(3, 4)
void cay_selftest_say(struct cay_selftest_outcome *out, enum cay_selftest_verdict verdict,
                      const char *fmt, ...);
/* Adds what came of one try at `where`, "resumed, root". */
void cay_selftest_note(struct cay_selftest_row *row, size_t runtime, const char *where,
                       const struct cay_selftest_outcome *outcome);
/* The same for all probes that take memory or processes. */
void cay_selftest_note_greedy(struct cay_selftest *self, size_t runtime, const char *where,
                              const struct cay_selftest_outcome *outcome);
/* Takes the lines of cay-probe; for the control when `where` is NULL. Probes that are missing were
 * not tried. */
void cay_selftest_take(struct cay_selftest *self, size_t runtime, const char *where,
                       struct cay_str lines);

/* report.c: the exit status. */
[[nodiscard]] int cay_selftest_report(struct cay_selftest *self);
