/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A link driven by poll, which remembers what it was told: enough of an event loop for tests and
 * benches.
 */

#include "base/buf.h"
#include "host/runtime/link.h"
#include "host/runtime/runtime.h"

enum { DRIVER_CALLS_MAX = 64 };

struct driver_call {
    uint64_t id;
    bool started;
    bool exited;
    bool gone;
    int refused; /* errno */
    bool holds;  /* never acknowledges */
    uint32_t window_bytes;
    uint32_t pid;
    uint64_t next_offset;
    uint64_t acked;
    uint64_t dropped_bytes;
    uint64_t stdin_taken;
    bool has_piece;
    uint64_t piece_offset;
    struct cay_frame_exit exit;
    struct cay_frame_procs procs;
    bool has_procs;
    struct cay_buf out;
    struct cay_buf err;
    struct cay_buf both;   /* as it came */
    struct cay_buf pieces; /* answers to reads */
};

struct driver {
    struct cay_link *link;
    struct cay_error error; /* why the link died */
    bool dead;
    bool discards; /* output is counted, not kept */
    uint64_t pong;
    uint32_t listed;
    bool list_ended;
    uint64_t next_id;
    struct driver_call calls[DRIVER_CALLS_MAX];
};

/* What a test usually wants of a command; zero means the default. */
struct driver_exec {
    const char *const *args; /* ended by NULL */
    const char *script;      /* instead: sh -c SCRIPT */
    const char *const *env;
    const char *cwd;
    uint32_t uid;
    uint32_t flags;
    uint64_t wall_ms;
    uint64_t quiet_ms;
    uint32_t ring_bytes;
    struct cay_frame_size size; /* of a terminal */
    uint64_t again;             /* the ended call to run once more */
    bool detached;              /* no window */
    bool holds;
};

bool driver_open(struct driver *driver, struct cay_sandbox *sandbox);
void driver_close(struct driver *driver);

/* NULL when it could not be sent. */
struct driver_call *driver_start(struct driver *driver, const struct driver_exec *exec);
struct driver_call *driver_expect(struct driver *driver, uint64_t id);

/* One turn of the loop. */
void driver_step(struct driver *driver, int timeout_ms);

/* Until *flag, or the time is over. */
bool driver_until(struct driver *driver, const bool *flag, int timeout_ms);

/* Starts it and waits for its end; releases it. NULL on failure. Valid until the driver is closed.
 */
struct driver_call *driver_run(struct driver *driver, const struct driver_exec *exec);
const char *driver_text(struct cay_buf *buf);
int64_t driver_now_ms(void);
