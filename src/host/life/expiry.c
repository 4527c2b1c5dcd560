/* SPDX-License-Identifier: Apache-2.0 */
#include "host/life/expiry.h"

#include "host/life/death.h"
#include "host/life/pause.h"
#include "host/session/session.h"

static void expire(struct cay_session *session, enum cay_v1_expiry_action action, const char *why)
{
    switch (action) {
    case CAY_V1_EXPIRY_ACTION_PAUSE: cay_pause_now(session, CAY_V1_PAUSE_MODE_FREEZE, why); break;
    case CAY_V1_EXPIRY_ACTION_STOP: cay_pause_now(session, CAY_V1_PAUSE_MODE_STOP, why); break;
    case CAY_V1_EXPIRY_ACTION_UNSPECIFIED:
    case CAY_V1_EXPIRY_ACTION_DESTROY: cay_death_start(session, why); break;
    }
}

const struct cay_session_part cay_expiry_part = {.expire = expire};
