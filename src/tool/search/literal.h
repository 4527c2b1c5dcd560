/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finding a fixed string in much text. The two bytes of the string that are rarest in ordinary text
 * are looked for 32 (or 16) places at a time; only where both stand is the rest compared.
 */

#include "base/base.h"

enum { CAY_LITERAL_BYTES_MAX = 256 };

struct cay_literal {
    unsigned char bytes[CAY_LITERAL_BYTES_MAX]; /* lower case when caseless */
    size_t len;
    size_t rare_at[2]; /* ascending */
    bool caseless;     /* ASCII letters only */
};

/* 1 to CAY_LITERAL_BYTES_MAX bytes. */
void cay_literal_init(struct cay_literal *literal, struct cay_str text, bool caseless);

/* How good the literal is for telling lines apart; higher is better. */
[[nodiscard]] unsigned cay_literal_rarity(struct cay_str text);

/* The first place; NULL when there is none. */
[[nodiscard]] const char *cay_literal_find(const struct cay_literal *literal, const char *text,
                                           size_t len);
