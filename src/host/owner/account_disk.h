/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Disk space that is taken on an owner's behalf before it belongs to anything: streams that are
 * kept until they are whole, bases that are being made. The loop thread says how much there may be
 * of it by the owner's quota, again and again as the owner's other things change; a worker takes
 * it, piece by piece; the loop thread gives it back.
 */

#include <stdatomic.h>

#include "api/call.h"

struct cay_account;
struct cay_host;

struct cay_disk_claim {
    struct cay_account *account; /* NULL: nothing is claimed */
    _Atomic int64_t taken_bytes;
    _Atomic int64_t bytes_max; /* of all that the account has taken */
};

/* For what passes through: it has room beside what the owner's sessions really have. */
void cay_disk_claim_begin(struct cay_disk_claim *claim, const struct cay_host *host,
                          const struct cay_caller *caller, struct cay_account *account);
/* The same for a base, which stays: beside all that the owner's sessions may have. What is replaced
 * by it, or goes when it is made, makes way. */
void cay_disk_claim_begin_base(struct cay_disk_claim *claim, const struct cay_host *host,
                               const struct cay_caller *caller, struct cay_account *account,
                               int64_t makes_way_bytes);
/* What passes through has gone on for a while: what is left may have changed. */
void cay_disk_claim_again(struct cay_disk_claim *claim, const struct cay_host *host);

/* From any thread. RESOURCE_EXHAUSTED, and then nothing is taken. */
[[nodiscard]] bool cay_disk_claim_fits(const struct cay_disk_claim *claim, int64_t bytes);
[[nodiscard]] bool cay_disk_claim_take(struct cay_disk_claim *claim, int64_t bytes,
                                       struct cay_error *err);

/* Gives back what was taken; nothing is claimed from then on. */
void cay_disk_claim_end(struct cay_disk_claim *claim);
