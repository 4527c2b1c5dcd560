/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a session does when it falls due (deadline.h): it sleeps, or it ends. */

#include "host/session/session.h"

extern const struct cay_session_part cay_expiry_part;
