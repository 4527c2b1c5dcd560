/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a program wrote to its terminal before we came to it. Questions in it (where is the cursor,
 * which terminal are you, which colours have you) were answered then; our terminal would answer
 * them once more, and the program would take that for something typed.
 */

#include "base/buf.h"

/* Appends the data without the questions. */
void cay_replay_clean(struct cay_buf *out, struct cay_str data);
