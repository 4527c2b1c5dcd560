/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A COPY step: entries of an archive that somebody handed in go into a session's tree, by
 * descriptor and with the rights of the sandbox's root. On a worker.
 */

#include "host/session/quota.h"
#include "tool/tree/tree.h"

enum { CAY_BUILD_CONTEXT_BYTES_MAX = 15 << 20 };

struct cay_build_copy {
    struct cay_tool_tree tree; /* its user is the sandbox's root */
    struct cay_str context;    /* the archive, or */
    int files_fd;              /* a file that has it; borrowed; -1: none */
    /* In the archive: a file, a directory whose content is meant, "." or a pattern, of which the
     * part before its first special character counts: the rest was for whoever packed it. */
    struct cay_str source;
    struct cay_str destination; /* absolute; a file goes below it when it ends with '/' or is one */
    struct cay_str owner;       /* a user, with or without a group; empty: root */
    struct cay_str mode;        /* octal, of files; empty: as in the archive */
    struct cay_quota_taker taker; /* of the session */
    uint64_t entries;             /* copied */
};

/* INVALID_ARGUMENT, FILE_NOT_FOUND when the archive has no such source, USER_NOT_FOUND,
 * RESOURCE_EXHAUSTED, QUOTA_EXCEEDED, NO_SPACE. */
[[nodiscard]] bool cay_build_copy(struct cay_build_copy *copy, struct cay_error *err);
