/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Compares two stacks of layer directories as an overlay mount would show them, without mounting.
 * Layers that both stacks have in common at the bottom are only asked about names that a layer
 * above them mentions. A store without layers gives stacks of one.
 */

#include "host/store/diff.h"

struct cay_diff_touched;

struct cay_diff_layer {
    uint64_t id; /* the same number on both sides: the same immutable tree */
    int fd;      /* its root */
};

struct cay_diff_stack {
    const struct cay_diff_layer *layers; /* the top one first */
    size_t count;
    /* Of `from`: the two are clones of one tree, which has not changed since then. What has the
     * same inode on both sides and an older change time is the same. 0: they are not. */
    int64_t shared_before_ns;
    /* Of `from`, when the file system told: see there. Only for stacks of one layer. */
    const struct cay_diff_touched *touched;
};

[[nodiscard]] bool cay_diff_walk(const struct cay_diff_stack *from, const struct cay_diff_stack *to,
                                 const struct cay_diff_request *request,
                                 struct cay_diff_stats *out_stats, struct cay_error *err);
