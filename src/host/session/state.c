/* SPDX-License-Identifier: Apache-2.0 */
#include "host/session/state.h"

#include <assert.h>

#define GO(state)                       \
    {                                   \
        CAY_R_NONE, CAY_SESSION_##state \
    }
#define NO(reason, state)                   \
    {                                       \
        CAY_R_##reason, CAY_SESSION_##state \
    }

/* clang-format off */
static const struct cay_session_cell table[CAY_SESSION_STATES][CAY_SESSION_VERBS] = {
    [CAY_SESSION_CREATING] = {
        [CAY_VERB_LOOK]     = GO(CREATING),
        [CAY_VERB_UPDATE]   = NO(INVALID_STATE, CREATING),
        [CAY_VERB_TOOL]     = NO(INVALID_STATE, CREATING),
        [CAY_VERB_EXEC]     = NO(INVALID_STATE, CREATING),
        [CAY_VERB_SNAPSHOT] = NO(INVALID_STATE, CREATING),
        [CAY_VERB_ROLLBACK] = NO(INVALID_STATE, CREATING),
        [CAY_VERB_FORK]     = NO(INVALID_STATE, CREATING),
        [CAY_VERB_EXPORT]   = NO(INVALID_STATE, CREATING),
        [CAY_VERB_PAUSE]    = NO(INVALID_STATE, CREATING),
        [CAY_VERB_RESUME]   = NO(INVALID_STATE, CREATING),
        [CAY_VERB_DESTROY]  = GO(DESTROYING),
        [CAY_VERB_CREATED]  = GO(ACTIVE),
        [CAY_VERB_BROKE]    = GO(FAILED),
    },
    [CAY_SESSION_ACTIVE] = {
        [CAY_VERB_LOOK]     = GO(ACTIVE),
        [CAY_VERB_UPDATE]   = GO(ACTIVE),
        [CAY_VERB_TOOL]     = GO(ACTIVE),
        [CAY_VERB_EXEC]     = GO(ACTIVE),
        [CAY_VERB_SNAPSHOT] = GO(ACTIVE),
        [CAY_VERB_ROLLBACK] = GO(ACTIVE),
        [CAY_VERB_FORK]     = GO(ACTIVE),
        [CAY_VERB_EXPORT]   = GO(ACTIVE),
        [CAY_VERB_PAUSE]    = GO(PAUSED),
        [CAY_VERB_RESUME]   = NO(INVALID_STATE, ACTIVE),
        [CAY_VERB_DESTROY]  = GO(DESTROYING),
        [CAY_VERB_CREATED]  = NO(INVALID_STATE, ACTIVE),
        [CAY_VERB_BROKE]    = GO(FAILED),
    },
    [CAY_SESSION_PAUSED] = {
        [CAY_VERB_LOOK]     = GO(PAUSED),
        [CAY_VERB_UPDATE]   = GO(PAUSED),
        [CAY_VERB_TOOL]     = NO(SESSION_PAUSED, PAUSED),
        [CAY_VERB_EXEC]     = NO(SESSION_PAUSED, PAUSED),
        [CAY_VERB_SNAPSHOT] = GO(PAUSED),
        [CAY_VERB_ROLLBACK] = NO(SESSION_PAUSED, PAUSED),
        [CAY_VERB_FORK]     = GO(PAUSED),
        [CAY_VERB_EXPORT]   = GO(PAUSED),
        [CAY_VERB_PAUSE]    = NO(SESSION_PAUSED, PAUSED),
        [CAY_VERB_RESUME]   = GO(ACTIVE),
        [CAY_VERB_DESTROY]  = GO(DESTROYING),
        [CAY_VERB_CREATED]  = NO(INVALID_STATE, PAUSED),
        [CAY_VERB_BROKE]    = GO(FAILED),
    },
    [CAY_SESSION_DESTROYING] = {
        [CAY_VERB_LOOK]     = GO(DESTROYING),
        [CAY_VERB_UPDATE]   = NO(SESSION_DESTROYING, DESTROYING),
        [CAY_VERB_TOOL]     = NO(SESSION_DESTROYING, DESTROYING),
        [CAY_VERB_EXEC]     = NO(SESSION_DESTROYING, DESTROYING),
        [CAY_VERB_SNAPSHOT] = NO(SESSION_DESTROYING, DESTROYING),
        [CAY_VERB_ROLLBACK] = NO(SESSION_DESTROYING, DESTROYING),
        [CAY_VERB_FORK]     = NO(SESSION_DESTROYING, DESTROYING),
        [CAY_VERB_EXPORT]   = NO(SESSION_DESTROYING, DESTROYING),
        [CAY_VERB_PAUSE]    = NO(SESSION_DESTROYING, DESTROYING),
        [CAY_VERB_RESUME]   = NO(SESSION_DESTROYING, DESTROYING),
        [CAY_VERB_DESTROY]  = GO(DESTROYING), /* joins the one under way, or goes on after a crash */
        [CAY_VERB_CREATED]  = NO(SESSION_DESTROYING, DESTROYING),
        [CAY_VERB_BROKE]    = GO(DESTROYING),
    },
    [CAY_SESSION_FAILED] = {
        [CAY_VERB_LOOK]     = GO(FAILED),
        [CAY_VERB_UPDATE]   = NO(SESSION_FAILED, FAILED), /* its record stays as it was found */
        [CAY_VERB_TOOL]     = NO(SESSION_FAILED, FAILED),
        [CAY_VERB_EXEC]     = NO(SESSION_FAILED, FAILED),
        [CAY_VERB_SNAPSHOT] = NO(SESSION_FAILED, FAILED),
        [CAY_VERB_ROLLBACK] = NO(SESSION_FAILED, FAILED),
        [CAY_VERB_FORK]     = GO(FAILED), /* of its snapshots; so with the next */
        [CAY_VERB_EXPORT]   = GO(FAILED),
        [CAY_VERB_PAUSE]    = NO(SESSION_FAILED, FAILED),
        [CAY_VERB_RESUME]   = NO(SESSION_FAILED, FAILED),
        [CAY_VERB_DESTROY]  = GO(DESTROYING),
        [CAY_VERB_CREATED]  = NO(SESSION_FAILED, FAILED),
        [CAY_VERB_BROKE]    = GO(FAILED),
    },
};
/* clang-format on */

const struct cay_session_cell *cay_session_cell(enum cay_session_state state,
                                                enum cay_session_verb verb)
{
    assert(state > 0 && state < CAY_SESSION_STATES && verb > 0 && verb < CAY_SESSION_VERBS);
    return &table[state][verb];
}

const char *cay_session_state_name(enum cay_session_state state)
{
    static const char *const names[CAY_SESSION_STATES] = {
        [CAY_SESSION_CREATING] = "creating", [CAY_SESSION_ACTIVE] = "active",
        [CAY_SESSION_PAUSED] = "paused",     [CAY_SESSION_DESTROYING] = "destroying",
        [CAY_SESSION_FAILED] = "failed",
    };
    assert(state > 0 && state < CAY_SESSION_STATES);
    return names[state];
}

const char *cay_session_verb_name(enum cay_session_verb verb)
{
    static const char *const names[CAY_SESSION_VERBS] = {
        [CAY_VERB_LOOK] = "look",         [CAY_VERB_UPDATE] = "update",
        [CAY_VERB_TOOL] = "tool",         [CAY_VERB_EXEC] = "exec",
        [CAY_VERB_SNAPSHOT] = "snapshot", [CAY_VERB_ROLLBACK] = "rollback",
        [CAY_VERB_FORK] = "fork",         [CAY_VERB_EXPORT] = "export",
        [CAY_VERB_PAUSE] = "pause",       [CAY_VERB_RESUME] = "resume",
        [CAY_VERB_DESTROY] = "destroy",   [CAY_VERB_CREATED] = "created",
        [CAY_VERB_BROKE] = "broke",
    };
    assert(verb > 0 && verb < CAY_SESSION_VERBS);
    return names[verb];
}
