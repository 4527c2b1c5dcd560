/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/base.h"
#include "tool/search/literal.h"

/* What can be said about a regular expression by reading it. */
struct cay_pattern_facts {
    bool known;          /* everything in it was understood; otherwise nothing else here holds */
    bool exact;          /* it is the required string and nothing else */
    bool one_line;       /* no part of it can match a newline or look beyond its line */
    bool caseless;       /* the required string stands for any case of its letters */
    size_t required_len; /* 0: there is none */
    char required[CAY_LITERAL_BYTES_MAX];
};

void cay_pattern_read(struct cay_str text, bool ignore_case, struct cay_pattern_facts *out_facts);

/* The best part of a fixed string that may be searched for with ASCII case folding alone. */
struct cay_str cay_pattern_caseless_part(struct cay_str text);
