/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The processes of one session, as the loop thread knows them: launched ones, commands of calls,
 * and what commands left behind. The table belongs to the session and owns the processes; what must
 * survive the daemon is in the database (record.h). Their output stays with the sandbox's init;
 * readers (reader.h) take it from there piece by piece.
 *
 * While a sandbox runs, the table has the link to its init, and hears what init says (events.h).
 */

#include "api/cay_v1.h"
#include "base/arena.h"
#include "base/list.h"
#include "host/runtime/link.h"
#include "io/loop.h"

enum {
    CAY_PROCESS_ID_SIZE = 32,
    CAY_PROCESSES_ENDED_MAX = 100, /* remembered per session after their end */
    CAY_PROCESSES_KEPT_MAX = 16,   /* of these, with their output */
};

struct cay_db;
struct cay_process;
struct cay_processes;

/* The session's half. */
struct cay_process_ops {
    /* The link was used: it may want to write. */
    void (*link_used)(void *owner);
    /* It has started, ended, or is to be started again: each once. */
    void (*changed)(void *owner, const struct cay_process *process);
    /* Fills in what the owner knows of it, in the arena. */
    void (*describe)(void *owner, const struct cay_process *process, struct cay_arena *arena,
                     struct cay_v1_process *message);
    /* Starts a process once more that has ended; calls cay_process_not_again when it cannot. */
    void (*run_again)(void *owner, struct cay_process *process);
    /* It has ended. True when all is known that `add_to_result` has to say; otherwise
     * cay_process_settled follows. Both may be NULL. */
    bool (*settle)(void *owner, struct cay_process *process);
    void (*add_to_result)(void *owner, const struct cay_process *process, struct cay_arena *arena,
                          struct cay_v1_exec_result *result);
    /* The sandbox stands still: its init answers nothing. */
    bool (*is_frozen)(const void *owner);
    /* The owner stays until it is let go as often as it was held. */
    void (*hold)(void *owner);
    void (*let_go)(void *owner);
};

struct cay_processes {
    const struct cay_process_ops *ops;
    void *owner;
    const char *session_id;
    struct cay_loop *loop;
    struct cay_db *db;
    struct cay_link *link;  /* NULL: no sandbox runs */
    struct cay_list list;   /* oldest first */
    struct cay_list hidden; /* commands of calls that nobody else sees; see linger.h */
    size_t ended_count;
    struct cay_list surveys; /* wait for what init says of all */
    struct cay_timer survey_timer;
    bool is_surveying;
    struct cay_timer linger_timer; /* see linger.h */
    bool is_lingering;             /* it runs */
    bool is_adopting;              /* what init does not list now is lost */
    bool is_closing;               /* nothing is written any more */
};

/* Hears of every change of a process: started, ended, waiting to be started again. It may remove
 * itself, and start and stop others. */
struct cay_process_watcher {
    struct cay_list_node in_process;
    void (*changed)(struct cay_process_watcher *watcher);
    uint64_t walk;
    struct cay_process *process; /* NULL once the process is forgotten: then it is the last call */
};

struct cay_process {
    struct cay_list_node in_table;
    struct cay_processes *table;
    char id[CAY_PROCESS_ID_SIZE];
    uint64_t call; /* init's number for it */
    enum cay_v1_process_state state;
    enum cay_v1_process_state told_state; /* what the owner heard last */
    bool is_leftover; /* what a command left: no child of init, ends with its last process */
    bool is_recorded;
    bool kills_on_disconnect;
    bool is_killed;   /* by a client: it is not started again */
    bool is_dying;    /* SIGKILL was sent to it: it reads nothing any more */
    bool is_listed;   /* init has just said so */
    bool is_hidden;   /* in the other list of the table */
    bool is_plain;    /* its caller got its output: none is kept after its end */
    bool is_followed; /* by that caller, right now */
    bool is_orphan;   /* its caller may come back; see orphan.h */
    struct cay_arena arena;
    struct cay_v1_process *noun;      /* in the arena: what does not change */
    struct cay_v1_process_spec *spec; /* in the arena; NULL: it is not started again */
    struct cay_arena result_arena;
    struct cay_v1_exec_result *result; /* of the last run; NULL: none has ended */

    int64_t started_ns;
    int64_t ended_ns;
    uint64_t begun_ms; /* of the loop's clock; see linger.h */
    int32_t pid;
    uint32_t flags; /* cay_frame_exec_flag */
    struct cay_frame_size size;
    bool stdin_open;
    uint64_t stdin_sent;
    uint64_t stdin_taken;
    bool has_stdin_counts;

    bool has_output; /* init keeps it */
    uint64_t output_start;
    uint64_t output_end;
    struct cay_frame_exit exit; /* while its leftovers are asked for */
    bool is_exiting;
    enum cay_v1_end_cause kill_cause; /* why the daemon killed it; unspecified: it did not */
    enum cay_reason end_reason;       /* of an end without an exit */

    int32_t restart_count;
    int64_t restart_delay_ms;
    struct cay_timer restart_timer;
    struct cay_timer kill_timer;   /* sends SIGKILL to what is still alive */
    struct cay_timer return_timer; /* of its caller; see orphan.h */

    struct cay_list watchers;
    struct cay_list readers;
    uint64_t walk; /* number of the last walk over either */
    unsigned busy; /* inside a walk over watchers or readers: not freed */
    bool is_gone;
    bool is_pushed;         /* init sends its output by itself, for the call that it runs for, */
    uint32_t window_bytes;  /* so far ahead of what is acknowledged, */
    uint64_t pushed_offset; /* and did so until here */
    bool is_attached;       /* to an init that knows no reads */
    bool is_reading;        /* a piece is on its way, or will be when there is one */
    uint64_t read_offset;
    bool is_unread; /* its init knows that nobody reads */
    uint64_t acked_offset;

    struct cay_process_write *writing; /* to the database, or NULL */
    bool is_dirty;
    bool releases; /* init may forget it once its end is written down */
};

void cay_processes_init(struct cay_processes *table, const struct cay_process_ops *ops, void *owner,
                        const char *session_id, struct cay_loop *loop, struct cay_db *db);
/* Everybody who watches is told that the process is gone. */
void cay_processes_finish(struct cay_processes *table);

/* A process with an id of its own, in state starting, at the end of the table. */
struct cay_process *cay_process_new(struct cay_processes *table, enum cay_v1_process_origin origin);
/* What of it clients see and what does not change. `spec` may be NULL. */
void cay_process_describe(struct cay_process *process, const struct cay_v1_process_spec *spec,
                          struct cay_str cwd, struct cay_str user, struct cay_str tool_call_id);
/* Takes it out; freed once nobody is at work on it. */
void cay_process_forget(struct cay_process *process);

/* By its id or else its tag, or as `pid:NUMBER` or `tag:NAME`, which no id can be. Of several with
 * the tag the newest that lives. NULL when there is none. */
struct cay_process *cay_processes_find(const struct cay_processes *table, struct cay_str id);
/* How many have not ended; of those that clients see. */
[[nodiscard]] int32_t cay_processes_alive(const struct cay_processes *table);
/* It is not alive, and nobody waits for its end. */
[[nodiscard]] bool cay_process_is_quiet(const struct cay_process *process);
[[nodiscard]] bool cay_processes_are_quiet(const struct cay_processes *table);
/* Somebody waits for the end of a command. */
[[nodiscard]] bool cay_processes_are_followed(const struct cay_processes *table);
/* By init's number; a command and what it left behind have the same. */
struct cay_process *cay_processes_of_call(const struct cay_processes *table, uint64_t call,
                                          bool is_leftover);
/* By what the client called its launch; NULL when there is none. */
struct cay_process *cay_processes_of_request(const struct cay_processes *table, struct cay_str id);
/* Whether it was started with this argv, as far as that is shown. */
[[nodiscard]] bool cay_process_has_argv(const struct cay_process *process, struct cay_pb_strs argv);
[[nodiscard]] bool cay_process_is_over(const struct cay_process *process);
/* Fails while its output is out of reach: it is kept in a sandbox that stands still. */
[[nodiscard]] bool cay_process_is_readable(const struct cay_process *process, bool follows,
                                           struct cay_error *err);

/* What clients see, in the arena. NULL when it is full. */
struct cay_v1_process *cay_process_message(const struct cay_process *process,
                                           struct cay_arena *arena);

void cay_process_watch(struct cay_process *process, struct cay_process_watcher *watcher,
                       void (*changed)(struct cay_process_watcher *watcher));
void cay_process_unwatch(struct cay_process_watcher *watcher);
/* Tells the watchers and goes on with the readers. */
void cay_process_changed(struct cay_process *process);

/* Asks init how far the output of all is, then calls back; at once when nothing runs or all stands
 * still, and after a while when init is silent. */
struct cay_survey {
    struct cay_list_node in_table;
    void (*done)(struct cay_survey *survey);
};
void cay_processes_survey(struct cay_processes *table, struct cay_survey *survey,
                          void (*done)(struct cay_survey *survey));
void cay_survey_cancel(struct cay_survey *survey);
void cay_processes_surveyed(struct cay_processes *table);

/* See cay_process_ops; of a process that has been forgotten or ended meanwhile, nothing. */
void cay_processes_settled(struct cay_processes *table, uint64_t call);

/* Everything that runs; the results say `cause`. */
void cay_processes_kill(struct cay_processes *table, enum cay_v1_end_cause cause);

/* A signal of a client. kill_after_ms: SIGKILL to what is alive then; -1: never. */
[[nodiscard]] bool cay_process_signal(struct cay_process *process, int signal, bool is_tree,
                                      int64_t kill_after_ms, struct cay_error *err);

/* All of it or nothing. Reasons: FAILED_PRECONDITION, RESOURCE_EXHAUSTED. */
[[nodiscard]] bool cay_process_input(struct cay_process *process, struct cay_str data, bool closes,
                                     struct cay_error *err);
/* How much more it takes now. */
[[nodiscard]] size_t cay_process_input_room(const struct cay_process *process);
[[nodiscard]] bool cay_process_resize(struct cay_process *process,
                                      const struct cay_v1_pty_size *size, struct cay_error *err);

/* 24 by 80 where nothing is said; false when it is too large. */
[[nodiscard]] bool cay_process_size(const struct cay_v1_pty_size *wanted,
                                    struct cay_frame_size *out_size, struct cay_error *err);
