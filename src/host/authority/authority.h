/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The certificate authority of this host, for names whose TLS the helper of a filtered network
 * looks into. Sandboxes trust it, and nobody else does. It is made at the first need and kept in
 * a file of the data directory that only the daemon can read; its key leaves the daemon never: the
 * helper gets certificates for names, each with a key of its own. Any thread may call.
 */

#include "base/buf.h"

struct cay_authority;

/* 0, or -errno: -EBADMSG when the file is damaged. None is made here. The descriptor stays the
 * caller's and has to be good as long. */
[[nodiscard]] int cay_authority_open(int data_dir_fd, struct cay_authority **out);
void cay_authority_close(struct cay_authority *authority);

/* PEM, for files of what sandboxes trust; empty when it cannot be made. */
[[nodiscard]] struct cay_str cay_authority_certificate(struct cay_authority *authority);

enum { CAY_AUTHORITY_LEAF_BYTES_MAX = 16 * 1024 };

/* PEM: a certificate for the name of DNS, the authority's, and the key of the first. The same
 * again for a name that was asked for lately. `out` has room for CAY_AUTHORITY_LEAF_BYTES_MAX, and
 * is to be wiped. 0 or -errno. */
[[nodiscard]] int cay_authority_leaf(struct cay_authority *authority, struct cay_str name,
                                     struct cay_buf *out);
