/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Our standard input on its way to a process, beside its output: from a thread of its own, with a
 * connection of its own. A terminal is in raw mode meanwhile, so that every key arrives, and is as
 * it was when we leave, however that is.
 */

#include "api/cay_v1.h"
#include "cli/command.h"

struct cay_input;

/* The size of our terminal; false when standard output is none. */
[[nodiscard]] bool cay_input_size(struct cay_v1_pty_size *out_size);

struct cay_input_options {
    struct cay_str session_id;
    struct cay_str process_id;
    bool has_terminal;  /* the process: ours is raw, and its size is told */
    bool is_detachable; /* ctrl-p ctrl-q leaves it */
    bool types_end;     /* it has a terminal and we have none: our end is typed there */
};

/* Reads from now on. NULL when that cannot be. */
struct cay_input *cay_input_open(struct cay_cli *cli, const struct cay_input_options *options);

/* Stops reading and puts the terminal back. Accepts NULL. */
void cay_input_close(struct cay_input *input);

/* The keys to leave were pressed. */
[[nodiscard]] bool cay_input_is_detached(const struct cay_input *input);
