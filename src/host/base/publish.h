/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A snapshot published as a base, as a part of taking it: both are there afterwards, or neither.
 *
 *     new (loop) -> begin (loop, in the gate) -> work (worker, when the snapshot is taken) ->
 *     confirm (worker, in the transaction that makes the snapshot count) -> done (loop) -> free
 *
 * An administrator's is for everybody; anybody else's is their own.
 */

#include "host/base/base_keep.h"
#include "host/session/session.h"

struct cay_publishing {
    struct cay_base_keeping keeping;
    struct cay_arena arena;
    struct cay_account *claim; /* on the quota of bases */
};

/* NULL: err says why. */
[[nodiscard]] struct cay_publishing *cay_publishing_new(struct cay_host *host,
                                                        const struct cay_call *call,
                                                        struct cay_str name, struct cay_error *err);
void cay_publishing_free(struct cay_publishing *self);

/* What sessions of it start with is what those of the session's base start with. The session's own
 * variables are not handed on: they may be secrets. */
[[nodiscard]] bool cay_publishing_begin(struct cay_publishing *self, const struct cay_call *call,
                                        const struct cay_session *session, const char *snapshot,
                                        struct cay_error *err);
[[nodiscard]] bool cay_publishing_work(struct cay_publishing *self, const char *snapshot_store_id,
                                       struct cay_error *err);
void cay_publishing_done(const struct cay_publishing *self);
