/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The control groups of one session, wherever this machine keeps its controllers: all on version 1,
 * all on version 2, or limits on version 1 beside a version 2 tree without controllers (hybrid).
 * Life-cycle work (birth in a group, freeze, kill) uses version 2 whenever it is mounted.
 *
 *     session group    limits of memory, pids, cpu; on version 2 with controllers `init` below it
 *       slot 0..n      one command each: who was killed for memory, who is left, kill them all
 *       room 0..n      the same for a command with limits of its own; made anew for each
 *
 * Nobody is ever moved by a write to cgroup.procs: that waits for a grace period of the kernel
 * (milliseconds: cgroup_procs_write_start() in kernel/cgroup/cgroup.c takes a lock that all forks
 * share, kernel/locking/percpu-rwsem.c). A process is born in its version 2 group (clone(2),
 * CLONE_INTO_CGROUP) and puts itself into version 1 groups by writing "0" to `tasks` descriptors
 * that were opened for it.
 *
 * A slot is never killed through cgroup.kill: kernels up to 6.18 at least then kill whoever is born
 * in that group later, too (the count of kills is compared with that of the parent's group:
 * `kill_seq`, cgroup_css_set_fork() and cgroup_post_fork() in kernel/cgroup/cgroup.c).
 *
 * Order: detect once -> create or open -> slots -> freeze, kill, stats -> close; remove after the
 * last process is gone.
 */

#include "base/base.h"

enum cay_cgroup_controller {
    CAY_CGROUP_MEMORY,
    CAY_CGROUP_PIDS,
    CAY_CGROUP_CPU,
    CAY_CGROUP_FREEZER,
    CAY_CGROUP_CONTROLLERS,
};

enum {
    CAY_CGROUP_PATH_BYTES = 256, /* of a mount point, terminator included */
    CAY_CGROUP_NAME_BYTES = 256,
    CAY_CGROUP_SLOTS_MAX = 128,
    CAY_CGROUP_ROOMS_MAX = 32,
};

/* Where things are on this machine. An empty path: not there. */
struct cay_cgroup_host {
    char unified[CAY_CGROUP_PATH_BYTES];
    bool unified_has[CAY_CGROUP_CONTROLLERS];
    char v1[CAY_CGROUP_CONTROLLERS][CAY_CGROUP_PATH_BYTES];
};

/* 0 means no limit. */
struct cay_cgroup_limits {
    uint64_t memory_bytes;
    uint32_t pids;
    uint32_t cpu_millis; /* 1000 is one processor */
};

struct cay_cgroup {
    const struct cay_cgroup_host *host;
    char name[CAY_CGROUP_NAME_BYTES]; /* path below every mount point */
    int unified_fd;                   /* directory of the session group, -1 without version 2 */
    int init_fd;                      /* directory init is born in, -1 without version 2 */
    int v1_fd[CAY_CGROUP_CONTROLLERS];
    uid_t init_uid;   /* whom births in slots are allowed to */
    unsigned applied; /* bits of 1 << controller: limits that hold */
};

/* What init needs of a slot. Any may be -1. */
struct cay_cgroup_slot {
    int into_fd;          /* version 2 directory, for CLONE_INTO_CGROUP */
    int freeze_fd;        /* write "1" to stop all, "0" to let them go on */
    int procs_fd;         /* read the pids */
    int tasks_fd;         /* version 1: a fresh child writes "0" */
    int oom_fd;           /* has a line `oom_kill N` */
    int more_tasks_fd[2]; /* of a room: those of further version 1 hierarchies */
};

#define CAY_CGROUP_NO_SLOT ((struct cay_cgroup_slot){-1, -1, -1, -1, -1, {-1, -1}})

struct cay_cgroup_stats {
    uint64_t memory_bytes;
    uint64_t memory_peak_bytes;
    uint64_t memory_cache_bytes; /* the part of it that is page cache */
    uint64_t pids;
    uint64_t cpu_usec;
    uint64_t init_oom_kills; /* of init; those of commands are counted in their slots */
};

/* Kills by the kernel for want of memory, in the whole group, since it was made. A walk over its
 * slots where version 1 counts each by itself. */
[[nodiscard]] uint64_t cay_cgroup_oom_kills(const struct cay_cgroup *group);

/* Reads /proc/self/mountinfo. -ENOENT when no control groups are mounted at all. */
[[nodiscard]] int cay_cgroup_detect(struct cay_cgroup_host *out_host);

/* The same from a given text; does not look at controllers of version 2. */
[[nodiscard]] int cay_cgroup_parse_mounts(struct cay_str mountinfo,
                                          struct cay_cgroup_host *out_host);

/* name is "parent/session", made of plain file names. -EEXIST when the session group is there. A
 * limit whose controller is missing is not an error: look at `applied`. One that the kernel does
 * not take is. */
[[nodiscard]] int cay_cgroup_create(const struct cay_cgroup_host *host, const char *name,
                                    const struct cay_cgroup_limits *limits, uid_t init_uid,
                                    struct cay_cgroup *out_group);

/* An existing one. -ENOENT when no hierarchy has it. */
[[nodiscard]] int cay_cgroup_open(const struct cay_cgroup_host *host, const char *name,
                                  uid_t init_uid, struct cay_cgroup *out_group);
void cay_cgroup_close(struct cay_cgroup *group);

/* Changes limits of a living group; what is 0 is lifted. A limit whose controller is missing
 * is not an error: look at `applied`. One that the kernel does not take is, and the others may hold
 * then. -EBUSY: the processes use more memory than that, not counting the files that the kernel has
 * read for them and can give up; nobody is killed for it. */
[[nodiscard]] int cay_cgroup_set_limits(struct cay_cgroup *group,
                                        const struct cay_cgroup_limits *limits);

/* One of so many parts of what the processors give to a group that has nothing to do with others;
 * 1 is what a new one has. Nothing happens where there is no controller of processors. */
void cay_cgroup_set_part(const struct cay_cgroup *group, unsigned parts);

/* `tasks` descriptors of the version 1 groups init must join; returns how many were written to
 * out_fds (at most CAY_CGROUP_CONTROLLERS) or -errno. The caller closes them. */
[[nodiscard]] int cay_cgroup_open_tasks(const struct cay_cgroup *group, int *out_fds);

/* Makes slot `index` (or opens it when it exists). */
[[nodiscard]] int cay_cgroup_open_slot(const struct cay_cgroup *group, unsigned index,
                                       struct cay_cgroup_slot *out_slot);

/* A new group for one command, with limits. -EBUSY while somebody is in the last one of that index,
 * -EOPNOTSUPP when a limit cannot be kept here. */
[[nodiscard]] int cay_cgroup_open_room(const struct cay_cgroup *group, unsigned index,
                                       const struct cay_cgroup_limits *limits,
                                       struct cay_cgroup_slot *out_slot);
void cay_cgroup_close_slot(struct cay_cgroup_slot *slot);

/* Returns when every process is stopped, or -ETIMEDOUT (it then stays asked for). -EOPNOTSUPP
 * without any freezer. */
[[nodiscard]] int cay_cgroup_freeze(const struct cay_cgroup *group, int timeout_ms);
[[nodiscard]] int cay_cgroup_thaw(const struct cay_cgroup *group);

/* Kills all processes of the session at once. -EOPNOTSUPP without version 2. */
[[nodiscard]] int cay_cgroup_kill(const struct cay_cgroup *group);

/* Kills until nobody is left, on any version. -ETIMEDOUT. */
[[nodiscard]] int cay_cgroup_kill_all(const struct cay_cgroup *group, int timeout_ms);

void cay_cgroup_read_stats(const struct cay_cgroup *group, struct cay_cgroup_stats *out_stats);

/* Whether any process is left; on any hierarchy. */
[[nodiscard]] bool cay_cgroup_is_populated(const struct cay_cgroup *group);

/* Removes the groups everywhere. -EBUSY when processes are left after timeout_ms. */
[[nodiscard]] int cay_cgroup_remove(const struct cay_cgroup_host *host, const char *name,
                                    int timeout_ms);
