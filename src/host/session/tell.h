/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Telling what happened: into the journal, and to the audit log. */

#include "host/session/session.h"

/* What is known besides: texts and numbers by name, in the `data` of an event. */
struct cay_fact {
    const char *name;
    struct cay_str text; /* stays the caller's */
    bool is_number;
    double number;
};

enum { CAY_FACTS_MAX = 8, CAY_FACT_BYTES_MAX = 1024 };

struct cay_facts {
    struct cay_fact items[CAY_FACTS_MAX];
    size_t count;
};

/* A text is cut where it is too long; an empty one says nothing. */
void cay_facts_text(struct cay_facts *facts, const char *name, struct cay_str text);
void cay_facts_number(struct cay_facts *facts, const char *name, int64_t number);

struct cay_happening {
    const char *type;                  /* "session.created"; its beginning says the kind */
    const struct cay_session *session; /* NULL: the host */
    const struct cay_call *call;       /* who caused it; NULL: nobody */
    const char *snapshot;
    const char *process_id;
    uint16_t port; /* inside the sandbox; 0: none */
    struct cay_str tool_call_id;
    const char *reason;
    struct cay_v1_network_receipt *network; /* what became of a connection; or NULL */
    bool is_nobodys;  /* the sandbox did it by itself: not for the audit log */
    bool is_look;     /* it changed nothing: only for who listens now */
    const char *fact; /* name of one fact, and */
    struct cay_str value;
    const struct cay_facts *facts; /* or several; or NULL */
};

void cay_tell(struct cay_host *host, const struct cay_happening *happening);
