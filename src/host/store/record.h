/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Small facts on disk that are written in one step and never torn. A text is the target of a
 * symbolic link: for what changes rarely. A name says all of it by itself and is a link to one
 * file, the anchor: written by one link, changed by one rename, without a new inode (ext4 is slow
 * to give those out for a minute after many were deleted nearby: overlay/blank.c). All return 0 or
 * -errno.
 */

#include "base/base.h"

enum { CAY_RECORD_SIZE = 192 }; /* of a name, with NUL */

int64_t cay_record_now_ms(void);

/* A new text; -EEXIST when there is one. */
[[nodiscard]] int cay_record_add(int dir_fd, const char *name, const char *text);
[[nodiscard]] int cay_record_replace(int dir_fd, const char *name, const char *text);
[[nodiscard]] int cay_record_read(int dir_fd, const char *name, char *text, size_t size);
/* A text or a name. Absent is fine. */
int cay_record_remove(int dir_fd, const char *name);
/* Names that begin with an id: of something that is not in the tables since it is damaged. */
[[nodiscard]] int cay_record_remove_of(int dir_fd, const char *id);
/* A text that was being replaced when the daemon died: removes it. */
bool cay_record_is_leftover(int dir_fd, const char *name);

/* Adds a name; the anchor is in root_fd and made when need be. */
[[nodiscard]] int cay_record_link(int root_fd, int dir_fd, const char *name);
/* Files made to be the new anchor by a daemon that died before they were. */
void cay_record_clean_anchors(int root_fd);
