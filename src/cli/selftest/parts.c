/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of a run, side by side: each is a process with a daemon, sandboxes and a directory of its
 * own, and writes into the rows that all of them share.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/selftest/selftest.h"

enum { PARTS_MAX = 2 * CAY_SELFTEST_RUNTIMES_MAX };

struct part {
    size_t runtime;
    bool is_outside; /* the probes that call the daemon; those inside otherwise */
    pid_t pid;
    bool is_done;
    struct cay_error err;
};

static bool try_part(struct cay_selftest *self, const struct part *part, struct cay_error *err)
{
    if (!cay_selftest_start_daemon(self, err) || !cay_selftest_import(self, err) ||
        !cay_selftest_settle(self, part->runtime, err))
        return false;
    if (!part->is_outside)
        return cay_selftest_stages(self, part->runtime, err);
    cay_selftest_outside(self, part->runtime);
    return true;
}

/* In the child. The run's directory goes with the parent, and so does what it planted. */
static void run_part(struct cay_selftest *self, struct part *part, size_t number)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    size_t len = strlen(self->dir);
    snprintf(self->dir + len, sizeof(self->dir) - len, "/%zu", number);
    self->cayd_port = 0;
    self->is_ending = false;
    self->neighbour_prizes = NULL;
    if (mkdir(self->dir, 0755) < 0)
        (void)cay_fail_errno(&part->err, CAY_R_INTERNAL, -errno, "make '%.100s'", self->dir);
    else
        part->is_done = try_part(self, part, &part->err);
    cay_selftest_end_daemon(self);
    _exit(0);
}

static size_t list_parts(const struct cay_selftest *self, struct part *parts)
{
    size_t count = 0;
    for (size_t i = 0; i < 2 * self->runtime_count; i++) {
        if (self->runtimes[i / 2].is_judged)
            parts[count++] = (struct part){.runtime = i / 2, .is_outside = i % 2};
    }
    return count;
}

/* A signal is for all: Ctrl-C reaches the others by themselves, one that was sent does not. */
static void wait_for(const struct part *parts, size_t count, size_t which)
{
    while (parts[which].pid > 0 && waitpid(parts[which].pid, NULL, 0) < 0 && errno == EINTR) {
        for (size_t i = which; i < count && cay_selftest_is_over(); i++) {
            if (parts[i].pid > 0)
                (void)kill(parts[i].pid, SIGTERM);
        }
    }
}

bool cay_selftest_parts(struct cay_selftest *self, struct cay_error *err)
{
    struct part *parts = mmap(NULL, PARTS_MAX * sizeof(*parts), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (parts == MAP_FAILED)
        return cay_fail_errno(err, CAY_R_INTERNAL, -errno, "begin the parts of the run");
    size_t count = list_parts(self, parts);
    for (size_t i = 0; i < count; i++) {
        /* Not by way of the memory that the child has, too. */
        pid_t pid = fork();
        if (pid == 0)
            run_part(self, &parts[i], i);
        parts[i].pid = pid;
        if (parts[i].pid < 0)
            (void)cay_fail_errno(&parts[i].err, CAY_R_INTERNAL, -errno, "begin a part of the run");
    }
    bool is_done = true;
    for (size_t i = 0; i < count; i++) {
        wait_for(parts, count, i);
        if (is_done && !parts[i].is_done)
            *err = parts[i].err;
        is_done = is_done && parts[i].is_done;
    }
    (void)munmap(parts, PARTS_MAX * sizeof(*parts));
    if (!is_done && !err->reason)
        return cay_fail(err, CAY_R_INTERNAL, "a part of the run has died");
    return is_done;
}
