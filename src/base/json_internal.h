/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Shared by the JSON reader and writer. */

#include <endian.h>

#include "base/base.h"

/* The first byte from `at` on that is not plain: quote, backslash, control or above ASCII. Eight at
 * a time: in each byte of the word the top bit comes up for those, and a borrow can only disturb
 * bytes behind the first hit. */
static inline const char *cay_json_skip_plain(const char *at, const char *end)
{
    const uint64_t each = 0x0101010101010101u;
    while (end - at >= 8) {
        uint64_t word = 0;
        memcpy(&word, at, sizeof(word));
        word = le64toh(word);
        uint64_t hits = ((word ^ (each * '"')) - each) | ((word ^ (each * '\\')) - each) |
                        (word - each * 0x20) | word;
        hits &= each * 0x80;
        if (hits)
            return at + __builtin_ctzll(hits) / 8;
        at += 8;
    }
    while (at < end && (unsigned char)*at >= 0x20 && (unsigned char)*at < 0x80 && *at != '"' &&
           *at != '\\')
        at++;
    return at;
}
