/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Packet filter tables of the calling thread's network namespace, family inet. Rules are written in
 * the language of the `nft` program, which is run for that; looking and listening need only the
 * kernel. 0 or -errno.
 */

#include "base/buf.h"

/* Takes all of the text or nothing. -ENOENT: there is no such program; -EINVAL: it or the kernel
 * refused, and *out_why has its words. Blocks. */
[[nodiscard]] int cay_nft_apply(const char *text, struct cay_buf *out_why);
[[nodiscard]] bool cay_nft_is_installed(void);

/* 1: the table exists, 0: it does not; -EPROTONOSUPPORT and others: the kernel has no tables. */
[[nodiscard]] int cay_nft_has_table(const char *name);

/* A socket that gets news of tables; non-blocking. */
[[nodiscard]] int cay_nft_listen(void);
/* Takes what has come: true when the table was deleted, or when news were lost. */
[[nodiscard]] bool cay_nft_was_deleted(int fd, const char *name);
