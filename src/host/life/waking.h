/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The work of waking, as a step of who needs it: a tree is mounted, a sandbox started in it. */

#include "host/life/reserve.h"
#include "host/runtime/runtime.h"
#include "host/session/session.h"

/* What a worker needs to mount a session's tree and start its sandbox, and what comes of it. */
struct cay_waking {
    char store_id[CAY_STORE_ID_SIZE];
    char hostname[65];
    struct cay_runtime *runtime;
    uint32_t uid_base;
    struct cay_cgroup_limits limits;
    uint32_t slot;
    enum cay_v1_network_mode network;
    bool has_nesting;
    bool needs_trust; /* in this host, which looks into its TLS */
    bool needs_mount;
    bool needs_sandbox;
    int root_fd; /* in when mounted already; out otherwise. The session's own copy */
    struct cay_sandbox *sandbox;
    struct cay_waiting *waiting; /* in: of the reserve, to be the sandbox; NULL: one is started */
    bool was_waiting;            /* it is */
    int old_fd;                  /* what it stood on, to be closed */
};

/* As the kernel takes them. */
struct cay_cgroup_limits cay_session_cgroup_limits(const struct cay_v1_resource_limits *limits);

void cay_waking_init(struct cay_waking *waking, const struct cay_session *session,
                     bool needs_sandbox);
[[nodiscard]] bool cay_waking_work(struct cay_waking *waking, struct cay_host *host,
                                   struct cay_error *err);
/* Takes it back: after a failure of something later. */
void cay_waking_undo(struct cay_waking *waking, struct cay_host *host);
/* On the loop thread: the session has its root and its sandbox. */
void cay_waking_install(struct cay_waking *waking, struct cay_session *session);
