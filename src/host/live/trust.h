/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What programs in a sandbox trust, when the helper of its network looks into TLS: the certificates
 * that their base trusts, and the one of this host (host/authority). It is a file that the
 * environment names, not one of the tree where that can be had: nobody's changes show it.
 */

#include "host/runtime/runtime.h"
#include "host/session/session.h"

enum { CAY_TRUST_VARIABLES_MAX = 5 };

/* Is TLS of such a session looked into: for secrets that it uses, or for rules of requests? */
[[nodiscard]] bool cay_trust_is_needed(const struct cay_host *host,
                                       const struct cay_v1_session *spec);

/* Variables that name the file. Returns how many. */
size_t cay_trust_env(const struct cay_session *session,
                     struct cay_pb_pair out_env[static CAY_TRUST_VARIABLES_MAX]);

/* On workers: writes the file, of a sandbox that runs on this tree. It does without where that is
 * not possible, which is logged. */
void cay_trust_write(struct cay_host *host, const struct cay_runtime *runtime,
                     const struct cay_sandbox *sandbox, int root_fd, uint32_t id_base);
