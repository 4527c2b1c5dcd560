/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What is in a file, as results show it. */

#include "base/buf.h"

/* Judged by its beginning. */
[[nodiscard]] bool cay_text_is_binary(struct cay_str content);

/* Appends at most `characters` of a line, bad UTF-8 repaired; a mark and true when it was cut. */
bool cay_text_append_line(struct cay_buf *text, struct cay_str line, size_t characters);
