/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/cay_v1.h"
#include "cli/output.h"

/* One line: a letter, the path, what else is to say. */
void cay_diff_print(struct cay_output *out, const struct cay_v1_diff_entry *entry);
