/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The state of cay-init, the first process of a sandbox. One static object, one thread, nothing on
 * the heap: whatever the daemon or the commands do, its memory is bounded by the limits here.
 */

#include <sys/epoll.h>

#include "init/ring.h"
#include "init/view.h"
#include "sys/cgroup.h"
#include "sys/seccomp.h"
#include "wire/frame/decode.h"
#include "wire/frame/encode.h"
#include "wire/frame/pipe.h"

enum {
    CALLS_MAX = 128,
    FDS_WAITING_MAX = 16,          /* descriptors that came before their frame */
    OUT_BYTES = 192 * 1024,        /* frames on their way to the daemon */
    OUT_RESERVE_BYTES = 48 * 1024, /* of these, kept free for answers */
    READ_BYTES = 128 * 1024,       /* taken from a pipe at once */
};

/* What a child leaves when it could not become the command. */
struct spawn_cell {
    uint32_t stage;
    uint32_t error;
};

struct slot {
    bool present;
    bool busy;
    struct cay_cgroup_slot fds;
    uint64_t oom_seen; /* value of the counter at the last look */
};

struct call {
    uint64_t id;         /* 0: this entry is free */
    uint32_t generation; /* tells events of an earlier use of the entry apart */
    uint8_t state;       /* enum cay_frame_call_state */
    uint32_t flags;
    pid_t pid;   /* 0 once reaped */
    pid_t group; /* process group and session of the command */
    int slot;    /* -1: none */
    int output_fd[2];
    bool output_waits[2]; /* registered with epoll */
    bool is_output_wide[2];
    int stdin_fd;
    bool stdin_waits;
    bool stdin_closing; /* close once the buffer is empty */
    uint8_t *stdin_data;
    uint32_t stdin_at;
    uint32_t stdin_len;
    uint64_t stdin_total; /* bytes the command took or refused */
    uint64_t stdin_told;
    struct cay_ring ring;
    uint64_t stdout_bytes;
    bool attached;
    uint32_t window_bytes;
    uint64_t sent;    /* next offset to send */
    uint64_t acked;   /* taken by the daemon */
    bool is_unread;   /* nobody waits for the output of a FOLLOW */
    bool wants_piece; /* READ waits for its answer */
    uint64_t piece_offset;
    uint32_t piece_bytes_max;
    struct cay_frame_size size; /* of the terminal */
    uint64_t signals;           /* those the daemon sent, bit n - 1 for signal n */
    bool tell_start;
    bool tell_exit;
    bool tell_gone;
    bool released;
    bool has_killed;    /* somebody was, and is told with the exit */
    bool doomed;        /* whoever is left was killed and is on its way out */
    uint8_t kill_cause; /* why we killed it, 0 when we did not */
    int64_t started_usec;
    int64_t held_up_usec;     /* its start took long, and was over then; 0: it did not */
    int64_t wall_deadline_ms; /* 0: none */
    int64_t quiet_deadline_ms;
    uint64_t quiet_ms;
    uint32_t leftovers;
    struct cay_frame_exit exit;
};

/* Who was killed with a call, as WHO tells it. */
struct killed {
    uint32_t total;
    uint32_t count;
    uint32_t pids[CAY_FRAME_WHO_MAX];
    uint32_t lens[CAY_FRAME_WHO_MAX];
    char texts[CAY_FRAME_WHO_MAX][CAY_FRAME_WHO_TEXT_BYTES_MAX];
};

struct link {
    int fd; /* -1: nobody there */
    bool trusted;
    bool awaits_hello; /* by pipes: nothing else comes first */
    uint32_t events;   /* asked of epoll */
    uint32_t execs;    /* EXEC frames seen */
    uint8_t *in;
    size_t in_len;
    size_t in_cap;
    int fds[FDS_WAITING_MAX];
    uint32_t fd_count;
    struct cay_frame_writer out;
    size_t out_sent;
};

/* What is touched in every sandbox comes first, and what is large and seldom used is elsewhere: an
 * idle init is to have few pages, in few parts of its memory. */
struct init {
    struct cay_frame_start spec;
    char hostname[CAY_FRAME_HOSTNAME_BYTES_MAX + 1];
    int epoll_fd;
    int signal_fd;
    int listen_fd;
    int null_fd;
    int root_fd;   /* plain mode: what working directories are under; -1 otherwise */
    int userns_fd; /* where commands live; -1 in plain mode */
    int limits_fd; /* of namespaces, until they are set */
    int told_fd;   /* system calls that we answer; -1: none */
    struct view view;
    /* Of a sandbox without sockets; -1 and NULL otherwise. */
    int pipe_in_fd;
    int pipe_out_fd;
    bool pipe_waits; /* what it brought has no room */
    struct cay_pipe_page *page;
    uint32_t tree;              /* the one that has its mounts */
    int tree_fd;                /* its root, where commands are put */
    struct cay_ring spare_ring; /* of a call before */
    uint32_t pids_max;          /* of each command; 0: no limit */
    struct link link;
    struct link candidate; /* connected, not yet said who it is */
    int next_room;         /* brought for the next SPAWN; -1: none */
    uint32_t slot_count;
    uint32_t calls_used; /* entries from here on were never touched */
    uint64_t call_max;
    uint32_t pump_next; /* whose output is sent first next time */
    uint8_t *in_buffer; /* of the link */
    uint8_t *out_buffer;
    struct killed *killed; /* one per call */
    void *child_stack;     /* of one child at a time, until its exec */
    int64_t idle_since_ms; /* 0: something runs */
    bool rests;
    bool leaving;
    struct slot slots[CAY_FRAME_SLOTS_MAX + CAY_FRAME_ROOMS_MAX]; /* rooms come last */
    struct spawn_cell cells[CALLS_MAX];                           /* one per call */
    struct call calls[CALLS_MAX];
    struct cay_seccomp gate;
    struct cay_seccomp filter; /* that commands load themselves: init mounts */
    struct cay_seccomp guard;
};

/* boot.c: receives START by the channel (-1: by pipes), becomes the sandbox, answers READY. Returns
 * 0 or -1 when it told the daemon why not. */
[[nodiscard]] int boot(struct init *init, int channel_fd);

/* setup.c: the namespaces' insides. Sets *out_stage when it fails. */
[[nodiscard]] int setup_namespaces(struct init *init, int root_fd, int userns_fd,
                                   uint32_t *out_stage);
/* Makes the file `boot_id` in a directory. 0 or -errno. */
[[nodiscard]] int setup_boot_id(int dir_fd);

/* gvisor.c: the inside of a sandbox with a kernel of its own, whose processes and mounts the host
 * does not see. */
[[nodiscard]] int setup_gvisor(struct init *init, uint32_t *out_stage);
/* Mounts what a tree needs that has come under init since the last time. */
[[nodiscard]] int gvisor_follow_tree(struct init *init);
/* Keeps limits that have changed since the last time. */
[[nodiscard]] int gvisor_follow_limits(struct init *init);
/* One more group of that kernel, for a command. */
[[nodiscard]] int gvisor_open_slot(struct init *init, uint32_t index);
/* For a child, before it is the command's user. Its directory is the tree's root then. */
[[nodiscard]] int gvisor_enter(const struct init *init);
void gvisor_note_busy(const struct init *init, bool is_busy);

/* pipe.c */
[[nodiscard]] int pipe_take_over(struct init *init);
[[nodiscard]] ssize_t pipe_read_first(const struct init *init, uint8_t *data, size_t size);
[[nodiscard]] int pipe_watch(struct init *init);
void pipe_readable(struct init *init);

/* link.c */
void link_open(struct init *init, struct link *link, int fd);
void link_close(struct init *init, struct link *link);
void link_accept(struct init *init);
void link_readable(struct init *init, struct link *link);
void link_flush(struct init *init);
/* Gives back memory that no frame is in. */
void link_rest(const struct init *init);
[[nodiscard]] bool link_open_buffers(struct init *init);
/* Acts on every whole frame in the buffer, as long as answers have room. False when the other side
 * broke the protocol. */
[[nodiscard]] bool link_consume(struct init *init, struct link *link);
/* Answers HELLO. False when the other side is not who it should be. */
[[nodiscard]] bool link_greet(struct init *init, struct link *link, const struct cay_frame *frame);
void link_refuse(struct init *init, uint64_t call, enum cay_frame_type type, int error);

/* requests.c: acts on one frame. False when the other side broke the protocol. */
[[nodiscard]] bool request(struct init *init, struct link *link, const struct cay_frame *frame);

/* calls.c */
struct call *call_find(struct init *init, uint64_t id);
struct call *call_take(struct init *init, uint64_t id);
void call_free(struct init *init, struct call *call);
/* Makes an ended call ready to run once more. -EBUSY while something of it is alive. */
[[nodiscard]] int call_renew(struct init *init, struct call *call);
void call_settle(struct init *init, struct call *call);
void calls_reap(struct init *init);
void calls_detach(struct init *init);
uint32_t calls_running(const struct init *init);
int calls_timeout_ms(const struct init *init, int64_t now_ms);
void calls_check_deadlines(struct init *init, int64_t now_ms);
void calls_skip_clock(struct init *init, uint64_t ms);

/* stdio.c: pipes of commands. */
void stdio_output_ready(struct init *init, struct call *call, int which);
void stdio_stdin_ready(struct init *init, struct call *call);
void stdio_drain(struct init *init, struct call *call);
void stdio_resume(struct init *init, struct call *call);
void stdio_close_output(struct init *init, struct call *call, int which);
void stdio_close_stdin(struct init *init, struct call *call);
void stdio_watch(struct init *init, struct call *call, int which);
[[nodiscard]] bool stdio_feed(struct init *init, struct call *call, const uint8_t *data,
                              uint32_t len);
/* Moves output of attached calls, and what is to be told of calls, into the link's buffer. */
void stdio_pump(struct init *init);

/* pty.c: a terminal that belongs to the command's user. */
[[nodiscard]] int pty_open(const struct init *init, const struct cay_frame_exec *exec,
                           int *out_master_fd, int *out_slave_fd);
[[nodiscard]] int pty_resize(const struct init *init, struct call *call,
                             const struct cay_frame_size *size);

/* Of input to a terminal of gVisor: how much of it comes before a key that means a signal, and what
 * that key does. */
[[nodiscard]] uint32_t pty_keys_before_signal(const struct call *call, const uint8_t *data,
                                              uint32_t len);
void pty_press(const struct call *call, uint8_t key);

/* spawn.c: starts a command; 0 or -errno when there is no process at all. */
[[nodiscard]] int spawn(struct init *init, struct call *call, const struct cay_frame_exec *exec);

/* tree.c: all processes of a call, by its slot or, without one, by looking at /proc. */
void tree_kill(struct init *init, const struct call *call);
void tree_signal(struct init *init, const struct call *call, int signal);
uint32_t tree_list(struct init *init, const struct call *call, uint32_t *out_pids, uint32_t max,
                   uint32_t *out_total);
/* The beginning of a process's command line, with spaces between the arguments. */
struct cay_str tree_command(uint32_t pid, char *text, size_t size);
/* Writes down who is about to be killed with the call. */
void tree_note_killed(struct init *init, struct call *call);
[[nodiscard]] bool tree_tell_killed(struct init *init, const struct call *call);
uint32_t tree_oom_kills(struct init *init, const struct call *call);
struct cay_frame_slots slots_report(const struct init *init);

/* answer.c: one system call that waits for us. */
void answer_told(struct init *init);

/* events of epoll */
enum event_kind {
    EVENT_SIGNAL = 1,
    EVENT_LISTEN,
    EVENT_LINK,
    EVENT_CANDIDATE,
    EVENT_PIPE,
    EVENT_STDOUT,
    EVENT_STDERR,
    EVENT_STDIN,
    EVENT_TOLD,
    EVENT_VIEW,
};
void watch(const struct init *init, int fd, uint32_t events, enum event_kind kind,
           const struct call *call);
void watch_change(const struct init *init, int fd, uint32_t events, enum event_kind kind);
void unwatch(const struct init *init, int fd);

/* main.c: something is to run, or does. */
void init_wakes(struct init *init);

int64_t now_usec(void);
int64_t now_ms(void);
