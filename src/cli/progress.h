/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A line on the terminal that says how far a transfer is, drawn again a few times a second and gone
 * at the end. Nothing is drawn when standard error is no terminal.
 *
 * Order: begin -> (add | name)* -> end.
 */

#include "base/base.h"

struct cay_progress {
    int64_t total_bytes; /* 0: not known */
    int64_t bytes;
    int64_t files;
    int64_t started_ns;
    int64_t drawn_ns;
    char name[64];
    bool is_shown;
};

void cay_progress_begin(struct cay_progress *progress, bool is_wanted, int64_t total_bytes);
void cay_progress_name(struct cay_progress *progress, const char *name);
void cay_progress_add(struct cay_progress *progress, size_t bytes);
void cay_progress_end(struct cay_progress *progress);
