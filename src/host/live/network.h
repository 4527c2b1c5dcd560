/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The network of sessions: `none` is a loopback of their own, `open` the way out through the host's
 * gateway (host/net/gateway.h) with names found by the daemon (host/net/dns.h). Which one it is, is
 * part of a session's record; the kernel is brought in line with it when a sandbox starts, when it
 * is changed, and after a restart.
 */

#include "host/live/settling.h"
#include "host/runtime/runtime.h"
#include "host/session/session.h"

/* What a session with this runtime gets that asks for `wanted` (NULL: nothing said) and has `now`
 * otherwise (NULL: what the host gives). What this host cannot enforce is refused, never stored.
 * Reasons: NOT_SUPPORTED, INVALID_ARGUMENT. */
[[nodiscard]] bool cay_network_choose(struct cay_host *host, const struct cay_runtime *runtime,
                                      const struct cay_v1_network_policy *wanted,
                                      const struct cay_v1_network_policy *now,
                                      struct cay_arena *arena,
                                      struct cay_v1_network_policy **out_policy,
                                      struct cay_error *err);
[[nodiscard]] enum cay_v1_network_mode cay_network_mode(const struct cay_v1_session *spec);
[[nodiscard]] bool cay_network_is_open(const struct cay_v1_session *spec);
/* Names are found in it, by a server on its loopback or any other. */
[[nodiscard]] bool cay_network_has_names(enum cay_v1_network_mode mode);
/* Can this host keep what `open` promises, in sessions with this runtime? */
[[nodiscard]] bool cay_network_can_open(const struct cay_runtime *runtime, struct cay_error *err);

/* The same of `filtered`. */
[[nodiscard]] bool cay_network_can_filter(const struct cay_host *host,
                                          const struct cay_runtime *runtime, struct cay_error *err);

/* On workers. A network without anything outside needs nothing done. */
[[nodiscard]] bool cay_network_attach(struct cay_host *host, const struct cay_sandbox *sandbox,
                                      uint32_t slot, enum cay_v1_network_mode mode,
                                      struct cay_error *err);
/* `sandbox` may be NULL, when it is gone. */
[[nodiscard]] bool cay_network_detach(struct cay_host *host, const struct cay_sandbox *sandbox,
                                      uint32_t slot, enum cay_v1_network_mode mode,
                                      struct cay_error *err);
/* A file of the base that names other servers is replaced; where none is, none is needed. */
void cay_network_make_resolver(int root_fd, uint32_t id_base);

/* On the loop thread. The rules that it has are in force, or will be before anybody is served:
 * true, and nothing follows; otherwise `done` is called when they are, or after a while. */
[[nodiscard]] bool cay_network_is_applied(struct cay_session *session, struct cay_settle *settle,
                                          void (*done)(struct cay_settle *settle));

/* On the loop thread: names are found for this sandbox from now on; NULL: no longer. */
void cay_network_serve(struct cay_session *session, const struct cay_sandbox *sandbox);

/* A secret has another value, or none: helpers of sessions that use it are told. */
void cay_network_renew_secret(struct cay_host *host, const char *owner, struct cay_str secret);

/* At the start, when sandboxes have been taken over. */
[[nodiscard]] bool cay_network_recover(struct cay_host *host, struct cay_error *err);
/* At the end. What the kernel holds stays. */
void cay_network_stop(struct cay_host *host);
