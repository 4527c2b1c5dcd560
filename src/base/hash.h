/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * SipHash-1-3: a keyed hash. Whoever does not know the key cannot make keys that collide, so a peer
 * cannot turn a map into a list. Not for signatures: 64 bits and one round are too few.
 */

#include "base/base.h"

[[nodiscard]] uint64_t cay_hash(const uint64_t key[2], struct cay_str data);
