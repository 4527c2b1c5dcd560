/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A filtered network while its sandbox runs: the sockets in the sandbox's namespace, the helper at
 * which everything ends (src/egress), and the namespace that it dials from. The helper is started
 * when somebody inside first needs it, and again when it has died; until then whoever connects
 * waits in the sockets' queues. It outlives the daemon; the next one finds it.
 */

#include "egress/rules/rules.h"
#include "host/net/filter/filter.h"
#include "host/session/session.h"

struct cay_asking;
struct cay_filtered;
struct cay_filtering;

/* What the filtered networks of a host share. Never NULL: where they cannot be had, it knows why.
 */
struct cay_filtering *cay_filtering_create(struct cay_host *host, const char *egress_path,
                                           const char *run_dir);
void cay_filtering_destroy(struct cay_filtering *filtering);
/* Reason: NOT_SUPPORTED. */
[[nodiscard]] bool cay_filtering_check(const struct cay_filtering *filtering,
                                       struct cay_error *err);

/* Can what is said by TLS be looked into? Reason: NOT_SUPPORTED. */
[[nodiscard]] bool cay_filtering_can_intercept(const struct cay_filtering *filtering,
                                               struct cay_error *err);

/* On workers. The way out through the host, for a namespace. */
[[nodiscard]] bool cay_filtering_attach_gateway(struct cay_host *host, int netns_fd, uint32_t slot,
                                                struct cay_error *err);
/* The same. Before anything runs in the sandbox: its namespace; who is to be its object takes it
 * from there. */
[[nodiscard]] bool cay_filtering_attach(struct cay_host *host, int netns_fd, uint32_t slot,
                                        struct cay_error *err);
/* What nobody has taken; -1: the namespace is gone. */
[[nodiscard]] bool cay_filtering_detach(struct cay_host *host, int netns_fd, uint32_t slot,
                                        struct cay_error *err);
/* Names that were given out, of a session by its id in the store. */
void cay_filtering_copy_names(struct cay_host *host, const char *from_id, const char *to_id);
void cay_filtering_remove_names(struct cay_host *host, const char *store_id);
/* Helpers of slots that nobody wants end. */
typedef bool cay_filtering_wanted_fn(void *context, uint32_t slot);
void cay_filtering_sweep(struct cay_host *host, cay_filtering_wanted_fn *wanted, void *context);

/* On the loop thread. The rules are those of the session; called again when they have changed. */
void cay_filtered_open(struct cay_session *session, int netns_fd);
/* The rules that it was told last are in force with its helper, or will be before anybody is
 * served: true, and nothing follows; otherwise `done` is called when they are, or after a while. */
struct cay_settle;
[[nodiscard]] bool cay_filtered_is_applied(struct cay_filtered *filtered, struct cay_settle *settle,
                                           void (*done)(struct cay_settle *settle));
/* All that was refused inside by now is known here (receipts.h): true, and nothing follows. That is
 * so without waiting unless something was refused a moment ago. */
[[nodiscard]] bool cay_filtered_has_told(struct cay_filtered *filtered, struct cay_settle *settle,
                                         void (*done)(struct cay_settle *settle));
/* Another has been attached in its place. */
[[nodiscard]] bool cay_filtered_is_outdated(const struct cay_filtered *filtered);
void cay_filtered_renew(struct cay_filtered *filtered);
/* What its helper asks. Accepts NULL. */
[[nodiscard]] struct cay_asking *cay_filtered_asking(struct cay_filtered *filtered);
/* To a question of these. Reason: UNAVAILABLE. */
[[nodiscard]] bool cay_filtered_answer(const struct cay_filtered *filtered, uint32_t id,
                                       bool is_allowed, struct cay_error *err);
/* `leaves`: the helper goes on, for the next daemon. Accepts NULL. */
void cay_filtered_close(struct cay_filtered *filtered, bool leaves);
