/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A stream that passes through the data directory: in a file without a name (host/store/spool.h),
 * because it must be whole before it is used or is made faster than it is read. It counts for its
 * owner's disk quota while it is there. And it leaves the disk as much as it takes: an owner may
 * keep no more than what is then still free before new sessions are refused (pool_critical), so
 * that one can never keep others from making some.
 */

#include "host/owner/account_disk.h"

struct cay_passing {
    struct cay_host *host; /* NULL: nothing passes */
    struct cay_disk_claim claim;
    int fd;
};

/* On the loop thread. */
void cay_passing_begin(struct cay_passing *passing, struct cay_host *host,
                       const struct cay_caller *caller, struct cay_account *account);
void cay_passing_end(struct cay_passing *passing);
/* The other one has it from now on. Nobody writes meanwhile. */
void cay_passing_move(struct cay_passing *from, struct cay_passing *to);

/* On a worker. NO_SPACE and RESOURCE_EXHAUSTED; `what` it is, for the sentence. */
[[nodiscard]] bool cay_passing_open(struct cay_passing *passing, const char *what,
                                    struct cay_error *err);
[[nodiscard]] bool cay_passing_write(struct cay_passing *passing, struct cay_str data,
                                     const char *what, struct cay_error *err);
/* For who writes by himself. */
[[nodiscard]] bool cay_passing_take(struct cay_passing *passing, int64_t bytes, const char *what,
                                    struct cay_error *err);
