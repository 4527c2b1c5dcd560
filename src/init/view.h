/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a sandbox is shown of the machine: as much of it as its limits leave.
 *
 * The kernel tells everybody of the whole machine, and programs size their heaps and thread pools
 * by that. So files of ours lie over /proc/meminfo, cpuinfo, stat and loadavg; what /sys has is
 * ours altogether; and two system calls are answered by init (answer.c). All of it comes from the
 * control groups themselves, which are asked again before each command: a limit that was changed
 * needs no word to init, whoever changed it and however long ago.
 *
 * What changes by itself (free memory, used time, load) is written when a command has been started,
 * when somebody has opened one of the files, and now and then while anything runs. A reader may
 * find it some seconds old. /proc/uptime stays the kernel's: start times of processes count from
 * the same moment.
 *
 * Order: open -> make_files and make_sys while root -> fill -> (before_start, tick)* -> rest, and
 * again from before_start on.
 */

#include "base/base.h"

enum view_file {
    VIEW_MEMINFO,
    VIEW_CPUINFO,
    VIEW_STAT,
    VIEW_LOADAVG,
    VIEW_FILES,
};

enum view_source {
    SOURCE_MEMORY_MAX,
    SOURCE_MEMORY_USED,
    SOURCE_MEMORY_STAT,
    SOURCE_CPU_MAX,
    SOURCE_CPU_STAT,
    SOURCE_MACHINE_MEMORY, /* the kernel's own /proc/meminfo, */
    SOURCE_MACHINE_CPUS,   /* ... and /proc/cpuinfo */
    VIEW_SOURCES,
};

/* Directories of the session's control groups; -1: none. */
struct view_groups {
    int memory_fd;
    int cpu_fd;
    int usage_fd;
};

/* What the sandbox may have, and what it has of it now. */
struct view_limits {
    uint64_t memory_bytes; /* 0: all there is */
    uint32_t cpus;         /* whole ones: one and a half are two */
};

struct view_memory {
    uint64_t used_bytes;
    uint64_t file_bytes; /* the part of it that can be given up at any time */
    uint64_t shared_bytes;
};

struct view {
    int source_fd[VIEW_SOURCES]; /* -1 while it rests */
    int path_fd[VIEW_SOURCES];   /* the same files, not open */
    int proc_fd;                 /* through which they are opened */
    int file_fd[VIEW_FILES];
    int sys_fd;      /* what is mounted at /sys, from a side where it can be written */
    int cgroups_fd;  /* a mount for /sys/fs/cgroup, until it is there; -1: none */
    int watch_fd;    /* who opens the files */
    bool has_groups; /* in /sys; without, files of ours say the limits */
    bool is_v1;
    uint64_t machine_bytes;
    uint32_t machine_cpus;
    struct view_limits shown;
    uint64_t starts;   /* of commands, */
    uint32_t running;  /* ... and those of them that have not ended, with what they left: */
    uint32_t last_pid; /* who keeps the view alive tells it */
    bool is_watched;
    uint32_t cpu_dirs;
    int64_t written_ms; /* 0: never */
    int64_t next_ms;
    uint32_t pause_ms;
    int64_t began_ms;
    int64_t load_ms;
    uint64_t load_cpu_usec; /* used at that time */
    uint64_t load[3];       /* of 1, 5 and 15 minutes, in parts of LOAD_ONE */
};

enum { LOAD_SHIFT = 11, LOAD_ONE = 1 << LOAD_SHIFT };

void view_init(struct view *view);

/* Takes the files it needs from the groups; closes the directories. */
void view_open(struct view *view, const struct view_groups *groups);

/* Makes the files that are to lie over those of /proc, in a directory of ours, by the names of
 * view_file_name. */
[[nodiscard]] int view_make_files(struct view *view, int dir_fd, int proc_fd);
[[nodiscard]] const char *view_file_name(enum view_file file);

/* Makes the directory that is to be /sys, which belongs to `owner` from then on. */
[[nodiscard]] int view_make_sys(struct view *view, int dir_fd, const char *name, uint32_t owner);

/* Everything for the first time. Nothing depends on it but what commands see. */
void view_fill(struct view *view, int64_t now_ms);

/* What must be true when a command starts, and what may come after. */
void view_before_start(struct view *view, int64_t now_ms);
void view_after_start(struct view *view);

/* Nothing runs, nor has for a while: what is shown stays as it is, and its sources are closed. The
 * kernel keeps a buffer for each that is open and was read. Whoever reads them wakes it first. */
void view_rest(struct view *view);
void view_wake(struct view *view);

void view_opened(struct view *view); /* the watch has something to say */
int view_timeout_ms(const struct view *view, int64_t now_ms);
void view_tick(struct view *view, int64_t now_ms);

/* As the control groups have it at this moment. */
[[nodiscard]] struct view_limits view_limits(const struct view *view);
[[nodiscard]] struct view_memory view_memory(const struct view *view);

/* view_text.c: writes the files. */
void view_write_memory(const struct view *view);
void view_write_cpus(const struct view *view);
void view_write_use(const struct view *view, uint64_t user_usec, uint64_t system_usec,
                    int64_t now_ms);

/* A small text of the kernel, from its start, with a NUL; its length, 0 when there is none. */
size_t view_read(const struct view *view, enum view_source source, char *text, size_t size);
/* The number after the word at the start of a line; 0 when there is none. */
[[nodiscard]] uint64_t view_number(const char *text, const char *word);
/* In place of what the file has, and without a moment in which it is empty. */
void view_put(int fd, const char *text, size_t len);
