/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Telling what happened: into the journal, and to the audit log. */

#include "host/session/session.h"

struct cay_happening {
    const char *type;                  /* "session.created"; its beginning says the kind */
    const struct cay_session *session; /* NULL: the host */
    const struct cay_call *call;       /* who caused it; NULL: nobody */
    const char *snapshot;
    const char *process_id;
    struct cay_str tool_call_id;
    const char *reason;
    bool is_nobodys;  /* the sandbox did it by itself: not for the audit log */
    bool is_look;     /* it changed nothing: only for who listens now */
    const char *fact; /* name of one more fact, and */
    struct cay_str value;
};

void cay_tell(struct cay_host *host, const struct cay_happening *happening);
