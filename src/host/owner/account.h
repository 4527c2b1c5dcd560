/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * An owner's account with this host: its lanes to the workers and its quota. Made when an owner is
 * first heard of; it stays until the host ends. Loop thread only.
 */

#include <stdatomic.h>

#include "base/id.h"
#include "io/share.h"

struct cay_host;
struct cay_quotas;
struct cay_sandbox;
struct cay_session;

struct cay_account {
    char owner[CAY_ID_SIZE];
    struct cay_shares *shares;
    struct cay_lane lane;      /* of what it orders outside of sessions */
    struct cay_lane search;    /* the same for long searches */
    struct cay_lane intake;    /* of what waits for its client: bases and sessions that come in */
    struct cay_quotas *quotas; /* its own, CAY_QUOTA_UNSET where it has none; NULL: none at all */
    size_t stream_count;       /* calls under way that stream */
    size_t event_watch_count;  /* of those, the ones that follow events */
    size_t port_connections;   /* to ports of its sandboxes, exposed or by calls */
    bool is_quota_changing;
    int64_t bases;                 /* in the table of bases, */
    int64_t bases_bytes;           /* and what they add to those of everybody */
    unsigned bases_coming;         /* begun, not in the table of bases yet */
    _Atomic int64_t claimed_bytes; /* of the disk: account_disk.h */
    unsigned running;              /* sandboxes */
    unsigned parts;                /* that each of them has one of; 0: none has run */
};

/* Never NULL. */
struct cay_account *cay_account_of(struct cay_host *host, const char *owner);

/* A sandbox runs, or has ended. However many an owner has, they share what one of another owner
 * gets of the processors when all want them. */
void cay_account_started(struct cay_session *session, struct cay_sandbox *sandbox);
void cay_account_ended(const struct cay_session *session);

/* After all sessions and jobs. */
void cay_accounts_finish(struct cay_host *host);

extern const struct cay_session_part cay_account_part;
