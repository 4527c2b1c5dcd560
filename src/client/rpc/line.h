/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A connection to the daemon: a Unix socket or TCP, through a proxy if the environment names one,
 * with TLS if the address says so. Nothing here waits but the look-up of a name, and who says so.
 *
 * Order: create -> (advance until 1) -> (send | receive)* -> destroy. Between two steps, poll `fd`
 * for cay_line_events, no longer than until cay_line_deadline_ns.
 */

#include "base/error.h"

struct cay_client;
struct cay_line;

/* Lines of one client are kept in a list of its own, by this. */
struct cay_line *cay_line_next(const struct cay_line *line);
void cay_line_set_next(struct cay_line *line, struct cay_line *next);

/* `is_tunnel`: a proxy is asked to pass bytes on, instead of requests, which name the whole address
 * then (cay_talk.is_relayed). */
[[nodiscard]] struct cay_line *cay_line_create(struct cay_client *client, bool is_tunnel,
                                               struct cay_error *err);
void cay_line_destroy(struct cay_line *line); /* accepts NULL */

/* 1: it stands. 0: not yet. -1: *err says why it does not. */
[[nodiscard]] int cay_line_advance(struct cay_line *line, struct cay_error *err);

/* A count; 0 at the end; -EAGAIN, -EPIPE. `waits`: until there is something, on a line that can. */
[[nodiscard]] ssize_t cay_line_send(struct cay_line *line, const void *data, size_t len);
[[nodiscard]] ssize_t cay_line_receive(struct cay_line *line, void *out, size_t size, bool waits);

[[nodiscard]] int cay_line_fd(const struct cay_line *line); /* -1: there is none at the moment */
[[nodiscard]] short cay_line_events(const struct cay_line *line, bool reads, bool writes);
[[nodiscard]] int64_t cay_line_deadline_ns(const struct cay_line *line); /* 0: none */

/* From now on. One that has rested for long may be about to be closed by a daemon or a proxy; one
 * that has something to say has been closed, or is not in step. */
void cay_line_rest(struct cay_line *line);
[[nodiscard]] bool cay_line_is_fresh(const struct cay_line *line);
