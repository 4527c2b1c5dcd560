/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The life of a session as one constant table: for every state and every verb, whether it may
 * happen and where it leads. No path from the API to the disk or to a process goes around it. The
 * manual's table is generated from here.
 */

#include "base/error.h"

enum cay_session_state {
    CAY_SESSION_CREATING = 1,
    CAY_SESSION_ACTIVE,
    CAY_SESSION_PAUSED,
    CAY_SESSION_DESTROYING,
    CAY_SESSION_FAILED,
    CAY_SESSION_STATES, /* one past the last */
};

enum cay_session_verb {
    /* What callers ask for. */
    CAY_VERB_LOOK = 1, /* get, list, log, diff of snapshots */
    CAY_VERB_UPDATE,
    CAY_VERB_TOOL, /* tools and files */
    CAY_VERB_EXEC, /* commands and processes */
    CAY_VERB_SNAPSHOT,
    CAY_VERB_ROLLBACK,
    CAY_VERB_FORK,
    CAY_VERB_EXPORT,
    CAY_VERB_PAUSE,
    CAY_VERB_RESUME,
    CAY_VERB_DESTROY,
    /* What happens to it. */
    CAY_VERB_CREATED,
    CAY_VERB_BROKE,
    CAY_SESSION_VERBS, /* one past the last */
};

struct cay_session_cell {
    enum cay_reason refusal;     /* CAY_R_NONE: it may happen */
    enum cay_session_state next; /* the state it leads to */
};

[[nodiscard]] const struct cay_session_cell *cay_session_cell(enum cay_session_state state,
                                                              enum cay_session_verb verb);

/* "active", "paused" …, as in the API's enum; "snapshot", "rollback" … */
const char *cay_session_state_name(enum cay_session_state state);
const char *cay_session_verb_name(enum cay_session_verb verb);
