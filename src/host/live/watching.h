/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The watchers of a session's directories, on the loop thread: when the kernel has something, a
 * worker reads it (tool/tree/watch.h), and each watcher is told. One worker reads at a time.
 */

#include "host/session/session.h"
#include "tool/tree/watch.h"

struct cay_watching;

/* Embedded in whoever watches. */
struct cay_watch_member {
    struct cay_list_node in_watching;
    struct cay_watcher *watcher; /* on the heap: workers may be at it longer than we live */
    struct cay_list ready;       /* struct cay_watch_item, to be told */
    size_t ready_count;
    bool is_overflowed; /* before those */
    bool is_gone;       /* nothing comes any more */
    /* There is something of the above. May end the member. */
    void (*changed)(struct cay_watch_member *member);
    /* The session ends or its tree is another: the member is no longer one. */
    void (*ended)(struct cay_watch_member *member, const struct cay_error *err);
};

/* What a worker adds watchers to; made with the first. */
struct cay_watches *cay_watching_set(struct cay_session *session);

/* Those that have joined: each may have news waiting for a slow client. */
[[nodiscard]] size_t cay_watching_count(const struct cay_session *session);

/* A watcher that a worker has added becomes known. */
void cay_watching_join(struct cay_session *session, struct cay_watch_member *member);
/* Takes it back, in the background. */
void cay_watching_leave(struct cay_session *session, struct cay_watch_member *member);

/* For whoever switches the root; NULL when nobody watches. */
struct cay_watches *cay_watching_borrow(const struct cay_session *session);
/* The root was switched: there may be something to tell. */
void cay_watching_poke(struct cay_session *session);

/* Ends all of them. */
void cay_watching_end(struct cay_session *session, const struct cay_error *err);

extern const struct cay_session_part cay_watching_part;
