/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Frames between the daemon and the init of a sandbox, over a Unix stream socket. Pure encoding and
 * decoding: no I/O, no allocation. Either side treats the other as hostile; whatever decodes is
 * within its limits.
 *
 * A frame is 16 bytes of header (payload length u32, type u8, three zero bytes, call u64) and the
 * payload. Numbers are little-endian; strings are a length u32, the bytes and a NUL, and hold no
 * other NUL, so that they can be used in place.
 *
 * The daemon's order on a connection: HELLO, then anything. Init answers WELCOME. START and HELLO
 * name the oldest version that the daemon speaks, READY and WELCOME the one of init, and frames
 * that came later are not sent to it. A call is named
 * by the daemon; its output is one sequence of bytes with offsets, in which pieces of standard
 * output and standard error follow each other as they came. A gap in the offsets is output that was
 * dropped.
 */

#include "base/base.h"

/* A build may say an older one: it then knows no frame of a later version. */
#ifndef CAY_FRAME_VERSION
#define CAY_FRAME_VERSION 3
#endif

enum {
    CAY_FRAME_VERSION_MIN = 1, /* the oldest spoken */
    CAY_FRAME_HEADER_BYTES = 16,
    CAY_FRAME_TOKEN_BYTES = 16,
    CAY_FRAME_DATA_BYTES_MAX = 65536,
    CAY_FRAME_EXEC_BYTES_MAX = 524288,
    CAY_FRAME_SPAWN_BYTES_MAX = (1 << 20) + 524288,
    CAY_FRAME_BYTES_MAX = CAY_FRAME_HEADER_BYTES + CAY_FRAME_SPAWN_BYTES_MAX,
    CAY_FRAME_ARGS_MAX = 4096,
    CAY_FRAME_ENV_MAX = 4096,
    CAY_FRAME_EXEC_ENV_MAX = 1024, /* of EXEC */
    CAY_FRAME_GROUPS_MAX = 32,
    CAY_FRAME_PATH_BYTES_MAX = 4095,
    CAY_FRAME_HOSTNAME_BYTES_MAX = 64,
    CAY_FRAME_PROCS_MAX = 1024,
    CAY_FRAME_WHO_MAX = 64,
    CAY_FRAME_WHO_TEXT_BYTES_MAX = 200, /* of one command line */
    CAY_FRAME_WHO_BYTES_MAX = 8 + CAY_FRAME_WHO_MAX * (CAY_FRAME_WHO_TEXT_BYTES_MAX + 9),
    CAY_FRAME_START_FDS_MAX = 11,
    CAY_FRAME_SLOT_FDS = 5,
    CAY_FRAME_ROOM_FDS = 7,
    CAY_FRAME_SLOTS_MAX = 128,
    CAY_FRAME_ROOMS_MAX = 32, /* in lists of calls their numbers follow those of slots */
    /* Input the daemon may send ahead of STDIN_ROOM, by version. */
    CAY_FRAME_STDIN_WINDOW_BYTES_1 = 65536,
    CAY_FRAME_STDIN_WINDOW_BYTES = CAY_FRAME_VERSION > 1 ? 1 << 20 : 65536,
    CAY_FRAME_RING_BYTES_MIN = 4096,
    CAY_FRAME_RING_BYTES_MAX = 8 << 20,
};

enum cay_frame_side {
    CAY_FRAME_FROM_DAEMON = 1,
    CAY_FRAME_FROM_INIT,
};

enum cay_frame_type {
#define CAY_FRAME(name, number, side, min, max, since) CAY_FRAME_##name = number,
#include "wire/frame/frames.def"
#undef CAY_FRAME
};

struct cay_frame {
    enum cay_frame_type type;
    uint64_t call;
    const uint8_t *payload;
    uint32_t len;
};

enum cay_frame_mode {
    CAY_FRAME_MODE_NAMESPACES = 1,
    CAY_FRAME_MODE_PLAIN,  /* no isolation: the commands are ordinary processes */
    CAY_FRAME_MODE_GVISOR, /* in a kernel of its own, by pipes */
};

/* Which descriptors come with START, in the order of the bits. */
enum cay_frame_start_fd {
    CAY_FRAME_FD_LISTEN = 1 << 0,
    CAY_FRAME_FD_ROOT = 1 << 1,
    CAY_FRAME_FD_USERNS = 1 << 2,
    CAY_FRAME_FD_TASKS_0 = 1 << 3,
    CAY_FRAME_FD_TASKS_1 = 1 << 4,
    CAY_FRAME_FD_TASKS_2 = 1 << 5,
    CAY_FRAME_FD_TASKS_3 = 1 << 6,
    /* Directories of the session's control groups, to read what the sandbox may have and has: */
    CAY_FRAME_FD_MEMORY = 1 << 7,   /* ... its memory */
    CAY_FRAME_FD_CPU = 1 << 8,      /* ... its processors */
    CAY_FRAME_FD_USAGE = 1 << 9,    /* ... what it used of them */
    CAY_FRAME_FD_CGROUPS = 1 << 10, /* a detached mount of its group, version 2 */
};

struct cay_frame_start {
    uint8_t mode;
    bool no_new_privs;
    bool nesting; /* commands may make namespaces and mounts */
    uint32_t fds; /* cay_frame_start_fd */
    uint8_t token[CAY_FRAME_TOKEN_BYTES];
    uint32_t uid_base;
    uint64_t shm_bytes;
    uint64_t open_files; /* soft limit of commands; 0 leaves it */
    struct cay_str hostname;
};

/* Where setup or the start of a command failed. */
enum cay_frame_stage {
    CAY_STAGE_NONE,
    CAY_STAGE_SPEC,
    CAY_STAGE_CGROUP,
    CAY_STAGE_ROOT,
    CAY_STAGE_DEV,
    CAY_STAGE_PROC,
    CAY_STAGE_PIVOT,
    CAY_STAGE_NETWORK,
    CAY_STAGE_HOSTNAME,
    CAY_STAGE_USERNS,
    CAY_STAGE_SECCOMP,
    CAY_STAGE_CAPS,
    CAY_STAGE_LIMITS,
    CAY_STAGE_STDIO,
    CAY_STAGE_USER,
    CAY_STAGE_CWD,
    CAY_STAGE_EXEC,
    CAY_STAGE_FORK,
    CAY_STAGE_SYS,
    CAY_STAGES,
};

struct cay_frame_ready {
    uint32_t stage; /* CAY_STAGE_NONE when all went well */
    uint32_t error; /* errno */
    uint32_t version;
};

struct cay_frame_hello {
    uint32_t version; /* the oldest that the daemon speaks */
    uint8_t token[CAY_FRAME_TOKEN_BYTES];
    uint64_t nonce;
};

/* How many slots there are and how many are free, as of `execs` EXEC frames of this connection. */
struct cay_frame_slots {
    uint32_t total;
    uint32_t unused;
    uint32_t execs;
};

struct cay_frame_welcome {
    uint32_t version; /* of init: both go on with it */
    uint64_t nonce;
    uint64_t call_max; /* highest call ever started */
    uint32_t calls;
    struct cay_frame_slots slots;
};

enum cay_frame_slot_fd {
    CAY_FRAME_SLOT_INTO = 1 << 0,
    CAY_FRAME_SLOT_FREEZE = 1 << 1,
    CAY_FRAME_SLOT_PROCS = 1 << 2,
    CAY_FRAME_SLOT_TASKS = 1 << 3,
    CAY_FRAME_SLOT_OOM = 1 << 4,
    CAY_FRAME_ROOM_TASKS_1 = 1 << 5,
    CAY_FRAME_ROOM_TASKS_2 = 1 << 6,
};

struct cay_frame_slot {
    bool is_room;
    uint32_t index;
    uint8_t fds; /* cay_frame_slot_fd */
};

enum cay_frame_exec_flag {
    CAY_EXEC_STDIN = 1 << 0,          /* a pipe the daemon feeds; otherwise /dev/null */
    CAY_EXEC_KILL_LEFTOVERS = 1 << 1, /* what is left of the call dies with it */
    CAY_EXEC_MERGE = 1 << 2,          /* standard error goes to standard output's pipe */
    CAY_EXEC_TELL_START = 1 << 3,     /* STARTED is wanted */
    CAY_EXEC_FLAGS_1 =
        CAY_EXEC_STDIN | CAY_EXEC_KILL_LEFTOVERS | CAY_EXEC_MERGE | CAY_EXEC_TELL_START,
    CAY_EXEC_PTY = 1 << 4,   /* a terminal instead of pipes; takes input */
    CAY_EXEC_BLOCK = 1 << 5, /* output is not overwritten before it is acknowledged */
    CAY_EXEC_AGAIN = 1 << 6, /* a call that has ended runs once more; its output goes on */
    /* BLOCK, but not between an ACK of UINT64_MAX and the next of another offset. */
    CAY_EXEC_FOLLOW = 1 << 7,
    CAY_EXEC_ROOM = 1 << 8, /* in the group that ROOM brought */
    CAY_EXEC_FLAGS = CAY_EXEC_FLAGS_1 | CAY_EXEC_PTY | CAY_EXEC_BLOCK | CAY_EXEC_AGAIN |
                     CAY_EXEC_FOLLOW | CAY_EXEC_ROOM,
};

struct cay_frame_size {
    uint16_t rows;
    uint16_t columns;
};

struct cay_frame_exec {
    uint32_t flags;
    uint32_t uid;
    uint32_t gid;
    uint32_t group_count;
    uint32_t groups[CAY_FRAME_GROUPS_MAX];
    uint64_t wall_ms;  /* whole run; 0: no limit */
    uint64_t quiet_ms; /* without output; 0: no limit */
    uint32_t ring_bytes;
    uint32_t window_bytes; /* output sent ahead of ACK; 0: not attached */
    /* Limits of this call alone, with CAY_EXEC_ROOM; 0: none. They do not travel. */
    uint64_t memory_bytes;
    uint32_t pids;
    uint32_t cpu_millis;
    const char *cwd;
    uint32_t arg_count;
    uint32_t env_count;
    const char **args;          /* arg_count and NULL */
    const char **env;           /* env_count and NULL */
    struct cay_frame_size size; /* of the terminal */
};

enum cay_frame_target {
    CAY_TARGET_PROCESS = 1,
    CAY_TARGET_GROUP,
    CAY_TARGET_TREE,
};

struct cay_frame_signal {
    uint32_t signal;
    uint8_t target;
};

enum cay_frame_stream {
    CAY_STREAM_STDOUT = 1,
    CAY_STREAM_STDERR = 2,
    CAY_STREAM_PTY = 3,
};

struct cay_frame_output {
    uint8_t stream;
    uint64_t offset;
    struct cay_str data;
};

/* A piece of output and the oldest offset that was kept when it was taken. */
struct cay_frame_piece {
    struct cay_frame_output output;
    uint64_t kept_offset;
};

struct cay_frame_started {
    uint32_t pid; /* as the sandbox sees it */
    uint32_t slot;
    struct cay_frame_slots slots;
};

enum cay_frame_cause {
    CAY_CAUSE_EXITED = 1, /* by itself: code */
    CAY_CAUSE_SIGNALED,   /* by a signal of somebody: signal */
    CAY_CAUSE_FAILED,     /* never ran: stage and errno in code */
    CAY_CAUSE_OOM,        /* killed for memory */
    CAY_CAUSE_WALL,       /* wall timeout */
    CAY_CAUSE_QUIET,      /* no-output timeout */
    CAY_CAUSE_KILLED,     /* by a SIGNAL frame: signal */
    CAY_CAUSES,
};

struct cay_frame_exit {
    uint8_t cause;
    uint8_t signal;
    uint8_t stage;
    uint32_t code;
    uint64_t end_offset;  /* output written until the end */
    uint64_t kept_offset; /* oldest output still in the ring */
    uint64_t wall_usec;
    uint64_t user_usec;
    uint64_t system_usec;
    uint64_t memory_peak_bytes; /* of the largest process */
    uint64_t stdout_bytes;
    uint32_t leftovers; /* processes of the call that still run */
    uint32_t oom_kills;
    struct cay_frame_slots slots;
};

enum cay_frame_call_state {
    CAY_CALL_RUNNING = 1,
    CAY_CALL_EXITED, /* its EXIT waits for RELEASE */
    CAY_CALL_LEFT,   /* released, but processes are left */
};

struct cay_frame_call {
    uint8_t state;
    uint32_t pid;
    uint32_t slot;
    uint32_t leftovers;
    uint64_t kept_offset;
    uint64_t end_offset;
    uint64_t age_ms;
};

struct cay_frame_detail {
    uint32_t flags; /* cay_frame_exec_flag it was started with */
    struct cay_frame_size size;
    uint64_t stdin_total; /* as STDIN_ROOM tells it */
    uint32_t stdin_queued;
    bool stdin_open;
    uint64_t stdout_bytes;
};

struct cay_frame_refused {
    uint8_t type; /* of the frame that was refused */
    uint32_t error;
};

struct cay_frame_procs {
    uint32_t total; /* may be more than are listed */
    uint32_t count;
    uint32_t pids[CAY_FRAME_PROCS_MAX];
};

/* Also of KILLED_ARE. */
struct cay_frame_who {
    uint32_t total; /* may be more than are listed */
    uint32_t count;
    uint32_t pids[CAY_FRAME_WHO_MAX];
    struct cay_str commands[CAY_FRAME_WHO_MAX]; /* arguments with spaces between */
};
