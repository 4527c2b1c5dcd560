/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A hallway for tests of doors that translate: it writes down which verbs are called, and answers
 * as if there were one base, one snapshot and one sandbox. The secret "good" opens it, for the
 * owner "bob"; the sandbox has the tokens "access" and "traffic".
 */

#include "api/cay_v1.h"
#include "api/service.h"

struct hall {
    struct cay_service service;     /* first */
    char calls[512];                /* "GetSession(a) CreateSession(b)" */
    struct cay_caller caller;       /* of the last one */
    const char *base;               /* as verbs call it; NULL: there is none */
    const char *snapshot;           /* the id of its session; NULL: there is none */
    enum cay_reason fault;          /* what GetSession answers instead; 0: nothing */
    struct cay_v1_session *sandbox; /* NULL: there is none */
    /* What CreateSession and verbs in the sandbox answer instead; reason 0: nothing. */
    struct cay_error refusal;
    const char *program;    /* what one at a port answers; NULL: none listens */
    char told[1024];        /* and what it was told */
    struct cay_call *watch; /* of events, which never come */
    int64_t timeout_ms;     /* of what was created last */
    enum cay_v1_expiry_action on_expiry;
};

void hall_init(struct hall *hall);
