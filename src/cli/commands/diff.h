/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/cay_v1.h"
#include "cli/output.h"

/* One line: a letter, the path, what else is to say. */
void cay_diff_print(struct cay_output *out, const struct cay_v1_diff_entry *entry);

/* The same with the number of changed lines, or of bytes, and a bar of plus and minus signs. */
void cay_diff_print_stat(struct cay_output *out, const struct cay_v1_diff_entry *entry);
