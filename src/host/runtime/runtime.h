/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sandboxes: what isolates the commands of a session. For callers; implementers see runtime_ops.h.
 *
 * Order: open a runtime by name -> start or adopt sandboxes -> link (host/runtime/link.h) for
 * commands; freeze, thaw, switch_root, stats -> destroy, or leave to let it run on without us ->
 * close the runtime.
 *
 * A sandbox outlives the daemon. Its description, kept by the caller, is enough to adopt it again;
 * its id alone is enough to remove whatever is left of it. Every function here may block for
 * milliseconds and belongs on a worker, with one caller at a time per sandbox; the runtime itself
 * may be used by several threads at once.
 */

#include "base/buf.h"
#include "base/error.h"
#include "sys/cgroup.h"

struct cay_runtime;
struct cay_sandbox;

/* Each says one thing, and none follows from another: ask for the one that is meant. */
enum cay_runtime_caps {
    CAY_RUNTIME_ISOLATES = 1 << 0,      /* commands cannot reach the host */
    CAY_RUNTIME_OWN_IDS = 1 << 1,       /* a sandbox has a range of the host's ids: uid_base */
    CAY_RUNTIME_OWN_PIDS = 1 << 2,      /* its processes end with its init */
    CAY_RUNTIME_OWN_NETWORK = 1 << 3,   /* cay_sandbox_netns works */
    CAY_RUNTIME_LIMITS = 1 << 4,        /* memory, pids or cpu are limited: cay_runtime_limits */
    CAY_RUNTIME_FREEZES = 1 << 5,       /* freeze and thaw work */
    CAY_RUNTIME_SWITCHES = 1 << 6,      /* the root can be changed under a living sandbox */
    CAY_RUNTIME_ADOPTS = 1 << 7,        /* sandboxes survive the daemon: the next adopts them */
    CAY_RUNTIME_RUNS_PROGRAMS = 1 << 8, /* commands are real programs */
    CAY_RUNTIME_WAITS = 1 << 9, /* a sandbox can be started before there is a session for it */
    /* A kernel of its own: the host counts, limits and kills the sandbox as a whole. */
    CAY_RUNTIME_OWN_KERNEL = 1 << 10,
    CAY_RUNTIME_NESTS = 1 << 11, /* spec.nesting is heeded */
};

enum {
    CAY_SANDBOX_ID_BYTES_MAX = 128,
    CAY_SANDBOX_USER_UID = 1000, /* of the user `user`, inside */
};

struct cay_runtime_config {
    const char *run_dir;       /* sockets; made 0700 when missing; ours alone */
    const char *cgroup_parent; /* a plain name, different for daemons side by side */
    const char *init_path;     /* the cay-init binary */
    const char *runsc;         /* of gvisor: the program, or NULL or empty to look for it */
    const char *platform;      /* of gvisor: one of runsc's; NULL or empty: its default */
};

struct cay_sandbox_spec {
    const char *id;
    int root_fd; /* a detached mount of the session's tree (stays the caller's); or -1 and */
    const char *root_path; /* a directory with natural ids, id-mapped by us; NULL: none */
    uint32_t uid_base;     /* see sys/userns.h; of no use without ids of its own */
    int userns_fd;         /* the session's user namespace when the caller has it, else -1 */
    struct cay_cgroup_limits limits;
    const char *hostname;
    bool no_new_privs;  /* setuid programs give nothing; breaks sudo */
    bool nesting;       /* commands can make namespaces and mounts */
    uint64_t shm_bytes; /* of /dev/shm; 0: 64 MiB */
    bool waits;         /* cay_runtime_start_waiting sets it */
};

struct cay_sandbox_stats {
    struct cay_cgroup_stats usage;
    uint64_t oom_kills;
    unsigned limits_applied; /* bits of 1 << enum cay_cgroup_controller */
};

/* Reasons: NOT_FOUND for an unknown name, RUNTIME_FAILED, NOT_SUPPORTED. */
[[nodiscard]] bool cay_runtime_open(const char *name, const struct cay_runtime_config *config,
                                    struct cay_runtime **out_runtime, struct cay_error *err);
void cay_runtime_close(struct cay_runtime *runtime);
[[nodiscard]] const char *cay_runtime_name(const struct cay_runtime *runtime);
/* All of these, bits of enum cay_runtime_caps. */
[[nodiscard]] bool cay_runtime_can(const struct cay_runtime *runtime, unsigned caps);
/* A sentence to show to whoever starts this runtime; NULL when there is nothing to say. */
[[nodiscard]] const char *cay_runtime_warning(const struct cay_runtime *runtime);

/* Limits it keeps here, bits of 1 << enum cay_cgroup_controller, and by what ("control groups,
 * version 2"). */
[[nodiscard]] unsigned cay_runtime_limits(const struct cay_runtime *runtime,
                                          const char **out_limits_by);

/* Names of all runtimes that users may choose, ended by NULL. */
[[nodiscard]] const char *const *cay_runtime_names(void);

/* Makes ready what the next start can use: it is quicker then. Blocks; need not be called. */
void cay_runtime_prepare(struct cay_runtime *runtime);

/* Reasons: INVALID_ARGUMENT, ALREADY_EXISTS, RUNTIME_FAILED (its text names the step). Leaves
 * nothing behind when it fails. */
[[nodiscard]] bool cay_runtime_start(struct cay_runtime *runtime,
                                     const struct cay_sandbox_spec *spec,
                                     struct cay_sandbox **out_sandbox, struct cay_error *err);

/* A sandbox before there is a session for it. Its id, uid_base and userns_fd are final; it has no
 * tree, and neither limits nor a host name that count, until it is handed out. Until then it is
 * nobody's, and cay_runtimes_remove_waiting finds it. Reasons: NOT_SUPPORTED, those of start. */
[[nodiscard]] bool cay_runtime_start_waiting(struct cay_runtime *runtime,
                                             const struct cay_sandbox_spec *spec,
                                             struct cay_sandbox **out_sandbox,
                                             struct cay_error *err);

/* One that waits becomes what start would have made of the spec, which names the same id and ids.
 * What it stood on goes when *out_old_fd is closed (-1: nothing), which may take its time. Reasons:
 * NOT_SUPPORTED for wishes that must be known at the start; RUNTIME_FAILED. It is of no use any
 * more when this fails: destroy it and start another. */
[[nodiscard]] bool cay_sandbox_hand_out(struct cay_sandbox *sandbox,
                                        const struct cay_sandbox_spec *spec, int *out_old_fd,
                                        struct cay_error *err);

/* A living sandbox of an earlier daemon. Reasons: INVALID_ARGUMENT for a text we did not write,
 * NOT_FOUND when it is not alive any more: then remove what is left by id. */
[[nodiscard]] bool cay_runtime_adopt(struct cay_runtime *runtime, struct cay_str description,
                                     struct cay_sandbox **out_sandbox, struct cay_error *err);

/* Kills and removes whatever exists under the id: processes, control groups, socket. Done when
 * nothing exists. */
[[nodiscard]] bool cay_runtime_remove(struct cay_runtime *runtime, const char *id,
                                      struct cay_error *err);

/* Everything adopt needs, as text (under 1 KiB). */
void cay_sandbox_describe(const struct cay_sandbox *sandbox, struct cay_buf *out_text);
[[nodiscard]] const char *cay_sandbox_id(const struct cay_sandbox *sandbox);

/* Readable once the sandbox is dead; -1 when the runtime has none. Stays the sandbox's. */
[[nodiscard]] int cay_sandbox_pidfd(const struct cay_sandbox *sandbox);

/* The session's tree (O_PATH) as its programs see it, with what is mounted there. -1 when it is
 * dead. Stays the sandbox's, until the root is switched. Does not block. */
[[nodiscard]] int cay_sandbox_root(const struct cay_sandbox *sandbox);

/* Its network, as a descriptor that is the caller's; does not block. Reasons: NOT_SUPPORTED when it
 * has none of its own, UNAVAILABLE when it is dead. */
[[nodiscard]] bool cay_sandbox_netns(const struct cay_sandbox *sandbox, int *out_fd,
                                     struct cay_error *err);

/* The directory of the control group that all its processes are in or below; the caller's. -1 when
 * there is none. Does not block. */
[[nodiscard]] int cay_sandbox_group(const struct cay_sandbox *sandbox);

/* Stops every process, init too. Idempotent. Reasons: NOT_SUPPORTED, DEADLINE_EXCEEDED. */
[[nodiscard]] bool cay_sandbox_freeze(struct cay_sandbox *sandbox, int timeout_ms,
                                      struct cay_error *err);
/* Send cay_link_skip_clock before, or timeouts count the pause. */
[[nodiscard]] bool cay_sandbox_thaw(struct cay_sandbox *sandbox, struct cay_error *err);

/* Waits until nothing but init lives in it: what was killed takes its time to die. False when
 * somebody is alive all the same; true when the runtime cannot know. */
[[nodiscard]] bool cay_sandbox_wait_idle(const struct cay_sandbox *sandbox, int timeout_ms);

/* Puts another tree under a sandbox in which nothing but init lives; /dev and /proc stay. The old
 * tree's mount goes when *out_old_fd is closed, which may take its time. Reasons: TOOLS_IN_FLIGHT,
 * NOT_SUPPORTED, RUNTIME_FAILED (nothing has changed, unless the text says otherwise). */
[[nodiscard]] bool cay_sandbox_switch_root(struct cay_sandbox *sandbox, int root_fd,
                                           int *out_old_fd, struct cay_error *err);

/* When all want the processors it gets one of so many parts of what others get who have one; 1 when
 * it is new. Does not block. */
void cay_sandbox_set_part(struct cay_sandbox *sandbox, unsigned parts);

[[nodiscard]] bool cay_sandbox_set_limits(struct cay_sandbox *sandbox,
                                          const struct cay_cgroup_limits *limits,
                                          struct cay_error *err);
void cay_sandbox_stats(struct cay_sandbox *sandbox, struct cay_sandbox_stats *out_stats);

/* Of an init that has been silent for so long: ends the start of a program that somebody holds up,
 * so that init can go on. True when there was one. Loop thread only. */
bool cay_sandbox_end_start(struct cay_sandbox *sandbox, int64_t waited_ms);

/* Kills everything in it, init too, and waits until it is gone. Idempotent. */
[[nodiscard]] bool cay_sandbox_kill(struct cay_sandbox *sandbox, struct cay_error *err);

/* Kills, removes everything, frees. The handle is gone even when it fails; remove can then be tried
 * again by id. */
[[nodiscard]] bool cay_sandbox_destroy(struct cay_sandbox *sandbox, struct cay_error *err);

/* Frees the handle; the sandbox lives on. Accepts NULL. */
void cay_sandbox_leave(struct cay_sandbox *sandbox);
