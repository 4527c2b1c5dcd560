/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of local.h share. */

#include <pthread.h>

#include "base/list.h"
#include "tool/capture.h"
#include "tool/local/command.h"
#include "tool/local/local.h"
#include "tool/tree/path.h"
#include "tool/tree/tree.h"
#include "tool/tree/user.h"

enum {
    CAY_LOCAL_ID_SIZE = 32,
    CAY_LOCAL_ENDED_MAX = 100,                /* remembered after their end */
    CAY_LOCAL_ARENA_BYTES = 16 * 1024 * 1024, /* of one process, or of the environment */
};

enum cay_local_state {
    CAY_LOCAL_RUNS = 1, /* a thread follows it */
    CAY_LOCAL_LEFT,     /* the command has ended, not all of its processes have */
    CAY_LOCAL_ENDED,    /* in the background; remembered */
};

struct cay_local_process {
    struct cay_list_node in_local;
    struct cay_local *local;
    char id[CAY_LOCAL_ID_SIZE];
    enum cay_local_state state; /* under the environment's lock, as all that changes */
    bool is_background;
    bool is_leftover; /* of one that had another id, or none */
    struct cay_local_command command;
    struct cay_arena arena; /* what is known of it */
    struct cay_v1_process noun;

    /* In the background: */
    pthread_t thread;
    bool has_thread;
    struct cay_local_spec spec;
    pthread_mutex_t output_lock;
    struct cay_capture out, err_out;
};

struct cay_local {
    int dir_fd;
    struct cay_path host_name;
    struct cay_tool_tree tree; /* without a cwd */
    struct cay_arena arena;
    struct cay_str id;
    struct cay_pb_pairs env; /* all that every command has */
    int64_t command_ms;

    pthread_mutex_t lock;
    pthread_cond_t changed; /* somebody came out */
    struct cay_list processes;
    size_t alive_count; /* of those that run or are left */
    size_t ended_count;
    uint64_t last_id;
    bool is_paused;
    bool is_closing;
};

/* A process in the table, started as the spec says, on the heap. With `is_background` it is
 * followed by a thread of its own, which takes its output; otherwise the caller follows it, and
 * then calls end, and may not touch one in the background. What the noun says, but for ids and
 * times, is copied. */
[[nodiscard]] struct cay_local_process *
cay_local_process_start(struct cay_local *local, const struct cay_local_spec *spec,
                        const struct cay_v1_process *noun, bool is_background,
                        char out_id[CAY_LOCAL_ID_SIZE], struct cay_error *err);

/* After follow and result: it goes, or stays as what it left behind. */
void cay_local_process_end(struct cay_local_process *process);

/* Whether a tool may run now. */
[[nodiscard]] bool cay_local_check(struct cay_local *local, struct cay_error *err);
