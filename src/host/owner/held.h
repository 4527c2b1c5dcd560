/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A file of a session that the daemon has open for longer than an operation: its reader takes it as
 * slowly as it likes. Whoever unlinks it meanwhile does not get rid of it, so it counts as the
 * session's (quota.h), and it is let go of when the session goes. Loop thread only.
 */

#include <sys/stat.h>

#include "base/list.h"

struct cay_session;

struct cay_held {
    struct cay_list_node in_session; /* in none: its session is gone */
    struct cay_session *session;
    int fd; /* borrowed */
    /* The session goes: closes the descriptor now, or as soon as nobody is at it. */
    void (*let_go)(struct cay_held *held);
};

void cay_held_add(struct cay_held *held, struct cay_session *session, int fd,
                  void (*let_go)(struct cay_held *held));
/* Before the descriptor is closed. Does nothing to what is not held. */
void cay_held_remove(struct cay_held *held);
/* The session goes. */
void cay_held_end_all(struct cay_session *session);

/* What they are now: an array for the caller to free. */
[[nodiscard]] struct stat *cay_held_look(const struct cay_session *session, size_t *out_count);

extern const struct cay_session_part cay_held_part;
