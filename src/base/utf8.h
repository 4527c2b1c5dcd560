/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF. Text from
 * outside that must be UTF-8 is checked with cay_utf8_valid; text we must send although it is not
 * (file names, command output) is repaired with U+FFFD.
 */

#include "base/base.h"

[[nodiscard]] bool cay_utf8_valid(struct cay_str text);

/* The length in bytes (1 to 4) of the character at `at`. When there is none, minus the number of
 * bytes that one U+FFFD should stand for. `len` is what may be read and must not be 0. */
[[nodiscard]] int cay_utf8_step(const char *at, size_t len);

/* Writes the character, which must not be a surrogate; returns its length. */
size_t cay_utf8_put(uint32_t code_point, char out[4]);

/* The length of `text` once every bad sequence is replaced by U+FFFD; text.len when it is valid.
 * cay_utf8_repair writes exactly that many bytes. */
[[nodiscard]] size_t cay_utf8_repaired_len(struct cay_str text);
void cay_utf8_repair(struct cay_str text, char *out);

/* The number of leading bytes below 0x80. */
[[nodiscard]] size_t cay_utf8_ascii_prefix(struct cay_str text);

/* The length of the well-formed characters above ASCII at the start. */
[[nodiscard]] size_t cay_utf8_multibyte_prefix(struct cay_str text);
