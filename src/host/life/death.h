/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How a session goes: one operation alone in the gate. One found `destroying` is removed on. */

#include "host/session/session.h"

/* Without a caller; `why` is a word that stays. */
void cay_death_start(struct cay_session *session, const char *why);
